"""Time for the embedded cluster: the wall's, or a virtual one that jumps to the next thing to do.

Nothing in the cluster reads the operating system's clock; each part is handed one of these two. A
timer's callback runs on the thread of its clock and must not block. Equal times run in the order in
which they were asked for, which is what makes a virtual run repeatable to the byte.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

# Where virtual time starts unless told otherwise: a whole second, as Kubernetes' timestamps need.
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Timer:
    """A callback that is due at a time; once cancelled it does not run."""

    __slots__ = ("_call", "_handle", "at")

    def __init__(self, at: datetime, call: Callable[[], None]) -> None:
        self.at = at
        self._call: Callable[[], None] | None = call
        self._handle: asyncio.TimerHandle | None = None

    @property
    def pending(self) -> bool:
        """Whether it may still run."""
        return self._call is not None

    def cancel(self) -> None:
        """Never run. Cancelling twice, or after it has run, changes nothing."""
        self._call = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _run(self) -> None:
        call, self._call = self._call, None
        self._handle = None
        if call is not None:
            call()


class Clock(Protocol):
    """What the cluster needs of time."""

    def now(self) -> datetime:
        """The present, aware and in UTC. Never goes back."""
        ...

    def call_at(self, at: datetime, call: Callable[[], None]) -> Timer:
        """Run `call` when the time has come; a time in the past is due at once."""
        ...


class VirtualClock:
    """Stands still while anything is being done and jumps straight to the next timer.

    `step` runs what is due next; the clock's owner (`World`) calls it in a loop. An hour in which
    little happens costs as little as what happens in it.

    >>> clock, said = VirtualClock(), []
    >>> timer = clock.call_at(clock.now() + timedelta(hours=1), lambda: said.append(clock.now().hour))
    >>> clock.step(), said, clock.step()
    (True, [1], False)
    """

    def __init__(self, start: datetime = EPOCH) -> None:
        self._now = start
        self._sequence = 0
        self._timers: list[tuple[datetime, int, Timer]] = []

    def now(self) -> datetime:
        """The virtual present."""
        return self._now

    def call_at(self, at: datetime, call: Callable[[], None]) -> Timer:
        """Run `call` when virtual time reaches `at`."""
        timer = Timer(max(at, self._now), call)
        self._sequence += 1
        heapq.heappush(self._timers, (timer.at, self._sequence, timer))
        return timer

    def next_at(self) -> datetime | None:
        """When the next timer is due; None when there is none."""
        while self._timers and not self._timers[0][2].pending:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def step(self, until: datetime | None = None) -> bool:
        """Jump to the next time that a timer is due by `until` and run all that are due then.

        False when there is none; then time moves to `until` itself (and stands still when that is None).
        Timers that a callback adds for the same time are left for the next step.
        """
        due = self.next_at()
        if due is None or (until is not None and due > until):
            if until is not None:
                self._now = max(self._now, until)
            return False
        self._now = max(self._now, due)
        last = self._sequence
        while self._timers and self._timers[0][0] <= self._now and self._timers[0][1] <= last:
            heapq.heappop(self._timers)[2]._run()
        return True


class WallClock:
    """The operating system's time, with timers on the running asyncio loop.

    `now` is the wall time at construction plus the monotonic time since, so it never goes back when
    the machine's clock is set. Timers die with their loop: cancel what you no longer want, a
    closed loop runs nothing.
    """

    def __init__(self) -> None:
        self._wall = datetime.now(UTC)
        self._monotonic_s = time.monotonic()

    def now(self) -> datetime:
        """The present."""
        return self._wall + timedelta(seconds=time.monotonic() - self._monotonic_s)

    def call_at(self, at: datetime, call: Callable[[], None]) -> Timer:
        """Run `call` on the running loop when the time has come."""
        timer = Timer(at, call)
        delay_s = max(0.0, (at - self.now()).total_seconds())
        timer._handle = asyncio.get_running_loop().call_later(delay_s, timer._run)
        return timer
