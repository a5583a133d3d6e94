"""Tries pods on nodes that are not there, by the engine's own rules: the verdicts are the scheduler's.

A new node first takes the pods that DaemonSets would put on it, as in an autoscaler's own trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.engine.cluster import Cluster
from fairlead.engine.reasons import Insufficient
from fairlead.engine.requests import allocatable, requests_of
from fairlead.errors import BadObject
from fairlead.kube.decode import call_it
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod, PodSpec
from fairlead.kube.quantity import format_bytes, format_milli
from fairlead.kube.tolerations import Toleration
from fairlead.nodegroups import NodeGroup
from fairlead.world.controllers.daemonset import daemon_pod
from fairlead.world.packing import sandbox

__all__ = ["Refused", "Trial", "made_for"]

# How far along a pod came before it was refused: the rules in the order they are asked.
_FAR = ("TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit")


@dataclass(frozen=True, slots=True)
class Refused:
    """A rule's no, in the scheduler's words. `short`: the resources there is too little of."""

    rule: str
    words: str
    short: tuple[str, ...] = ()

    @property
    def far(self) -> int:
        """How many rules it passed, roughly: who is refused late is nearly there."""
        return _FAR.index(self.rule) if self.rule in _FAR else len(_FAR)


class Trial:
    """A cluster on which nodes are imagined; it is left as it was after each try."""

    def __init__(self, objects: Iterable[Mapping[str, Any]] = ()) -> None:
        kept = list(objects)
        self.cluster = Cluster.from_objects(kept)
        self._daemons = [_daemon_set(each) for each in kept if each.get("kind") == "DaemonSet"]

    def pending(self) -> list[Pod]:
        """The pods that wait for a node and may have one; a DaemonSet's are nobody's reason to scale."""
        return [pod for pod in self.cluster.pods.values() if _waits(pod)]

    def at_home(self, pod: Pod) -> str:
        """A node that is there and takes the pod, "" if none does."""
        snapshot = self.cluster.snapshot
        slot = snapshot.choose(snapshot.class_of(pod))
        return snapshot.nodes.name(slot) if slot >= 0 else ""

    def refused(self, pod: Pod, node: Node) -> Refused | None:
        """Why a pod may not go on a node that is not there yet; None when it may."""
        with sandbox(self.cluster.snapshot) as box:
            slot = box.open_node(node)
            for owner in self._daemons:
                daemon = daemon_pod(owner, node)
                if daemon is not None and box.snapshot.fits(box.snapshot.class_of(daemon), slot):
                    box.place(daemon, slot)
            verdicts = box.snapshot.verdicts(box.snapshot.class_of(pod))
            reasons = verdicts.reasons(slot)
            if not reasons:
                return None
            short = tuple(each.resource for each in reasons if isinstance(each, Insufficient))
            return Refused(verdicts.rule(slot), "; ".join(map(str, reasons)), short)


def made_for(group: NodeGroup) -> Pod:
    """The pod that a group is for: selects its labels, tolerates its taints, asks for nothing else."""
    tolerations = tuple(
        Toleration(each.key, operator="Equal", value=each.value, effect=each.effect) for each in group.taints
    )
    spec = PodSpec(node_selector=group.labels, tolerations=tolerations)
    return Pod(metadata=ObjectMeta(name=f"made-for-{group.name}", namespace="default"), spec=spec)


def too_little(pod: Pod, node: Node, resources: Iterable[str]) -> str:
    """What a pod asks for and a node has, of some resources."""
    asks = dict(requests_of(pod).amounts)
    has = allocatable(node.metadata.name, node.status.allocatable)
    return ", ".join(
        f"{_amount(each, asks.get(each, 0))} {each} where the node has {_amount(each, has.get(each, 0))}"
        for each in resources
    )


def _amount(resource: str, amount: int) -> str:
    if resource == "cpu":
        return format_milli(amount)
    return format_bytes(amount) if resource in ("memory", "ephemeral-storage") else str(amount)


def _waits(pod: Pod) -> bool:
    if pod.spec.node_name or pod.terminal or pod.metadata.deletion_timestamp or pod.spec.scheduling_gates:
        return False
    controller = pod.metadata.controller
    return controller is None or controller.kind != "DaemonSet"


def _daemon_set(given: Mapping[str, Any]) -> dict[str, Any]:
    """A DaemonSet with all that its controller expects of one; a file may leave out what the API adds."""
    template = (given.get("spec") or {}).get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise BadObject(call_it(given), "spec.template.spec", "is missing")
    metadata = {"uid": "", "namespace": "default", "name": "", **(given.get("metadata") or {})}
    return {"apiVersion": "apps/v1", **given, "metadata": metadata}
