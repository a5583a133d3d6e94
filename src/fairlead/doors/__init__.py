"""Ways in: I/O shells around what decides. Each feeds a state machine and carries its answers out.

Belongs here: reflectors, servers, writes, what users see of them. Does not belong here: a decision.
"""
