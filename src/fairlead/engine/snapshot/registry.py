"""All classes and tallies in use, and who counts whom.

Both live as long as somebody holds them: a placed pod its class, a class its tallies. Who matches whom
is looked up once, when a class or a tally appears, by one label that they share.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from fairlead.engine.classes import (
    PodClass,
    belongs_to_node,
    class_key,
    kept_labels,
    spreading_owner,
)
from fairlead.engine.requests import Requests
from fairlead.engine.snapshot.counts import Carried, PodSelector, Scope, Selected, Spread, Tally
from fairlead.engine.snapshot.index import LabelIndex
from fairlead.engine.snapshot.masks import NodeMask, NodePredicate
from fairlead.engine.snapshot.nodes import ABSENT_ROW, PODS_ROW, NodeColumns
from fairlead.engine.snapshot.specs import (
    HostPort,
    SpecFacts,
    encode,
    equality,
    required_nodes,
    selector_key,
    target,
    with_keys,
)
from fairlead.engine.snapshot.taints import Tolerance
from fairlead.kube.pod import Affinity, Pod
from fairlead.kube.selectors import LabelSelector, check_selector, matches
from fairlead.kube.tolerations import Toleration
from fairlead.policy.names import CAPACITY_ANNOTATION

__all__ = ["Classes"]


class Classes:
    """All classes and tallies in use.

    Invariant: for every live class and tally, the tally is in the class's `counted_by` (or
    `repelled_by`, `drawn_by`) exactly if it matches the class, and its counts are the sums of `where`
    (less `leaving` for a tally of live pods) over the classes it matches (or whose pods carry it).
    """

    def __init__(
        self,
        nodes: NodeColumns,
        namespaces: dict[str, dict[str, str]],
        *,
        exclusive: bool = False,
        scheduler_names: frozenset[str] = frozenset(("fairlead",)),
    ) -> None:
        self.nodes = nodes
        self.namespaces = namespaces
        self.on_split: Callable[[], None] = lambda: None
        self._exclusive = exclusive
        self._scheduler_names = scheduler_names
        self._kept: frozenset[str] = frozenset()
        self._serial = 0
        self._classes: weakref.WeakValueDictionary[object, PodClass] = weakref.WeakValueDictionary()
        self._facts: weakref.WeakValueDictionary[object, SpecFacts] = weakref.WeakValueDictionary()
        self._facts_by_id: weakref.WeakValueDictionary[int, SpecFacts] = weakref.WeakValueDictionary()
        self._masks: weakref.WeakValueDictionary[bytes, NodeMask] = weakref.WeakValueDictionary()
        self._tolerances: weakref.WeakValueDictionary[object, Tolerance] = weakref.WeakValueDictionary()
        self._ports: weakref.WeakValueDictionary[HostPort, Tally] = weakref.WeakValueDictionary()
        self._selected: weakref.WeakValueDictionary[object, Selected] = weakref.WeakValueDictionary()
        self._carried: weakref.WeakValueDictionary[object, Carried] = weakref.WeakValueDictionary()
        self._classes_by_label: LabelIndex[PodClass] = LabelIndex()
        self._selected_by_label: LabelIndex[Selected] = LabelIndex()
        self._carried_by_label: LabelIndex[Carried] = LabelIndex()

    # Finding

    def of(
        self,
        pod: Pod,
        *,
        exclusive: bool | None = None,
        pinned: bool = False,
        facts: SpecFacts | None = None,
    ) -> PodClass:
        """The class of a pod. `pinned`: its nodeName is a demand (a pod not yet placed that names its node).

        `facts` spares looking for them again. Raises BadObject when a rule cannot make sense of the pod.
        """
        if facts is None:
            facts = self.facts(pod)
        if not facts.reads <= self._kept:
            self._split(facts.reads)
        of_node = belongs_to_node(pod)
        alone = not of_node and (self._is_exclusive(pod) if exclusive is None else exclusive)
        ours = not of_node and pod.spec.scheduler_name in self._scheduler_names
        key = class_key(pod, facts, self._kept, exclusive=alone, ours=ours, of_node=of_node, pinned=pinned)
        found = self._classes.get(key)
        return found if found is not None else self._make(key, pod, facts, alone, ours, pinned=pinned)

    def facts(self, pod: Pod) -> SpecFacts:
        """What the rules read of the pod's spec, and the one spec object that equal specs share."""
        found = self._facts_by_id.get(id(pod.spec))
        if found is not None and found.spec is pod.spec:
            return found
        spec = msgspec.structs.replace(pod.spec, node_name="") if pod.spec.node_name else pod.spec
        key = encode(spec)
        found = self._facts.get(key)
        if found is None:
            found = SpecFacts(pod, spec)
            self._facts[key] = found
            self._facts_by_id[id(found.spec)] = found
        return found

    def all(self) -> Iterator[PodClass]:
        """All classes in use."""
        return iter(list(self._classes.values()))

    def port_users(self, port: HostPort) -> list[Tally]:
        """The tallies of ports that clash with this one: either is on all addresses, or both on the same."""
        return [
            tally
            for held, tally in list(self._ports.items())
            if held.protocol == port.protocol
            and held.port == port.port
            and (not port.address or not held.address or held.address == port.address)
        ]

    def selected(self, selectors: tuple[PodSelector, ...], *, live_only: bool) -> Selected:
        """The tally of the pods that all selectors match; made and filled when first asked for."""
        key = (live_only, *(selector_key(selector) for selector in selectors))
        found = self._selected.get(key)
        if found is None:
            found = self._selected[key] = Selected(self.nodes, selectors, live_only=live_only)
            label = next(filter(None, (equality(each.selector) for each in selectors)), None)
            self._selected_by_label.add(label, found)
            for cls in self._classes_by_label.of(label):
                if self._counts(found, cls):
                    cls.counted_by.append(found)
                    self._count(found, cls, 1)
        return found

    def mask(self, predicate: NodePredicate) -> NodeMask:
        """The nodes that a predicate admits, shared by all who ask the same."""
        key = encode((predicate.labels, predicate.terms))
        found = self._masks.get(key)
        if found is None:
            found = self._masks[key] = NodeMask(self.nodes, predicate)
        return found

    # Changing

    def namespace_changed(self, name: str) -> None:
        """A namespace's labels changed: look again at the terms that select namespaces."""
        for cls in self.all():
            if cls.namespace != name:
                continue
            for tally in list(cls.counted_by):
                self._count(tally, cls, -1)
            self._link(cls)
            for tally in cls.counted_by:
                self._count(tally, cls, 1)

    def resources_changed(self, resources: frozenset[str], *, used: bool = False) -> None:
        """Other resources have rows than before: classes that ask for one of them are made anew.

        `used`: some pod is known to take of one of them.
        """
        if used or any(name in resources for cls in self.all() for name, _ in cls.requests.amounts):
            self._remake()

    def _split(self, keys: frozenset[str]) -> None:
        self._kept |= keys
        self._remake()

    def _remake(self) -> None:
        for cls in self.all():
            cls.live = False
            self._classes.pop(cls.key, None)
        self.on_split()

    def _make(
        self, key: object, pod: Pod, facts: SpecFacts, exclusive: bool, ours: bool, *, pinned: bool
    ) -> PodClass:
        spec = facts.spec
        cls = PodClass()
        cls.key = key
        self._serial += 1
        cls.serial = self._serial
        cls.namespace = pod.metadata.namespace
        cls.labels = kept_labels(pod, self._kept)
        cls.facts = facts
        cls.live = True
        # Whether it could be refused outright, before nodes are looked at.
        cls.deniable = bool(facts.gates or facts.volumes or spec.resource_claims or spec.affinity)
        cls.where, cls.leaving = {}, {}
        cls.exclusive, cls.ours, cls.shared = exclusive, ours, belongs_to_node(pod)
        cls.owner = spreading_owner(pod)
        cls.owner_references = pod.metadata.owner_references
        cls.pod_name, cls.pod_uid = pod.metadata.name, pod.metadata.uid
        cls.node_name = pod.spec.node_name if pinned else ""
        cls.row_amounts = self.row_amounts(facts.requests)
        cls.amounts = np.array([amount for _, amount in cls.row_amounts], np.int64)
        cls.tolerance = self._tolerance(spec.tolerations)
        cls.ports = tuple(self._port(port) for port in facts.ports)
        required = required_nodes(spec)
        cls.node_mask = self.mask(required) if required is not None else None
        cls.preferred_nodes = self._preferred_nodes(spec.affinity)
        cls.spread = self.spread_of(pod, "DoNotSchedule")
        cls.spread_cache = {}
        cls.soft, cls.soft_version = self.spread_of(pod, "ScheduleAnyway"), -1
        cls.own_constraints = bool(spec.topology_spread_constraints)
        requests = facts.requests
        cls.shape = (
            cls.row_amounts,
            requests.ranked_cpu_milli,
            requests.ranked_memory,
            cls.tolerance,
            cls.node_mask,
            cls.node_name,
            facts.features,
        )
        self._terms(cls, pod, spec.affinity)
        self._link(cls)
        self._classes[key] = cls
        for label in (None, *cls.labels.items()):
            self._classes_by_label.add(label, cls)
        return cls

    def row_amounts(self, requests: Requests) -> tuple[tuple[int, int], ...]:
        """Requests, in their order, by row of the node columns; a pod also takes one of ``pods``."""
        found = []
        for name, amount in requests.amounts:
            row = self.nodes.row(name)
            # Of what is nowhere, one is too much; the amounts of thousands of them might not add up.
            found.append((row, amount if row != ABSENT_ROW else 1))
        return (*found, (PODS_ROW, 1))

    def spread_of(self, pod: Pod, when_unsatisfiable: str) -> tuple[Spread, ...]:
        """The pod's own spread constraints of one kind."""
        found = []
        for index, constraint in enumerate(pod.spec.topology_spread_constraints):
            if constraint.when_unsatisfiable != when_unsatisfiable:
                continue
            field = f"spec.topologySpreadConstraints[{index}]"
            selector = constraint.label_selector
            check_selector(f"Pod {pod.metadata.key}", f"{field}.labelSelector", selector)
            if selector is not None:
                selector = with_keys(selector, pod.metadata.labels, constraint.match_label_keys, ())
            found.append(
                Spread(
                    constraint.max_skew,
                    constraint.topology_key,
                    self._spread_tally(pod.metadata.namespace, selector),
                    constraint.min_domains or 1,
                    constraint.node_affinity_policy == "Honor",
                    constraint.node_taints_policy == "Honor",
                    matches(selector, pod.metadata.labels),
                )
            )
        return tuple(found)

    def default_spread(self, cls: PodClass, selector: LabelSelector) -> tuple[Spread, ...]:
        """The constraints by which pods of one owner spread when they say nothing themselves."""
        tally = self._spread_tally(cls.namespace, selector)
        same = matches(selector, cls.labels)
        return (
            Spread(3, "kubernetes.io/hostname", tally, 1, True, False, same),
            Spread(5, "topology.kubernetes.io/zone", tally, 1, True, False, same),
        )

    def _spread_tally(self, namespace: str, selector: LabelSelector | None) -> Selected | None:
        if selector is not None and selector.empty:
            return None
        scope = Scope(frozenset((namespace,)))
        return self.selected((PodSelector(scope, selector),), live_only=True)

    def _terms(self, cls: PodClass, pod: Pod, affinity: Affinity | None) -> None:
        near = affinity.pod_affinity if affinity else None
        apart = affinity.pod_anti_affinity if affinity else None
        carries: list[Carried] = []
        cls.affinity, cls.affinity_keys, cls.affinity_matches_self = None, (), False
        preferred: list[tuple[Selected, str, int]] = []
        if near is not None and near.required:
            targets = tuple(
                target(pod, term, f"podAffinity.required[{i}]") for i, term in enumerate(near.required)
            )
            cls.affinity = self.selected(targets, live_only=False)
            cls.affinity_keys = tuple(dict.fromkeys(term.topology_key for term in near.required))
            for aimed, term in zip(targets, near.required, strict=True):
                carries.append(self._carry("require", aimed, term.topology_key, 1))
        anti: list[tuple[Selected, str]] = []
        if apart is not None:
            for index, term in enumerate(apart.required):
                aimed = target(pod, term, f"podAntiAffinity.required[{index}]")
                anti.append((self.selected((aimed,), live_only=False), term.topology_key))
                carries.append(self._carry("repel", aimed, term.topology_key, 1))
        for terms, sign, name in (
            (near.preferred if near else (), 1, "podAffinity"),
            (apart.preferred if apart else (), -1, "podAntiAffinity"),
        ):
            for index, weighted in enumerate(terms):
                term = weighted.pod_affinity_term
                aimed = target(pod, term, f"{name}.preferred[{index}]")
                weight = sign * weighted.weight
                preferred.append((self.selected((aimed,), live_only=False), term.topology_key, weight))
                carries.append(self._carry("prefer", aimed, term.topology_key, weight))
        cls.anti = tuple(anti)
        cls.preferred = tuple(preferred)
        cls.carries = tuple(carries)

    def _carry(self, kind: str, aimed: PodSelector, key: str, weight: int) -> Carried:
        identity = (kind, key, weight, selector_key(aimed))
        found = self._carried.get(identity)
        if found is None:
            # New, so nobody carries it yet: the first pod that does is still to be placed.
            found = self._carried[identity] = Carried(self.nodes, kind, aimed, key, weight)
            label = equality(aimed.selector)
            self._carried_by_label.add(label, found)
            for cls in self._classes_by_label.of(label):
                if found.matches(cls.namespace, self.namespaces.get(cls.namespace, {}), cls.labels):
                    (cls.repelled_by if kind == "repel" else cls.drawn_by).append(found)
        return found

    def _link(self, cls: PodClass) -> None:
        labels = self.namespaces.get(cls.namespace, {})
        cls.counted_by = [
            tally
            for tally in self._selected_by_label.touching(cls.labels.items())
            if self._counts(tally, cls)
        ]
        if cls.affinity is not None:
            cls.affinity_matches_self = self._counts(cls.affinity, cls)
        cls.repelled_by, cls.drawn_by = [], []
        for carried in self._carried_by_label.touching(cls.labels.items()):
            if carried.matches(cls.namespace, labels, cls.labels):
                (cls.repelled_by if carried.kind == "repel" else cls.drawn_by).append(carried)

    def _counts(self, tally: Selected, cls: PodClass) -> bool:
        return tally.matches(cls.namespace, self.namespaces.get(cls.namespace, {}), cls.labels)

    @staticmethod
    def _count(tally: Selected, cls: PodClass, sign: int) -> None:
        for slot, number in cls.where.items():
            alive = number - (cls.leaving.get(slot, 0) if tally.live_only else 0)
            if alive:
                tally.add(slot, sign * alive)

    def _preferred_nodes(self, affinity: Affinity | None) -> tuple[tuple[NodeMask, int], ...]:
        if affinity is None or affinity.node_affinity is None:
            return ()
        return tuple(
            (self.mask(NodePredicate((), (preferred.preference,))), preferred.weight)
            for preferred in affinity.node_affinity.preferred
            if preferred.weight
        )

    def _tolerance(self, tolerations: tuple[Toleration, ...]) -> Tolerance:
        found = self._tolerances.get(tolerations)
        if found is None:
            found = self._tolerances[tolerations] = Tolerance(self.nodes, tolerations)
        return found

    def _port(self, port: HostPort) -> Tally:
        found = self._ports.get(port)
        if found is None:
            found = self._ports[port] = Tally(self.nodes)
        return found

    def _is_exclusive(self, pod: Pod) -> bool:
        return self._exclusive or pod.metadata.annotations.get(CAPACITY_ANNOTATION) == "exclusive"
