"""Evictions: who is asked to leave, what is promised meanwhile, and what happens when they do not."""

from __future__ import annotations

from fairlead.engine.core.actions import BindPod, EvictPod, NominatePod, decision
from fairlead.engine.core.events import EvictFailed
from fairlead.engine.core.evictions import Evictions, Wait
from fairlead.engine.planning.priority import PriorityAnnotation
from fairlead.engine.planning.settings import Settings
from fairlead.engine.planning.units import pod_unit
from fairlead.engine.planning.victims import Victim
from fairlead.kube.selectors import LabelSelector
from support.cluster_of import Running, running, seen
from support.units import EPOCH, budget, node, pod, pod_group, typed


def slow(*things: dict, **settings) -> Running:
    """A cluster in which victims take their time."""
    world = Running(Settings(**settings))
    world.leaves_at_once = False
    return world.add(*things)


def test_the_victim_leaves_and_the_pod_takes_its_place():
    world = running(None, node("n", cpu=1), pod("low", on="n", priority=1), pod("high", priority=2))
    assert world.evicted == ["default/low"]
    assert world.bound == {"default/high": "n"}


def test_the_nomination_is_written_and_counts_while_victims_leave():
    world = slow(node("n", cpu=2), pod("low", 2, on="n", priority=1), pod("high", 1, priority=9))
    assert [action.node for action in world.log if isinstance(action, NominatePod)] == ["n"]
    world.add(pod("sneaky", 2, priority=5, created=50))
    assert world.evicted == ["default/low"]
    world.remove("low").after(15)
    assert world.bound == {"default/high": "n"}


def test_while_victims_leave_the_unit_picks_no_new_ones():
    world = slow(
        node("n", cpu=1),
        node("m", cpu=1),
        pod("low", on="n", priority=1),
        pod("mid", on="m", priority=2),
        pod("high", priority=9),
    )
    world.after(60)
    assert world.evicted == ["default/low"]


def test_past_the_timeout_everything_is_released():
    world = slow(
        node("n", cpu=1), pod("low", on="n", priority=1), pod("high", priority=9), preemption_timeout_s=30
    )
    world.tell()
    assert world.core.report.promised()
    world.now += 31
    actions = world.tell()
    assert NominatePod("default/high", "uid-default-high", "") in map(decision, actions)


def test_lower_units_cannot_take_the_room_that_is_being_made():
    world = slow(node("n", cpu=2), pod("low", 2, on="n", priority=1), pod("high", 2, priority=9))
    world.add(pod("mid", 1, priority=5, created=50))
    world.remove("low")
    assert world.bound == {"default/high": "n"}


def test_a_higher_unit_may_take_what_a_lower_one_was_promised():
    world = slow(node("n", cpu=1), pod("low", on="n", priority=1), pod("high", priority=5))
    world.add(pod("highest", priority=9, created=50)).remove("low").after(15)
    assert world.bound == {"default/highest": "n"}


def test_an_eviction_is_not_confirmed_once_the_placement_does_not_hold():
    world = Running(Settings())
    actions = world.tell(
        *map(seen, [node("n", cpu=1), pod("low", on="n", priority=1), pod("high", priority=5)])
    )
    (evict,) = [action for action in actions if isinstance(action, EvictPod)]
    assert world.core.confirms(evict)
    world.tell(seen(node("n", cpu=1, unschedulable=True)))
    assert not world.core.confirms(evict)


def test_an_eviction_is_not_confirmed_for_a_pod_that_is_gone():
    world = Running(Settings())
    actions = world.tell(
        *map(seen, [node("n", cpu=1), pod("low", on="n", priority=1), pod("high", priority=5)])
    )
    (evict,) = [action for action in actions if isinstance(action, EvictPod)]
    world.tell(world.gone("default/high"))
    assert not world.core.confirms(evict)


def test_a_refused_eviction_is_asked_for_again_later():
    world = Running(Settings(eviction_retry_s=5))
    world.refused["default/low"] = False
    world.add(node("n", cpu=1), pod("low", on="n", priority=1), pod("high", priority=5))
    assert world.evicted == ["default/low"]
    world.refused.clear()
    world.after(6)
    assert world.evicted == ["default/low"] * 2
    assert world.bound == {"default/high": "n"}


def test_a_pod_that_can_never_be_evicted_is_spared_and_another_chosen():
    world = Running(Settings())
    world.refused["default/low"] = True
    world.add(
        node("n", cpu=1),
        node("m", cpu=1),
        pod("low", on="n", priority=1),
        pod("mid", on="m", priority=2),
        pod("high", priority=5),
    ).after(20)
    assert world.evicted == ["default/low", "default/mid"]
    assert world.bound == {"default/high": "m", "default/low": "n"}


