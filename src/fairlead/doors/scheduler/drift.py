"""Finds where what we know differs from what the API has, and repairs it object by object.

Two things can drift: a watch that never showed a change, found by comparing versions with the API; and
the core, should it have lost track of a pod or node that the watch did show. Both are counted. More than
a few differences at once mean that something is wrong with us: then everything is listed again.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import structlog

from fairlead.client.view import View
from fairlead.doors.scheduler.configuration import DriftSection
from fairlead.doors.scheduler.inbox import Inbox
from fairlead.doors.scheduler.metrics import Metrics
from fairlead.doors.scheduler.watching import Watching, seen
from fairlead.engine.core.events import Event, Gone
from fairlead.engine.core.report import Report
from fairlead.errors import ApiError, BadObject, Unreachable
from fairlead.feed.watches import Watches
from fairlead.kube.pod import Pod
from fairlead.kube.resources import Resource

_log = structlog.get_logger(__name__)


class Drifted(Exception):  # noqa: N818 (reads as what happened)
    """Too much differs to be repaired piece by piece."""


@dataclass(frozen=True, slots=True)
class Drift:
    """See the module. Cancelled half-way, what was repaired is repaired."""

    watches: Watches
    watching: Watching
    report: Report
    inbox: Inbox
    metrics: Metrics
    limits: DriftSection
    rng: random.Random

    async def run(self) -> None:
        """Compare for ever, if so configured; raises Drifted when too much differs."""
        while self.limits.interval:
            await asyncio.sleep(self.limits.interval * self.rng.uniform(0.75, 1.25))
            try:
                await self.compare()
            except (ApiError, Unreachable, BadObject) as error:
                _log.info("drift_not_compared", reason=str(error))

    async def compare(self) -> int:
        """Compare and repair once; how much differed."""
        found = 0
        for resource, reflector in self.watching:
            missed = await reflector.missed(self.limits.settle)
            found += self._count(resource.kind, missed, "the watch missed it")
            for key in missed:
                await self.watches.mend(resource, key)
        # Once the core has received everything it should agree with the watch.
        await self.inbox.empty()
        for resource, reflector in self.watching:
            lost = self._lost(resource.kind, reflector.view)
            found += self._count(resource.kind, lost, "the core lost it")
            for key in lost:
                self.inbox.tell(self._now(resource, reflector.view, key))
        return found

    def _count(self, kind: str, keys: list[str], why: str) -> int:
        if keys:
            self.metrics.drift.labels(kind).inc(len(keys))
            _log.warning("drift", kind=kind, number=len(keys), objects=keys[:10], reason=why)
            if len(keys) > self.limits.tolerated:
                raise Drifted(f"{len(keys)} objects of kind {kind} differ from the API: {why}")
        return len(keys)

    def _lost(self, kind: str, view: View[Any, Any]) -> list[str]:
        """Pods and nodes that the watch has and the core has not, or not as it has them; and the reverse."""
        report = self.report
        if kind == "Node":
            lost = [name for name, _ in view.items() if not report.has_node(name)]
            return lost + [name for name in report.nodes() if name not in view]
        if kind == "Pod":
            spoiled = view.spoiled()
            pods = ((key, pod) for key, pod in view.items() if key not in spoiled)
            lost = [key for key, pod in pods if not report.has_pod(key, _node_of(pod))]
            return lost + [key for key in report.placed() if key not in view]
        return []

    def _now(self, resource: Resource, view: View[Any, Any], key: str) -> Event:
        """An object as the watch has it."""
        thing = view.get(key)
        if thing is not None:
            return seen(resource, thing)
        namespace, _, name = key.rpartition("/")
        return Gone(resource.kind, namespace, name, self.report.uid_of(key) if namespace else "")


def _node_of(pod: Pod) -> str:
    """Where the pod takes room; "" for nowhere."""
    return "" if pod.terminal else pod.spec.node_name
