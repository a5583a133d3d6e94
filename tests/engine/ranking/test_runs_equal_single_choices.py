"""A run of equal pods ends up exactly where choosing for one after the other would put them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import pytest

from fairlead import Cluster
from fairlead.engine.ask.objects import read_pod
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.ranking.runs import place_run, place_turns
from fairlead.kube.pod import Pod
from support.differential.states import generate


def copies(pod: Pod, number: int) -> list[Pod]:
    return named([pod] * number)


def named(pods: Sequence[Pod]) -> list[Pod]:
    """The same pods, each under a name of its own."""
    return [
        msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, name=f"copy-{index}", uid=f"u{index}")
        )
        for index, pod in enumerate(pods)
    ]


def labelled(pod: Pod, app: str) -> Pod:
    labels = {**pod.metadata.labels, "turn": app}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))


def alone(pod: Pod) -> Pod:
    annotations = {**pod.metadata.annotations, "fairlead.dev/capacity": "exclusive"}
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations)
    )


def one_by_one(ranking: Ranking, pods: list[Pod]) -> list[int]:
    snapshot = ranking.snapshot
    cls = snapshot.class_of(pods[0])
    slots = []
    for pod in pods:
        slot = ranking.choose(cls) if not slots or slots[-1] >= 0 else -1
        if slot >= 0:
            snapshot.assume(pod, slot, cls=cls)
        slots.append(slot)
    return slots


@pytest.mark.parametrize("pack", [False, True])
def test_a_run_places_like_choosing_one_by_one(count: Callable[[int, int], int], pack: bool) -> None:
    for seed in range(count(40, 400)):
        state = generate(seed, 6)
        cluster = Cluster.from_objects([*state.objects, *state.placed])
        snapshot = cluster.snapshot
        ranking = Ranking(snapshot)
        ranking.basis.pack = pack
        number = random.Random(seed).randint(2, 60)
        for given in state.pending:
            pods = copies(read_pod(given), number)
            cls = snapshot.class_of(pods[0])
            with snapshot.trial():
                expected = one_by_one(ranking, pods)
            with snapshot.trial():
                found = place_run(ranking, cls, pods)
            assert found == expected, (seed, given)


@pytest.mark.parametrize("pack", [False, True])
def test_classes_that_take_turns_are_placed_like_choosing_one_by_one(
    count: Callable[[int, int], int], pack: bool
) -> None:
    for seed in range(count(40, 400)):
        rng = random.Random(seed)
        state = generate(seed, 6)
        snapshot = Cluster.from_objects([*state.objects, *state.placed]).snapshot
        ranking = Ranking(snapshot)
        ranking.basis.pack = pack
        pending = [read_pod(each) for each in state.pending]
        # Half of them alike but for a label, so that some that follow each other are of one shape.
        alike = [labelled(pending[0], f"app-{index}") for index in range(len(pending))]
        pods = [rng.choice(rng.choice((pending, alike))) for _ in range(40)]
        pods = named([alone(pod) if rng.random() < 0.05 else pod for pod in pods])
        turns = [(snapshot.class_of(pod), pod) for pod in pods]
        expected: list[int] = []
        with snapshot.trial():
            for cls, pod in turns:
                slot = ranking.choose(cls)
                if slot < 0:
                    break
                snapshot.assume(pod, slot, cls=cls)
                expected.append(slot)
        with snapshot.trial():
            assert place_turns(ranking, turns) == expected, seed


def test_a_run_on_many_equal_nodes_takes_them_in_the_order_of_their_names() -> None:
    nodes = [
        {
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }
        for name in ("c", "a", "d", "b")
    ]
    snapshot = Cluster.from_objects(nodes).snapshot
    ranking = Ranking(snapshot)
    pod = read_pod({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})
    slots = place_run(ranking, snapshot.class_of(pod), copies(pod, 5))
    assert [snapshot.nodes.name(slot) for slot in slots] == ["a", "b", "c", "d", "a"]


def test_a_run_that_finds_no_more_room_says_so_for_all_the_rest() -> None:
    node = {
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}},
    }
    snapshot = Cluster.from_objects([node]).snapshot
    ranking = Ranking(snapshot)
    pod = read_pod(
        {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "800m"}}}]},
        }
    )
    slots = place_run(ranking, snapshot.class_of(pod), copies(pod, 4))
    assert [slot >= 0 for slot in slots] == [True, True, False, False]