def test_a_nomination_is_taken_back_though_one_of_the_same_node_was_before():
    world = Running(Settings())
    low, mid = pod("low", on="n", priority=1), pod("mid", on="n", priority=2)
    world.tell(*map(seen, (node("n", cpu=2), low, mid, pod("high", priority=5))))
    world.tell(EvictFailed("default/low", world.pods["default/low"].metadata.uid, final=True))
    world.now += 5
    world.tell()
    assert nominated(world) == ["n", "", "n"]
    # The watch shows all of that as one change.
    world.binds_fail = lambda bind: True
    world.settle([action for action in world.log if isinstance(action, NominatePod)][-1:])
    world.remove("mid").after(2)
    world.add(node("n", cpu=1)).after(30)
    assert nominated(world) == ["n", "", "n", ""]
    assert world.pods["default/high"].status.nominated_node_name == ""


def nominated(world: Running) -> list[str]:
    return [action.node for action in world.log if isinstance(action, NominatePod)]


def test_budgets_hold_across_preemptors_of_one_moment():
    web = {"app": "web"}
    world = running(
        None,
        budget("b", web, allowed=1),
        *(node(f"n{i}", cpu=1) for i in range(2)),
        *(pod(f"low{i}", on=f"n{i}", priority=1, labels=web) for i in range(2)),
        *(pod(f"high{i}", priority=5) for i in range(2)),
    )
    assert len(world.evicted) == 1


def test_with_best_effort_budgets_may_break_when_nothing_else_helps():
    web = {"app": "web"}
    world = running(
        Settings(pdb="best-effort"),
        budget("b", web, allowed=0),
        node("n", cpu=1),
        pod("low", on="n", priority=1, labels=web),
        pod("high", priority=5),
    )
    assert world.evicted == ["default/low"]


def test_a_pod_that_may_not_preempt_waits():
    world = running(
        None,
        node("n", cpu=1),
        pod("low", on="n", priority=1),
        pod("high", priority=5, preemptionPolicy="Never"),
    )
    assert world.evicted == []


def test_pods_of_other_schedulers_are_counted_but_never_touched():
    foreign = pod("foreign", on="n", priority=1, scheduler="default-scheduler")
    world = running(None, node("n", cpu=1), foreign, pod("high", priority=5))
    assert world.evicted == []
    assert list(world.bound) == ["default/foreign"]
    waiting = pod("theirs", scheduler="default-scheduler")
    assert running(None, node("n"), waiting).log == []


def test_system_pods_are_never_victims():
    critical = pod("critical", on="n", priority=2_000_000_000)
    assert running(None, node("n", cpu=1), critical, pod("high", priority=2_000_001_000)).evicted == []


def test_a_gang_takes_room_only_when_all_of_it_fits():
    low = [pod(f"low{i}", on=f"n{i}", priority=1) for i in range(2)]
    gang = [pod(f"g{i}", gang="g", minimum=3, priority=9) for i in range(3)]
    nodes = [node(f"n{i}", cpu=1) for i in range(2)]
    assert running(None, *nodes, *low, *gang).evicted == []
    world = running(None, *nodes, node("n2", cpu=1), *low, *gang)
    assert sorted(world.evicted) == ["default/low0", "default/low1"]
    assert len(world.bound) == 3


def test_a_nominated_pod_binds_nothing_before_its_victims_are_gone():
    world = slow(node("n", cpu=1), pod("low", on="n", priority=1), pod("high", priority=9))
    assert not [action for action in world.log if isinstance(action, BindPod)]


def test_a_nomination_from_before_a_restart_is_honoured():
    leaving = pod("low", on="n", priority=1, terminating=True)
    high = pod("high", priority=9, nominated="n")
    other = pod("mid", on="m", priority=2)
    world = running(None, node("n", cpu=1), node("m", cpu=1), leaving, other, high)
    assert world.evicted == []
    assert world.remove("low").after(15).bound == {"default/high": "n", "default/mid": "m"}


def test_a_namespace_that_is_labelled_later_makes_its_annotations_count():
    trusted = LabelSelector(match_labels={"trusted": "yes"})
    settings = Settings(priority_annotation=PriorityAnnotation(namespace_selector=trusted))
    namespace = {"kind": "Namespace", "metadata": {"name": "default"}}
    world = running(
        settings, namespace, node("n", cpu=1), pod("low", on="n"), pod("high", annotations={"priority": "9"})
    )
    assert world.evicted == []
    world.add({"kind": "Namespace", "metadata": {"name": "default", "labels": {"trusted": "yes"}}}).after(15)
    assert world.evicted == ["default/low"]


def test_a_promise_that_no_longer_holds_is_taken_back_at_once():
    world = slow(
        node("n", cpu=1),
        node("m", cpu=1),
        pod("low", on="n", priority=1),
        pod("mid", on="m", priority=2),
        pod("high", priority=9),
    )
    world.add(node("n", cpu=1, unschedulable=True))
    assert NominatePod("default/high", "uid-default-high", "") in map(decision, world.log)
    world.after(15)
    assert world.evicted == ["default/low", "default/mid"]
    assert world.remove("mid").after(15).bound["default/high"] == "m"


def test_a_unit_takes_the_place_it_was_promised_though_a_better_one_came_up():
    world = slow(node("n", cpu=1), pod("low", on="n", priority=1), pod("high", priority=9))
    world.add(node("m", cpu=64))
    assert world.remove("low").after(15).bound == {"default/high": "n"}


