"""Finds where what we know differs from what the API has, and repairs it object by object.

Two things can drift: a watch that never showed a change, found by comparing versions with the API; and
the core, should it have lost track of a pod or node that the watch did show. Both are counted. More than
a few differences at once mean that something is wrong with us: then everything is listed anew.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import structlog

from fairlead.client.reflector import Reflector
from fairlead.client.wire import read_as
from fairlead.doors.scheduler.inbox import Inbox
from fairlead.doors.scheduler.metrics import Metrics
from fairlead.doors.scheduler.sources import Source, trimmed
from fairlead.doors.scheduler.watching import Watching
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Gone, Seen
from fairlead.errors import ApiError, BadObject, Unreachable

__all__ = ["Drift", "Drifted"]

_log = structlog.get_logger(__name__)


class Drifted(Exception):  # noqa: N818 (reads as what happened)
    """Too much differs to be repaired piece by piece."""


class Drift:
    """See the module. Cancelled half-way, what was repaired is repaired."""

    def __init__(
        self,
        watching: Watching,
        core: Core,
        inbox: Inbox,
        metrics: Metrics,
        *,
        interval_s: float,
        tolerated: int,
        rng: random.Random,
    ) -> None:
        self._watching = watching
        self._core = core
        self._inbox = inbox
        self._metrics = metrics
        self._interval_s = interval_s
        self._tolerated = tolerated
        self._rng = rng

    async def run(self) -> None:
        """Compare for ever; raises Drifted when too much differs."""
        if not self._interval_s:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(self._interval_s * self._rng.uniform(0.75, 1.25))
            try:
                await self.compare()
            except (ApiError, Unreachable, BadObject) as error:
                _log.info("drift_not_compared", reason=str(error))

    async def compare(self) -> int:
        """Compare and repair once; how much differed."""
        found = 0
        for source, reflector in self._watching:
            missed = await reflector.missed()
            found += self._count(source, missed, "the watch missed it")
            for key in missed:
                await self._watching.tell(source, await reflector.mend(key))
        # Once the core has been told everything it should agree with the watch.
        await self._inbox.empty()
        for source, reflector in self._watching:
            lost = _lost_pods(self._core, reflector) if source.kind == "Pod" else []
            lost += _lost_nodes(self._core, reflector) if source.kind == "Node" else []
            found += self._count(source, lost, "the core lost it")
            for key in lost:
                await self._tell(source, reflector, key)
        return found

    def _count(self, source: Source, keys: list[str], why: str) -> int:
        if keys:
            self._metrics.drift.labels(source.kind).inc(len(keys))
            _log.warning("drift", kind=source.kind, number=len(keys), objects=keys[:10], reason=why)
            if len(keys) > self._tolerated:
                raise Drifted(f"{len(keys)} objects of kind {source.kind} differ from the API: {why}")
        return len(keys)

    async def _tell(self, source: Source, reflector: Reflector[Any, Any], key: str) -> None:
        namespace, _, name = key.rpartition("/")
        body = await reflector.read(key)
        if body is None:
            uid = self._core.state.uid_of(key) if source.kind == "Pod" else ""
            self._inbox.tell(Gone(source.kind, namespace, name, uid))
        else:
            self._inbox.tell(Seen(source.kind, trimmed(source, read_as(body, source.struct))))


def _lost_pods(core: Core, reflector: Reflector[Any, Any]) -> list[str]:
    state, view = core.state, reflector.view
    spoiled = view.spoiled()
    lost = []
    for key, node in view.items():
        placed = state.snapshot.placed(key)
        uid = state.uid_of(key)
        if f"Pod {key}" in state.unusable or key in spoiled:
            continue
        if node:
            differs = placed is None or placed.node != node
        else:
            # Without a node it may be one that we gave one, or promised one.
            differs = placed is not None and uid not in state.assumed and key not in state.room.nominations
        if differs or not uid:
            lost.append(key)
    lost += [placed.key for placed in state.snapshot.all_placed() if placed.key not in view]
    return lost


def _lost_nodes(core: Core, reflector: Reflector[Any, Any]) -> list[str]:
    state, nodes = core.state, core.state.snapshot.nodes
    lost = [
        name
        for name, _ in reflector.view.items()
        if nodes.slot(name) < 0 and f"Node {name}" not in state.unusable
    ]
    names = (nodes.name(slot) for slot in np.flatnonzero(nodes.alive).tolist())
    return lost + [name for name in names if name not in reflector.view]
