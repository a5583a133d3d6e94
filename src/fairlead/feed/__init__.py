"""What a process knows of its cluster, followed once for all of its doors.

Belongs here: one watch for each kind with fan-out, live policies and marks, the live group index, and reading
owners and scales that no watch shows. Does not belong here: decisions (`fairlead.policy`, `fairlead.engine`),
and what one door alone does with what it learns (`fairlead.doors`).
"""
