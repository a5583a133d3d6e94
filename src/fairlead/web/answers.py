"""What the engine says of the objects on the board: who waits for what, the queue, gangs, policies, one pod.

The engine answers about a cluster that does not change, so one is made of the objects as they are now, in a
thread of its own. The subtle thing is what that costs: with fifty thousand pods it takes a second or two. So
it happens only while the page is open: after a change, and now and then without one, because gangs settle and
marks end by time alone. It never takes more than a fifth of the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fairlead.engine.ask.cluster import Cluster
from fairlead.engine.ask.policy_groups import group_counts, group_index
from fairlead.engine.ask.survey import gangs, policies_now, queue, summed_up
from fairlead.engine.planning.settings import Settings
from fairlead.errors import BadInput
from fairlead.kube.meta import Object
from fairlead.policy.rule.model import read_policies
from fairlead.policy.tiers.tier_nodes import TierNodes

T = TypeVar("T")

SHARE = 5
"""Of the time at most one part in this many goes into making clusters."""
_AT_LEAST_S = 0.3
OLDEST_S = 5.0
"""How old an answer gets though nothing changes; on large clusters twice the pause after a change."""
_GROUPS_SHOWN = 200
_WAITING_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Objects:
    """All there is at one moment: typed objects by kind, others as plain data, and what could not be read."""

    at: float
    typed: Mapping[str, Iterable[Object]]
    plain: Iterable[dict[str, Any]] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


class Answers:
    """See the module. `version` counts the clusters that were made; 0: there is none yet.

    Cancelled, the thread finishes what it is at, and nothing is left of it.
    """

    def __init__(
        self,
        collect: Callable[[], Objects],
        settings: Settings,
        *,
        lease: str,
        made: Callable[[dict[str, Any]], None],
        oldest_s: float = OLDEST_S,
    ) -> None:
        """`collect` is called on the loop; `made` is called there with an overview, after each cluster."""
        self.version = 0
        self.overview: dict[str, Any] | None = None
        """The latest that `made` received."""
        self._collect = collect
        self._settings = settings
        self._lease = lease
        self._made = made
        self._oldest_s = oldest_s
        self._cluster: Cluster | None = None
        self._known: dict[str, dict[str, Any]] = {}
        self._stale = asyncio.Event()
        self._viewers = 0
        self._watched = asyncio.Event()
        self._next = asyncio.Event()
        """Set, and replaced, each time that there is a new cluster."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="answers")

    def changed(self) -> None:
        """What was answered may be different now."""
        self._stale.set()

    def viewer(self, number: int) -> None:
        """A browser came (1) or went (-1)."""
        self._viewers += number
        if self._viewers > 0:
            self._watched.set()
        else:
            self._watched.clear()

    async def run(self) -> None:
        """Keep the answers up to date for as long as a page is open."""
        oldest_s: float | None = None
        try:
            while True:
                await self._watched.wait()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(oldest_s):
                        await self._stale.wait()
                self._stale.clear()
                took_s = await self._make()
                pause_s = max(_AT_LEAST_S, (SHARE - 1) * took_s)
                await asyncio.sleep(pause_s)
                oldest_s = max(self._oldest_s, 2 * pause_s)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def of(self, what: str) -> dict[str, Any]:
        """One of the documents `queue`, `gangs`, `policies`, `tiers`."""
        make = _DOCUMENTS[what]
        await self._up_to_date()
        found = self._known.get(what)
        if found is None or found["version"] != self.version:
            found = self._known[what] = await self._ask(make)
        return found

    async def pod(self, key: str) -> dict[str, Any] | None:
        """All about one pod; None: there is no such pod."""
        await self._up_to_date()

        def diagnosed(cluster: Cluster) -> dict[str, Any] | None:
            try:
                return cluster.diagnose(key).to_dict()
            except BadInput:
                return None

        found = await self._ask(lambda cluster: {"found": diagnosed(cluster)})
        inner = found.pop("found")
        return None if inner is None else {**found, **inner}

    async def _up_to_date(self) -> None:
        """Wait for a cluster. While no page is open, none is kept: one is made of what is there now."""
        if self._viewers > 0 and self.version:
            return
        self.viewer(1)
        try:
            self._stale.set()
            await self._next.wait()
        finally:
            self.viewer(-1)

    async def _make(self) -> float:
        began = time.perf_counter()
        objects = self._collect()
        loop = asyncio.get_running_loop()
        cluster, overview = await loop.run_in_executor(self._thread, self._build, objects)
        took_s = time.perf_counter() - began
        self._cluster = cluster
        self.version += 1
        self._next.set()
        self._next = asyncio.Event()
        self.overview = {
            "version": self.version,
            "at": objects.at,
            "tookS": round(took_s, 3),
            **overview,
        }
        self._made(self.overview)
        return took_s

    def _build(self, objects: Objects) -> tuple[Cluster, dict[str, Any]]:
        cluster = Cluster.begin(self._settings, read_at=objects.at)
        cluster.scheduler_lease = self._lease
        for kind, things in objects.typed.items():
            for thing in things:
                cluster.take(kind, thing)
        cluster.complete(objects.plain, (), objects.unread)
        return cluster, _overview(cluster)

    async def _ask(self, answer: Callable[[Cluster], dict[str, Any]]) -> dict[str, Any]:
        cluster, version = self._cluster, self.version
        assert cluster is not None
        found = await asyncio.get_running_loop().run_in_executor(self._thread, answer, cluster)
        return {"version": version, "at": cluster.read_at, **found}


