"""What the scheduler reports of annotations that it ignores because of their namespace."""

from __future__ import annotations

from typing import Any

from fairlead.engine.planning.priority import PriorityAnnotation
from fairlead.engine.planning.settings import Settings
from fairlead.kube.selectors import LabelSelector
from support.cluster_of import Running, running
from support.units import node, pod, workload

TRUSTED = LabelSelector(match_labels={"trusted": "yes"})
SETTINGS = Settings(priority_annotation=PriorityAnnotation(namespace_selector=TRUSTED))
HIGH = {"priority": "9"}
IGNORED = (
    "annotation priority is ignored in namespace default: use a PriorityClass, or label the namespace so "
    "that it matches trusted=yes; using 0"
)


def namespace(**labels: str) -> dict[str, Any]:
    return {"kind": "Namespace", "metadata": {"name": "default", "labels": labels}}


def reported(world: Running) -> list[tuple[str, str]]:
    assert {say.reason for say in world.said()} <= {"PriorityAnnotation"}
    return [(say.pod, say.message) for say in world.said()]


def test_a_pod_is_told_once_that_its_annotation_is_ignored_and_what_to_do():
    world = running(SETTINGS, namespace(), node("n", cpu=1), pod("a", 2, annotations=HIGH))
    world.add(pod("a", 2, annotations=HIGH)).after(60)
    assert reported(world) == [("default/a", IGNORED)]


def test_the_pods_of_a_workload_are_told_once():
    owner = workload("ReplicaSet", "web", replicas=3)
    reference = {"kind": "ReplicaSet", "name": "web", "uid": owner["metadata"]["uid"], "controller": True}
    members = [pod(f"web-{index}", annotations=HIGH, owner=reference) for index in range(3)]
    world = running(SETTINGS, namespace(), node("n"), owner, *members)
    assert reported(world) == [("default/web-0", IGNORED)]


def test_labels_that_come_and_go_repeat_nothing():
    world = running(SETTINGS, namespace(), node("n", cpu=1), pod("low", on="n"), pod("a", annotations=HIGH))
    for labels in ({"team": "b"}, {"trusted": "yes"}, {}, {"trusted": "yes"}, {"trusted": "no"}):
        world.add(namespace(**labels)).after(15)
    assert reported(world) == [("default/a", IGNORED)]
    assert world.evicted == ["default/low"]


def test_a_pod_whose_namespace_loses_its_label_is_told_then():
    world = running(SETTINGS, namespace(trusted="yes"), node("n"), pod("a", annotations=HIGH))
    assert reported(world) == []
    world.add(namespace())
    assert reported(world) == [("default/a", IGNORED)]


def test_a_pod_that_is_seen_before_its_labelled_namespace_is_told_nothing():
    world = running(SETTINGS, node("n", cpu=1), pod("low", on="n"), pod("a", annotations=HIGH))
    world.add(namespace(trusted="yes")).after(15)
    assert reported(world) == []
    assert world.evicted == ["default/low"]


def test_a_pod_that_is_seen_before_its_unlabelled_namespace_is_told_when_that_is_seen():
    world = running(SETTINGS, node("n"), pod("a", annotations=HIGH))
    assert reported(world) == []
    world.add(namespace())
    assert reported(world) == [("default/a", IGNORED)]


def test_pods_of_other_schedulers_are_told_nothing():
    theirs = pod("a", annotations=HIGH, scheduler="default-scheduler")
    assert reported(running(SETTINGS, namespace(), node("n"), theirs)) == []
