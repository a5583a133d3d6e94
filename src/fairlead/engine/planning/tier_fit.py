"""Whether a tier's nodes would take a pod if they were empty: what its waiting says of the tier.

A pod that its own selector, volumes, affinity or size keeps out waits however many nodes a tier has. If its
waiting closed the tier, one namespace could close it for all the others. So the pod is tried, by the engine's
own rules, on empty nodes like those of the tier: the nodes that are there or, where there are none, the
templates of node groups and the last node that was seen.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.snapshot.index import discard
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.engine.snapshot.storage import Storage, claim_name, class_name
from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.node import Node, NodeSpec, NodeStatus
from fairlead.kube.pod import Affinity, NodeSelector, Pod, PodSpec, PodStatus, Volume
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.group import template_of
from fairlead.policy.names import EXCLUSIVE_LABEL
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.fallback import Blame, is_passing
from fairlead.policy.tiers.marks import Marks
from fairlead.policy.tiers.nodes import terms_of_tier, tier_of_node

_HOSTNAME = "kubernetes.io/hostname"

_Shape = tuple[object, ...]


class TierFit:
    """The kinds of nodes in one policy's tiers, and which pods an empty one would take.

    Invariant: of nodes that differ in nothing but their names, one is kept for each tier. A tier that has
    no node any more keeps the last.
    """

    def __init__(self, policy: PlacementPolicy, templates: Iterable[Node] = ()) -> None:
        self.policy = policy
        number = len(policy.spec.tiers)
        self._of: dict[str, tuple[int, _Shape]] = {}  # by node: its tier, and what it is like
        self._kinds: list[dict[_Shape, dict[str, Node]]] = [{} for _ in range(number)]
        self._last: list[Node | None] = [None] * number
        self._empty: dict[int, Ranking] = {}  # by tier, until its kinds of nodes change
        self.templates_are(templates)

    def templates_are(self, templates: Iterable[Node]) -> None:
        """The nodes that node groups would bring."""
        self._templates: list[list[Node]] = [[] for _ in self._kinds]
        for node in templates:
            tier = tier_of_node(self.policy, node.metadata.name, node.metadata.labels)
            if tier is not None:
                self._templates[tier].append(node)
        self._empty.clear()

    def may_grow(self, tier: int) -> bool:
        """Whether a node group would bring nodes to the tier."""
        return bool(self._templates[tier])

    def has_nodes(self, tier: int) -> bool:
        """Whether there is a node of the tier now, schedulable or not."""
        return bool(self._kinds[tier])

    def node(self, name: str, node: Node | None) -> None:
        """A node as it now is; None: it is gone."""
        tier = None if node is None else tier_of_node(self.policy, name, node.metadata.labels)
        shape = None if node is None or tier is None else _shape(node)
        before = self._of.pop(name, None)
        if before is not None and before != (tier, shape):
            was, kind = before
            self._last[was] = self._kinds[was][kind][name]
            discard(self._kinds[was], kind, name)
            self._empty.pop(was, None)
        if node is not None and tier is not None and shape is not None:
            self._of[name] = tier, shape
            alike = self._kinds[tier].setdefault(shape, {})
            if not alike:
                self._empty.pop(tier, None)
            alike[name] = node

    def blame(
        self, pod: Pod, tier: int, *, template: PodSpec | None = None, storage: Storage | None = None
    ) -> Blame:
        """What keeps a pod that waits for the tier, if not that the tier is full.

        `template` is what its controller makes pods of, where that is known; `storage` has the volumes of
        the cluster: without it nothing can be told of a pod that has claims.
        """
        nodes = self._nodes(tier)
        if not nodes:
            return "tier" if self._asks_for_resources_only(pod, tier, template) else "unknown"
        if not self._fits(_of_nodes(pod, self.policy, tier), tier, nodes):
            return "pod"
        whole = _planned(pod, self.policy, tier)
        claims = [name for volume in pod.spec.volumes if (name := claim_name(pod.metadata.name, volume))]
        if not claims:
            return "tier" if self._fits(whole, tier, nodes) else "unknown"
        if storage is None:
            return "unknown"
        empty = _empty(nodes)
        _copy(storage, [f"{pod.metadata.namespace}/{name}" for name in claims], empty.snapshot.storage)
        return "tier" if _takes(empty, whole) else "unknown"

    def closed_to(self, pod: Pod) -> frozenset[str]:
        """The tiers of which no node would take the pod, even an empty one; as far as nodes are there now.

        None, where that would be all of them: then a tier is not what keeps it out.
        """
        tiers = self.policy.spec.tiers
        closed = frozenset(
            tier.name
            for at, tier in enumerate(tiers)
            if self._kinds[at] and not self._fits(_of_nodes(pod, self.policy, at), at, self._nodes(at))
        )
        return closed if len(closed) < len(tiers) else frozenset()

    def _nodes(self, tier: int) -> list[Node]:
        """One node of each kind."""
        if self._kinds[tier]:
            return [next(iter(alike.values())) for alike in self._kinds[tier].values()]
        last = self._last[tier]
        return [*self._templates[tier], *([last] if last is not None else ())]

    def _fits(self, pod: Pod, tier: int, nodes: list[Node]) -> bool:
        empty = self._empty.get(tier)
        if empty is None:
            empty = self._empty[tier] = _empty(nodes)
        return _takes(empty, pod)

    def _asks_for_resources_only(self, pod: Pod, tier: int, template: PodSpec | None) -> bool:
        """Whether a pod has no wish of its own that could keep it out of a tier of which nothing is known.

        Without its controller's template, what admission adds for the tier is told by what it looks like.
        """
        spec = pod.spec
        affinity = spec.affinity or Affinity()
        own = affinity if template is None else template.affinity or Affinity()
        required = own.node_affinity.required if own.node_affinity is not None else None
        others = [
            *(affinity.pod_affinity.required if affinity.pod_affinity is not None else ()),
            *(affinity.pod_anti_affinity.required if affinity.pod_anti_affinity is not None else ()),
        ]
        if self.policy.spec.tiers[tier].exclusive:
            others = [
                term
                for term in others
                if term.label_selector is None
                or EXCLUSIVE_LABEL not in {one.key for one in term.label_selector.match_expressions}
            ]
        return not (
            # What the tier's own labels promise keeps no pod out.
            not spec.node_selector.items() <= self.policy.spec.tiers[tier].nodes.items()
            or (required is not None and required != _of_tier(self.policy, tier))
            or others
            or any(one.when_unsatisfiable == "DoNotSchedule" for one in spec.topology_spread_constraints)
            or any(volume != Volume(name=volume.name) for volume in spec.volumes)
            or any(port.host_port for each in spec.containers for port in each.ports)
            or spec.resource_claims
            or spec.workload_ref
        )


class TierFits:
    """The same for all policies that hold, given each node once."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._templates: tuple[Node, ...] = ()
        self._of: dict[str, TierFit] = {}

    def use(self, policies: Iterable[PlacementPolicy]) -> None:
        """These policies hold from now on; what was seen of unchanged tiers is remembered."""
        before, self._of = self._of, {}
        for policy in policies:
            fit = before.get(policy.name)
            if fit is None or fit.policy.spec.tiers != policy.spec.tiers:
                fit = TierFit(policy, self._templates)
                for name, node in self._nodes.items():
                    fit.node(name, node)
            fit.policy = policy
            self._of[policy.name] = fit

    def node_groups(self, groups: Iterable[NodeGroup]) -> None:
        """The node groups that an autoscaler may add nodes to."""
        self._templates = tuple(template_of(group, f"{group.name}-template") for group in groups)
        for fit in self._of.values():
            fit.templates_are(self._templates)

    def node(self, name: str, node: Node | None) -> None:
        """A node as it now is; None: it is gone."""
        if node is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = node = _trimmed(node)
        for fit in self._of.values():
            fit.node(name, node)

    def of(self, policy: str) -> TierFit | None:
        """What is known of a policy's tiers; None: not a policy that holds."""
        return self._of.get(policy)

    def closed_to(self, policy: str, pod: Pod) -> frozenset[str]:
        """See `TierFit.closed_to`; none of a policy that does not hold."""
        fit = self._of.get(policy)
        return fit.closed_to(pod) if fit is not None else frozenset()

    def steers(self, policy: str, pod: Pod, marks: Marks) -> tuple[frozenset[str], frozenset[str]]:
        """The tiers that a new pod skips, marked ones and those that could never take it, and of them those
        that take it all the same if there is room now.
        """
        marked = frozenset(tier for tier, _ in marks)
        fit = self._of.get(policy)
        if fit is None:
            return marked, frozenset()
        closed = fit.closed_to(pod)
        there = {tier.name for at, tier in enumerate(fit.policy.spec.tiers) if fit.has_nodes(at)}
        return marked | closed, (marks.crowded() & there) - closed


