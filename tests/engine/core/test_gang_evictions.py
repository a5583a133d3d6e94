"""Evictions of gangs at every point where something else happens: refusals, losses, restarts, other units."""

from __future__ import annotations

from typing import Any

from fairlead.engine.ask.cluster import Cluster
from fairlead.engine.core.actions import BindPod, EvictPod, ReleasePod, SparePod
from fairlead.engine.core.events import BindFailed, EvictFailed, Gone
from fairlead.engine.planning.settings import Settings
from support.cluster_of import Running, running, seen
from support.units import node, pod, pod_group

OWNER = {"kind": "ReplicaSet", "name": "rs", "uid": "uid-rs", "controller": True}


def member(name: str, **more: Any) -> dict[str, Any]:
    return pod(name, **({"gang": "g", "minimum": 2, "owner": OWNER} | more))


def marked(thing: dict[str, Any], reason: str = "Gang") -> dict[str, Any]:
    thing["status"]["conditions"] = [{"type": "fairlead.dev/Evicted", "status": "True", "reason": reason}]
    return thing


def evictions(world: Running, since: int = 0) -> list[EvictPod]:
    return [action for action in world.log[since:] if isinstance(action, EvictPod)]


def two(**settings: float) -> Running:
    """A gang of two on two nodes for one pod each."""
    nodes = node("n0", 1), node("n1", 1)
    return running(Settings(**settings), *nodes, member("a", on="n0"), member("b", on="n1"))


def begun(**settings: float) -> tuple[Running, str, str]:
    """The gang is being evicted for a higher pod: its member on that pod's node, and the other one."""
    world = two(**settings)
    world.tell(seen(pod("high", 1, priority=9)))
    for evict in evictions(world):
        assert world.core.confirms(evict, sending=True)
    near = {"n0": "a", "n1": "b"}[world.core.report.promised()["default/high"]]
    return world, near, {"a": "b", "b": "a"}[near]


def test_an_eviction_is_over_when_its_last_members_are_gone_at_once():
    world, _, _ = begun()
    gangs = world.core._state.gangs
    assert gangs.has_begun("default/g")
    world.tell(seen(member("a2")), world.gone("default/a"), world.gone("default/b"), seen(member("b2")))
    assert not gangs.evicted
    world.after(400)
    assert not gangs.get("default/g").latched


def test_a_preemptor_is_bound_when_its_node_is_free_though_another_member_hangs():
    world, near, far = begun()
    on = {"a": "n0", "b": "n1"}[far]
    hangs = seen(member(far, on=on, terminating=True))
    world.settle(world.tell(hangs, world.gone(f"default/{near}")))
    assert "default/high" in world.bound


def test_a_refused_first_eviction_leaves_the_gang_alone_once_the_preemptor_is_gone():
    world = two()
    world.tell(seen(pod("high", 1, priority=9)))
    asked = evictions(world)
    assert world.core.confirms(asked[0], sending=True)
    world.tell(*(EvictFailed(evict.pod, evict.uid, "429") for evict in asked))
    world.tell(world.gone("default/high"))
    number = len(world.log)
    world.after(60)
    assert evictions(world, number) == []
    assert set(world.bound) == {"default/a", "default/b"}


def test_an_eviction_whose_answer_was_lost_is_finished():
    world = two()
    world.tell(seen(pod("high", 1, priority=9)))
    asked = evictions(world)
    assert world.core.confirms(asked[0], sending=True)
    world.tell(*(EvictFailed(evict.pod, evict.uid, "no answer", unknown=True) for evict in asked))
    world.tell(world.gone("default/high"))
    world.after(60)
    assert world.bound == {}


