"""The embedded cluster: API, controllers, kubelet, scheduler and node groups, in one process.

In virtual time everything happens inside `run_until`, on the spot and always in the same order; on
the wall clock `serve` offers the same cluster over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from fairlead.errors import FairleadError
from fairlead.world.admission import Hook
from fairlead.world.api import Api
from fairlead.world.clock import Clock, VirtualClock
from fairlead.world.controllers.daemonset import DaemonSetController
from fairlead.world.controllers.deployment import DeploymentController
from fairlead.world.controllers.disruption import DisruptionController
from fairlead.world.controllers.garbage import GarbageCollector
from fairlead.world.controllers.job import JobController
from fairlead.world.controllers.node_lifecycle import NodeLifecycleController
from fairlead.world.controllers.pod_gc import PodGCController
from fairlead.world.controllers.replicaset import ReplicaSetController
from fairlead.world.controllers.service_accounts import NamespaceFurnisher
from fairlead.world.controllers.statefulset import StatefulSetController
from fairlead.world.controllers.taint_eviction import TaintEvictionController
from fairlead.world.controllers.writes import Controller, Obj
from fairlead.world.ids import CountedIds, IdSource, RandomIds
from fairlead.world.kubelet import Kubelet, Pace
from fairlead.world.recorder import Recorder
from fairlead.world.runner import Runner
from fairlead.world.scheduler import Scheduler
from fairlead.world.store import Store

__all__ = ["NotReached", "World"]


class NotReached(FairleadError):  # noqa: N818 (the hierarchy reads as what happened)
    """Virtual time ran out, or nothing was left to happen, before a condition held."""


class World:
    """A cluster. Invariant: in virtual time, nothing happens between two calls of its methods."""

    def __init__(
        self,
        nodes: Iterable[Obj] = (),
        *,
        clock: Clock | None = None,
        controllers: Sequence[Controller] | None = None,
        scheduler: bool = True,
        pace: Pace | None = None,
        events: bool = True,
        ids: IdSource | None = None,
        hooks: Iterable[Hook] = (),
    ) -> None:
        self.clock: Clock = clock or VirtualClock()
        virtual = isinstance(self.clock, VirtualClock)
        self.store = Store()
        self.api = Api(self.store, self.clock, ids or (CountedIds() if virtual else RandomIds()), hooks=hooks)
        self.kubelet = Kubelet(pace, leases=not virtual)
        self.runner = Runner(
            self.api,
            self.clock,
            [
                *(controllers if controllers is not None else self._controllers()),
                *([Scheduler()] if scheduler else []),
                self.kubelet,
            ],
            Recorder(self.api, self.clock, enabled=events),
        )
        for node in nodes:
            self.create(node)

    def _controllers(self) -> list[Controller]:
        return [
            DeploymentController(),
            ReplicaSetController(),
            StatefulSetController(),
            DaemonSetController(),
            JobController(),
            DisruptionController(),
            GarbageCollector(),
            NamespaceFurnisher(),
            NodeLifecycleController(self.kubelet.last_heartbeat),
            TaintEvictionController(),
            PodGCController(),
        ]

    # Objects

    def create(self, item: Obj) -> Obj:
        """Create an object of any served kind."""
        return self.api.create(self.runner.view.resource(item), item)

    def get(self, kind: str, name: str, namespace: str = "default") -> Obj | None:
        """An object, or None."""
        return self.runner.view.get(kind, namespace, name) or self.runner.view.get(kind, "", name)

    def all(self, kind: str, namespace: str = "") -> list[Obj]:
        """All objects of a kind, in key order."""
        return self.runner.view.all(kind, namespace)

    # Virtual time

    def run_until(
        self,
        goal: Callable[[], Any] | datetime | timedelta,
        limit: timedelta = timedelta(hours=1),
    ) -> None:
        """Let things happen until a condition holds, a time has come or a span has passed.

        A condition is looked at after each step; NotReached when it does not hold within `limit`.
        """
        clock = self.clock
        if not isinstance(clock, VirtualClock):
            raise TypeError("run_until needs virtual time; on the wall clock wait for a watch")
        if not callable(goal):
            end = clock.now() + goal if isinstance(goal, timedelta) else goal
            self.runner.drain()
            while clock.step(end):
                self.runner.drain()
            return
        end = clock.now() + limit
        while not goal():
            if not self.runner.drain_one() and not clock.step(end):
                raise NotReached(f"not reached by {end:%Y-%m-%d %H:%M:%S}: {goal}")

    def close(self) -> None:
        """Let go of the store and all timers."""
        self.runner.close()
