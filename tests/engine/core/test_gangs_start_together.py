"""Gangs start together or not at all, heal when they lose a member, and start again whole when evicted."""

from __future__ import annotations

from fairlead.engine.planning.settings import Settings
from support.cluster_of import Running, running
from support.units import node, pod, pod_group, workload

OWNER = {"kind": "Job", "name": "j", "uid": "uid-Job-j", "controller": True}


def member(name: str, size: int = 3, **more) -> dict:
    return pod(name, gang="g", minimum=size, **more)


def names(world: Running) -> set[str]:
    return {key.partition("/")[2] for key in world.bound}


def test_a_gang_of_three_waits_for_its_third_member():
    world = running(None, node("n", cpu=8), member("a"), member("b"))
    assert names(world) == set()
    assert "2 of 3 members" in world.holds()["default/a"].message
    assert names(world.add(member("c"))) == {"a", "b", "c"}


def test_an_incomplete_gang_marks_no_member_unschedulable_a_complete_one_all():
    world = running(None, node("n", cpu=2), member("a"), member("b"))
    assert not any(hold.unschedulable for hold in world.holds().values())
    world.add(member("c"))
    assert {key for key, hold in world.holds().items() if hold.unschedulable} == {
        "default/a",
        "default/b",
        "default/c",
    }
    assert names(world) == set()


def test_a_gang_split_over_three_deployments_starts_when_the_third_is_there_and_settled():
    world = running(None, node("n", cpu=8))
    for index, name in enumerate("abc"):
        world.add(
            workload("Deployment", name, gang="g", created=100 + index),
            pod(f"{name}-1", gang="g", created=100 + index),
        )
        assert names(world) == set()
    assert names(world.after(5)) == set()
    assert names(world.after(3)) == {"a-1", "b-1", "c-1"}


def test_members_above_the_minimum_come_along_when_there_is_room():
    world = running(None, node("n", cpu=3), *(member(name, 2) for name in "abcd"))
    assert len(names(world)) == 3
    world.add(node("m", cpu=3)).after(15)
    assert names(world) == set("abcd")


def test_later_members_bind_singly():
    world = running(None, node("n", cpu=4), *(member(name) for name in "abc"))
    assert names(world.add(member("d", created=50))) == set("abcd")


def test_a_running_gang_that_loses_a_member_heals():
    world = running(None, node("n", cpu=3), *(member(name) for name in "abc"))
    world.remove("b").add(member("b2", created=50))
    assert names(world) == {"a", "b2", "c"}


def test_succeeded_members_count_as_present():
    done = member("a", on="n", phase="Succeeded")
    assert names(running(None, node("n", cpu=2), done, member("b"), member("c"))) == {"b", "c"}


def test_a_member_whose_bind_fails_is_placed_elsewhere():
    world = Running(Settings())
    world.binds_fail = lambda bind: bind.pod == "default/c" and bind.node == "n"
    world.add(node("n", cpu=3), node("m", cpu=2, unschedulable=True), *(member(name) for name in "abc"))
    assert names(world) == {"a", "b"}
    world.add(node("m", cpu=2), node("n", cpu=3, unschedulable=True)).after(15)
    assert world.bound == {"default/a": "n", "default/b": "n", "default/c": "m"}


def test_past_the_commit_timeout_members_with_a_controller_are_released():
    world = Running(Settings(commit_timeout_s=30))
    world.binds_fail = lambda bind: bind.pod == "default/c"
    world.add(node("n", cpu=3), *(member(name, owner=OWNER) for name in "abc")).after(29)
    assert world.released == []
    assert names(world.after(2)) == set()
    assert world.released == ["default/a", "default/b"]


def test_the_pod_groups_own_timeout_counts():
    world = Running(Settings(commit_timeout_s=1000))
    world.binds_fail = lambda bind: bind.pod == "default/c"
    marks = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}, "owner": OWNER}
    world.add(pod_group("g", 3, scheduleTimeoutSeconds=10), node("n", cpu=3))
    world.add(*(pod(name, **marks) for name in "abc")).after(11)
    assert world.released == ["default/a", "default/b"]


def test_bare_members_are_never_deleted_but_reported_and_kept_room_for():
    world = Running(Settings(commit_timeout_s=30))
    world.binds_fail = lambda bind: bind.pod == "default/c"
    world.add(node("n", cpu=3), *(member(name) for name in "abc")).after(31)
    assert world.released == []
    assert names(world) == {"a", "b"}
    assert {say.reason for say in world.said()} == {"GangIncomplete"}