def _shape(node: Node) -> _Shape:
    labels = tuple(sorted(one for one in node.metadata.labels.items() if one[0] != _HOSTNAME))
    amounts = tuple(sorted((k, str(v)) for k, v in node.status.allocatable.items()))
    return labels, node.spec.taints, amounts, node.status.declared_features


def _trimmed(node: Node) -> Node:
    """What is read of a node here."""
    meta = ObjectMeta(name=node.metadata.name, labels=node.metadata.labels)
    status = NodeStatus(allocatable=node.status.allocatable, declared_features=node.status.declared_features)
    return Node(meta, NodeSpec(taints=node.spec.taints), status)


def _empty(nodes: Iterable[Node]) -> Ranking:
    """A cluster of nothing but these nodes, without what passes: cordons, and the taints of conditions."""
    empty = Snapshot()
    for node in nodes:
        taints = tuple(taint for taint in node.spec.taints if not is_passing(taint))
        try:
            empty.put_node(msgspec.structs.replace(_trimmed(node), spec=NodeSpec(taints=taints)))
        except BadObject:
            continue  # a node that cannot be counted takes no pods
    return Ranking(empty)


def _takes(empty: Ranking, pod: Pod) -> bool:
    try:
        return empty.choose(empty.snapshot.class_of(pod, exclusive=False)) >= 0
    except BadObject:
        return False


