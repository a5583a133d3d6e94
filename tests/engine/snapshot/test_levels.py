"""Priorities of placed pods: what lower ones use is right however many come and go, and few are kept."""

from __future__ import annotations

import random

from fairlead import Cluster
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.snapshot.snapshot import LOWEST, Levels
from support.units import node, pod, typed


def placed(priorities: list[int]) -> list[Placed]:
    snapshot = Cluster.from_objects([node("n1", 64)]).snapshot
    for number, priority in enumerate(priorities):
        snapshot.put_pod(typed(pod(f"p{number}", 0.01, on="n1", priority=priority)))
    return list(snapshot.all_placed())


def test_thresholds_between_the_same_priorities_are_one() -> None:
    levels = Levels()
    for priority in (10, -5):
        levels.add(priority, ())
    assert {levels.threshold(one) for one in (-4, 0, 10)} == {-4}
    assert levels.threshold(11) == levels.threshold(1000) == 11
    assert levels.threshold(-5) == LOWEST


def test_priorities_of_pods_that_are_gone_are_swept_out() -> None:
    levels, there = Levels(), placed([7, 9])
    for priority in range(100_000):
        if priority not in levels.known:
            levels.add(priority, there)
    assert len(levels.known) < 2000
    assert {7, 9} <= levels.known
    assert levels.threshold(9) == 8


def test_many_priorities_of_pods_that_are_there_are_all_kept() -> None:
    there = placed([10 * number for number in range(3000)])
    levels = Levels()
    for one in there:
        levels.add(one.priority, there)
    assert levels.known == {one.priority for one in there}


def test_what_lower_priorities_use_stays_right_while_thousands_come_and_go() -> None:
    chance = random.Random(3)
    snapshot = Cluster.from_objects([node("n1", 64), node("n2", 64)]).snapshot
    there: dict[str, int] = {}
    for number in range(4000):
        priority = chance.randrange(-(10**9), 10**9)
        snapshot.put_pod(typed(pod(f"p{number}", 1, on=chance.choice(["n1", "n2"]), priority=priority)))
        there[f"default/p{number}"] = priority
        if len(there) > 20:
            gone = chance.choice(sorted(there))
            snapshot.remove_pod(gone)
            del there[gone]
        if number % 100 == 0:
            for threshold in (0, 5 * 10**8, priority, priority + 1):
                expected = 1000 * sum(one < threshold for one in there.values())
                assert int(snapshot.used_below(threshold)[0].sum()) == expected
