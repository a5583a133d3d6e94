"""Preemption for one pod: the node whose victims cost least.

Candidates are kube-scheduler's: nodes on which the pod fits once *all* pods of lower priority there
are gone; victims are only there, but for the rest of a gang that falls below its minimum. Among these
the optimum is sought, over all nodes, where kube-scheduler samples.

The subtle thing is speed: for each (class, priority) the best set per node is remembered and only the
nodes in the room's log are looked at again, so 5,000 preemptors on 5,000 full nodes cost 5,000 changes,
not 25 million searches. A class whose rules look beyond the node is searched anew each time.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairlead.engine import rules
from fairlead.engine.budgets import Budgets
from fairlead.engine.classes import PodClass
from fairlead.engine.gangs import Gangs
from fairlead.engine.priority import UNTOUCHABLE, may_be_victim
from fairlead.engine.room import Room
from fairlead.engine.snapshot.nodes import PODS_ROW, Bools, Ints
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.steps import Steps, finish
from fairlead.engine.victims import (
    EXACT_LIMIT,
    Cost,
    Victim,
    cheapest,
    cheapest_bundles,
    cheapest_by_amounts,
    cost_of,
    importance,
)

__all__ = ["Offer", "Preemption", "looks_beyond_node"]

_NEVER_STARTED = float("inf")

# Less than any offer costs.
_FREE: Cost = (0, -(2**31), 0, 0, 0, -_NEVER_STARTED)

# How many (class, priority) pairs are remembered; the least recently used goes first.
_TABLES = 64

# The work of looking for victims on one node: by amounts, or by thinking them away.
_LOOK, _THOUGHT_AWAY = 5, 10


@dataclass(frozen=True, slots=True)
class Offer:
    """A node and who leaves it, most important first."""

    slot: int
    cost: Cost
    victims: tuple[Victim, ...]


@dataclass(slots=True)
class _Entry:
    """What is known of a slot: an exact offer, or only a cost below which no offer there can be.

    `offer` None with `exact`: nothing there helps. `stamp` is the budgets' version of an exact offer
    that hangs on them, -1 of one that does not. `bound` is kept to fall back to.
    """

    serial: int
    exact: bool
    offer: Offer | None
    bound: Cost
    stamp: int


@dataclass(slots=True)
class _Table:
    """Answers for one (class, priority).

    Invariant: for every slot not in log[read:], its entry is right, or a bound, or an exact offer that
    budgets have only shrunk under since; so the least in the heap that is exact and fresh is the best.
    """

    cls: PodClass
    epoch: int = -1
    read: int = 0
    grown: int = -1
    gangs: tuple[int, int] = (-1, 0)  # the gangs' epoch, and how much of their log was read
    serial: int = 0
    entries: dict[int, _Entry] = field(default_factory=dict)
    heap: list[tuple[Cost, int, int, int]] = field(default_factory=list)
    # Slots whose answer hangs on budgets or gangs, which change without touching the slot.
    delicate: dict[int, None] = field(default_factory=dict)
    by_gang: dict[str, dict[int, None]] = field(default_factory=dict)


class Preemption:
    """Finds victims in a room. `spared` are pods that cannot be evicted, whatever their priority.

    `only_ours`: pods of other schedulers and of nodes (DaemonSets, mirrors) are never touched.
    """

    __slots__ = ("_gangs", "_only_ours", "_respect", "_room", "_tables", "budgets", "spared")

    def __init__(
        self, room: Room, gangs: Gangs, budgets: Budgets, *, respect: bool, only_ours: bool = False
    ) -> None:
        self._only_ours = only_ours
        self._room = room
        self._gangs = gangs
        self.budgets = budgets
        self._respect = respect
        self._tables: dict[tuple[int, int], _Table] = {}
        self.spared: dict[str, None] = {}  # by uid

    def best(self, cls: PodClass, priority: int, mask: Bools | None = None) -> Offer | None:
        """The cheapest offer for a pod of the class, None when no node can be made to fit."""
        return finish(self.search(cls, priority, mask))

    def search(self, cls: PodClass, priority: int, mask: Bools | None = None) -> Steps[Offer | None]:
        """The same as `best`, in steps."""
        if looks_beyond_node(cls):
            offers = []
            for slot in self._candidates(cls, priority, mask):
                offers.append(self.on(cls, priority, slot))
                yield _THOUGHT_AWAY
            return min((offer for offer in offers if offer), key=self.order, default=None)
        table = yield from self._table(cls, priority)
        aside = []
        found = None
        while table.heap and found is None:
            _, _, slot, serial = table.heap[0]
            entry = table.entries[slot]
            if entry.serial != serial:
                heapq.heappop(table.heap)
            elif mask is not None and not mask[slot]:
                aside.append(heapq.heappop(table.heap))
            elif entry.exact and entry.stamp in (-1, self.budgets.version):
                found = entry.offer
            else:
                heapq.heappop(table.heap)
                self._settle(table, cls, priority, slot)
        for item in aside:
            heapq.heappush(table.heap, item)
        return found

    def on(self, cls: PodClass, priority: int, slot: int) -> Offer | None:
        """The cheapest offer on one node."""
        lower = self.lower_on(slot, priority)
        if not lower:
            return None
        if self.only_amounts(cls) and not self._delicate(lower):
            return self._by_amounts(cls, slot, lower)
        if self._respect:
            lower = [victim for victim in lower if not self.budgets.exhausted(victim.pod)]
        if not lower or not self._suffices(cls, slot, lower):
            return None

        def suffices(chosen: Sequence[Victim]) -> bool:
            return self._suffices(cls, slot, chosen)

        def price(chosen: Sequence[Victim]) -> tuple[Cost, tuple[Victim, ...]] | None:
            return self.price(chosen, priority)

        bundles = self._bundles(lower)
        if len(bundles) < len(lower) and len(bundles) <= EXACT_LIMIT:
            found = cheapest_bundles(bundles, suffices, price)
        else:
            found = cheapest(lower, suffices, price, self.breaks)
        return Offer(slot, *found) if found else None

    def _bundles(self, lower: Sequence[Victim]) -> list[tuple[Victim, ...]]:
        """Candidates that leave together anyway: the members of a gang that can spare none of them."""
        found: dict[str, list[Victim]] = {}
        for victim in lower:
            gang = self._gangs.get(victim.gang) if victim.gang else None
            together = gang is not None and gang.falls(1)
            found.setdefault(f"gang:{victim.gang}" if together else f"pod:{victim.key}", []).append(victim)
        return [tuple(victims) for victims in found.values()]

    def lower_on(self, slot: int, priority: int) -> list[Victim]:
        """Who on a node may have to leave for that priority, most important first."""
        return [
            self.victim(placed)
            for placed in self._room.snapshot.pods_on(slot)
            if self.may_leave(placed, priority)
        ]

    def may_leave(self, placed: Placed, priority: int) -> bool:
        """Whether a placed pod may be evicted for that priority. A promise is not a pod that runs."""
        return (
            may_be_victim(placed.priority, priority)
            and placed.pod.metadata.uid not in self.spared
            and placed.key not in self._room.nominations
            and (placed.cls.ours or not self._only_ours)
        )

    def below(self, priority: int) -> Ints:
        """Per row and slot: what those take who may be evicted for that priority, but for the spared."""
        return self._room.snapshot.used_below(min(priority, UNTOUCHABLE), ours=self._only_ours)

    def only_amounts(self, cls: PodClass) -> bool:
        """Whether, of all that evictions can change, the class looks only at resources."""
        if looks_beyond_node(cls) or cls.ports or cls.exclusive:
            return False
        return cls.shared or not self._room.snapshot.exclusive.total

    def victim(self, placed: Placed) -> Victim:
        """A placed pod as a victim."""
        start = placed.pod.status.start_time
        return Victim(
            placed.pod,
            placed.priority,
            start.timestamp() if start else _NEVER_STARTED,
            placed.slot,
            self._gangs.name_of(placed.pod.metadata.uid),
        )

    def price(self, chosen: Sequence[Victim], priority: int) -> tuple[Cost, tuple[Victim, ...]] | None:
        """What it costs that these leave, and who then leaves; None when that must not be."""
        leaving = self._with_gangs(chosen, priority)
        if leaving is None:
            return None
        ordered = sorted(leaving, key=importance)
        violations = self.budgets.violations(victim.pod for victim in ordered)
        if violations and self._respect:
            return None
        return cost_of(ordered, violations), tuple(ordered)

    def breaks(self, ordered: Sequence[Victim]) -> list[bool]:
        """Which of these would break a budget if all of them left."""
        return self.budgets.broken(victim.pod for victim in ordered)

    def order(self, offer: Offer) -> tuple[Cost, int]:
        """Sorts offers: cheapest first, then by the node's name."""
        return offer.cost, int(self._room.snapshot.nodes.rank[offer.slot])

    def _with_gangs(self, chosen: Sequence[Victim], priority: int) -> list[Victim] | None:
        """The chosen and, for each gang that falls, all of it; None when somebody in it must stay."""
        by_gang: dict[str, dict[str, None]] = {}
        for victim in chosen:
            if victim.gang and not self._gangs.is_leaving(victim.pod.metadata.uid):
                by_gang.setdefault(victim.gang, {})[victim.key] = None
        leaving = list(chosen)
        for name, there in by_gang.items():
            gang = self._gangs.get(name)
            if gang is None or not gang.falls(len(there)):
                continue
            for pod in gang.running:
                placed = self._room.snapshot.placed(pod.metadata.key)
                if placed is None or placed.key in there:
                    continue
                if not self.may_leave(placed, priority):
                    return None
                leaving.append(self.victim(placed))
        return leaving

    def _suffices(self, cls: PodClass, slot: int, leaving: Sequence[Victim]) -> bool:
        snapshot = self._room.snapshot
        with snapshot.trial():
            for victim in leaving:
                snapshot.forget(victim.key)
            return self._room.fits(cls, slot)

    def _delicate(self, lower: Sequence[Victim]) -> bool:
        return any(victim.gang or self.budgets.of(victim.pod) for victim in lower)

    def _by_amounts(self, cls: PodClass, slot: int, lower: list[Victim]) -> Offer | None:
        snapshot = self._room.snapshot
        if not _statically_fits(self._room, cls, slot):
            return None
        free = snapshot.nodes.alloc[:, slot] - snapshot.nodes.used[:, slot]
        short = [(row, amount - int(free[row])) for row, amount in cls.row_amounts if amount > free[row]]
        rows = [row for row, _ in short]
        sized = []
        for victim in lower:
            placed = snapshot.placed(victim.key)
            amounts = dict(placed.row_amounts) if placed else {}
            sized.append(
                Victim(
                    victim.pod,
                    victim.priority,
                    victim.start,
                    slot,
                    "",
                    tuple(amounts.get(row, 0) for row in rows),
                )
            )
        # Nothing lacks: the node is closed to the pod for another reason, and evictions do not open it.
        found = cheapest_by_amounts(sized, [lack for _, lack in short]) if short else None
        return Offer(slot, cost_of(found, 0), found) if found else None

    def _candidates(self, cls: PodClass, priority: int, mask: Bools | None) -> list[int]:
        """Slots with lower pods where the resources would do without them and nothing is beyond help."""
        snapshot = self._room.snapshot
        nodes = snapshot.nodes
        found = nodes.alive & ~snapshot.verdicts(cls).unresolvable
        below = self.below(priority)
        for row, amount in cls.row_amounts:
            found &= nodes.alloc[row] - nodes.used[row] + below[row] >= amount
        found &= below[PODS_ROW] > 0
        if mask is not None:
            found &= mask
        candidates: list[int] = np.flatnonzero(found).tolist()
        return candidates

    def prepare(self, cls: PodClass, priority: int) -> Steps[None]:
        """Look at what changed since the last search for the class, so that the next one is short."""
        if not looks_beyond_node(cls):
            yield from self._table(cls, priority)

    def _table(self, cls: PodClass, priority: int) -> Steps[_Table]:
        key = (cls.serial, priority)
        table = self._tables.pop(key, None)
        if table is None or table.cls is not cls:
            while len(self._tables) >= _TABLES:
                self._tables.pop(next(iter(self._tables)))
            table = _Table(cls)
        self._tables[key] = table
        room = self._room
        if table.epoch != room.epoch:
            table.entries.clear()
            table.heap.clear()
            table.delicate.clear()
            table.by_gang.clear()
            stale = self._candidates(cls, priority, None)
        else:
            stale = list(dict.fromkeys(room.log[table.read :]))
        table.epoch, table.read = room.epoch, len(room.log)
        for slot in stale:
            self._look(table, cls, priority, slot)
            yield _LOOK
        self._loosen(table)
        return table

    def _loosen(self, table: _Table) -> None:
        """What was exact is only a bound again where more may leave than before, or another gang falls."""
        gangs = self._gangs
        epoch, read = table.gangs
        if table.grown != self.budgets.grown or epoch != gangs.epoch:
            loose = list(table.delicate)
        else:
            touched = dict.fromkeys(gangs.log[read:])
            loose = list(dict.fromkeys(slot for name in touched for slot in table.by_gang.get(name, ())))
        table.grown, table.gangs = self.budgets.grown, (gangs.epoch, len(gangs.log))
        for slot in loose:
            if slot in table.delicate:
                self._enter(table, slot, _Entry(0, False, None, table.entries[slot].bound, -1))

    def _look(self, table: _Table, cls: PodClass, priority: int, slot: int) -> None:
        """Note what a slot offers; where budgets or gangs matter, only what it must cost at least."""
        lower = self.lower_on(slot, priority) if self._room.snapshot.nodes.alive[slot] else []
        table.delicate.pop(slot, None)
        if lower and self._delicate(lower):
            least = _FREE
            if self.only_amounts(cls):
                # Gangs and budgets only make it dearer, but a gang is one unit however many leave.
                relaxed = self._by_amounts(cls, slot, lower)
                if relaxed is None:
                    self._enter(table, slot, _Entry(0, True, None, _FREE, -1))
                    return
                least = (0, *relaxed.cost[1:3], 0, 0, -_NEVER_STARTED)
            table.delicate[slot] = None
            for victim in lower:
                if victim.gang:
                    table.by_gang.setdefault(victim.gang, {})[slot] = None
            self._enter(table, slot, _Entry(0, False, None, least, -1))
        else:
            offer = self.on(cls, priority, slot) if lower else None
            self._enter(table, slot, _Entry(0, True, offer, _FREE, -1))

    def _settle(self, table: _Table, cls: PodClass, priority: int, slot: int) -> None:
        """Find the exact offer of a slot of which only a bound is known, or an outdated offer."""
        offer = self.on(cls, priority, slot)
        bound = table.entries[slot].bound
        self._enter(table, slot, _Entry(0, True, offer, bound, self.budgets.version))

    def _enter(self, table: _Table, slot: int, entry: _Entry) -> None:
        table.serial += 1
        entry.serial = table.serial
        table.entries[slot] = entry
        rank = int(self._room.snapshot.nodes.rank[slot])
        if entry.offer is not None:
            heapq.heappush(table.heap, (entry.offer.cost, rank, slot, entry.serial))
        elif not entry.exact:
            heapq.heappush(table.heap, (entry.bound, rank, slot, entry.serial))


def looks_beyond_node(cls: PodClass) -> bool:
    """Whether what happens on one node can change the verdict on another for the class."""
    return bool(cls.demands or cls.facts.volumes or any(tally.total for tally, _ in cls.repelling()))


def _statically_fits(room: Room, cls: PodClass, slot: int) -> bool:
    """Whether the rules that no eviction can satisfy let the class onto the node."""
    if rules.rejection(room.snapshot, cls) is not None:
        return False
    return all(
        rule.fits(room.snapshot, cls, slot)
        for rule in rules.ORDER
        if rule.name in _STATIC and rule.concerns(cls)
    ) and _among_names(room, cls, slot)


def _among_names(room: Room, cls: PodClass, slot: int) -> bool:
    named = rules.node_affinity.named_nodes(room.snapshot, cls)
    return named is None or bool(named[slot])


_STATIC = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeDeclaredFeatures")