def _planned(pod: Pod, policy: PlacementPolicy, tier: int) -> Pod:
    """The pod with its tier's tolerations, free to be tried."""
    added = tuple(one for one in policy.spec.tiers[tier].tolerations if one not in pod.spec.tolerations)
    spec = msgspec.structs.replace(
        pod.spec, node_name="", scheduling_gates=(), tolerations=(*pod.spec.tolerations, *added)
    )
    return Pod(pod.metadata, spec, PodStatus())


def _of_nodes(pod: Pod, policy: PlacementPolicy, tier: int) -> Pod:
    """The pod with nothing but what is between it and a node: no other pods, no volumes."""
    planned = _planned(pod, policy, tier)
    affinity = planned.spec.affinity
    if affinity is not None:
        affinity = Affinity(node_affinity=affinity.node_affinity)
    spec = msgspec.structs.replace(
        planned.spec, affinity=affinity, topology_spread_constraints=(), volumes=()
    )
    return Pod(planned.metadata, spec, planned.status)


def _of_tier(policy: PlacementPolicy, tier: int) -> NodeSelector:
    """The node affinity that admission gives to a pod of the tier that has none."""
    return convert({"nodeSelectorTerms": list(terms_of_tier(policy, tier))}, NodeSelector)


def _copy(storage: Storage, claims: Iterable[str], into: Storage) -> None:
    """Copy claims and what they are bound to or made of."""
    for key in claims:
        claim = storage.claims.get(key)
        if claim is None:
            continue
        into.put(claim)
        volume = storage.volumes.get(claim.spec.volume_name)
        of = storage.classes.get(class_name(claim))
        for thing in (volume, of):
            if thing is not None:
                into.put(thing)
