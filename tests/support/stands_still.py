"""A leader that stands still for longer than its lease, as on a suspended machine, and is deposed then."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fairlead.client.clock import WALL_CLOCK, Clock
from support.cluster import Host
from support.faults import FrameFault, RequestFault

__all__ = ["StandsStill"]


@dataclass
class StandsStill:
    """Once `armed`, whoever goes by `clock` stands still just before the next frame of a watch reaches it.

    Only its clock moves on. By then another replica holds the lease that lives at `lease`.
    """

    host: Host
    lease: str
    watch: str
    seconds: float = 60.0
    armed: bool = False
    stood_s: float = 0.0
    sent: list[str] = field(default_factory=list)
    """The writes that were sent afterwards, but for those of leases."""

    @property
    def clock(self) -> Clock:
        return replace(WALL_CLOCK, now=lambda: WALL_CLOCK.now() + self.stood_s)

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if self.stood_s and method != "GET" and "/leases" not in path:
            self.sent.append(f"{method} {path}")
        return None

    def on_frame(self, path: str) -> FrameFault | None:
        if self.armed and not self.stood_s and self.watch in path:
            self.stood_s = self.seconds
            wire = self.host.wire()
            held = wire.request("GET", self.lease).ok()
            held["spec"] |= {"holderIdentity": "another", "leaseDurationSeconds": 3600}
            wire.request("PUT", self.lease, held).ok()
            wire.close()
        return None
