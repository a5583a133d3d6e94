"""A pod that cannot be read is still there: its gang waits for it, and says so."""

from __future__ import annotations

from typing import Any

from fairlead.engine.ask.objects import remains
from fairlead.engine.core.actions import HoldPod, Say
from fairlead.engine.core.events import Gone, Unread
from fairlead.engine.planning.settings import Settings
from support.cluster_of import Running, running, seen
from support.units import node, pod, workload

PROBLEM = "Pod default/c: status.startTime: is no time"


def unread(name: str = "c", **more: Any) -> Unread:
    return Unread(remains(pod(name, **{"gang": "g", **more})), PROBLEM)


def waiting(**more: Any) -> Running:
    """Two members of a gang are there, and a third that cannot be read."""
    world = Running(Settings())
    members = [seen(pod(name, gang="g", **more)) for name in ("a", "b")]
    world.settle(world.tell(seen(node("n")), *members, unread(**more)))
    return world.after(10)


def test_a_gang_of_a_declared_size_says_who_is_missing_and_why():
    holds = waiting(minimum=3).holds()
    assert sorted(holds) == ["default/a", "default/b"]
    for hold in holds.values():
        assert hold.message == f"gang default/g: 2 of 3 members are there; 1 cannot be used: {PROBLEM}"
        assert not hold.unschedulable


def test_a_gang_that_is_counted_counts_it():
    world = waiting()
    assert world.bound == {}
    assert PROBLEM in world.holds()["default/a"].message


def test_nothing_is_advised_about_its_owner_when_every_member_is_there():
    owner = {"kind": "StatefulSet", "name": "set", "uid": "uid-StatefulSet-set", "controller": True}
    world = waiting(minimum=3, owner=owner).add(workload("StatefulSet", "set", replicas=3, gang="g"))
    assert world.tell(seen(pod("a", gang="g", minimum=3, owner=owner))) == []
    assert world.holds()["default/a"].message.endswith(f"1 cannot be used: {PROBLEM}")


def test_the_pod_itself_is_told_once():
    world = waiting()
    said = [one for one in world.log if isinstance(one, Say)]
    assert [(one.pod, one.uid, one.reason) for one in said] == [
        ("default/c", "uid-default-c", "FailedScheduling")
    ]
    assert PROBLEM in said[0].message
    assert world.tell(unread()) == []
    assert world.after(600).tell(unread()) == []


def test_the_gang_starts_whole_when_it_can_be_read_at_last():
    world = waiting(minimum=3).add(pod("c", gang="g", minimum=3))
    assert sorted(world.bound) == ["default/a", "default/b", "default/c"]
    assert list(world.core.report.problems()) == []


def test_when_it_is_gone_a_counted_gang_starts_without_it_and_a_declared_one_waits_for_another():
    gone = Gone("Pod", "default", "c", "uid-default-c")
    counted, declared = waiting(), waiting(minimum=3)
    for world in (counted, declared):
        world.settle(world.tell(gone))
        assert list(world.after(10).core.report.problems()) == []
    assert sorted(counted.bound) == ["default/a", "default/b"]
    assert declared.holds()["default/a"].message == "gang default/g: 2 of 3 members are there"


def test_one_that_runs_counts_as_there_and_nobody_is_let_go_for_it():
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    members = [pod(name, gang="g", minimum=3, on="n", started=99, owner=owner) for name in ("a", "b")]
    world = Running(Settings())
    world.settle(world.tell(seen(node("n")), *map(seen, members), unread(minimum=3, on="n")))
    assert world.after(3600).released == []
    assert world.said() == []


def test_a_gang_that_has_enough_does_not_wait_for_it():
    assert sorted(waiting(minimum=2).bound) == ["default/a", "default/b"]


def test_the_pods_of_other_schedulers_are_not_ours_to_complain_about():
    world = running(None, node("n"))
    assert world.tell(unread(scheduler="another")) == []
    assert list(world.core.report.problems()) == []


def test_one_that_could_be_read_before_stays_as_it_was():
    world = running(None, node("n", 1), pod("c", gang="g", minimum=1))
    assert world.bound == {"default/c": "n"}
    assert world.tell(unread()) == []
    assert not [one for one in world.log if isinstance(one, HoldPod)]