def test_an_eviction_that_does_not_end_in_time_is_taken_back_and_what_is_left_heals():
    world, near, far = begun(preemption_timeout_s=30.0, commit_timeout_s=10.0)
    world.refused[f"default/{far}"] = False
    world.settle(world.tell(world.gone(f"default/{near}")))
    world.tell(EvictFailed(f"default/{far}", f"uid-default-{far}", "429"))
    world.after(29)
    assert world.core._state.gangs.has_begun("default/g")
    world.after(31)
    assert not world.core._state.gangs.evicted
    number = len(world.log)
    world.after(60)
    assert evictions(world, number) == []
    assert world.released == []
    assert world.core.report.gang("default/g").latched


def test_no_member_of_higher_priority_is_evicted_when_an_eviction_is_asked_for_again():
    nodes = [node(f"n{index}", 1) for index in range(3)]
    members = [member(f"p{index}", priority=9 if index == 2 else 0, on=f"n{index}") for index in range(3)]
    world = running(None, *nodes, *members)
    world.tell(seen(pod("high", 1, priority=5)))
    (evict,) = evictions(world)
    other = {"default/p0": "p1", "default/p1": "p0"}[evict.pod]
    world.tell(EvictFailed(evict.pod, evict.uid, "429"))
    world.tell(world.gone(f"default/{other}"), Gone("Node", "", f"n{other[1]}"))
    world.after(30)
    assert "default/p2" not in world.evicted


def test_a_unit_that_waits_for_one_member_does_not_take_the_rest_when_the_first_preemptor_is_gone():
    members = [member("a", on="n0", priority=8), member("b", on="n1", priority=0)]
    world = running(None, node("n0", 1), node("n1", 1), *members)
    world.tell(seen(pod("high", 1, priority=9, nodeSelector={"kubernetes.io/hostname": "n0"})))
    assert {evict.pod for evict in evictions(world)} == {"default/a", "default/b"}
    world.tell(seen(pod("other", 1, priority=5)))
    world.tell(world.gone("default/high"))
    assert world.core._state.gangs.evicted == {}
    assert not any(map(world.core.confirms, evictions(world)))
    assert set(world.after(30).bound) == {"default/a", "default/b"}


def test_a_victim_whose_bind_failed_is_not_evicted_while_it_waits():
    world = running(None, node("n0", 1), node("n1", 1))
    world.tell(seen(member("a")), seen(member("b")))
    first, second = (action for action in world.actions if isinstance(action, BindPod))
    world.tell(*world.happens(first))
    world.tell(seen(pod("high", 1, priority=9)), seen(pod("high2", 1, priority=9)))
    asked = evictions(world)
    world.settle(world.tell(BindFailed(second.pod, second.uid, second.node, "no")))
    number = len(world.log)
    for evict in asked:
        sent = world.core.confirms(evict, sending=True)
        world.settle(world.tell(world.gone(evict.pod) if sent else EvictFailed(evict.pod, evict.uid)))
    world.after(20)
    assert {"default/high", "default/high2"} <= set(world.bound)
    assert second.pod not in [evict.pod for evict in evictions(world, number)]


def test_a_release_that_is_refused_does_not_count_as_a_start():
    world = running(Settings(preemption_timeout_s=30.0, commit_timeout_s=10.0), node("n0", 1), node("n1", 1))
    world.binds_fail = lambda bind: bind.pod == "default/b"
    world.settle(world.tell(seen(member("a")), seen(member("b"))))
    world.tell(Gone("Node", "", "n1"), Gone("Node", "", "n0"))
    for _ in range(30):
        world.now += 2
        for action in world.tell():
            if isinstance(action, ReleasePod | EvictPod):
                world.tell(EvictFailed(action.pod, action.uid, "a webhook says no"))
    assert any(isinstance(action, ReleasePod) for action in world.log)
    assert not world.core.report.gang("default/g").latched


def test_a_gang_of_bare_pods_of_which_one_is_marked_leaves_whole_after_a_restart():
    started = {"fairlead.dev/gang-minimum": "2"}
    bare = {"owner": None, "annotations": started}
    world = running(None, node("n0", 1), node("n1", 1))
    world.add(marked(member("a", on="n0", **bare)), member("b", on="n1", **bare))
    assert set(world.evicted) == {"default/a", "default/b"}


