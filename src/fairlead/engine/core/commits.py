"""Gangs whose members are being bound: Kubernetes has no transaction, so each has a deadline.

A gang that is bound in part when its deadline comes is given up: those members go that a controller
will recreate. The clock starts with the first bind, or when a partly bound gang is first seen.
"""

from __future__ import annotations

from fairlead.engine.gangs import Gang

__all__ = ["Commits"]


class Commits:
    """Deadlines by gang."""

    __slots__ = ("_deadlines", "_timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._deadlines: dict[str, float] = {}

    def begin(self, gang: str, now: float, timeout_s: float | None) -> None:
        """Start the clock, unless it runs; `timeout_s` is the gang's own, if it has one."""
        self._deadlines.setdefault(gang, now + (timeout_s or self._timeout_s))

    def has_passed(self, gang: Gang, now: float) -> bool:
        """Whether a gang was found with bound members that all started longer ago than a start may take."""
        if not gang.found_bound or gang.name in self._deadlines:
            return False
        limit_s = gang.schedule_timeout_s or self._timeout_s
        starts = [pod.status.start_time for pod in gang.running]
        return all(start is not None and now - start.timestamp() > limit_s for start in starts)

    def end(self, gang: str) -> None:
        """All members are bound, or none."""
        self._deadlines.pop(gang, None)

    def overdue(self, now: float) -> list[str]:
        """Gangs whose time is up."""
        return sorted(gang for gang, deadline in self._deadlines.items() if deadline <= now)

    def wake_at(self) -> float | None:
        """The next deadline."""
        return min(self._deadlines.values(), default=None)
