"""What the page shows of a cluster: a row for each node and pod, and what happened to them.

Rows are small and are compared: a heartbeat, or a status that the page does not show, changes nothing. What
changed is gathered until `take`, so that a pod that changes ten times in between is sent once.

No I/O, no clock: objects and the time are passed in.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import msgspec

from fairlead.engine.ask import timeline
from fairlead.engine.ask.capacity import ZONE, group_of, is_spot, state_of
from fairlead.engine.ask.cost import INSTANCE_TYPE, Price, price_of
from fairlead.engine.ask.timeline import Happening
from fairlead.engine.gangs.membership import gang_of, shown
from fairlead.engine.planning.priority import priority_of
from fairlead.engine.planning.settings import Settings
from fairlead.engine.snapshot.requests import CPU, MEMORY, PODS, allocatable, requests_of
from fairlead.errors import BadObject
from fairlead.kube.event import Event
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.policy.names import CAPACITY_ANNOTATION

KEPT = 5_000
"""Happenings that are remembered."""
SENT = 1_000
"""Happenings that a browser gets when it opens the page."""

Row = TypeVar("Row", "NodeRow", "PodRow")


class NodeRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A node as the page has it. `cpu` in thousandths; `price` per hour, None where it is not known."""

    name: str
    zone: str
    group: str
    kind: str
    spot: bool
    state: str
    cpu: int
    memory: int
    pods: int
    price: float | None


class PodRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A pod as the page has it. `state`: gated, pending, starting, running, leaving."""

    key: str
    node: str
    state: str
    priority: int
    gang: str
    workload: str
    scheduler: str
    cpu: int
    memory: int
    exclusive: bool
    """Whether no other pod of Fairlead's may be on its node."""
    since: float
    """When it came to be in this state, as far as it says; else when it was created."""


