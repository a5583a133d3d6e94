"""Groups: which pods share slots, kept up to date as pods, owners, nodes, budgets and policies change.

Belongs here: the group index, what it knows of owners, members, and the state of a group at one moment. Does
not belong here: which pod holds which slot (`slots`), and which tiers are skipped (`tiers`).
"""
