"""Placement policies as one machine without I/O: which group, slot, tier and nodes a pod belongs to.

Belongs here: the rule, the group index, slot tables, tiers and their marks, what each door decides, and
reports. Does not belong here: whether a pod fits on a node, and the planning of moves (`fairlead.engine`);
anything that talks to an API server.
"""