def test_a_bare_member_of_a_gang_that_is_released_stays_after_a_restart():
    world = running(None, node("n0", 1), node("n1", 1))
    world.add(marked(member("a", on="n0"), "Release"), member("b", on="n1", owner=None))
    assert world.evicted == ["default/a"]


def test_a_started_gang_that_heals_is_not_released_after_a_restart():
    started = {"annotations": {"fairlead.dev/gang-minimum": "3"}, "minimum": 3, "started": -9000}
    world = running(None, node("n0", 1), node("n1", 1))
    world.add(member("a", on="n0", **started), member("b", on="n1", **started), member("c", minimum=3))
    world.after(300)
    assert world.released == []
    assert set(world.bound) == {"default/a", "default/b"}
    assert set(world.add(node("n2", 1)).after(30).bound) == {"default/a", "default/b", "default/c"}


def test_a_gang_of_bare_pods_that_was_begun_here_has_not_started_however_long_its_members_have_run():
    world = running(Settings(commit_timeout_s=10.0), node("n0", 1), node("n1", 1))
    world.binds_fail = lambda bind: bind.pod == "default/b"
    world.add(member("a", owner=None), member("b", owner=None))
    world.tell(Gone("Node", "", "n0"), Gone("Node", "", "n1"))
    world.after(60)
    world.add(member("a", owner=None, on=world.bound["default/a"], started=100)).after(60)
    assert not world.core.report.gang("default/g").latched


def test_a_mark_on_a_member_that_is_done_takes_no_other_along_after_a_restart():
    done = marked(member("a", on="n0", phase="Failed"))
    world = running(None, node("n0", 1), node("n1", 1), done, member("b", on="n1"), member("c", on="n0"))
    assert world.evicted == []


def test_a_member_whose_group_turned_out_to_be_basic_is_evicted_by_itself_when_that_is_asked_for_again():
    group = pod_group("g", 2, "scheduling.k8s.io/v1alpha2")
    more = {"gang": "", "minimum": 0, "schedulingGroup": {"podGroupName": "g"}}
    members = [member("a", on="n0", **more), member("b", on="n1", **more)]
    world = running(None, node("n0", 1), node("n1", 1), group, *members)
    world.tell(seen(pod("high", 1, priority=9)))
    asked = evictions(world)
    assert {evict.gang for evict in asked} == {"default/g@scheduling.k8s.io"}
    world.tell(seen(group | {"spec": {"schedulingPolicy": {"basic": {}}}}))
    world.tell(*(EvictFailed(evict.pod, evict.uid, "429") for evict in asked))
    number = len(world.log)
    world.after(60)
    assert {evict.gang for evict in evictions(world, number)} == {""}
    assert "default/high" in world.bound


def test_marks_are_taken_back_when_the_group_turns_out_to_be_basic():
    group = pod_group("g", 2, "scheduling.k8s.io/v1alpha2")
    more = {"gang": "", "minimum": 0, "annotations": {"fairlead.dev/gang-minimum": "2"}}
    more |= {"schedulingGroup": {"podGroupName": "g"}}
    members = [member("a", on="n0", **more), member("b", on="n1", **more)]
    world = running(None, node("n0", 1), node("n1", 1), group, *members)
    world.tell(seen(pod("high", 1, priority=9)))
    assert {evict.gang for evict in evictions(world)} == {"default/g@scheduling.k8s.io"}
    world.tell(*(seen(marked(one)) for one in members))
    world.tell(seen(group | {"spec": {"schedulingPolicy": {"basic": {}}}}))
    assert {one.pod for one in world.log if isinstance(one, SparePod)} == {"default/a", "default/b"}


