"""Affinity terms and selectors that demand no label outright, and which pods they speak of.

A term such as ``team NotIn (a)`` speaks of nearly every pod, so it cannot be found by a label that it
shares with them. Placed pods therefore only count where they are, per set of terms that they carry
(`Carriers`); which of those terms speak of a pod is found when that pod is to be placed, once per namespace
and labels (`_View`), and kept up to date from what happened since. So a pod that comes or goes costs what its
own terms are, however many others there are.

The subtle thing is the limit. Up to `TERMS_MAX` distinct such terms of placed pods in a namespace, each is
exact. With more, every required anti-affinity term among them is taken to speak of all pods in the
namespaces that it names (in every namespace, where it selects namespaces by their labels), which is the safe
side, and the preferred and required affinity among them is not counted in ranking. Which of the two it is
follows from what is placed, not from the order in which it came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol
from weakref import WeakValueDictionary

import numpy as np

from fairlead.engine.snapshot.counts import PodSelector, Selected, Tally
from fairlead.engine.snapshot.index import bump, discard, once
from fairlead.engine.snapshot.log import UNREAD, Log
from fairlead.engine.snapshot.nodes import Ints, LabelColumn, NodeColumns
from fairlead.engine.snapshot.specs import encode, equality, selector_key, target
from fairlead.kube.pod import Pod
from fairlead.kube.selectors import LabelSelector, matches

# Distinct terms without an equality label that pods of one namespace may have.
TERMS_MAX = 256

# Namespaces and labels for which is kept which terms speak of them; the one used last comes last.
_VIEWS_KEPT = 1024
_LOG_KEPT = 1024

# Namespace and labels.
Signature = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Term:
    """One affinity term of a pod over one topology.

    `kind` is ``repel`` (required anti-affinity), ``require`` (required affinity) or ``prefer`` (preferred
    either way: the sign is the weight's).
    """

    kind: str
    target: PodSelector
    key: str
    weight: int

    @property
    def loose(self) -> bool:
        """Whether its selector matches pods, but demands no label outright by which to find them."""
        return is_loose(self.target.selector)

    def identity(self) -> bytes:
        """What equal terms have in common, short: a namespace may have hundreds of thousands of them."""
        named = encode((self.kind, self.key, self.weight, selector_key(self.target)))
        return blake2b(named, digest_size=16).digest()

    def matches(self, namespace: str, namespace_labels: dict[str, str], labels: dict[str, str]) -> bool:
        """Whether the term speaks of pods with these labels in this namespace."""
        return self.target.scope.holds(namespace, namespace_labels) and matches(self.target.selector, labels)


class Carried(Tally):
    """Pods that carry one affinity term whose selector demands a label outright."""

    __slots__ = ("term",)

    def __init__(self, nodes: NodeColumns, term: Term) -> None:
        super().__init__(nodes)
        self.term = term


def is_loose(selector: LabelSelector | None) -> bool:
    """Whether a selector matches pods, but demands no label outright by which to find them.

    >>> from fairlead.kube.selectors import parse_label_selector
    >>> is_loose(parse_label_selector("team!=a")), is_loose(parse_label_selector("app=web,team!=a"))
    (True, False)
    """
    return selector is not None and equality(selector) is None


def affinity_terms(pod: Pod) -> Iterator[Term]:
    """The affinity terms of a pod: required ones first. Raises BadObject for what the API would refuse."""
    affinity = pod.spec.affinity
    near = affinity.pod_affinity if affinity else None
    apart = affinity.pod_anti_affinity if affinity else None
    for kind, held, name in (("require", near, "podAffinity"), ("repel", apart, "podAntiAffinity")):
        for index, term in enumerate(held.required if held else ()):
            aimed = target(pod, term, f"{name}.required[{index}]")
            yield Term(kind, aimed, term.topology_key, 1)
    for held, sign, name in ((near, 1, "podAffinity"), (apart, -1, "podAntiAffinity")):
        for index, weighted in enumerate(held.preferred if held else ()):
            term = weighted.pod_affinity_term
            aimed = target(pod, term, f"{name}.preferred[{index}]")
            yield Term("prefer", aimed, term.topology_key, sign * weighted.weight)


def over_limit(terms: Collection[bytes], placed: Collection[bytes], waiting: Collection[bytes] = ()) -> bool:
    """Whether terms are too many beside those of placed and of waiting pods, of which none is in both.

    Terms that are there already are not, as long as they are not more than a whole namespace may have.
    """
    new = sum(1 for each in terms if each not in placed and each not in waiting)
    return len(terms) > TERMS_MAX or (new > 0 and len(placed) + len(waiting) + new > TERMS_MAX)


class SparseTally:
    """A count per slot, of which most are zero; `version` counts changes."""

    __slots__ = ("_domains", "counts", "version")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.version = 0
        self._domains: dict[str, tuple[LabelColumn, int, int, Ints]] = {}

    @property
    def total(self) -> int:
        """How many slots have a count; weights of either sign may add up to zero."""
        return len(self.counts)

    def add(self, slot: int, amount: int) -> None:
        """Change the count of a slot."""
        bump(self.counts, slot, amount)
        self.version += 1

    def by_domain(self, column: LabelColumn) -> Ints:
        """The count per value of a label; the last item, for nodes without it, is always zero."""
        known = self._domains.get(column.key)
        if known is not None and known[0] is column and known[1:3] == (column.version, self.version):
            return known[3]
        sums = np.zeros(len(column.values) + 1, np.int64)
        number = len(self.counts)
        slots = np.fromiter(self.counts, np.intp, number)
        np.add.at(sums, column.ids[slots], np.fromiter(self.counts.values(), np.int64, number))
        sums[-1] = 0
        self._domains[column.key] = (column, column.version, self.version, sums)
        return sums


_Terms = WeakValueDictionary[bytes, Term]


class Carriers:
    """Placed pods of one namespace that carry the same loose terms: `where` counts them by slot.

    `coarse` is what they are taken to say beyond the limit: (namespace or None for all, topology key) of each
    required anti-affinity term. `like` is a pod as they are, from which the terms are read when needed.
    """

    __slots__ = ("__weakref__", "_terms", "coarse", "identities", "like", "names", "namespace", "where")

    def __init__(self, namespace: str, like: Pod, terms: Sequence[tuple[bytes, Term]]) -> None:
        self.namespace = namespace
        self.like = like
        self.identities = tuple(dict.fromkeys(each for each, _ in terms))
        self.where: dict[int, int] = {}
        self._terms: tuple[tuple[bytes, Term], ...] | None = None
        self.names = tuple(dict.fromkeys(name for _, term in terms for name in _names(term)))
        self.coarse = tuple(
            dict.fromkeys((name, t.key) for _, t in terms if t.kind == "repel" for name in _names(t))
        )

    def terms(self, known: _Terms) -> tuple[tuple[bytes, Term], ...]:
        """The terms with their identities, one that a pod has twice also twice; equal ones are one object."""
        if self._terms is None:
            found = [(term.identity(), term) for term in affinity_terms(self.like) if term.loose]
            self._terms = tuple((name, known.setdefault(name, term)) for name, term in found)
        return self._terms


class _Space:
    """What placed pods of one namespace carry. `terms`: by how many of the `groups` each is carried.

    Invariant: `log` notes which group's pods came or went; `coarse` is the sum over all groups, by namespace
    spoken of (None: all) and topology key. `mark` is the same for the same set of terms.
    """

    __slots__ = ("coarse", "groups", "log", "mark", "terms")

    def __init__(self) -> None:
        self.terms: dict[bytes, int] = {}
        self.groups: dict[Carriers, None] = {}
        self.log: Log[tuple[Carriers, int, int]] = Log(_LOG_KEPT)
        self.coarse: dict[str | None, dict[str, SparseTally]] = {}
        self.mark = 0

    def note(self, group: Carriers, slot: int, number: int) -> None:
        self.log.note((group, slot, number))
        for name, key in group.coarse:
            tallies = self.coarse.setdefault(name, {})
            tally = tallies.get(key)
            if tally is None:
                tally = tallies[key] = SparseTally()
            tally.add(slot, number)
            if not tally.counts:
                discard(self.coarse, name, key)

    def enrol(self, group: Carriers, sign: int) -> None:
        """The first pod of a group came, or its last one left."""
        if sign > 0:
            self.groups[group] = None
        else:
            del self.groups[group]
        for each in group.identities:
            known = each in self.terms
            bump(self.terms, each, sign)
            if known != (each in self.terms):
                self.mark ^= int.from_bytes(each)


# What a group says of a pod: per topology key how often it repels it, and with which weight it draws it.
_Effect = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]


class _Piece:
    """What the pods of one namespace say, term by term, of pods with one namespace and labels."""

    __slots__ = ("_effects", "_known", "_like", "_matched", "_seen", "drawing", "repelling", "space")

    def __init__(
        self, space: _Space, like: tuple[str, dict[str, str], dict[str, str]], known: _Terms
    ) -> None:
        """`like`: namespace, its labels and the labels of the pods that are spoken of."""
        self.space = space
        self._like = like
        self._known = known
        self._seen = UNREAD
        self._matched: dict[bytes, bool] = {}
        self._effects: dict[Carriers, _Effect] = {}
        self.repelling: dict[str, SparseTally] = {}
        self.drawing: dict[str, SparseTally] = {}

    def catch_up(self) -> None:
        """Bring the tallies up to date."""
        space = self.space
        missed = space.log.since(self._seen)
        if missed is None:
            self.repelling, self.drawing, self._effects = {}, {}, {}
            if len(self._matched) > 2 * TERMS_MAX:
                self._matched = {}
            missed = [(group, slot, number) for group in space.groups for slot, number in group.where.items()]
        for group, slot, number in missed:
            effect = self._effects.get(group)
            if effect is None:
                effect = self._effects[group] = self._effect(group)
            for tallies, parts in ((self.repelling, effect[0]), (self.drawing, effect[1])):
                for key, weight in parts:
                    if key not in tallies:
                        tallies[key] = SparseTally()
                    tallies[key].add(slot, weight * number)
        self._seen = space.log.mark

    def _effect(self, group: Carriers) -> _Effect:
        repels: dict[str, int] = {}
        draws: dict[str, int] = {}
        for name, term in group.terms(self._known):
            speaks = self._matched.get(name)
            if speaks is None:
                speaks = self._matched[name] = term.matches(*self._like)
            if speaks:
                parts = repels if term.kind == "repel" else draws
                parts[term.key] = parts.get(term.key, 0) + term.weight
        # A group that draws as much as it pushes away says nothing.
        return tuple(repels.items()), tuple((key, weight) for key, weight in draws.items() if weight)


@dataclass(slots=True)
class _View:
    """What placed pods say of pods with one namespace and labels, as of `version`."""

    version: tuple[int, int] = (-1, -1)
    pieces: dict[str, _Piece] = field(default_factory=dict)
    repelling: list[tuple[SparseTally, str]] = field(default_factory=list)
    drawing: list[tuple[SparseTally, str]] = field(default_factory=list)


_NOTHING = _View()


class PlacedTerms:
    """All loose terms of placed pods; see the module.

    `freed` are namespaces whose placed pods carry fewer distinct terms than before, for pods waiting for it.
    """

    def __init__(self, nodes: NodeColumns, namespaces: dict[str, dict[str, str]]) -> None:
        self.freed: dict[str, None] = {}
        self._nodes = nodes
        self._namespaces = namespaces
        self._groups: WeakValueDictionary[object, Carriers] = WeakValueDictionary()
        self._terms: _Terms = WeakValueDictionary()
        self._spaces: dict[str, _Space] = {}
        # By namespace spoken of (None: any): the namespaces whose pods do, and how many groups of them.
        self._reach: dict[str | None, dict[str, int]] = {}
        self._views: dict[Signature, _View] = {}
        self._version = 0

    def carriers(self, namespace: str, like: Pod, terms: Sequence[tuple[bytes, Term]]) -> Carriers:
        """The group of pods in a namespace that carry these terms; equal ones are one object."""
        key = (namespace, tuple(each for each, _ in terms))
        return once(self._groups, key, lambda: Carriers(namespace, like, terms))

    def count(self, group: Carriers, slot: int, number: int) -> None:
        """Pods of a group came to a slot, or (a negative number) left it."""
        self._version += 1
        space = self._spaces.get(group.namespace)
        if space is None:
            space = self._spaces[group.namespace] = _Space()
        was_there = bool(group.where)
        bump(group.where, slot, number)
        if was_there != bool(group.where):
            self._enrol(space, group, -1 if was_there else 1)
        space.note(group, slot, number)
        if not space.groups:
            del self._spaces[group.namespace]

    def terms_in(self, namespace: str) -> dict[bytes, int]:
        """The distinct terms that placed pods of a namespace carry. Not to be changed."""
        space = self._spaces.get(namespace)
        return space.terms if space is not None else {}

    def mark(self, namespace: str) -> int:
        """A number that is the same as long as the set of terms is."""
        space = self._spaces.get(namespace)
        return space.mark if space is not None else 0

    def namespace_changed(self) -> None:
        """A namespace's labels changed: terms that select by them speak of others than before."""
        self._views.clear()

    def repelling(self, signature: Signature) -> list[tuple[SparseTally, str]]:
        """Per topology key: where pods are that required anti-affinity keeps such a pod away from."""
        return self._view(signature).repelling

    def drawing(self, signature: Signature) -> list[tuple[SparseTally, str]]:
        """Per topology key: the weights by which pods would rather have such a pod near them, or not."""
        return self._view(signature).drawing

    def _enrol(self, space: _Space, group: Carriers, sign: int) -> None:
        space.enrol(group, sign)
        for name in group.names:
            reaching = self._reach.setdefault(name, {})
            bump(reaching, group.namespace, sign)
            if not reaching:
                del self._reach[name]
        if sign < 0:
            self.freed[group.namespace] = None

    def _view(self, signature: Signature) -> _View:
        if not self._reach:
            return _NOTHING
        namespace = signature[0]
        reaching = self._reach.get(namespace, {}) | self._reach.get(None, {})
        if not reaching:
            return _NOTHING
        view = self._views.pop(signature, None)
        if view is None:
            while len(self._views) >= _VIEWS_KEPT:
                del self._views[next(iter(self._views))]
            view = _View()
        self._views[signature] = view
        version = (self._version, self._nodes.version)
        if view.version != version:
            view.version = version
            view.repelling, view.drawing = [], []
            view.pieces = {name: piece for name, piece in view.pieces.items() if name in reaching}
            for name in reaching:
                self._look(view, name, signature)
        return view

    def _look(self, view: _View, carriers: str, signature: Signature) -> None:
        """Find what the pods of one namespace say."""
        space, namespace = self._spaces[carriers], signature[0]
        if len(space.terms) > TERMS_MAX:
            view.pieces.pop(carriers, None)
            for name in (namespace, None):
                tallies = space.coarse.get(name, {})
                view.repelling += [(tallies[key], key) for key in self._nodes.keys_among(tallies)]
            return
        piece = view.pieces.get(carriers)
        if piece is None or piece.space is not space:  # one that was empty for a while is another
            like = (namespace, self._namespaces.get(namespace, {}), dict(signature[1]))
            piece = view.pieces[carriers] = _Piece(space, like, self._terms)
        piece.catch_up()
        view.repelling += [(tally, key) for key, tally in piece.repelling.items() if tally.counts]
        view.drawing += [(tally, key) for key, tally in piece.drawing.items() if tally.counts]


def _names(term: Term) -> tuple[str | None, ...]:
    """The namespaces that a term names; None: it selects by labels, so any."""
    scope = term.target.scope
    return (None,) if scope.selector is not None else tuple(sorted(scope.names))


class Counted(Protocol):
    """What is read of a class here: `PodClass`."""

    namespace: str
    labels: dict[str, str]
    serial: int
    where: dict[int, int]
    leaving: dict[int, int]


# What was placed and taken away: (class, slot, number, how many of them are being deleted).
_Placing = tuple[Counted, int, int, int]


class PlacementLogs:
    """One log per namespace that some tally looks at, and one of all namespaces; kept while they are read."""

    def __init__(self) -> None:
        self._logs: WeakValueDictionary[str | None, Log[_Placing]] = WeakValueDictionary()

    def of(self, namespace: str | None) -> Log[_Placing]:
        """The log of a namespace, or (None) of all."""
        return once(self._logs, namespace, lambda: Log(_LOG_KEPT))

    def note(self, cls: Counted, slot: int, number: int, leaving: int) -> None:
        """Pods of a class came to a slot, or left it."""
        if not self._logs:
            return
        for log in (self._logs.get(cls.namespace), self._logs.get(None)):
            if log is not None:
                log.note((cls, slot, number, leaving))

    def start_over(self) -> None:
        """A namespace's labels changed: tallies that select by them count from scratch."""
        for log in list(self._logs.values()):
            log.start_over()


class Source(Protocol):
    """Where a deferred tally finds classes: `Classes`."""

    namespaces: dict[str, dict[str, str]]
    logs: PlacementLogs

    def in_namespace(self, namespace: str) -> Iterable[Counted]:
        """The classes of a namespace."""

    def all(self) -> Iterator[Counted]:
        """All classes."""


class Deferred(Selected):
    """Pods that all of the selectors match, as of the last `catch_up`: counted when read, not when they come.

    What a selector without an equality label counts is nearly every pod of its namespaces: to keep a hundred
    such tallies up to date would cost every pod event a hundred changes. Placements are written to a log
    instead, per namespace that is looked at, and a tally catches up with it before it is read.

    Invariant: after it, the counts are the sums of `where` (less `leaving` for a tally of live pods) over the
    classes that it matches.
    """

    __slots__ = ("_log", "_matched", "_name", "_seen", "_source")

    def __init__(
        self, nodes: NodeColumns, selectors: tuple[PodSelector, ...], *, live_only: bool, source: Source
    ) -> None:
        super().__init__(nodes, selectors, live_only=live_only)
        self._source = source
        self._name = _only_name(selectors)
        self._log = source.logs.of(self._name)
        self._seen = UNREAD
        self._matched: dict[int, bool] = {}  # by the classes' serials

    def counts_class(self, cls: Counted) -> bool:
        """Whether it counts the pods of a class."""
        found = self._matched.get(cls.serial)
        if found is None:
            labels = self._source.namespaces.get(cls.namespace, {})
            found = self._matched[cls.serial] = self.matches(cls.namespace, labels, cls.labels)
        return found

    def catch_up(self) -> None:
        """Count what happened since this was last read."""
        missed = self._log.since(self._seen)
        if missed is None:
            self._count_all()
        for cls, slot, number, leaving in missed or ():
            counted = number - leaving if self.live_only else number
            if counted and self.counts_class(cls):
                self.add(slot, counted)
        self._seen = self._log.mark

    def _count_all(self) -> None:
        self._matched.clear()
        self.clear()
        source = self._source
        counts = self.counts
        for cls in source.in_namespace(self._name) if self._name is not None else source.all():
            if cls.where and self.counts_class(cls):
                for slot, number in cls.where.items():
                    counted = number - (cls.leaving.get(slot, 0) if self.live_only else 0)
                    counts[slot] += counted
                    self.total += counted


def _only_name(selectors: tuple[PodSelector, ...]) -> str | None:
    """The one namespace that can hold what all selectors match, None where there may be several."""
    for each in selectors:
        if each.scope.selector is None and len(each.scope.names) == 1:
            return next(iter(each.scope.names))
    return None
