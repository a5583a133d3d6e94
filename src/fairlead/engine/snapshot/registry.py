"""All classes and tallies in use, and which tally counts which class.

Both live as long as they are held: a class by its placed pods, a tally by its classes. Which match
is looked up once, when a class or a tally appears, by one label that they share. Where a selector demands
no label outright there is none to look by: what its tally counts, and of which pods a term with it speaks, is
found only when a pod is to be placed (`loose_terms`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator

import msgspec

from fairlead.engine.snapshot.classes import (
    OwnTerms,
    PodClass,
    belongs_to_node,
    class_key,
    kept_labels,
    spreading_owner,
)
from fairlead.engine.snapshot.counts import PodSelector, Scope, Selected, Spread, Tally
from fairlead.engine.snapshot.index import Index, once
from fairlead.engine.snapshot.loose_terms import (
    Carried,
    Deferred,
    PlacedTerms,
    PlacementLogs,
    Term,
    affinity_terms,
    is_loose,
)
from fairlead.engine.snapshot.masks import NodeMask, NodePredicate, Tolerance
from fairlead.engine.snapshot.nodes import ABSENT_ROW, PODS_ROW, NodeColumns
from fairlead.engine.snapshot.requests import Requests
from fairlead.engine.snapshot.specs import (
    HostPort,
    SpecFacts,
    encode,
    equality,
    identity,
    required_nodes,
    selector_key,
    with_keys,
)
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.pod import Affinity, Pod, TopologySpreadConstraint
from fairlead.kube.selectors import LabelSelector, check_selector, matches
from fairlead.policy.names import CAPACITY_ANNOTATION

# How many numbers (one per slot) tallies of selectors without an equality label may have in all: 32 MB. Those
# of the classes that were asked about longest ago are given up, and found again when needed.
_COUNTS_KEPT = 2**22


class Classes:
    """All classes and tallies in use.

    Invariant: for every live class and tally, the tally is in the class's `counted_by` (or
    `repelled_by`, `drawn_by`) exactly if it matches the class, and its counts are the sums of `where`
    (less `leaving` for a tally of live pods) over the classes it matches (or whose pods carry it). Of
    deferred tallies that holds once they have caught up, and no class lists them.
    """

    def __init__(self, nodes: NodeColumns, *, exclusive: bool, scheduler_names: frozenset[str]) -> None:
        self.nodes = nodes
        self.namespaces: dict[str, dict[str, str]] = {}
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
        self._classes_by_label: Index[tuple[str, str], PodClass] = Index()
        self._classes_by_namespace: Index[str, PodClass] = Index()
        self._selected_by_label: Index[tuple[str, str], Selected] = Index()
        self._carried_by_label: Index[tuple[str, str], Carried] = Index()
        self.placed_terms = PlacedTerms(nodes, self.namespaces)
        self.logs = PlacementLogs()
        self._deferred: weakref.WeakSet[Deferred] = weakref.WeakSet()
        # Classes with loose terms whose own terms were compiled, by serial, the one asked longest ago first.
        self._compiled: dict[int, weakref.ref[PodClass]] = {}

    # Finding

    def of(
        self, pod: Pod, *, exclusive: bool | None = None, pinned: bool = False, facts: SpecFacts | None = None
    ) -> PodClass:
        """The class of a pod. `pinned`: its nodeName is a demand (a pod not yet placed that names its node).

        `facts` spares looking for them again. Raises BadObject when a rule cannot make sense of the pod.
        """
        if facts is None:
            facts = self.facts(pod)
        if not facts.reads <= self._kept:
            self._split(facts.reads)
        of_node = belongs_to_node(pod)
        if exclusive is None:
            exclusive = self._exclusive or pod.metadata.annotations.get(CAPACITY_ANNOTATION) == "exclusive"
        alone = exclusive and not of_node
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
        key = identity(spec)
        found = self._facts.get(key)
        if found is None:
            found = SpecFacts(pod, spec)
            self._facts[key] = found
            self._facts_by_id[id(found.spec)] = found
        return found

    def all(self) -> Iterator[PodClass]:
        """All classes in use."""
        return iter(list(self._classes.values()))

    def in_namespace(self, namespace: str) -> list[PodClass]:
        """The classes of a namespace."""
        return self._classes_by_namespace.of(namespace)

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
            label = next(filter(None, (equality(each.selector) for each in selectors)), None)
            if label is None:
                found = Deferred(self.nodes, selectors, live_only=live_only, source=self)
                self._deferred.add(found)
            else:
                found = Selected(self.nodes, selectors, live_only=live_only)
                self._selected_by_label.add(label, found)
                for cls in self._classes_by_label.of(label):
                    if self._counts(found, cls):
                        cls.counted_by.append(found)
                        self._count(found, cls, 1)
            self._selected[key] = found
        return found

    def mask(self, predicate: NodePredicate) -> NodeMask:
        """The nodes that a predicate admits, shared by all that ask the same."""
        key = encode((predicate.labels, predicate.terms))
        return once(self._masks, key, lambda: NodeMask(self.nodes, predicate))

    # Changing

    def namespace_changed(self, name: str) -> None:
        """A namespace's labels changed: look again at the terms that select namespaces."""
        self.placed_terms.namespace_changed()
        self.logs.start_over()
        for cls in self.all():
            if cls.namespace != name:
                continue
            if cls.loose:
                self._release(cls)
            for tally in list(cls.counted_by):
                self._count(tally, cls, -1)
            self._link(cls)
            for tally in cls.counted_by:
                self._count(tally, cls, 1)

    def resources_changed(self, resources: frozenset[str], *, used: bool = False) -> None:
        """Other resources have rows than before: classes that ask for one of them are rebuilt.

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
        spec, requests = facts.spec, facts.requests
        terms, constraints = tuple(affinity_terms(pod)), tuple(_constraints(pod))
        namespace, labels = pod.metadata.namespace, kept_labels(pod, self._kept)
        carried = [(term.identity(), term) for term in terms if term.loose]
        loose = _loose(namespace, carried, constraints)
        row_amounts, tolerations = self.row_amounts(requests), spec.tolerations
        tolerance = once(self._tolerances, tolerations, lambda: Tolerance(self.nodes, tolerations))
        required = required_nodes(spec)
        node_mask = self.mask(required) if required is not None else None
        node_name = pod.spec.node_name if pinned else ""
        like = Pod(ObjectMeta(namespace=namespace, labels=labels), spec)
        self._serial += 1
        cls = PodClass(
            key=key,
            serial=self._serial,
            namespace=namespace,
            labels=labels,
            facts=facts,
            owner=spreading_owner(pod),
            owner_references=pod.metadata.owner_references,
            pod_name=pod.metadata.name,
            pod_uid=pod.metadata.uid,
            node_name=node_name,
            exclusive=exclusive,
            ours=ours,
            shared=belongs_to_node(pod),
            row_amounts=row_amounts,
            tolerance=tolerance,
            node_mask=node_mask,
            preferred_nodes=self._preferred_nodes(spec.affinity),
            ports=tuple(once(self._ports, port, lambda: Tally(self.nodes)) for port in facts.ports),
            shape=(
                row_amounts,
                requests.ranked_cpu_milli,
                requests.ranked_memory,
                tolerance,
                node_mask,
                node_name,
                facts.features,
            ),
            loose=loose,
            demands=_demands(terms, constraints),
            # Whether it could be refused outright, before nodes are looked at.
            deniable=bool(
                facts.gates
                or facts.volumes
                or spec.resource_claims
                or spec.workload_ref
                or spec.affinity
                or loose
            ),
            carries=tuple(self._carry(term) for term in terms if equality(term.target.selector) is not None),
            carriers=self.placed_terms.carriers(namespace, like, carried) if carried else None,
            placed_terms=self.placed_terms,
            compile=self._compile,
            signature=(namespace, tuple(sorted(labels.items()))),
        )
        if loose:
            cls.tallies = tuple(self._found_by_label(cls, terms, constraints))
        else:
            cls.compiled = self._own(cls, terms, constraints)
        self._link(cls)
        self._classes[key] = cls
        for label in cls.labels.items():
            self._classes_by_label.add(label, cls)
        self._classes_by_namespace.add(cls.namespace, cls)
        return cls

    def row_amounts(self, requests: Requests) -> tuple[tuple[int, int], ...]:
        """Requests, in their order, by row of the node columns; a pod also takes one of ``pods``."""
        found = []
        for name, amount in requests.amounts:
            row = self.nodes.row(name)
            # Of what is nowhere, one is too much; the amounts of thousands of them might not add up.
            found.append((row, amount if row != ABSENT_ROW else 1))
        return (*found, (PODS_ROW, 1))

    def default_spread(self, cls: PodClass, selector: LabelSelector) -> tuple[Spread, ...]:
        """The constraints by which pods of one owner spread when they say nothing themselves."""
        tally = self._spread_tally(cls.namespace, selector)
        same = matches(selector, cls.labels)
        return (
            Spread(3, "kubernetes.io/hostname", tally, 1, True, False, same),
            Spread(5, "topology.kubernetes.io/zone", tally, 1, True, False, same),
        )

    def _spread_tally(self, namespace: str, selector: LabelSelector | None) -> Selected:
        if selector is not None and selector.empty:
            selector = None  # which counts no pod, though it matches the pod itself
        scope = Scope(frozenset((namespace,)))
        return self.selected((PodSelector(scope, selector),), live_only=True)

    def _compile(self, cls: PodClass) -> OwnTerms:
        """Find the own terms of a class with loose ones, and forget those of the class asked longest ago."""
        like = Pod(ObjectMeta(cls.pod_name, cls.namespace, labels=cls.labels), cls.facts.spec)
        terms, constraints = tuple(affinity_terms(like)), tuple(_constraints(like))
        cls.compiled = self._own(cls, terms, constraints)
        self._compiled[cls.serial] = weakref.ref(cls)
        while len(self._deferred) * self.nodes.capacity > _COUNTS_KEPT and len(self._compiled) > 1:
            found = self._compiled.pop(next(iter(self._compiled)))()
            if found is not None:
                self._release(found)
        return cls.compiled

    def _release(self, cls: PodClass) -> None:
        cls.compiled = None
        cls.spread_cache.clear()
        self._compiled.pop(cls.serial, None)

    def _own(self, cls: PodClass, terms: Iterable[Term], constraints: Iterable[_Constraint]) -> OwnTerms:
        """What pods of the class demand of and prefer in others."""
        near = [term for term in terms if term.kind == "require"]
        affinity = self.selected(tuple(term.target for term in near), live_only=False) if near else None
        others = [term for term in terms if term.kind != "require"]
        aimed = [(term, self.selected((term.target,), live_only=False)) for term in others]
        labels = self.namespaces.get(cls.namespace, {})
        itself = [
            term.kind for term in terms if term.loose and term.matches(cls.namespace, labels, cls.labels)
        ]
        return OwnTerms(
            affinity,
            tuple(dict.fromkeys(term.key for term in near)),
            affinity is not None and self._counts(affinity, cls),
            tuple((tally, term.key) for term, tally in aimed if term.kind == "repel"),
            tuple((tally, term.key, term.weight) for term, tally in aimed if term.kind == "prefer"),
            self._spread(cls, constraints, "DoNotSchedule"),
            self._spread(cls, constraints, "ScheduleAnyway"),
            "repel" in itself,
            any(kind != "repel" for kind in itself),
        )

    def _found_by_label(
        self, cls: PodClass, terms: Iterable[Term], constraints: Iterable[_Constraint]
    ) -> Iterator[Selected]:
        """Those tallies of the class's own terms that are kept up to date all the time."""
        near = tuple(term.target for term in terms if term.kind == "require")
        for targets in (near, *((term.target,) for term in terms if term.kind != "require")):
            if any(equality(each.selector) is not None for each in targets):
                yield self.selected(targets, live_only=False)
        for _, selector in constraints:
            if equality(selector) is not None:
                yield self._spread_tally(cls.namespace, selector)

    def _spread(
        self, cls: PodClass, constraints: Iterable[_Constraint], when_unsatisfiable: str
    ) -> tuple[Spread, ...]:
        return tuple(
            Spread(
                constraint.max_skew,
                constraint.topology_key,
                self._spread_tally(cls.namespace, selector),
                constraint.min_domains or 1,
                constraint.node_affinity_policy == "Honor",
                constraint.node_taints_policy == "Honor",
                matches(selector, cls.labels),
            )
            for constraint, selector in constraints
            if constraint.when_unsatisfiable == when_unsatisfiable
        )

    def _carry(self, term: Term) -> Carried:
        key = (term.kind, term.key, term.weight, selector_key(term.target))
        found = self._carried.get(key)
        if found is None:
            # New, so no pod carries it yet: the first pod that does is still to be placed.
            found = self._carried[key] = Carried(self.nodes, term)
            label = equality(term.target.selector)
            assert label is not None
            self._carried_by_label.add(label, found)
            for cls in self._classes_by_label.of(label):
                if term.matches(cls.namespace, self.namespaces.get(cls.namespace, {}), cls.labels):
                    (cls.repelled_by if term.kind == "repel" else cls.drawn_by).append(found)
        return found

    def _link(self, cls: PodClass) -> None:
        labels = self.namespaces.get(cls.namespace, {})
        cls.counted_by = [
            tally for tally in self._selected_by_label.of_any(cls.labels.items()) if self._counts(tally, cls)
        ]
        own = cls.compiled
        if own is not None and own.affinity is not None:
            own.affinity_matches_self = self._counts(own.affinity, cls)
        cls.repelled_by, cls.drawn_by = [], []
        for carried in self._carried_by_label.of_any(cls.labels.items()):
            if carried.term.matches(cls.namespace, labels, cls.labels):
                (cls.repelled_by if carried.term.kind == "repel" else cls.drawn_by).append(carried)

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


