"""The scheduler core: a state machine around the planner. Events and the time in, actions out.

Belongs here: what is waiting, what was promised (reservations, nominations), what is under way
(binds, evictions) and when to look again. Does not belong here: I/O, clocks, rules and ranking.

Its edge is `core`, `events` and `kinds` in, `actions` and `report` out; all else is inside.
"""
