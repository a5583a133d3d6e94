"""Preemption for one pod: the node whose victims cost least.

Candidates are kube-scheduler's: nodes on which the pod fits once *all* pods of lower priority there
are gone; victims are only there, but for the rest of a gang that falls below its minimum. Among these
the optimum is sought, over all nodes, where kube-scheduler samples.

The subtle thing is speed: for each (class, priority) the best set per node is remembered and only the
nodes in the room's log are looked at again, so 5,000 preemptors on 5,000 full nodes cost 5,000 changes,
not 25 million searches. A class whose rules look beyond the node is searched again each time.

Why preemption does not help a pod (`unhelped`) is said node by node, as kube-scheduler says it behind
its sentence: for each node the first of: nothing that leaves could help; no pod may leave; with all gone
that may, this still refuses; and, what only we know, those that would have to leave are protected. That
is said of every pod that is held, so what resources decide is counted for all nodes at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fairlead.engine import rules
from fairlead.engine.gangs.gangs import Gangs
from fairlead.engine.planning.budgets import Budgets
from fairlead.engine.planning.placement import Placement
from fairlead.engine.planning.priority import UNTOUCHABLE, may_be_victim
from fairlead.engine.planning.room import Room
from fairlead.engine.planning.steps import Steps, finish
from fairlead.engine.planning.victims import (
    EXACT_LIMIT,
    Cost,
    Priced,
    Victim,
    bundles,
    cheapest,
    cheapest_bundles,
    cheapest_by_amounts,
    cost_of,
    importance,
)
from fairlead.engine.rules.reasons import (
    KeptForAnother,
    NotEnoughForAll,
    NotHelpful,
    NoVictims,
    Reason,
    Unhelped,
    VictimsProtected,
)
from fairlead.engine.rules.verdicts import Verdicts
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.evicted import is_preempted
from fairlead.engine.snapshot.log import UNREAD, Mark
from fairlead.engine.snapshot.nodes import PODS_ROW, Bools, Ints
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.snapshot.snapshot import Snapshot

_NEVER_STARTED = float("inf")

# Less than any offer costs.
_FREE: Cost = (0, -(2**31), 0, 0, 0, -_NEVER_STARTED)

# How many (class, priority) pairs are remembered; the least recently used goes first.
_TABLES = 64

# The work of looking for victims on one node: by amounts, or by thinking them away.
_LOOK, _THOUGHT_AWAY = 5, 10


@dataclass(frozen=True, slots=True)
class Offer:
    """A node and the pods that leave it, most important first."""

    slot: int
    cost: Cost
    victims: tuple[Victim, ...]


@dataclass(frozen=True, slots=True)
class Makes:
    """There will be room when the victims have left: where the members of a unit then go."""

    placement: Placement
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

    Invariant: for every slot that the room's log has not noted since `seen`, its entry is right, or a bound,
    or an exact offer that budgets have only shrunk under since; so the least in the heap that is exact and
    fresh is the best.
    """

    cls: PodClass
    seen: Mark = UNREAD
    grown: int = -1
    gangs: Mark = UNREAD  # of the gangs' log
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

    def __init__(
        self, room: Room, gangs: Gangs, budgets: Budgets, *, respect: bool, only_ours: bool = False
    ) -> None:
        self._only_ours = only_ours
        self.room = room
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
            lower = [victim for victim in lower if not any(self.budgets.broken((victim.pod,)))]
        if not lower or not self._suffices(cls, slot, lower):
            return None

        suffices, price = partial(self._suffices, cls, slot), partial(self.price, priority=priority)
        together = bundles(lower, self._spares_none)
        if len(together) < len(lower) and len(together) <= EXACT_LIMIT:
            found = cheapest_bundles(together, suffices, price)
        else:
            found = cheapest(lower, suffices, price, self.breaks)
        return Offer(slot, *found) if found else None

    def _spares_none(self, name: str) -> bool:
        gang = self._gangs.get(name)
        return gang is not None and gang.falls(1)

    def lower_on(self, slot: int, priority: int) -> list[Victim]:
        """The pods on a node that may have to leave for that priority, most important first."""
        return [
            self.victim(placed)
            for placed in self.room.snapshot.pods_on(slot)
            if self.may_leave(placed, priority)
        ]

    def may_leave(self, placed: Placed, priority: int) -> bool:
        """Whether a placed pod may be evicted for that priority. A promise is not a pod that runs."""
        return (
            may_be_victim(placed.priority, priority)
            and placed.pod.metadata.uid not in self.spared
            and placed.key not in self.room.nominations
            and (placed.cls.ours or not self._only_ours)
        )

    def below(self, priority: int) -> Ints:
        """Per row and slot: what pods take that may be evicted for that priority, but for the spared."""
        return self.room.snapshot.used_below(min(priority, UNTOUCHABLE), ours=self._only_ours)

    def only_amounts(self, cls: PodClass) -> bool:
        """Whether, of all that evictions can change, the class looks only at resources."""
        if looks_beyond_node(cls) or cls.ports or cls.exclusive:
            return False
        return cls.shared or not self.room.snapshot.exclusive.total

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

    def price(self, chosen: Sequence[Victim], priority: int) -> Priced | None:
        """What it costs that these leave, and which pods then leave; None when that must not be."""
        leaving = self._with_gangs(chosen, priority)
        if leaving is None:
            return None
        ordered = sorted(leaving, key=importance)
        violations = sum(self.breaks(ordered))
        if violations and self._respect:
            return None
        return cost_of(ordered, violations), tuple(ordered)

    def breaks(self, ordered: Sequence[Victim]) -> list[bool]:
        """Which of these would break a budget if all of them left."""
        return self.budgets.broken(victim.pod for victim in ordered)

    def order(self, offer: Offer) -> tuple[Cost, int]:
        """Sorts offers: cheapest first, then by the node's name."""
        return offer.cost, int(self.room.snapshot.nodes.rank[offer.slot])

    def _with_gangs(self, chosen: Sequence[Victim], priority: int) -> list[Victim] | None:
        """The chosen and, for each gang that falls, all of it; None when a pod of it must stay."""
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
                placed = self.room.snapshot.placed(pod.metadata.key)
                if placed is None or placed.key in there:
                    continue
                if not self.may_leave(placed, priority):
                    return None
                leaving.append(self.victim(placed))
        return leaving

    def _suffices(self, cls: PodClass, slot: int, leaving: Sequence[Victim]) -> bool:
        snapshot = self.room.snapshot
        with snapshot.trial():
            for victim in leaving:
                snapshot.forget(victim.key)
            return self.room.fits(cls, slot)

    def _delicate(self, lower: Sequence[Victim]) -> bool:
        return any(victim.gang or self.budgets.of(victim.pod) for victim in lower)

    def _by_amounts(self, cls: PodClass, slot: int, lower: list[Victim]) -> Offer | None:
        snapshot = self.room.snapshot
        if not rules.suits(snapshot, cls, slot):
            return None
        free = snapshot.nodes.alloc[:, slot] - snapshot.nodes.used[:, slot]
        short = [(row, amount - int(free[row])) for row, amount in cls.row_amounts if amount > free[row]]
        rows = [row for row, _ in short]
        sized = []
        for each in lower:
            placed = snapshot.placed(each.key)
            held = dict(placed.row_amounts) if placed else {}
            amounts = tuple(held.get(row, 0) for row in rows)
            sized.append(Victim(each.pod, each.priority, each.start, slot, "", amounts))
        # Nothing lacks: the node is closed to the pod for another reason, and evictions do not open it.
        found = cheapest_by_amounts(sized, [lack for _, lack in short]) if short else None
        return Offer(slot, cost_of(found, 0), found) if found else None

    def _candidates(self, cls: PodClass, priority: int, mask: Bools | None) -> list[int]:
        """Slots with lower pods where the resources would do without them and nothing is beyond help."""
        snapshot = self.room.snapshot
        nodes = snapshot.nodes
        found = nodes.alive & ~rules.verdicts(snapshot, cls).unresolvable
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
        log = self.room.log
        stale = log.since(table.seen)
        if stale is None:
            table = self._tables[key] = _Table(cls)
            stale = self._candidates(cls, priority, None)
        table.seen = log.mark
        for slot in dict.fromkeys(stale):
            self._look(table, cls, priority, slot)
            yield _LOOK
        self._loosen(table)
        return table

    def _loosen(self, table: _Table) -> None:
        """What was exact is only a bound again where more may leave than before, or another gang falls."""
        touched = self._gangs.log.since(table.gangs)
        if touched is None or table.grown != self.budgets.grown:
            loose = list(table.delicate)
        else:
            names = dict.fromkeys(touched)
            loose = list(dict.fromkeys(slot for name in names for slot in table.by_gang.get(name, ())))
        table.grown, table.gangs = self.budgets.grown, self._gangs.log.mark
        for slot in loose:
            if slot in table.delicate:
                self._enter(table, slot, _Entry(0, False, None, table.entries[slot].bound, -1))

    def _look(self, table: _Table, cls: PodClass, priority: int, slot: int) -> None:
        """Note what a slot offers; where budgets or gangs matter, only what it must cost at least."""
        lower = self.lower_on(slot, priority) if self.room.snapshot.nodes.alive[slot] else []
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
        rank = int(self.room.snapshot.nodes.rank[slot])
        if entry.offer is not None:
            heapq.heappush(table.heap, (entry.offer.cost, rank, slot, entry.serial))
        elif not entry.exact:
            heapq.heappush(table.heap, (entry.bound, rank, slot, entry.serial))

    def unhelped(
        self, cls: PodClass, priority: int, verdicts: Verdicts, *, open_to: Bools | None, whole: bool = False
    ) -> Unhelped:
        """Why no eviction helps a pod of the class, which `verdicts` refuse everywhere.

        `open_to`: the nodes that are not kept for others, None when all are. `whole`: it is a member of a
        gang, for which as a whole evictions do not suffice.
        """
        nodes = self.room.snapshot.nodes
        below = self.below(priority)
        candidates = nodes.alive & ~verdicts.unresolvable
        counts: dict[Reason, int] = {NotHelpful(): _number(nodes.alive & verdicts.unresolvable)}
        if open_to is not None:
            counts[KeptForAnother()] = _number(candidates & ~open_to)
            candidates &= open_to
        crowded = candidates & (below[PODS_ROW] > 0)
        counts[NoVictims()] = _number(candidates & ~crowded)
        if not cls.ports:
            # Of what leaving pods can change, only ports are asked about before resources.
            short = np.zeros_like(crowded)
            for finding in rules.resources.find_without(self.room.snapshot, cls, below):
                found = crowded & finding.slots
                counts[finding.reason] = _number(found)
                short |= found
            crowded &= ~short
        # Where nothing refuses with all gone that may go, there is another reason why they do not.
        enough: Reason = NotEnoughForAll() if whole else VictimsProtected()
        if self.only_amounts(cls):
            counts[enough] = _number(crowded)
        else:
            for slot in np.flatnonzero(crowded).tolist():
                for reason in self._without_lower(cls, priority, slot) or (enough,):
                    counts[reason] = counts.get(reason, 0) + 1
        return Unhelped(nodes.count, tuple((reason, number) for reason, number in counts.items() if number))

    def _without_lower(self, cls: PodClass, priority: int, slot: int) -> tuple[Reason, ...]:
        snapshot = self.room.snapshot
        leaving = [placed for placed in snapshot.pods_on(slot) if self.may_leave(placed, priority)]
        if not leaving:
            return (NoVictims(),)
        with snapshot.trial():
            for placed in leaving:
                snapshot.forget(placed.key)
            return rules.reasons(snapshot, cls, slot)


def victims_leave(snapshot: Snapshot, slot: int, priority: int) -> bool:
    """Whether lower pods leave a node because of preemption: a pod nominated for it picks no new victims."""
    return any(
        placed.leaving and placed.priority < priority and is_preempted(placed.pod)
        for placed in snapshot.pods_on(slot)
    )


def looks_beyond_node(cls: PodClass) -> bool:
    """Whether what happens on one node can change the verdict on another for the class."""
    return bool(cls.demands or cls.facts.volumes or any(tally.total for tally, _ in cls.repelling()))


def _number(mask: Bools) -> int:
    return int(np.count_nonzero(mask))
