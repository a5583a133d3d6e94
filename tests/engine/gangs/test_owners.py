"""Which owners count for a gang: what their template names, else what their pods are in."""

from __future__ import annotations

import itertools

import pytest

from fairlead.engine.gangs.gangs import Gangs
from fairlead.engine.gangs.owners import GangOwners
from fairlead.kube.decode import convert
from fairlead.kube.workloads import Workload
from support.units import pod, typed, workload

CONTROLLER = {"kind": "ReplicaSet", "name": "made", "uid": "uid-ReplicaSet-made", "controller": True}


def owner(replicas: int, *, gang: str = "") -> Workload:
    return convert(workload("ReplicaSet", "made", replicas=replicas, gang=gang), Workload)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_template_that_names_another_gang_is_believed_in_any_order(order: tuple[int, ...]):
    found = Gangs(settle_s=0.0)
    steps = [
        lambda: found.owner_seen("ReplicaSet", owner(3, gang="template")),
        lambda: found.pod_seen(typed(pod("a", gang="pod", owner=CONTROLLER))),
        lambda: found.pod_seen(typed(pod("b", gang="pod", owner=CONTROLLER))),
    ]
    for step in order:
        steps[step]()
    gang = found.get("default/pod")
    assert gang is not None
    assert gang.minimum == 2


def test_a_gang_outlives_the_owner_of_its_members():
    found = Gangs(settle_s=0.0)
    found.owner_seen("ReplicaSet", owner(3, gang="template"))
    found.pod_seen(typed(pod("a", gang="pod", owner=CONTROLLER)))
    found.owner_gone("ReplicaSet", "default", "made")
    gang = found.get("default/pod")
    assert gang is not None
    assert gang.minimum == 1


def started_gang_of_three() -> Gangs:
    found = Gangs(settle_s=0.0)
    found.owner_seen("ReplicaSet", owner(3, gang="g"))
    for name in "abc":
        found.pod_seen(typed(pod(name, gang="g", owner=CONTROLLER)))
        found.assume(f"uid-default-{name}")
    found.latch("default/g")
    return found


def test_a_started_gang_shrinks_with_its_owner_and_what_is_added_comes_beyond_its_minimum():
    found = started_gang_of_three()
    minimums = []
    for replicas in (5, 2):
        found.owner_seen("ReplicaSet", owner(replicas, gang="g"))
        gang = found.get("default/g")
        assert gang is not None
        minimums.append(gang.minimum)
    assert minimums == [3, 2]


def test_a_started_gang_whose_owner_wants_no_pods_keeps_the_minimum_it_started_with():
    found = started_gang_of_three()
    found.owner_seen("ReplicaSet", owner(0, gang="g"))
    found.pod_gone("uid-default-c")
    gang = found.get("default/g")
    assert gang is not None
    assert gang.minimum == 3


def test_an_owner_whose_members_all_left_counts_when_the_next_one_comes():
    found = Gangs(settle_s=0.0)
    found.owner_seen("Clone.example.com", owner(3))
    found.pod_seen(typed(pod("a", gang="g", owner=CONTROLLER, uid="1")))
    found.pod_gone("1")
    found.pod_seen(typed(pod("b", gang="g", owner=None, uid="2")))
    gang = found.get("default/g")
    assert gang is not None
    assert gang.minimum == 3


def owners() -> GangOwners:
    return GangOwners()


def test_whom_nobody_knows_is_forgotten_with_the_last_member():
    found = owners()
    found.controls("default/g", "uid-ReplicaSet-made")
    found.emptied("default/g")
    assert found.seen("ReplicaSet", owner(3)) == []


def test_an_owner_that_is_gone_is_forgotten():
    found = owners()
    found.controls("default/g", "uid-ReplicaSet-made")
    assert found.seen("ReplicaSet", owner(3)) == ["default/g"]
    assert found.seen("ReplicaSet", owner(4)) == ["default/g", "default/g"]
    assert found.desired("default/g")[0] == 4
    assert found.gone("ReplicaSet", "default", "made") == ["default/g"]
    assert found.desired("default/g")[0] == 0
    assert found.seen("ReplicaSet", owner(3)) == []
