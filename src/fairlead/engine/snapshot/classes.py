"""Classes: pods that no rule can tell apart, and the one function that says so.

A class is found by `class_key`. What the rules read is compiled once per class; what changes as pods
come and go (`where` its pods are, which tallies count them) is kept on it, so that a pod's event costs
what its class touches. They are made and linked in `snapshot.registry`.

The subtle thing: labels that are unique per pod by construction (an ordinal, say) are left out of the
key, or every pod would be a class of its own, *unless* some selector reads them. When the first such
selector appears, the classes are split: those with `live` unset must be asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fairlead.engine.snapshot.counts import Selected, Spread, SpreadCounts, Tally
from fairlead.engine.snapshot.loose_terms import Carried, Carriers, Deferred, PlacedTerms, SparseTally
from fairlead.engine.snapshot.masks import NodeMask, Tolerance
from fairlead.engine.snapshot.requests import Requests
from fairlead.engine.snapshot.specs import UNIQUE_LABELS, SpecFacts
from fairlead.kube.meta import OwnerReference
from fairlead.kube.pod import Pod

_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"

# Controllers whose pods ranking spreads by their selector, as (apiVersion, kind).
SPREADING_OWNERS = (("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController"))


@dataclass(slots=True, eq=False)
class OwnTerms:
    """What pods of a class demand of and prefer in other pods: needed only while some of them wait.

    `affinity` are the pods that they must be near, over each of `affinity_keys`; `affinity_matches_self`:
    their own class is among those. `anti` are the pods that they must not be near, `preferred` those that
    they would rather be near, each over which topology. `spread` are the spread constraints that must hold,
    `soft` those that need not. `repels_itself`, `draws_itself`: whether a loose term of the class, once one
    of its pods is placed, speaks of the others.
    """

    affinity: Selected | None
    affinity_keys: tuple[str, ...]
    affinity_matches_self: bool
    anti: tuple[tuple[Selected, str], ...]
    preferred: tuple[tuple[Selected, str, int], ...]
    spread: tuple[Spread, ...]
    soft: tuple[Spread, ...]
    repels_itself: bool
    draws_itself: bool


@dataclass(slots=True, eq=False, weakref_slot=True)
class PodClass:
    """A class. Everything here is for reading; `Classes` and the snapshot keep it up to date.

    `where` counts the class's placed pods by slot, `leaving` those among them that are being deleted.
    `counted_by` are the tallies its pods count in, `carries` the terms its pods bring along,
    `repelled_by` and `drawn_by` the terms of others that speak of its pods. `shape` is all that nodes
    themselves and their resources are asked for.

    `demands` are the kinds of demands that its pods make on other pods (``require``, ``repel``, ``spread``);
    to ask for them does not need the terms themselves.

    Loose terms, whose selector demands no label outright, are in none of these: `loose` names those of its
    pods, `carriers` counts its pods among those that carry the same, `tallies` keeps what its other terms
    read, and `repelling` and `drawing` include the loose terms of other pods that speak of its pods.
    """

    key: object
    serial: int
    namespace: str
    labels: dict[str, str]
    facts: SpecFacts
    owner: tuple[str, str, str] | None
    owner_references: tuple[OwnerReference, ...]
    pod_name: str
    pod_uid: str
    node_name: str
    exclusive: bool
    ours: bool
    shared: bool
    row_amounts: tuple[tuple[int, int], ...]
    tolerance: Tolerance
    node_mask: NodeMask | None
    preferred_nodes: tuple[tuple[NodeMask, int], ...]
    ports: tuple[Tally, ...]
    shape: tuple[object, ...]
    loose: tuple[bytes, ...]
    demands: frozenset[str]
    deniable: bool
    carries: tuple[Carried, ...]
    carriers: Carriers | None
    placed_terms: PlacedTerms
    compile: Callable[[PodClass], OwnTerms]
    signature: tuple[str, tuple[tuple[str, str], ...]]
    compiled: OwnTerms | None = None
    tallies: tuple[Selected, ...] = ()
    live: bool = True
    where: dict[int, int] = field(default_factory=dict)
    leaving: dict[int, int] = field(default_factory=dict)
    counted_by: list[Selected] = field(default_factory=list)
    repelled_by: list[Carried] = field(default_factory=list)
    drawn_by: list[Carried] = field(default_factory=list)
    spread_cache: dict[Spread, SpreadCounts] = field(default_factory=dict)
    soft: tuple[Spread, ...] = ()
    soft_version: int = -1

    @property
    def requests(self) -> Requests:
        """What each pod of the class asks for."""
        return self.facts.requests

    @property
    def own(self) -> OwnTerms:
        """What its pods demand of and prefer in other pods; where `loose`, found when first asked for."""
        return self.compiled if self.compiled is not None else self.compile(self)

    def repelling(self) -> list[tuple[Tally | SparseTally, str]]:
        """Where pods are whose required anti-affinity speaks of its pods, and over which topology."""
        found: list[tuple[Tally | SparseTally, str]] = [(each, each.term.key) for each in self.repelled_by]
        found += self.placed_terms.repelling(self.signature)
        return found

    def drawing(self) -> list[tuple[Tally | SparseTally, str, int]]:
        """Where pods are whose affinity, preferred or required, speaks of its pods; the weight comes last."""
        found: list[tuple[Tally | SparseTally, str, int]] = [
            (each, each.term.key, each.term.weight) for each in self.drawn_by
        ]
        found += [(tally, key, 1) for tally, key in self.placed_terms.drawing(self.signature)]
        return found

    def is_counted_by(self, tally: Selected) -> bool:
        """Whether a tally counts its pods."""
        return tally.counts_class(self) if isinstance(tally, Deferred) else tally in self.counted_by


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
