"""Placing many pods in a row: one vector score, then only what each placement touches.

Equal, pod by pod, to choosing and assuming one by one; a test holds it to that. Two ways:

* When a placement changes nothing but its own node (no spreading or affinity among the class's own
  pods), a heap of the best nodes is enough. Of k pods none goes beyond the k best nodes: before the
  j-th, at most j - 1 of those were touched, so one untouched is left, and it beats all others.
* Otherwise what moves is looked at again per pod, as vectors, and the rest is kept.

Pods of several classes that take turns go the first way too, as long as their classes are of one shape
and no pod says anything of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from fairlead.engine import rules
from fairlead.engine.ranking import headroom, preferences
from fairlead.engine.ranking.ranking import NAME_BITS, Ranking, best
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.nodes import Bools, Ints, Slots
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.pod import Pod

# For at most this many pods ahead, all the best nodes of a run are looked at together.
_LEVELS = 64
_FEW = 8


def place_run(
    ranking: Ranking,
    cls: PodClass,
    pods: Sequence[Pod],
    *,
    mask: Bools | None = None,
    priority: int | None = None,
) -> list[int]:
    """Place pods of one class one by one, each where `Ranking.choose` would; -1 from the first that fails.

    Equal to choosing and assuming one by one, only faster. The pods must be new: none placed, none
    with a status that says it was resized.
    """
    snapshot = ranking.snapshot
    if pods and not cls.live:
        cls = snapshot.class_of(pods[0])
    if cls.facts.volumes or len(pods) == 1:
        slots = _one_by_one(ranking, cls, pods, mask, priority)
    elif _rules_that_move(cls) or preferences.moving(snapshot, cls):
        slots = _moving(ranking, cls, pods, mask, priority)
    else:
        slots = _still(ranking, cls, pods, mask, priority)
    return slots + [-1] * (len(pods) - len(slots))


def place_turns(ranking: Ranking, turns: Sequence[tuple[PodClass, Pod]]) -> list[int]:
    """Place pods of several classes one by one, each where `Ranking.choose` would; ends before a failure.

    Equal to choosing and assuming one by one, only faster; the pods must be new, as for `place_run`.
    """
    snapshot = ranking.snapshot
    slots: list[int] = []
    simple: dict[int, bool] = {}

    def alike(one: PodClass, other: PodClass) -> bool:
        if one is other:
            return True
        for cls in (one, other):
            if cls.serial not in simple:
                simple[cls.serial] = _is_simple(snapshot, cls)
        return simple[one.serial] and simple[other.serial] and one.shape == other.shape

    while len(slots) < len(turns):
        start, cls = len(slots), turns[len(slots)][0]
        end = start + 1
        while end < len(turns) and alike(cls, turns[end][0]):
            end += 1
        classes, pods = zip(*turns[start:end], strict=True)
        if all(each is cls for each in classes):
            found = place_run(ranking, cls, pods)
            found = found[: found.index(-1)] if -1 in found else found
        else:
            found = _heap_run(ranking, cls, ranking.numbers(cls) >= 0, len(pods), ())
            snapshot.assume_many(pods[: len(found)], found, classes[: len(found)])
        slots += found
        if len(slots) < end:
            break
        if not simple.get(cls.serial):
            simple.clear()  # what was placed may keep others off its node: no class is simple any more
    return slots


def _is_simple(snapshot: Snapshot, cls: PodClass) -> bool:
    """Whether pods that are placed, of whatever simple class, matter to the class on their own node only.

    And there only by what they take. Terms that draw the class count though no pod carries them yet.
    """
    return (
        not cls.facts.volumes
        and not cls.drawing()
        and rules.rejection(snapshot, cls) is None
        and not _takes_node(cls)
        and not cls.exclusive
        and rules.crowded(snapshot, cls) is None
        and not preferences.concerning(snapshot, cls)
    )


def _one_by_one(
    ranking: Ranking, cls: PodClass, pods: Sequence[Pod], mask: Bools | None, priority: int | None
) -> list[int]:
    snapshot = ranking.snapshot
    slots: list[int] = []
    for pod in pods:
        slot = ranking.choose(cls, mask)
        if slot < 0:
            break
        snapshot.assume(pod, slot, cls=cls, priority=priority)
        slots.append(slot)
    return slots


def _still(
    ranking: Ranking, cls: PodClass, pods: Sequence[Pod], mask: Bools | None, priority: int | None
) -> list[int]:
    """Placements touch only their own node."""
    snapshot = ranking.snapshot
    slots: list[int] = []
    liked = preferences.concerning(snapshot, cls)
    while len(slots) < len(pods):
        allowed = ranking.feasible(cls)
        if mask is not None:
            allowed = allowed & mask
        found = _heap_run(ranking, cls, allowed, len(pods) - len(slots), liked)
        if not found:
            break
        placed = pods[len(slots) : len(slots) + len(found)]
        snapshot.assume_many(placed, found, [cls] * len(found), priority)
        slots += found
    return slots


def _heap_run(
    ranking: Ranking, cls: PodClass, allowed: Bools, wanted: int, liked: Sequence[preferences.Part]
) -> list[int]:
    """Slots for up to `wanted` pods, with nothing placed yet; fewer when scores change before that.

    What the class would rather have is relative to the nodes that are left: it changes when one is full.
    """
    candidates = np.flatnonzero(allowed)
    if not len(candidates):
        return []
    snapshot = ranking.snapshot
    nodes = snapshot.nodes
    rooms = ranking.numbers(cls)[candidates] >> NAME_BITS
    beside = preferences.total(liked, snapshot, cls, allowed) if liked else None
    scores = rooms if beside is None else rooms + beside[candidates]
    best = _best(scores, nodes.rank[candidates], wanted)
    slots = candidates[best]
    # A few pods ahead for all of them at once; what a score has besides room stays as it is meanwhile.
    levels = min(wanted // len(slots) + 2, _LEVELS)
    ahead = headroom.table(ranking.basis, cls, slots, 0, levels)
    if beside is not None:
        ahead = np.where(ahead < 0, ahead, ahead + beside[slots])
    by_level: list[list[int]] = ahead.tolist()
    names = slots.tolist()
    added = [0] * len(names)
    heap = list(zip((-scores[best]).tolist(), nodes.rank[slots].tolist(), range(len(names)), strict=True))
    heapq.heapify(heap)
    refill = headroom.Refill(ranking.basis, cls)
    alone = _takes_node(cls)
    found: list[int] = []
    while heap and len(found) < wanted:
        _, rank, column = heap[0]
        slot = names[column]
        found.append(slot)
        number = added[column] = added[column] + 1
        if number < levels:
            left = by_level[number][column]
        else:
            left = refill.after(slot, number)
            if left >= 0 and beside is not None:
                left += int(beside[slot])
        if left < 0 or alone:
            heapq.heappop(heap)
            if liked:
                break
        else:
            heapq.heapreplace(heap, (-left, rank, column))
    return found


def _takes_node(cls: PodClass) -> bool:
    """Whether a node that has a pod of the class can have no second."""
    return bool(cls.facts.ports) or (cls.exclusive and cls.ours)


def _best(scores: Ints, rank: Ints, number: int) -> Slots:
    """The indices of the `number` best, in no order."""
    if len(scores) <= number:
        return np.arange(len(scores))
    # The least score that is still among the best; of those that have it, the first by rank.
    least = np.partition(scores, len(scores) - number)[len(scores) - number]
    above = np.flatnonzero(scores > least)
    level = np.flatnonzero(scores == least)
    left = number - len(above)
    if len(level) > left:
        level = level[np.argpartition(rank[level], left - 1)[:left]]
    return np.concatenate((above, level))


def _moving(
    ranking: Ranking, cls: PodClass, pods: Sequence[Pod], mask: Bools | None, priority: int | None
) -> list[int]:
    """Placements change what spreading or affinity says of other nodes."""
    snapshot = ranking.snapshot
    slots: list[int] = []
    if rules.rejection(snapshot, cls) is not None:
        return slots
    moving = _rules_that_move(cls)
    numbers = ranking.numbers(cls)
    still = numbers >= 0
    crowded = rules.crowded(snapshot, cls, besides=moving)
    if crowded is not None:
        still &= ~crowded
    if mask is not None:
        still &= mask
    rooms = numbers >> NAME_BITS
    # A few pods ahead for all nodes at once, which pays from a few pods on.
    nodes = snapshot.nodes
    levels = min(len(pods) // max(int(np.count_nonzero(still)), 1) + 2, _LEVELS) if len(pods) > _FEW else 0
    ahead = headroom.table(ranking.basis, cls, np.arange(nodes.capacity), 0, levels) if levels else None
    added: dict[int, int] = {}
    refill = headroom.Refill(ranking.basis, cls)
    alone = _takes_node(cls)
    for pod in pods:
        allowed = still
        for rule in moving:
            for finding in rule.find(snapshot, cls):
                allowed = allowed & ~finding.slots
        liked = preferences.concerning(snapshot, cls)
        scores = rooms + preferences.total(liked, snapshot, cls, allowed) if liked else rooms
        slot = best(snapshot.nodes, scores, allowed)
        if slot < 0:
            break
        number = added[slot] = added.get(slot, 0) + 1
        if ahead is not None and number < levels:
            left = int(ahead[number, slot])
        else:
            left = refill.after(slot, number, placed=number - 1)
        snapshot.assume(pod, slot, cls=cls, priority=priority)
        slots.append(slot)
        if left < 0 or alone:
            still[slot] = False
        else:
            rooms[slot] = left
    return slots


def _rules_that_move(cls: PodClass) -> list[rules.Rule]:
    """The rules whose verdict on other nodes a placement of the class itself changes."""
    moving = []
    if any(cls.is_counted_by(constraint.tally) for constraint in cls.own.spread):
        moving.append("PodTopologySpread")
    if (
        (cls.own.affinity is not None and cls.is_counted_by(cls.own.affinity))
        or any(cls.is_counted_by(tally) for tally, _ in cls.own.anti)
        or any(carried in cls.carries for carried in cls.repelled_by)
        or cls.own.repels_itself
    ):
        moving.append("InterPodAffinity")
    return [rule for rule in rules.ORDER if rule.name in moving]
