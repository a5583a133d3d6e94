"""Tiers: the nodes of each, marks that say which to skip, fallback, and probes of marked tiers.

Belongs here: what is true of a tier as a whole. Does not belong here: single pods' slots (`slots`), and
whether a pod fits on a node (`fairlead.engine`).
"""