def _overview(cluster: Cluster) -> dict[str, Any]:
    asked = cluster.asked
    waiting = summed_up(asked.waiting())
    return {
        "waiting": [one.to_dict() for one in waiting[:_WAITING_SHOWN]],
        "reasons": len(waiting),
        "leader": asked.schedulers.leader().to_dict(),
        "units": len(asked.units()),
        "policies": sorted(policy.name for policy in read_policies(cluster.policies)),
        "warnings": cluster.warnings(),
        "unread": dict(cluster.unread),
    }


def _queue(cluster: Cluster) -> dict[str, Any]:
    return {"units": [one.to_dict() for one in queue(cluster.asked)]}


def _gangs(cluster: Cluster) -> dict[str, Any]:
    return {"gangs": [one.to_dict() for one in gangs(cluster.asked)]}


def _policies(cluster: Cluster) -> dict[str, Any]:
    """Every policy, its largest misplacements first among its groups."""
    counts = group_counts(group_index(cluster))
    found = []
    for policy in policies_now(cluster.asked, cluster.nodes()):
        mine = sorted(
            (one for one in counts if one.key.policy == policy.name),
            key=lambda one: (-one.misplaced, one.key),
        )
        groups = [
            {
                "name": str(one.key),
                "pods": one.pods,
                "desired": dict(one.desired),
                "actual": dict(one.actual),
                "pending": dict(one.pending),
                "elsewhere": one.elsewhere,
                "misplaced": one.misplaced,
            }
            for one in mine[:_GROUPS_SHOWN]
        ]
        found.append({**policy.to_dict(), "list": groups})
    return {"policies": found}


def _tiers(cluster: Cluster) -> dict[str, Any]:
    """Of each policy the tier of every node that has one."""
    found = {}
    for policy in read_policies(cluster.policies):
        tier_of = TierNodes(policy, cluster.each_node()).tier_of
        found[policy.name] = {
            "tiers": [tier.name for tier in policy.spec.tiers],
            "of": {node: tier for node, tier in tier_of.items() if tier is not None},
        }
    return {"tiers": found}


_DOCUMENTS: dict[str, Callable[[Cluster], dict[str, Any]]] = {
    "queue": _queue,
    "gangs": _gangs,
    "policies": _policies,
    "tiers": _tiers,
}
DOCUMENTS = tuple(_DOCUMENTS)
"""What `Answers.of` can be asked for."""