def test_an_eviction_that_is_finished_after_a_restart_names_the_gang():
    objects = [node("n0", 2), marked(member("a", on="n0")), marked(member("b", on="n0"))]
    assert {one.unit for one in Cluster.from_objects(objects).plan().evictions} == {"default/g"}
    world = running(None, node("n0", 1), marked(member("a", on="n0")), marked(member("b", on="lost")))
    assert {evict.message for evict in evictions(world)} == {
        "Evicted with the rest of gang default/g on node n0",
        "Evicted with the rest of gang default/g on node lost",
    }


def test_a_gang_preempts_for_the_members_that_can_fit():
    lows = [pod(f"low{index}", on=f"n{index}") for index in range(2)]
    world = running(None, node("n0", 1), node("n1", 1), *lows)
    sizes = {"big": 64, "small": 1, "smaller": 1}
    members = [
        pod(name, cpu, gang="g", minimum=2, priority=9, created=index)
        for index, (name, cpu) in enumerate(sizes.items())
    ]
    assert set(world.add(*members).after(30).bound) == {"default/small", "default/smaller"}


def test_a_member_that_heals_is_not_kept_out_by_a_reservation_of_its_own_priority():
    members = [member("a", on="n0"), member("b", on="n1")]
    world = running(None, node("n0", 2), node("n1", 2), *members, pod("x", on="n0"), pod("y", on="n1"))
    world.add(pod("old", 2, created=90)).after(700)
    (kept,) = world.core.report.reservations()[0].nodes
    lost = {"n0": "a", "n1": "b"}[kept]
    world.settle(world.tell(world.gone(f"default/{lost}"), seen(member("c", created=world.now))))
    assert "default/c" in world.bound


def test_the_queue_position_of_a_member_names_its_gang_as_users_do():
    world = running(None, node("n0", 4), pod_group("train", 2, "scheduling.volcano.sh/v1beta1"))
    world.add(pod("a", annotations={"scheduling.volcano.sh/group-name": "train"}))
    assert world.core.queue_position("default/a").unit == "default/train"


def test_a_gang_that_waits_for_its_victims_may_vanish_at_once():
    world = running(None, node("n0", 1), node("n1", 1), pod("x", on="n0"), pod("y", on="n1"))
    world.tell(*(seen(member(name, priority=9)) for name in "ab"))
    assert len(evictions(world)) == 2
    world.tell(world.gone("default/a"), world.gone("default/b"))
    assert world.core.report.promised() == {}
    assert not any(map(world.core.confirms, evictions(world)))


def test_a_mark_on_a_pod_that_leaves_or_is_done_is_left_alone():
    world = two()
    world.tell(seen(marked(member("a", on="n0", terminating=True))))
    world.tell(seen(marked(member("b", on="n1", phase="Failed"))))
    assert not [action for action in world.log if isinstance(action, SparePod)]


def test_a_gang_whose_release_was_refused_is_released_again_however_long_its_members_have_run():
    world = running(Settings(commit_timeout_s=10.0), node("n0", 1), node("n1", 1))
    world.binds_fail = lambda bind: bind.pod == "default/b"
    world.add(member("a", started=0), member("b"))
    for _ in range(60):
        world.now += 1
        actions = world.tell()
        refused = [action for action in actions if isinstance(action, ReleasePod | EvictPod)]
        world.settle([action for action in actions if action not in refused])
        world.settle(world.tell(*(EvictFailed(action.pod, action.uid, "no") for action in refused)))
    assert len([action for action in world.log if isinstance(action, ReleasePod)]) > 1


def test_a_refusal_after_the_first_member_was_granted_does_not_take_the_eviction_back():
    world = two()
    world.tell(seen(pod("high", 1, priority=9)))
    first, second = evictions(world)
    assert world.core.confirms(first, sending=True)
    assert world.core.confirms(second, sending=True)
    # The watch has not shown yet that the first one leaves.
    world.tell(EvictFailed(second.pod, second.uid, "429"))
    assert world.core._state.gangs.has_begun("default/g")