def test_after_a_restart_a_partly_bound_gang_is_finished_before_others():
    world = running(
        None, node("n", cpu=3), pod("other", priority=0), member("a", on="n"), member("b"), member("c")
    )
    assert names(world) == {"a", "b", "c"}


def test_an_evicted_gang_starts_again_as_a_whole():
    world = running(None, node("n", cpu=3), *(member(name) for name in "abc"))
    world.add(pod("boss", 3, priority=9, created=50))
    assert names(world) == {"boss"}
    assert sorted(world.evicted) == ["default/a", "default/b", "default/c"]
    world.add(*(member(f"{name}2", created=60) for name in "ab"), node("m", cpu=4)).after(20)
    assert names(world) == {"boss"}
    assert names(world.add(member("c2", created=61)).after(20)) == {"boss", "a2", "b2", "c2"}


def test_a_member_that_was_promised_a_node_alone_starts_again_with_its_gang():
    world = running(None, node("n", cpu=2), *(member(name, 2, priority=5) for name in "ab"))
    world.leaves_at_once = False
    world.add(node("m", cpu=1), pod("low", on="m", priority=0), member("c", 2, priority=5, created=50))
    assert world.evicted == ["default/low"]
    world.add(pod("boss", 2, priority=9, created=60)).remove("a", "b")
    assert names(world) == {"low", "boss"}
    world.add(node("k", cpu=2), member("d", 2, priority=5, created=70)).after(20)
    assert names(world) == {"low", "boss", "c", "d"}


def test_after_a_restart_a_late_member_is_bound_where_the_api_says_it_was_promised():
    members = (member("a", 2, on="n"), member("b", 2, on="n"), member("c", 2, created=50, nominated="m"))
    world = running(None, node("n", cpu=4), node("m", cpu=1), *members)
    assert world.bound["default/c"] == "m"


def test_only_elastic_members_are_evicted_while_the_minimum_holds():
    world = running(None, node("n", cpu=4), *(member(name, 2) for name in "abcd"))
    world.add(pod("boss", 2, priority=9, created=50))
    assert len(world.evicted) == 2
    assert len(names(world)) == 3


def test_two_gangs_of_equal_priority_do_not_block_each_other():
    one = [pod(f"a{i}", 1, gang="a", minimum=3) for i in range(3)]
    two = [pod(f"b{i}", 1, gang="b", minimum=3) for i in range(3)]
    mixed = [pair for both in zip(one, two, strict=True) for pair in both]
    world = running(None, node("n", cpu=4), *mixed)
    assert names(world) == {"a0", "a1", "a2"}
    world.remove("a0", "a1", "a2").after(15)
    assert names(world) == {"b0", "b1", "b2"}


def test_members_with_mutual_affinity_find_the_zone_that_holds_them_all():
    zones = {"a": 3, "b": 1}
    nodes = [
        node(f"{zone}{index}", cpu=1, labels={"zone": zone}, pods=10)
        for zone, number in zones.items()
        for index in range(number)
    ]
    # The best single node is in zone b, which has no room for the rest.
    nodes.append(node("b-large", cpu=2, labels={"zone": "b"}))
    near = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"job": "x"}}}
            ]
        }
    }
    members = [member(name, 3, labels={"job": "x"}, affinity=near) for name in "abc"]
    world = running(None, *nodes, *members)
    assert len(world.bound) == 3
    assert len({where[0] for where in world.bound.values()}) == 1


def test_gang_members_in_exclusive_mode_take_a_node_each():
    settings = Settings(capacity="exclusive")
    world = running(settings, *(node(f"n{i}", cpu=8) for i in range(3)), *(member(name) for name in "abc"))
    assert sorted(world.bound.values()) == ["n0", "n1", "n2"]
    short = running(settings, *(node(f"n{i}", cpu=8) for i in range(2)), *(member(name) for name in "abc"))
    assert short.bound == {}


def test_a_gated_member_keeps_its_gang_waiting_until_the_gate_opens():
    gated = member("c", schedulingGates=[{"name": "g"}])
    world = running(None, node("n", cpu=3), member("a"), member("b"), gated)
    assert names(world) == set()
    assert names(world.add(member("c"))) == {"a", "b", "c"}
