"""What a door decides about pods under placement policies, as state machines without I/O.

Calls, watch events and time come in, decisions go out; a door carries both. What belongs here depends on one
door's protocol. What every door shares (the rule, groups, marks, the ledger) is in the package above.
"""
