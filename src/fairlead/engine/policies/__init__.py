"""Placement policies inside the engine: which tier each waiting pod is sent to, and its spec in that tier.

Belongs here: the slots of groups as the scheduler sees them, tiers that are left alone, the pod that is
planned in place of the one that the API shows. The rule itself, groups and choices are `fairlead.policy`'s.
"""