class Line(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A happening, numbered from 1 as they came; a unit that is a gang is called one in `by`."""

    number: int
    at: float
    kind: str
    about: str
    text: str
    node: str
    gang: str
    by: str


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What changed: rows as they are now, names of those that are gone, and what happened."""

    at: float
    nodes: Sequence[NodeRow] = ()
    pods: Sequence[PodRow] = ()
    gone_nodes: Sequence[str] = ()
    gone_pods: Sequence[str] = ()
    lines: Sequence[Line] = ()


class Board:
    """See the module.

    Invariant: a browser that has taken a `whole` board, and each delta after it, has the rows that `whole`
    would give it now. Finished pods take no room and have no row.
    """

    def __init__(self, settings: Settings | None = None, *, prices: Sequence[Price] = ()) -> None:
        """`settings` are those of our scheduler; `prices` are for nodes whose label says none."""
        self._settings = settings or Settings()
        self._annotation = self._settings.priority_annotation
        self._prices = prices
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self.nodes: dict[str, Node] = {}
        """The objects that the rows were made of, and those of finished pods."""
        self.pods: dict[str, Pod] = {}
        self._node_rows: dict[str, NodeRow] = {}
        self._pod_rows: dict[str, PodRow] = {}
        self._gangs: Counter[str] = Counter()
        self._changed_nodes: dict[str, None] = {}
        self._changed_pods: dict[str, None] = {}
        self._lines: deque[Line] = deque(maxlen=KEPT)
        self._fresh: list[Line] = []
        self._number = 0
        self._first = True
        self._past: list[Happening] = []

    # Objects

    def put_pod(self, pod: Pod, now: float) -> None:
        """A pod is there, or is another than before."""
        key = pod.metadata.key
        old = self.pods.get(key)
        if old is not None and old.metadata.uid != pod.metadata.uid:
            self.drop_pod(key, now)
            old = None
        self.pods[key] = pod
        if self._first:
            self._past += timeline.before(pod)
        else:
            self._tell(timeline.of_pod(old, pod, now))
        self._set_pod(key, None if pod.terminal else self._pod_row(pod))

    def drop_pod(self, key: str, now: float) -> None:
        """A pod is gone."""
        old = self.pods.pop(key, None)
        self._tell(timeline.of_pod(old, None, now))
        self._set_pod(key, None)

    def put_node(self, node: Node, now: float) -> None:
        """A node is there, or is another than before."""
        name = node.metadata.name
        old = self.nodes.get(name)
        self.nodes[name] = node
        if not self._first:
            happening = timeline.of_node(old, node, name, now)
            self._tell([happening] if happening is not None else ())
        self._set(self._node_rows, self._changed_nodes, name, self._node_row(node))

    def drop_node(self, name: str, now: float) -> None:
        """A node is gone."""
        old = self.nodes.pop(name, None)
        happening = timeline.of_node(old, None, name, now) if old is not None else None
        self._tell([happening] if happening is not None else ())
        self._set(self._node_rows, self._changed_nodes, name, None)

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace's labels say whether the annotation priority counts in it."""
        if self._namespaces.get(name) == labels:
            return
        self._namespaces[name] = labels
        if self._annotation.namespace_selector is None:
            return
        for key, pod in self.pods.items():
            if pod.metadata.namespace == name and not pod.terminal:
                self._set_pod(key, self._pod_row(pod))

    def put_event(self, event: Event) -> None:
        """Something was reported; what the pod's own conditions have told already is left out."""
        happening = timeline.of_event(event)
        if happening is None:
            return
        row = self._pod_rows.get(happening.about)
        if row is not None:
            happening = replace(happening, gang=row.gang)
        if self._first:
            self._past.append(happening)
        elif not (happening.kind == "preempted" and self._is_told(happening)):
            self._tell([happening])

    def say(self, *happenings: Happening) -> None:
        """Something else happened."""
        self._tell(happenings)

    def listed(self) -> None:
        """All there is was put: from now on what is put is news."""
        self._first = False
        # In the order of time; of a pod's conditions and events, what says the same is told once.
        past = sorted(self._past, key=lambda one: (one.at, one.about, one.kind))
        self._past = []
        self._tell(past[-KEPT:])

    # Rows

    def take(self, now: float) -> Delta | None:
        """What changed since the last time; None: nothing."""
        if not (self._changed_nodes or self._changed_pods or self._fresh):
            return None
        nodes, gone_nodes = _parted(self._changed_nodes, self._node_rows)
        pods, gone_pods = _parted(self._changed_pods, self._pod_rows)
        self._changed_nodes, self._changed_pods = {}, {}
        fresh, self._fresh = self._fresh, []
        return Delta(now, nodes, pods, gone_nodes, gone_pods, fresh)

    def whole(self, now: float) -> Delta:
        """All rows, and the latest lines."""
        skipped = max(0, len(self._lines) - SENT)
        lines = list(islice(self._lines, skipped, None))
        return Delta(now, list(self._node_rows.values()), list(self._pod_rows.values()), lines=lines)

    def lines_of(self, about: str) -> list[Line]:
        """What is remembered of one pod, node or policy, oldest first."""
        return [line for line in self._lines if line.about == about]

    def _tell(self, happenings: Iterable[Happening]) -> None:
        for one in happenings:
            self._number += 1
            by = f"gang {one.by}" if one.by in self._gangs else one.by
            line = Line(self._number, one.at, one.kind, one.about, one.text, one.node, one.gang, by)
            self._lines.append(line)
            self._fresh.append(line)

    def _is_told(self, happening: Happening) -> bool:
        """Whether the pod's own conditions have said for whom it makes room."""
        return any(
            line.about == happening.about and line.kind == happening.kind and line.by
            for line in islice(reversed(self._lines), SENT)
        )

    def _set_pod(self, key: str, row: PodRow | None) -> None:
        old = self._pod_rows.get(key)
        gone, come = old.gang if old is not None else "", row.gang if row is not None else ""
        if gone != come:
            if come:
                self._gangs[come] += 1
            if gone:
                self._gangs[gone] -= 1
                if not self._gangs[gone]:
                    del self._gangs[gone]
        self._set(self._pod_rows, self._changed_pods, key, row)

    def _set(self, rows: dict[str, Row], changed: dict[str, None], name: str, row: Row | None) -> None:
        if rows.get(name) == row:
            return
        if row is None:
            del rows[name]
        else:
            rows[name] = row
        changed[name] = None

    def _node_row(self, node: Node) -> NodeRow:
        meta = node.metadata
        try:
            has = allocatable(meta.name, node.status.allocatable)
        except BadObject:
            has = {}  # the page shows that it has nothing; `fairlead nodes` says what is wrong
        return NodeRow(
            meta.name,
            meta.labels.get(ZONE, ""),
            group_of(node),
            meta.labels.get(INSTANCE_TYPE, ""),
            is_spot(node),
            state_of(node),
            has.get(CPU, 0),
            has.get(MEMORY, 0),
            has.get(PODS, 0),
            price_of(meta.labels, self._prices),
        )

    def _pod_row(self, pod: Pod) -> PodRow:
        meta = pod.metadata
        try:
            asked = dict(requests_of(pod).amounts)
        except BadObject:
            asked = {}  # its own page says what is wrong with it
        priority = priority_of(pod, self._annotation, self._namespaces.get(meta.namespace))
        state, since = _state(pod)
        return PodRow(
            meta.key,
            pod.spec.node_name,
            state,
            priority.value,
            shown(gang_of(meta, pod.spec)),
            _workload(pod),
            pod.spec.scheduler_name,
            asked.get(CPU, 0),
            asked.get(MEMORY, 0),
            self._is_exclusive(pod),
            since,
        )

    def _is_exclusive(self, pod: Pod) -> bool:
        if pod.spec.scheduler_name not in self._settings.scheduler_names:
            return False
        said = pod.metadata.annotations.get(CAPACITY_ANNOTATION)
        return self._settings.capacity == "exclusive" or said == "exclusive"


def _parted(changed: Iterable[str], rows: Mapping[str, Row]) -> tuple[list[Row], list[str]]:
    there: list[Row] = []
    gone: list[str] = []
    for name in changed:
        row = rows.get(name)
        if row is None:
            gone.append(name)
        else:
            there.append(row)
    return there, gone


def _state(pod: Pod) -> tuple[str, float]:
    meta = pod.metadata
    created = meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0
    if meta.deletion_timestamp is not None:
        return "leaving", meta.deletion_timestamp.timestamp()
    if not pod.spec.node_name:
        return ("gated" if pod.spec.scheduling_gates else "pending"), created
    for one in pod.status.conditions:
        if one.type == "Ready" and one.status == "True":
            at = one.last_transition_time
            return "running", at.timestamp() if at is not None else created
    return "starting", created


def _workload(pod: Pod) -> str:
    """The workload that a pod is shown under: of a Deployment's pods their Deployment, not its ReplicaSet."""
    meta = pod.metadata
    owner = meta.controller
    if owner is None:
        return ""
    name = owner.name
    revision = meta.labels.get("pod-template-hash", "")
    if owner.kind == "ReplicaSet" and revision and name.endswith(f"-{revision}"):
        name = name.removesuffix(f"-{revision}")
    return f"{meta.namespace}/{name}"
