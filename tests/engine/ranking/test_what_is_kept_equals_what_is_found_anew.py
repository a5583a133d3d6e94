"""What ranking keeps from one choice to the next never differs from what it would find from scratch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from fairlead import Cluster
from fairlead.engine.ask.objects import read_pod
from fairlead.engine.ranking import headroom
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.pod import Pod
from support.differential.states import generate


def renamed(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name, uid=name))


def from_scratch(ranking: Ranking, pod: Pod) -> int:
    fresh = Ranking(ranking.snapshot)
    fresh.basis.pack = ranking.basis.pack
    return fresh.choose(ranking.snapshot.class_of(pod))


@pytest.mark.parametrize("pack", [False, True])
def test_choices_of_many_classes_in_turn_are_those_made_from_scratch(
    count: Callable[[int, int], int], pack: bool
) -> None:
    for seed in range(count(20, 200)):
        rng = random.Random(seed)
        state = generate(seed, 6)
        pending = [read_pod(each) for each in state.pending]
        keeps, forgets = (
            Ranking(Cluster.from_objects([*state.objects, *state.placed]).snapshot) for _ in range(2)
        )
        keeps.basis.pack = forgets.basis.pack = pack
        here: list[str] = []
        for number in range(60):
            pod = renamed(rng.choice(pending), f"turn-{number}")
            slot = keeps.choose(keeps.snapshot.class_of(pod))
            assert slot == from_scratch(forgets, pod), (seed, number)
            if slot >= 0:
                for snapshot in (keeps.snapshot, forgets.snapshot):
                    snapshot.assume(pod, slot)
                here.append(pod.metadata.key)
            if here and rng.random() < 0.3:
                gone = here.pop(rng.randrange(len(here)))
                for snapshot in (keeps.snapshot, forgets.snapshot):
                    snapshot.forget(gone)
            if rng.random() < 0.1:
                cordoned = rng.choice(keeps.snapshot.nodes.slots())
                node = keeps.snapshot.nodes.node(cordoned)
                spec = msgspec.structs.replace(node.spec, unschedulable=not node.spec.unschedulable)
                for snapshot in (keeps.snapshot, forgets.snapshot):
                    snapshot.put_node(msgspec.structs.replace(node, spec=spec))


@pytest.mark.parametrize("pack", [False, True])
def test_room_on_one_node_is_what_it_is_among_all(count: Callable[[int, int], int], pack: bool) -> None:
    for seed in range(count(40, 400)):
        state = generate(seed, 6)
        snapshot = Cluster.from_objects([*state.objects, *state.placed]).snapshot
        basis = headroom.Basis(snapshot.nodes)
        basis.pack = pack
        for given in state.pending:
            cls = snapshot.class_of(read_pod(given))
            found = [headroom.left_on(basis, cls, slot) for slot in range(snapshot.nodes.capacity)]
            assert found == headroom.left(basis, cls, slice(None)).tolist()
            slots = np.arange(0, snapshot.nodes.capacity, 3)
            assert found[::3] == headroom.left(basis, cls, slots).tolist()


def test_classes_that_differ_in_labels_alone_are_of_one_shape() -> None:
    snapshot = Snapshot()

    def shape(app: str, **spec: Any) -> tuple[object, ...]:
        metadata = {"name": app, "labels": {"app": app}}
        pod = read_pod({"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}})
        return snapshot.class_of(pod).shape

    assert shape("a") == shape("b")
    assert shape("a") != shape("a", nodeSelector={"disk": "ssd"})
    assert shape("a") != shape("a", tolerations=[{"operator": "Exists"}])
    cpu = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    assert shape("a") != shape("a", containers=cpu)