# A spread constraint and its selector, narrowed to what the pod's own labels say.
_Constraint = tuple[TopologySpreadConstraint, LabelSelector | None]


def _loose(
    namespace: str, carried: Iterable[tuple[bytes, Term]], constraints: Iterable[_Constraint]
) -> tuple[bytes, ...]:
    """The terms and constraints that have a selector without an equality label."""
    own = Scope(frozenset((namespace,)))
    spread = (
        Term("spread", PodSelector(own, selector), "", 1).identity()
        for _, selector in constraints
        if selector is not None and not selector.empty and is_loose(selector)
    )
    return tuple(dict.fromkeys((*(name for name, _ in carried), *spread)))


def _demands(terms: Iterable[Term], constraints: Iterable[_Constraint]) -> frozenset[str]:
    hard = any(each.when_unsatisfiable == "DoNotSchedule" for each, _ in constraints)
    kinds = {term.kind for term in terms if term.kind != "prefer"}
    return frozenset((*kinds, "spread") if hard else kinds)


def _constraints(pod: Pod) -> Iterator[_Constraint]:
    """The pod's own spread constraints. Raises BadObject for what the API would refuse."""
    for index, constraint in enumerate(pod.spec.topology_spread_constraints):
        selector = constraint.label_selector
        field = f"spec.topologySpreadConstraints[{index}].labelSelector"
        check_selector(f"Pod {pod.metadata.key}", field, selector)
        if selector is not None:
            selector = with_keys(selector, pod.metadata.labels, constraint.match_label_keys, ())
        yield constraint, selector
