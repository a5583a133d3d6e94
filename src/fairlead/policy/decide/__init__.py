"""What webhook and extender decide about pods under placement policies, without I/O.

Calls, watch events and time come in, decisions go out; a component carries both. What belongs here depends on
one door's protocol; `admission` is also how the scheduler plans a pod and how tenants' pods get their marks.
What every door shares (the rule, groups, marks, the ledger) is in the rooms beside it.
"""
