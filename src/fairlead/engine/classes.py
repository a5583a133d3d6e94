"""Classes: pods that no rule can tell apart, and the one function that says so.

A class is found by `class_key`. What the rules read is compiled once per class; what changes as pods
come and go (`where` its pods are, which tallies count them) is kept on it, so that a pod's event costs
what its class touches. They are made and linked in `snapshot.registry`.

The subtle thing: labels that are unique per pod by construction (an ordinal, say) are left out of the
key, or every pod would be a class of its own, *unless* some selector reads them. When the first such
selector appears, the classes are split: those with `live` unset must be asked for again.
"""

from __future__ import annotations

from fairlead.engine.requests import Requests
from fairlead.engine.snapshot.counts import Carried, Selected, Spread, SpreadCounts, Tally
from fairlead.engine.snapshot.masks import NodeMask
from fairlead.engine.snapshot.nodes import Ints
from fairlead.engine.snapshot.specs import UNIQUE_LABELS, SpecFacts
from fairlead.engine.snapshot.taints import Tolerance
from fairlead.kube.meta import OwnerReference
from fairlead.kube.pod import Pod

__all__ = [
    "PodClass",
    "belongs_to_node",
    "class_key",
    "kept_labels",
    "spreading_owner",
]

_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"

# Controllers whose pods ranking spreads by their selector, as (apiVersion, kind).
SPREADING_OWNERS = (("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController"))


class PodClass:
    """A class. Everything here is for reading; `Classes` and the snapshot keep it up to date.

    `where` counts the class's placed pods by slot, `leaving` those among them that are being deleted.
    `counted_by` are the tallies its pods count in, `carries` the terms its pods bring along,
    `repelled_by` and `drawn_by` the terms of others that speak of its pods. `shape` is all that nodes
    themselves and their resources are asked for.
    """

    __slots__ = (
        "__weakref__",
        "affinity",
        "affinity_keys",
        "affinity_matches_self",
        "amounts",
        "anti",
        "carries",
        "counted_by",
        "deniable",
        "drawn_by",
        "exclusive",
        "facts",
        "key",
        "labels",
        "leaving",
        "live",
        "namespace",
        "node_mask",
        "node_name",
        "ours",
        "own_constraints",
        "owner",
        "owner_references",
        "pod_name",
        "pod_uid",
        "ports",
        "preferred",
        "preferred_nodes",
        "repelled_by",
        "row_amounts",
        "serial",
        "shape",
        "shared",
        "soft",
        "soft_version",
        "spread",
        "spread_cache",
        "tolerance",
        "where",
    )

    key: object
    serial: int
    shape: tuple[object, ...]
    namespace: str
    labels: dict[str, str]
    facts: SpecFacts
    row_amounts: tuple[tuple[int, int], ...]
    amounts: Ints
    node_name: str
    node_mask: NodeMask | None
    preferred_nodes: tuple[tuple[NodeMask, int], ...]
    tolerance: Tolerance
    ports: tuple[Tally, ...]
    spread: tuple[Spread, ...]
    spread_cache: dict[Spread, SpreadCounts]
    soft: tuple[Spread, ...]
    soft_version: int
    own_constraints: bool
    affinity: Selected | None
    affinity_keys: tuple[str, ...]
    affinity_matches_self: bool
    anti: tuple[tuple[Selected, str], ...]
    preferred: tuple[tuple[Selected, str, int], ...]
    carries: tuple[Carried, ...]
    counted_by: list[Selected]
    repelled_by: list[Carried]
    drawn_by: list[Carried]
    owner: tuple[str, str, str] | None
    owner_references: tuple[OwnerReference, ...]
    exclusive: bool
    ours: bool
    shared: bool
    pod_name: str
    pod_uid: str
    deniable: bool
    live: bool
    where: dict[int, int]
    leaving: dict[int, int]

    @property
    def requests(self) -> Requests:
        """What each pod of the class asks for."""
        return self.facts.requests


def class_key(
    pod: Pod,
    facts: SpecFacts,
    kept: frozenset[str],
    *,
    exclusive: bool,
    ours: bool,
    of_node: bool,
    pinned: bool,
) -> tuple[object, ...]:
    """All that a rule may read of a pod, and nothing else. `kept`: the unique labels that selectors read."""
    labels = kept_labels(pod, kept)
    return (
        pod.metadata.namespace,
        tuple(sorted(labels.items())),
        facts.key,
        spreading_owner(pod),
        exclusive,
        ours,
        of_node,
        pod.spec.node_name if pinned else "",
        (pod.metadata.name, pod.metadata.uid) if facts.made_claims else None,
    )


def kept_labels(pod: Pod, kept: frozenset[str]) -> dict[str, str]:
    """The pod's labels without those that are unique to it, but for the `kept` ones."""
    labels = pod.metadata.labels
    if labels.keys() & UNIQUE_LABELS - kept:
        return {key: value for key, value in labels.items() if key in kept or key not in UNIQUE_LABELS}
    return labels


def belongs_to_node(pod: Pod) -> bool:
    """Whether the pod belongs to the node rather than to a workload: it never claims a node for itself."""
    controller = pod.metadata.controller
    return (
        controller is not None and controller.kind == "DaemonSet"
    ) or _MIRROR_ANNOTATION in pod.metadata.annotations


def spreading_owner(pod: Pod) -> tuple[str, str, str] | None:
    """The controller whose selector tells which pods to spread from each other."""
    controller = pod.metadata.controller
    if controller is None or pod.spec.topology_spread_constraints:
        return None
    kind = (controller.api_version, controller.kind)
    return (*kind, controller.name) if kind in SPREADING_OWNERS else None