def test_what_a_gang_was_promised_and_lost_is_not_kept_from_others():
    world = running(
        Settings(backoff_s=0, backoff_max_s=0),  # the more important pod is tried again at once
        node("n", cpu=3),
        pod("low", 2, on="n", priority=0),
        pod("high", 2, priority=2, preemptionPolicy="Never"),
        pod("small", 1, priority=0, created=40),
        *(pod(f"g{i}", 1, priority=1, gang="g", minimum=2) for i in range(2)),
    )
    # The gang makes room, the more important pod takes it: the gang cannot start, the small pod can.
    assert world.evicted == ["default/low"]
    assert world.bound == {"default/high": "n", "default/small": "n"}


def test_a_victim_that_finishes_by_itself_has_left():
    world = running(None, node("n", cpu=1), pod("low", on="n"))
    world.leaves_at_once = False
    world.add(pod("high", priority=9))
    assert "default/high" not in world.bound
    world.add(pod("low", on="n", phase="Succeeded"))
    assert world.bound == {"default/high": "n"}


def test_a_held_pod_that_makes_no_sense_any_more_is_not_placed_as_it_was():
    world = running(None, pod("a", 2))
    broken = {"matchExpressions": [{"key": "k", "operator": "Near", "values": ["v"]}]}
    near = [{"topologyKey": "zone", "labelSelector": broken}]
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near}}
    world.add(pod("a", 2, affinity=affinity))
    assert "Near" in world.holds()["default/a"].message
    assert world.add(node("n", cpu=4)).after(30).bound == {}


def test_the_core_wakes_for_whichever_comes_first_of_a_retry_and_a_deadline():
    world = running(None, node("n", cpu=1), pod("low", on="n"))
    world.tell(seen(pod("high", priority=9)))
    evict = next(action for action in world.actions if isinstance(action, EvictPod))
    world.tell(EvictFailed(evict.pod, evict.uid, "a budget"))
    assert world.core.wake_at == EPOCH.timestamp() + world.now + Settings().eviction_retry_s


def test_a_victim_that_did_not_leave_in_time_is_asked_to_leave_again():
    world = running(None, node("n", cpu=1), pod("low", on="n"))
    world.tell(seen(pod("high", priority=9)))
    for _ in range(40):
        world.now += 20
        world.tell()
    assert world.evicted.count("default/low") > 1


def test_two_units_of_equal_priority_make_room_on_one_node_at_once():
    world = running(None, node("n", cpu=2), pod("x", on="n"), pod("y", on="n"))
    world.tell(seen(pod("a", priority=9)), seen(pod("b", priority=9)))
    asked = [action for action in world.actions if isinstance(action, EvictPod)]
    assert sorted(evict.pod for evict in asked) == ["default/x", "default/y"]
    assert set(world.core.report.promised()) == {"default/a", "default/b"}
    assert all(world.core.confirms(evict, sending=True) for evict in asked)


def test_a_nomination_is_kept_while_preempted_pods_leave_the_node():
    leaving = pod("low", 2, on="n", terminating=True)
    leaving["status"]["conditions"] = [{"type": "fairlead.dev/Evicted", "status": "True", "reason": "Pod"}]
    world = running(None, node("n", cpu=2), leaving, pod("high", 2, priority=9, nominated="n"))
    assert list(world.core.report.promised().values()) == ["n"]
    assert not [action for action in world.log if isinstance(action, NominatePod)]


def test_a_node_is_searched_again_when_the_gang_of_its_pod_changes_elsewhere():
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    low = pod("low", on="n0", priority=1, labels=labels)
    must_stay = pod("must-stay", on="n1", priority=9, labels=labels)
    world = running(None, node("n0", cpu=1), node("n1", cpu=1), pod_group("g", 2), low, must_stay)
    world.add(pod("high", priority=5)).after(20)
    assert world.evicted == []
    world.add(pod_group("g", 1)).after(600)
    assert world.evicted == ["default/low"]
    assert world.bound["default/high"] == "n0"


def test_a_node_is_searched_again_when_another_pod_under_a_budget_is_on_it():
    allows = budget("b", {"app": "a"}, 1)
    first = pod("first", on="n", priority=9, labels={"app": "a"})
    world = running(None, node("n", cpu=1), allows, first, pod("high", priority=5))
    assert world.evicted == []
    second = pod("second", on="n", priority=1, labels={"app": "a"})
    world.settle(world.tell(world.gone("default/first"), seen(second)))
    world.after(600)
    assert world.evicted == ["default/second"]


def test_a_wait_is_over_only_when_no_victim_is_left_on_the_units_node_though_others_hang_elsewhere():
    high, near, late, far = (typed(pod(name)) for name in ("high", "near", "late", "far"))
    unit = pod_unit(high, Settings().order)
    slots = ((near, 0), (late, 0), (far, 1))
    victims = {one.metadata.uid: Victim(one, 0, 0.0, slot) for one, slot in slots}
    waits = Evictions()
    waits.add(Wait(unit, ((high, 0),), victims, deadline=300.0))
    assert waits.left(near.metadata.uid) == []
    (over,) = waits.left(late.metadata.uid)
    assert over.unit is unit
