"""Which waiting units are tried while their namespace has too many loose terms.

Loose terms (see `snapshot.loose_terms`) are compared with every pod, so a namespace may have only N
distinct ones, those of its waiting pods included. Units are admitted in order, each if its terms fit beside
those of placed pods and of the units admitted before it; the others are set aside: they stand in no line,
cost nothing, and are looked at again when terms are freed. Units without such terms never come here.

The subtle thing is when to look again at those set aside. Units that come and pods that are placed only leave
less for them; so they are looked at when terms are gone, or when an admitted unit gives way to one before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fairlead.engine.planning.units import Rank, Unit
from fairlead.engine.snapshot.index import bump
from fairlead.engine.snapshot.loose_terms import PlacedTerms, over_limit


@dataclass(slots=True, eq=False)
class _Waiting:
    unit: Unit
    namespace: str
    terms: tuple[bytes, ...]
    said: bool | None = None  # whether it was told that it may stand in line


@dataclass(slots=True, eq=False)
class _Namespace:
    """The waiting units of one namespace, by id. `terms` counts the admitted units that have each term.

    `mark` tells which terms were placed when it was last looked at.
    """

    admitted: dict[str, _Waiting] = field(default_factory=dict)
    aside: dict[str, _Waiting] = field(default_factory=dict)
    new: dict[str, _Waiting] = field(default_factory=dict)
    terms: dict[bytes, int] = field(default_factory=dict)
    mark: int = 0
    freed: bool = False


class TermLimit:
    """See the module. Invariant: the terms of admitted units and of placed pods are not too many together.

    A namespace that has too many by pods of other schedulers admits units that add none.
    """

    def __init__(self, placed: PlacedTerms) -> None:
        self._placed = placed
        self._namespaces: dict[str, _Namespace] = {}
        self._of: dict[str, str] = {}  # unit id → namespace
        self._changed: dict[str, None] = {}

    def admits(self, unit: Unit, namespace: str, terms: tuple[bytes, ...]) -> bool:
        """Whether a unit may stand in line now; where its terms are too many, the next `settle` decides."""
        if not terms:
            self.drop(unit.id)
            return True
        held = self._namespaces.get(namespace)
        one = (held.admitted.get(unit.id) or held.aside.get(unit.id)) if held is not None else None
        if one is not None and (one.terms, one.unit.rank) == (terms, unit.rank):
            one.unit = unit
            return held is not None and unit.id in held.admitted
        self.drop(unit.id)
        self._of[unit.id] = namespace
        held = self._namespaces.setdefault(namespace, _Namespace())
        one = _Waiting(unit, namespace, terms)
        placed = self._placed.terms_in(namespace)
        if over_limit(terms, placed, self._waiting(held, placed)):
            held.new[unit.id] = one
            self._changed[namespace] = None
            return False
        one.said = True
        self._admit(held, one)
        return True

    def drop(self, unit_id: str) -> None:
        """A unit does not wait any more."""
        namespace = self._of.pop(unit_id, None)
        if namespace is None:
            return
        held = self._namespaces[namespace]
        held.aside.pop(unit_id, None)
        held.new.pop(unit_id, None)
        gone = held.admitted.pop(unit_id, None)
        if gone is not None:
            self._leave(held, gone)
        if not held.admitted and not held.aside and not held.new:
            del self._namespaces[namespace]
            self._changed.pop(namespace, None)

    def settle(self) -> list[tuple[Unit, bool]]:
        """The units for which it was decided, or has changed, whether they may stand in line."""
        for namespace in self._placed.freed:
            held = self._namespaces.get(namespace)
            # What was tried out and taken back leaves the same terms as before.
            if held is not None and held.aside and held.mark != self._placed.mark(namespace):
                held.freed = True
                self._changed[namespace] = None
        self._placed.freed.clear()
        changed, self._changed = self._changed, {}
        return [one for namespace in changed for one in self._settle(namespace, self._namespaces[namespace])]

    def _settle(self, namespace: str, held: _Namespace) -> Iterator[tuple[Unit, bool]]:
        placed = self._placed.terms_in(namespace)
        looked_at, held.new = sorted(held.new.values(), key=_rank), {}
        waiting = self._waiting(held, placed)
        gives_way = False
        for each in looked_at:
            if not self._decide(held, each, placed, waiting):
                gives_way = gives_way or any(
                    _rank(other) > _rank(each) and not all(term in placed for term in other.terms)
                    for other in held.admitted.values()
                )
        if held.aside and (held.freed or gives_way):
            looked_at = sorted((*held.admitted.values(), *held.aside.values()), key=_rank)
            held.admitted, held.aside, held.terms, waiting = {}, {}, {}, {}
            for each in looked_at:
                self._decide(held, each, placed, waiting)
        held.mark, held.freed = self._placed.mark(namespace), False
        for each in looked_at:
            admitted = each.unit.id in held.admitted
            if each.said != admitted:
                each.said = admitted
                yield each.unit, admitted

    @staticmethod
    def _decide(
        held: _Namespace, each: _Waiting, placed: dict[bytes, int], waiting: dict[bytes, None]
    ) -> bool:
        """Admit a unit, or set it aside. `waiting`: terms of those admitted before, but for `placed` ones."""
        if over_limit(each.terms, placed, waiting):
            held.aside[each.unit.id] = each
            return False
        TermLimit._admit(held, each)
        waiting.update((term, None) for term in each.terms if term not in placed)
        return True

    @staticmethod
    def _admit(held: _Namespace, each: _Waiting) -> None:
        held.admitted[each.unit.id] = each
        for term in each.terms:
            bump(held.terms, term, 1)

    @staticmethod
    def _waiting(held: _Namespace, placed: dict[bytes, int]) -> dict[bytes, None]:
        """The terms of admitted units that no placed pod has."""
        return {term: None for term in held.terms if term not in placed}

    def _leave(self, held: _Namespace, waiting: _Waiting) -> None:
        """An admitted unit is gone: where it was not placed, there is room for others' terms."""
        placed = self._placed.terms_in(waiting.namespace)
        for term in waiting.terms:
            bump(held.terms, term, -1)
            if term not in held.terms and term not in placed:
                held.freed = True
        if held.freed and held.aside:
            self._changed[waiting.namespace] = None


def _rank(waiting: _Waiting) -> Rank:
    return waiting.unit.rank
