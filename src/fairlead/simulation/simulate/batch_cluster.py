"""A cluster in virtual time in which only Fairlead's scheduler acts: fixed nodes, and pods that come and go.

The same scheduler core as live decides; there is no API between, nor controllers, so a pod costs what
deciding on it costs. What happens when follows the embedded cluster to the second, and a test holds the two
to the same outcome: a pod starts a second after it was bound, and times that Kubernetes keeps in objects
are whole seconds.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from fairlead.engine.core.actions import BindPod, EvictPod, HoldPod, ReleasePod
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event, EvictFailed, Gone, Seen
from fairlead.engine.planning.settings import Settings
from fairlead.engine.snapshot.requests import allocatable, requests_of
from fairlead.kube.decode import convert
from fairlead.kube.meta import ObjectMeta, OwnerReference
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod, PodSpec, PodStatus
from fairlead.nodegroups import NodeGroup, node_of
from fairlead.simulation.scenario.model import Arrivals
from fairlead.simulation.scenario.pod_trace import TracedPod
from fairlead.simulation.scenario.pods import as_traced, of_gang, pod_spec
from fairlead.simulation.simulate.streams import Arrival
from fairlead.simulation.simulate.tally import Amounts, Tally
from fairlead.world.clock import EPOCH

_START_S = 1.0
_STOP_S = 1.0


@dataclass(frozen=True, slots=True)
class _Kind:
    """Pods that are alike. `job` is set where what is evicted comes again."""

    stream: Arrivals
    spec: PodSpec
    amounts: Amounts


@dataclass(slots=True)
class _Alive:
    pod: Pod
    kind: _Kind
    arrival: Arrival
    member: int
    time: int
    """How often it came: 0 at first."""
    leaves: bool = False


class BatchCluster:
    """See the module. Invariant: whatever happened and the core has not received is in the inbox."""

    def __init__(
        self,
        groups: Sequence[NodeGroup],
        streams: Sequence[tuple[Arrivals, Iterable[Arrival]]],
        settings: Settings,
        tally: Tally,
    ) -> None:
        self._core = Core(settings)
        self._tally = tally
        self._begin_s = EPOCH.timestamp()
        self._now_s = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._inbox: list[Event] = []
        self._alive: dict[str, _Alive] = {}
        self._kinds: dict[tuple[Any, ...], _Kind] = {}
        self._reasons: dict[str, str] = {}
        self._woken_at = math.inf
        for group in groups:
            self._add_nodes(group)
        for stream, arrivals in streams:
            self._follow(stream, iter(arrivals))

    def run_until(self, end_s: float) -> None:
        """Let everything happen that is due by then."""
        self._decide()
        while self._due and self._due[0][0] <= end_s:
            self._now_s = self._due[0][0]
            last = self._sequence
            while self._due and self._due[0][0] <= self._now_s and self._due[0][1] <= last:
                heapq.heappop(self._due)[2]()
            self._decide()
        self._now_s = max(self._now_s, end_s)

    def waiting(self) -> Counter[str]:
        """Why pods have no node, and how many."""
        reasons = (
            self._reasons.get(uid, "") for uid, one in self._alive.items() if not one.pod.spec.node_name
        )
        return Counter(reasons)

    # What comes

    def _add_nodes(self, group: NodeGroup) -> None:
        for number in range(group.desired):
            name = f"{group.name}-{number + 1}"
            node = convert(node_of(group, name, number), Node)
            self._inbox.append(Seen("Node", node))
            capacity = allocatable(name, node.status.allocatable)
            self._tally.node_came(0.0, name, group.name, capacity, float(group.price_per_hour))

    def _follow(self, stream: Arrivals, arrivals: Any) -> None:
        arrival = next(arrivals, None)
        if arrival is None:
            return

        def come() -> None:
            self._arrive(stream, arrival)
            self._follow(stream, arrivals)

        self.call_at(arrival.at_s, come)

    def _arrive(self, stream: Arrivals, arrival: Arrival) -> None:
        for member in range(arrival.pods):
            self._create(self._kind(stream, arrival.traced), arrival, member, 0)

    def _create(self, kind: _Kind, arrival: Arrival, member: int, time: int) -> None:
        stream = kind.stream
        name = arrival.name if arrival.pods == 1 else f"{arrival.name}-{member}"
        if time:
            name = f"{name}-again-{time}"
        uid = f"{stream.namespace}/{name}"
        owner = (
            (OwnerReference("Job", arrival.name, uid=arrival.name, controller=True),)
            if stream.recreate
            else ()
        )
        pod = Pod(
            metadata=ObjectMeta(
                name=name,
                namespace=stream.namespace,
                uid=uid,
                creation_timestamp=self._stamp(),
                labels=stream.labels,
                annotations=of_gang(stream.annotations, arrival.name, arrival.pods),
                owner_references=owner,
            ),
            spec=kind.spec,
        )
        self._alive[uid] = _Alive(pod, kind, arrival, member, time)
        self._tally.came(self._now_s, uid, stream.name, kind.amounts)
        self._inbox.append(Seen("Pod", pod))

    def _kind(self, stream: Arrivals, traced: TracedPod | None) -> _Kind:
        key = (
            (stream.name,)
            if traced is None
            else (stream.name, traced.requests, traced.nodes, traced.priority)
        )
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = _kind_of(stream, traced)
        return found

    # What the core decides

    def _decide(self) -> None:
        while True:
            events, self._inbox = self._inbox, []
            now = self._begin_s + self._now_s
            evictions: dict[str, list[EvictPod]] = {}
            for action in self._core.handle(events, now):
                match action:
                    case BindPod():
                        self._bind(action)
                    case HoldPod():
                        self._reasons[action.uid] = action.message
                    case EvictPod():
                        evictions.setdefault(action.unit_id or f"gang:{action.gang}", []).append(action)
                    case ReleasePod():
                        self._leave(action.uid)
                    case _:
                        pass  # what others would read: nominations, events
            for each in evictions.values():
                self._evict_all(each)
            if not self._inbox:
                break
        wake_at = self._core.wake_at
        if wake_at is not None:
            at_s = max(self._now_s, wake_at - self._begin_s)
            if not self._now_s < self._woken_at <= at_s:
                self._woken_at = at_s
                self.call_at(at_s, self._wake)

    def _wake(self) -> None:
        self._woken_at = math.inf

    def _bind(self, bind: BindPod) -> None:
        one = self._alive[bind.uid]
        spec = replace(
            one.pod.spec, node_name=bind.node, tolerations=bind.tolerations or one.pod.spec.tolerations
        )
        one.pod = replace(one.pod, spec=spec, status=PodStatus(phase="Pending", start_time=self._stamp()))
        self._reasons.pop(bind.uid, None)
        self._tally.bound(self._now_s, bind.uid, bind.node)
        self._inbox.append(Seen("Pod", one.pod))
        runs_for_s = one.arrival.runs_for_s
        if runs_for_s is not None:
            # Its containers start a second after the time that its status has, and that is a whole second.
            started_s = math.floor(self._now_s) + _START_S
            self.call_at(started_s + runs_for_s, lambda: self._finish(bind.uid))

    def _finish(self, uid: str) -> None:
        one = self._alive.get(uid)
        if one is None or one.leaves:
            return
        self._tally.left(self._now_s, uid, "finished")
        self._gone(uid)

    def _evict_all(self, evictions: Sequence[EvictPod]) -> None:
        stopped = False
        for evict in evictions:
            if stopped or not self._core.confirms(evict, sending=True):
                self._inbox.append(EvictFailed(evict.pod, evict.uid, "not wanted any more"))
                stopped = True
            else:
                self._leave(evict.uid)

    def _leave(self, uid: str) -> None:
        one = self._alive.get(uid)
        if one is None or one.leaves:
            return
        one.leaves = True
        meta = replace(one.pod.metadata, deletion_timestamp=self._stamp())
        one.pod = replace(one.pod, metadata=meta)
        self._inbox.append(Seen("Pod", one.pod))

        def stop() -> None:
            self._tally.left(self._now_s, uid, "evicted")
            self._gone(uid)
            if one.kind.stream.recreate:
                self._create(one.kind, one.arrival, one.member, one.time + 1)

        self.call_at(math.floor(self._now_s) + _STOP_S, stop)

    def _gone(self, uid: str) -> None:
        one = self._alive.pop(uid)
        self._reasons.pop(uid, None)
        meta = one.pod.metadata
        self._inbox.append(Gone("Pod", meta.namespace, meta.name, uid))

    # Time

    @property
    def now_s(self) -> float:
        """The time since the beginning."""
        return self._now_s

    def call_at(self, at_s: float, call: Callable[[], None]) -> None:
        """Run `call` when the time has come."""
        self._sequence += 1
        heapq.heappush(self._due, (max(at_s, self._now_s), self._sequence, call))

    def _stamp(self) -> datetime:
        return EPOCH + timedelta(seconds=math.floor(self._now_s))


def _kind_of(stream: Arrivals, traced: TracedPod | None) -> _Kind:
    typed = convert(as_traced(pod_spec(stream), traced), PodSpec)
    return _Kind(stream, typed, dict(requests_of(Pod(spec=typed)).amounts))
