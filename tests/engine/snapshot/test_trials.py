"""A trial leaves nothing behind."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from fairlead import Cluster
from fairlead.engine.ask.objects import read_pod
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.snapshot.snapshot import Snapshot
from support.differential.states import generate
from support.units import node, pod


def picture(snapshot: Snapshot) -> dict[str, Any]:
    """All that a placement can change."""
    nodes = snapshot.nodes
    return {
        "used": nodes.used.tolist(),
        "ranked": nodes.ranked.tolist(),
        "placed": sorted(placed.key for placed in snapshot.all_placed()),
        "on": {slot: [placed.key for placed in snapshot.pods_on(slot)] for slot in nodes.slots()},
        "classes": {
            repr(cls.key): (
                dict(sorted(cls.where.items())),
                dict(sorted(cls.leaving.items())),
                [tally.counts.tolist() for tally in cls.counted_by],
                [carried.counts.tolist() for carried in cls.carries],
                [port.counts.tolist() for port in cls.ports],
            )
            for cls in snapshot.classes.all()
        },
        "ours": snapshot.ours.counts.tolist(),
        "claims": dict(sorted(snapshot.storage.claim_users.items())),
        "reserved": dict(sorted(snapshot.storage.reserved.items())),
        "selected": dict(sorted(snapshot.storage.selected.items())),
        "below": snapshot.used_below(500).tolist(),
    }


def test_whatever_is_tried_is_taken_back(count: Callable[[int, int], int]) -> None:
    for seed in range(count(40, 400)):
        rng = random.Random(seed)
        state = generate(seed, 12)
        snapshot = Cluster.from_objects([*state.objects, *state.placed]).snapshot
        ranking = Ranking(snapshot)
        pods = [read_pod(given) for given in state.pending]
        held = [snapshot.class_of(one) for one in pods]
        before = picture(snapshot)
        with snapshot.trial():
            for one in rng.sample(pods, 8):
                slot = ranking.choose(snapshot.class_of(one))
                if slot >= 0:
                    snapshot.assume(one, slot)
            with snapshot.trial() as inner:
                for placed in list(snapshot.all_placed())[:5]:
                    gone = snapshot.forget(placed.key)
                    if rng.random() < 0.5:
                        snapshot.restore(gone)
                if rng.random() < 0.5:
                    inner.keep()
        assert picture(snapshot) == before, seed
        assert held


def test_a_kept_trial_stands_when_the_outer_one_is_kept_too() -> None:
    snapshot = Cluster.from_objects([node("n1")]).snapshot
    with snapshot.trial() as outer:
        with snapshot.trial() as inner:
            snapshot.assume(read_pod(pod("a")), snapshot.nodes.slot("n1"))
            inner.keep()
        outer.keep()
    assert snapshot.placed("default/a") is not None


def test_a_kept_trial_is_taken_back_with_the_outer_one() -> None:
    snapshot = Cluster.from_objects([node("n1")]).snapshot
    with snapshot.trial(), snapshot.trial() as inner:
        snapshot.assume(read_pod(pod("a")), snapshot.nodes.slot("n1"))
        inner.keep()
    assert snapshot.placed("default/a") is None


def test_a_trial_that_ends_in_an_error_is_taken_back() -> None:
    snapshot = Cluster.from_objects([node("n1")]).snapshot

    def attempt() -> None:
        with snapshot.trial():
            snapshot.assume(read_pod(pod("a")), snapshot.nodes.slot("n1"))
            raise LookupError("nothing to do with it")

    with pytest.raises(LookupError):
        attempt()
    assert snapshot.placed("default/a") is None


def test_nodes_do_not_change_inside_a_trial() -> None:
    snapshot = Cluster.from_objects([node("n1")]).snapshot
    with snapshot.trial(), pytest.raises(RuntimeError, match="inside a trial"):
        snapshot.remove_node("n1")
