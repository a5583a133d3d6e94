"""What a door's proxy does with requests and watches while a fault lasts (the proxy is the tests' own).

Subtle: a network loses whole connections, never single events. So a watch that lost events, or stood still,
is broken when its fault is over, and the next watch of what lost events is told to list again: what a
component sees is wrong for as long as the fault lasts, and no longer. `lied` remembers when that was.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from support.balancer import Balancer
from support.faults import (
    Answer,
    Cut,
    Delay,
    Drop,
    Duplicate,
    ErrorFrame,
    FaultProxy,
    FrameFault,
    Freeze,
    Hold,
    LoseReply,
    LoseRequest,
    RequestFault,
)

__all__ = ["Balancer", "DoorPlan", "FaultProxy"]

LIES = ("watch_frozen", "watch_dropped", "watch_delayed", "freeze")
"""Faults during which a component does not see the state that is."""

_AFTERWARDS_S = 10.0  # until everything was listed again, on a slow machine


@dataclass
class DoorPlan:
    """The faults of one door at this moment. `now` is the run's clock."""

    rng: random.Random
    now: Callable[[], float]
    active: dict[str, float] = field(default_factory=dict)
    """Each fault that lasts, and until when."""
    lied: list[tuple[float, float]] = field(default_factory=list)
    hold: asyncio.Event | None = None
    _lossy: set[str] = field(default_factory=set)
    _delayed: set[str] = field(default_factory=set)

    def begin(self, fault: str, for_s: float) -> None:
        """Have a fault last from now on."""
        self.active[fault] = max(self.active.get(fault, 0.0), self.now() + for_s)
        if fault in LIES:
            self.lied.append((self.now(), self.now() + for_s))
        if fault == "watch_delayed":
            self._delayed.clear()

    def end(self, fault: str) -> None:
        """The fault is over, if no other of its kind began meanwhile."""
        if self.active.get(fault, 0.0) <= self.now() + 0.01:
            self.active.pop(fault, None)

    def was_lied_to(self, at: float) -> bool:
        """Whether what this door saw around that moment was not the state that was."""
        return any(begin <= at <= end + _AFTERWARDS_S for begin, end in self.lied)

    def on_request(self, method: str, path: str) -> RequestFault | None:
        """What befalls a request."""
        if method == "GET":
            return self._on_read(path)
        if "/leases" in path:
            return LoseRequest() if "lease_blocked" in self.active else None
        if "/events" in path:
            return Answer(500, "InternalError") if "events_refused" in self.active else None
        if self.hold is not None and path.endswith("/binding"):
            return Hold(self.hold)
        if "bind_conflict" in self.active and path.endswith("/binding") and self._strikes(0.5):
            return Answer(409, "Conflict")
        if "too_many_requests" in self.active and self._strikes(0.7):
            return Answer(429, "TooManyRequests", retry_after="1")
        if "server_errors" in self.active and self._strikes(0.7):
            return Answer(500, "InternalError")
        if "lost_requests" in self.active and self._strikes(0.3):
            return LoseRequest()
        if "lost_replies" in self.active and self._strikes(0.3):
            return LoseReply()
        return None

    def on_frame(self, path: str) -> FrameFault | None:
        """What befalls a frame of a watch."""
        of = path.partition("?")[0]
        if "/leases" in of:
            return None
        if "watch_frozen" in self.active:
            return Freeze()
        if "watch_dropped" in self.active and self._strikes(0.3):
            self._lossy.add(of)
            return Drop()
        if "watch_delayed" in self.active and of not in self._delayed:
            self._delayed.add(of)
            return Delay(max(0.0, self.active["watch_delayed"] - self.now()))
        if "watch_duplicated" in self.active and self._strikes(0.3):
            return Duplicate()
        if "watch_expired" in self.active and self._strikes(0.1):
            return ErrorFrame()
        if "watch_cut" in self.active and self._strikes(0.1):
            return Cut()
        return None

    def _on_read(self, path: str) -> RequestFault | None:
        of, _, query = path.partition("?")
        if "watch=" in query and of in self._lossy and "sendInitialEvents" not in query:
            self._lossy.discard(of)
            return Answer(410, "Expired")
        if "server_errors" in self.active and self._strikes(0.2):
            return Answer(500, "InternalError")
        if "lost_requests" in self.active and self._strikes(0.2):
            return LoseRequest()
        return None

    def _strikes(self, chance: float) -> bool:
        return self.rng.random() < chance
