"""No change, no action; only units that an event can help are tried; time does the rest."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fairlead.engine.core.actions import BindPod, HoldPod
from fairlead.engine.core.events import BindFailed
from fairlead.engine.planning.settings import Settings
from support.cluster_of import Running, running, seen
from support.units import node, pod


def exclusive(name: str, **more: Any) -> dict[str, Any]:
    """A pod that has its node to itself, and says so in everybody's terms."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {},
        "labelSelector": {"matchExpressions": [{"key": "fairlead.dev/exclusive", "operator": "Exists"}]},
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(
        name,
        labels={"fairlead.dev/exclusive": ""},
        annotations={"fairlead.dev/capacity": "exclusive"},
        affinity=apart,
        **more,
    )


def test_the_same_objects_again_give_nothing():
    things = [node("n", cpu=1), pod("a"), pod("b"), pod("c", gang="g", minimum=2)]
    world = running(None, *things)
    later = [seen(thing) for thing in things if thing["metadata"]["name"] != "a"]
    assert world.tell(*later) == []
    assert world.after(3600).actions == []


def test_a_pod_is_bound_once():
    world = Running(Settings())
    first = world.tell(seen(node("n")), seen(pod("a")))
    assert [action for action in first if isinstance(action, BindPod)]
    assert world.tell(seen(pod("a"))) == []


def test_a_failed_bind_is_tried_again_after_a_rest_that_grows():
    world = Running(Settings())
    times: list[float] = []

    def fails(bind: BindPod) -> bool:
        times.append(world.now)
        return len(times) < 4

    world.binds_fail = fails
    world.add(node("n"), pod("a")).after(60)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == [1.0, 2.0, 4.0]
    assert world.bound == {"default/a": "n"}


def test_an_answer_about_another_node_than_assumed_is_ignored():
    world = running(None, node("n"), pod("a"))
    assert world.tell(BindFailed("default/a", "uid-default-a", "elsewhere")) == []


def test_a_pod_that_reappears_under_its_name_is_another_pod():
    world = running(None, node("n", cpu=1), pod("a", uid="one"))
    again = pod("a", uid="two", created=50)
    assert world.add(again).bound == {"default/a": "n"}
    assert world.pods["default/a"].metadata.uid == "two"


@pytest.mark.parametrize(
    ("held", "helped_by"),
    [
        (pod("a", 2), node("m", cpu=2)),
        (pod("a", 1, nodeSelector={"disk": "ssd"}), node("n", cpu=1, labels={"disk": "ssd"})),
        (
            pod("a", 1, nodeSelector={"tainted": "yes"}),
            node("t", labels={"tainted": "yes"}),
        ),
    ],
)
def test_an_event_that_can_help_wakes_the_unit(held, helped_by):
    world = running(None, node("n", cpu=1), held)
    assert world.bound == {}
    assert list(world.add(helped_by).after(15).bound) == ["default/a"]


def test_company_wakes_those_who_want_it():
    near = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
            ]
        }
    }
    world = running(None, node("n"), pod("web", affinity=near))
    assert world.bound == {}
    assert set(world.add(pod("db", labels={"app": "db"})).after(15).bound) == {"default/db", "default/web"}


def test_an_event_that_cannot_help_leaves_the_unit_alone():
    world = running(None, node("n", cpu=1), pod("a", 2))
    line = next(iter(world.core._service.queue.lines()))
    world.add(pod("small", "100m")).remove("small")
    assert line.attempts == 1


def test_equal_pods_cost_one_attempt():
    world = running(None, node("n", cpu=1), *(pod(f"p{index}", 2) for index in range(50)))
    (line,) = world.core._service.queue.lines()
    assert (len(line.units), line.attempts) == (50, 1)
    assert len(world.holds()) == 50


def test_a_pod_that_joins_a_held_line_is_told_at_once():
    world = running(None, node("n", cpu=1), pod("a", 2))
    world.add(pod("b", 2, created=50))
    assert world.holds()["default/b"].message == world.holds()["default/a"].message


