"""How a copy of a cluster ended: what is placed, what waits and why, what was evicted and moved, its cost.

A pod counts as evicted when it had a node and lost it to something that disrupts: a preemption, a drain, a
lost or removed node. What its own controller removes, by scaling in or rolling out, does not count; neither
does what the rebalancer moves, which is counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.engine.ask.cluster import Cluster
from fairlead.engine.ask.cost import Price, price_of
from fairlead.engine.ask.survey import Waiting, summed_up
from fairlead.simulation.cluster_copy import ClusterCopy, Quiet
from fairlead.simulation.contents import Obj
from fairlead.world.objects import condition, controller_of, finished, key_of, labels_of
from fairlead.world.schema.resources import PODS
from fairlead.world.store import Change

_REVISION = ("pod-template-hash", "controller-revision-hash")


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """Pods of one workload, revision and tier: "" where no policy governs them, or they have no node."""

    workload: str
    revision: str
    tier: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """See the module. `quiet`: after how long nothing changed any more."""

    quiet: Quiet
    placed: int
    pending: int
    waiting: tuple[Waiting, ...]
    evicted: int
    moved: int
    nodes: int
    cost: float | None
    """Per hour; None: no node has a price."""
    placed_by: dict[Share, int]
    pending_by: dict[Share, int]
    evicted_by: dict[Share, int]
    moved_by: dict[Share, int]
    refused: dict[str, str]
    """Pods that a drain could not evict, each with what refused it."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "after": round(self.quiet.after.total_seconds(), 3),
            "quiet": self.quiet.reached,
            "placed": self.placed,
            "pending": self.pending,
            "waiting": [one.to_dict() for one in self.waiting],
            "evicted": self.evicted,
            "moved": self.moved,
            "nodes": self.nodes,
            "costPerHour": None if self.cost is None else round(self.cost, 6),
            "workloads": [
                {
                    "workload": one.workload,
                    **({"revision": one.revision} if one.revision else {}),
                    **({"tier": one.tier} if one.tier else {}),
                    "placed": self.placed_by.get(one, 0),
                    "pending": self.pending_by.get(one, 0),
                    "evicted": self.evicted_by.get(one, 0),
                    "moved": self.moved_by.get(one, 0),
                }
                for one in sorted({*self.placed_by, *self.pending_by, *self.evicted_by, *self.moved_by})
            ],
            **({"notDrained": self.refused} if self.refused else {}),
        }


class Observer:
    """Notes, from now on, which pods of a copy are evicted."""

    def __init__(self, copy: ClusterCopy) -> None:
        self._copy = copy
        self._tiers: dict[str, str] = {}  # by UID: where a pod was, whatever becomes of its node
        for pod in copy.world.store.list(PODS):
            self._note(pod)
        self.evicted: dict[str, Share] = {}
        """By UID, where each pod was."""
        self._stop = copy.world.store.subscribe(self._changed)

    def close(self) -> None:
        """Note no more."""
        self._stop()

    def _changed(self, change: Change) -> None:
        pod = change.object
        # What is collected with its node is marked as failed in the same write.
        if change.resource != PODS or not pod["spec"].get("nodeName") or finished(change.old or pod):
            return
        uid = pod["metadata"]["uid"]
        self._note(pod)
        if uid not in self.evicted and (_is_disrupted(pod) or self._lost_its_node(change)):
            workload, revision = workload_of(pod)
            self.evicted[uid] = Share(workload, revision, self._tiers.get(uid, ""))

    def _note(self, pod: Obj) -> None:
        if tier := tier_of(self._copy, pod):
            self._tiers[pod["metadata"]["uid"]] = tier

    def _lost_its_node(self, change: Change) -> bool:
        home = change.object["spec"]["nodeName"]
        return change.type == "DELETED" and self._copy.find("Node", "", home) is None


def outcome(copy: ClusterCopy, quiet: Quiet, observer: Observer, prices: Sequence[Price] = ()) -> Outcome:
    """How it is now."""
    placed: Counter[Share] = Counter()
    pending: Counter[Share] = Counter()
    for pod in copy.world.store.list(PODS):
        if finished(pod):
            continue
        workload, revision = workload_of(pod)
        if pod["spec"].get("nodeName"):
            placed[Share(workload, revision, tier_of(copy, pod))] += 1
        else:
            pending[Share(workload, revision, "")] += 1
    moved = {one.what.uid for one in copy.placement.moves} if copy.placement is not None else set()
    gone = observer.evicted.items()
    evicted = Counter(share for uid, share in gone if uid not in moved)
    found = [price_of(labels_of(node), prices) for node in copy.nodes()]
    known = [one for one in found if one is not None]
    return Outcome(
        quiet=quiet,
        placed=placed.total(),
        pending=pending.total(),
        waiting=tuple(summed_up(_as_asked(copy).asked.waiting())) if pending else (),
        evicted=evicted.total(),
        moved=len(moved),
        nodes=len(found),
        cost=sum(known) if known else None,
        placed_by=dict(placed),
        pending_by=dict(pending),
        evicted_by=dict(evicted),
        moved_by=dict(Counter(share for uid, share in gone if uid in moved)),
        refused={key: why for drain in copy.drains for key, why in sorted(drain.refused.items())},
    )


def tier_of(copy: ClusterCopy, pod: Obj) -> str:
    """The tier that a governed pod's node is of; "" where there is none."""
    if copy.placement is None or not pod["spec"].get("nodeName"):
        return ""
    found = copy.placement.machine.index.get(key_of(pod))
    return "" if found is None else found.member.tier or ""


def workload_of(pod: Obj) -> tuple[str, str]:
    """The workload that a pod is of, and its revision; a bare pod stands for itself.

    >>> owner = {"kind": "ReplicaSet", "name": "web-6f", "controller": True, "uid": "u"}
    >>> meta = {"namespace": "shop", "name": "web-6f-x", "labels": {"pod-template-hash": "6f"}}
    >>> workload_of({"metadata": {**meta, "ownerReferences": [owner]}})
    ('shop/Deployment/web', '6f')
    """
    meta, labels = pod["metadata"], labels_of(pod)
    revision = next((labels[one] for one in _REVISION if one in labels), "")
    owner = controller_of(pod)
    if owner is None:
        return f"{meta['namespace']}/Pod/{meta['name']}", ""
    kind, name = owner["kind"], owner["name"]
    if kind == "ReplicaSet" and revision and name.endswith(f"-{revision}"):
        kind, name = "Deployment", name.removesuffix(f"-{revision}")
    return f"{meta['namespace']}/{kind}/{name}", revision


def _is_disrupted(pod: Obj) -> bool:
    found = condition(pod, "DisruptionTarget")
    return found is not None and found["status"] == "True"


def _as_asked(copy: ClusterCopy) -> Cluster:
    cluster = Cluster.from_objects(
        [*_objects(copy), *copy.contents.of_kind("PlacementPolicy")], settings=copy.contents.settings
    )
    cluster.read_at = copy.clock.now().timestamp()
    return cluster


def _objects(copy: ClusterCopy) -> Iterator[Obj]:
    store = copy.world.store
    for resource in store.resources():
        if resource.kind != "Event":
            yield from store.list(resource)
