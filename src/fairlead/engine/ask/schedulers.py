"""Which schedulers a cluster has, as far as its objects show.

No API lists schedulers. A lease tells of one that elects a leader, a pod on a node of one that has placed it.
The subtle thing is what silence means: kube-scheduler may run without a lease that can be read (managed
clusters hide it), so it always counts as there; any other name that nothing speaks for is misspelt, most
likely.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from fairlead.engine.ask.inventory import Inventory
from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.kube.duration import age
from fairlead.kube.workloads import Lease

DEFAULT = "default-scheduler"
LEASE_NAMESPACES = ("kube-system", "volcano-system")
"""Where schedulers of others keep their leases."""

_LEASES = {DEFAULT: "kube-scheduler", "volcano": "vc-scheduler"}
_GRACE_S = 30.0  # beyond a lease's duration: the clocks of two machines differ


@dataclass(frozen=True, slots=True)
class Scheduler:
    """What is known of one. `runs` None: nothing says whether it does. `elected`: a lease speaks of it."""

    name: str
    runs: bool | None
    holder: str = ""
    since: float | None = None
    why: str = ""
    elected: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "name": self.name,
            "runs": self.runs,
            "holder": self.holder,
            "since": self.since,
            "why": self.why,
        }


class Schedulers:
    """See the module."""

    def __init__(self, cluster: Inventory, now: float | None, *, lease: str) -> None:
        """`lease` is that of our own scheduler. Without `now` no lease is too old."""
        self._cluster = cluster
        self._now = now
        self._own_lease = lease
        self._leases = _leases(cluster)
        self._placed: dict[str, int] = {}
        for pod in cluster.pods.values():
            # Mirror pods and those created with a node were placed by no scheduler, but they mostly name the
            # default one, which needs no evidence.
            if pod.spec.node_name:
                name = pod.spec.scheduler_name
                self._placed[name] = self._placed.get(name, 0) + 1

    def known(self) -> list[str]:
        """The names that something speaks for."""
        own = self._cluster.settings.scheduler_names
        return list(dict.fromkeys((*own, DEFAULT, *sorted(self._placed))))

    def of(self, name: str) -> Scheduler:
        """What is known of the scheduler that a pod names."""
        ours = name in self._cluster.settings.scheduler_names
        lease = self._leases.get(self._own_lease if ours else _LEASES.get(name, name))
        if lease is not None:
            return self._by_lease(name, lease)
        placed = self._placed.get(name, 0)
        if placed:
            return Scheduler(
                name, None, why=f"it has placed {placed} {'pod' if placed == 1 else 'pods'} here"
            )
        if name == DEFAULT:
            return Scheduler(name, None)
        if ours:
            if self._now is None or self._cluster.lacks("Lease"):
                return Scheduler(name, None)
            return Scheduler(
                name, False, why=f"there is no lease {self._own_lease}, and it has placed no pod"
            )
        near = get_close_matches(name, [each for each in self.known() if each != name], 1)
        nearest = f"; the nearest name is {near[0]}" if near else f"; there are {', '.join(self.known())}"
        return Scheduler(name, False, why=f"it has placed no pod and holds no lease{nearest}")

    def leader(self) -> Scheduler:
        """Our own."""
        return self.of(self._cluster.settings.scheduler_names[0])

    def _by_lease(self, name: str, lease: Lease) -> Scheduler:
        spec = lease.spec
        holder = spec.holder_identity or ""
        since = spec.acquire_time.timestamp() if spec.acquire_time else None
        renewed = spec.renew_time.timestamp() if spec.renew_time else None
        where = f"lease {lease.metadata.key}"
        if not holder:
            return Scheduler(name, False, why=f"{where} has no holder", elected=True)
        if self._now is not None and renewed is not None:
            late_s = self._now - renewed - (spec.lease_duration_seconds or 0)
            if late_s > _GRACE_S:
                why = f"{where} is {age(self._now - renewed)} old"
                return Scheduler(name, False, holder, since, why, elected=True)
        return Scheduler(name, True, holder, since, where, elected=True)


def _leases(cluster: Inventory) -> Mapping[str, Lease]:
    found: dict[str, Lease] = {}
    for each in cluster.of_kind("Lease"):
        try:
            lease = convert(each, Lease)
        except BadObject:
            continue  # another project's, or broken: it speaks for no scheduler
        found.setdefault(lease.metadata.name, lease)
    return found