def test_one_bad_pod_is_held_alone_and_the_rest_is_planned():
    bad = pod("bad")
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "-1"
    world = running(None, node("n"), bad, pod("good"))
    assert list(world.bound) == ["default/good"]
    assert "negative" in world.holds()["default/bad"].message


def test_a_node_that_makes_no_sense_is_left_out():
    bad = node("bad")
    bad["status"]["allocatable"]["cpu"] = "lots"
    world = running(None, bad, node("n"), pod("a"))
    assert world.bound == {"default/a": "n"}


def test_a_priority_that_makes_no_sense_is_reported_once():
    world = running(None, node("n", cpu=1), pod("a", 2, annotations={"priority": "high"}))
    world.add(pod("a", 2, annotations={"priority": "high"}))
    assert [say.reason for say in world.said()] == ["PriorityAnnotation"]


def test_a_text_that_differs_only_in_counts_is_not_said_again_at_once():
    world = running(None, node("n", cpu=1), pod("a", 2))
    world.tell(seen(node("m", cpu=1)))
    assert not [action for action in world.actions if isinstance(action, HoldPod)]


def test_a_deleted_node_frees_nobody_and_breaks_nothing():
    from fairlead.engine.core.events import Gone

    world = running(None, node("n", cpu=1), pod("a"), pod("b"))
    world.settle(world.tell(Gone("Node", "", "n")))
    assert world.add(node("m", cpu=1)).after(15).bound == {"default/a": "n", "default/b": "m"}


def test_an_exclusive_pod_that_autoscalers_cannot_see_is_reported_once():
    marks = {"annotations": {"fairlead.dev/capacity": "exclusive"}}
    label = {"labels": {"fairlead.dev/exclusive": ""}}
    world = running(
        None,
        node("n"),
        pod("told-nobody", **marks),
        pod("told-half", **label, **marks),
        exclusive("told-all"),
    )
    world.add(pod("told-nobody", **marks))
    assert sorted((say.pod, say.reason) for say in world.said()) == [
        ("default/told-half", "ExclusiveUnseen"),
        ("default/told-nobody", "ExclusiveUnseen"),
    ]


def test_a_pod_kept_off_an_exclusive_pods_node_says_once_that_autoscalers_see_room_there():
    world = running(None, node("n"), exclusive("alone"))
    assert world.said() == []
    world.add(pod("plain", created=1)).after(60).add(node("small", cpu="100m"))
    assert [(say.pod, say.reason) for say in world.said()] == [("default/plain", "ExclusiveUnseen")]
    assert world.bound == {"default/alone": "n"}


def test_an_exclusive_pod_kept_off_nodes_in_use_says_once_that_autoscalers_see_room_there():
    world = running(None, node("n"), pod("plain"), exclusive("alone", created=1))
    world.after(60)
    assert [(say.pod, say.reason) for say in world.said()] == [("default/alone", "ExclusiveUnseen")]


def test_a_pod_that_would_not_fit_anyway_says_nothing_of_exclusive_nodes():
    world = running(None, node("n"), exclusive("alone"), pod("large", 9, created=1))
    assert world.said() == []


def test_a_large_batch_of_freed_nodes_wakes_those_who_wait():
    nodes = [node(f"n{index:02}", cpu=1) for index in range(20)]
    running_pods = [pod(f"r{index:02}", on=f"n{index:02}") for index in range(20)]
    world = running(None, *nodes, *running_pods, *(pod(f"w{index:02}", created=9) for index in range(20)))
    world.remove(*(f"r{index:02}" for index in range(20))).after(15)
    assert len(world.bound) == 20


def test_a_nodes_heartbeat_wakes_nobody():
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
            ]
        }
    }
    lonely = pod("b", labels={"app": "a"}, affinity=apart)
    world = running(None, node("n"), pod("a", on="n", labels={"app": "a"}), lonely)
    (line,) = world.core._service.queue.lines()
    beat = node("n")
    beat["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    world.add(beat).after(60)
    assert line.attempts == 1
