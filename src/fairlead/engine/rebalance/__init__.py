"""Rebalancing: which pods of placement groups leave their tier, because a better one has room again.

Belongs here: groups kept up to date change by change, their history, the moves, and what each move waits
for. Does not belong here: carrying moves out (`fairlead.doors.rebalancer`), and the tier of a slot
(`fairlead.policy`).
"""
