"""PodGroups as Kubernetes, Volcano and coscheduling define them, each with its own rules."""

from __future__ import annotations

from typing import Any

from fairlead.engine.core.events import Gone
from support.cluster_of import Running, running
from support.stories import COSCHEDULING, VOLCANO, Story
from support.units import node, pod, pod_group

KUBERNETES = "scheduling.k8s.io/v1alpha2"
GROUP_NAME = "scheduling.k8s.io/group-name"
LABEL = "scheduling.x-k8s.io/pod-group"


def member(name: str, group: str = "ring", **more: Any) -> dict[str, Any]:
    """A pod that declares its gang as Kubernetes itself has it."""
    return pod(name, schedulingGroup={"podGroupName": group}, **more)


def basic(name: str = "ring") -> dict[str, Any]:
    found = pod_group(name, 1, KUBERNETES)
    found["spec"] = {"schedulingPolicy": {"basic": {}}}
    return found


def volcano(story: Story, name: str, group: str = "ring", **more: Any) -> None:
    """Create a pod that declares its gang Volcano's way."""
    made = story.pod(name, **more)
    made["metadata"]["annotations"][GROUP_NAME] = group
    story.cluster.create(made)


def unmarked(world: Running, *names: str) -> bool:
    """Whether none of these was reported Unschedulable."""
    return not any(
        hold.unschedulable for key, hold in world.holds().items() if key.partition("/")[2] in names
    )


def test_members_of_kubernetes_own_groups_wait_for_the_object():
    """A pod that names a PodGroup which does not exist stays pending until it does, without an alarm."""
    world = running(None, node("n", cpu=4), member("a"), member("b")).after(60)
    assert world.bound == {}
    assert unmarked(world, "a", "b")
    assert set(world.add(pod_group("ring", 2, KUBERNETES)).after(15).bound) == {"default/a", "default/b"}


def test_members_wait_also_when_the_object_turns_out_to_have_the_basic_policy():
    """Only the object tells whether they are a gang; if they are not, each starts where there is room."""
    world = running(None, node("n", cpu=1), member("a"), member("b")).after(60)
    assert world.bound == {}
    assert unmarked(world, "a", "b")
    assert len(world.add(basic()).after(15).bound) == 1
    assert [hold.unschedulable for key, hold in world.holds().items() if key not in world.bound] == [True]


def test_members_wait_again_when_the_object_is_deleted_before_they_start():
    """Without its object a gang that has not started does not start, however much room there is."""
    world = running(None, pod_group("ring", 2, KUBERNETES), node("n", cpu=1), member("a"), member("b"))
    world.settle(world.tell(Gone("PodGroup", "default", "ring", group="scheduling.k8s.io")))
    world.add(node("m", cpu=4)).after(60)
    assert world.bound == {}
    assert set(world.add(pod_group("ring", 2, KUBERNETES)).after(15).bound) == {"default/a", "default/b"}


def test_a_gang_that_runs_outlives_its_object():
    """Deleting the PodGroup of a gang that has started stops nothing, and the gang still heals."""
    world = running(None, pod_group("ring", 2, KUBERNETES), node("n", cpu=4), member("a"), member("b"))
    world.settle(world.tell(Gone("PodGroup", "default", "ring", group="scheduling.k8s.io")))
    assert set(world.after(120).bound) == {"default/a", "default/b"}
    world.remove("b").add(member("b2", created=200)).after(15)
    assert set(world.bound) == {"default/a", "default/b2"}


def test_members_of_volcanos_groups_wait_for_the_object(story: Story):
    """Controllers may create pods before their PodGroup; none of them starts until it exists (Volcano)."""
    story.serve(VOLCANO)
    story.cluster.add_nodes(1, cpu=4)
    with story.scheduled(gangs__settle="0s"):
        for name in ("a", "b"):
            volcano(story, name)
        assert story.meanwhile() == set()
        assert story.marked(["a", "b"]) == {"a": "", "b": ""}
        story.pod_group(VOLCANO, "ring", 2)
        story.bound("a", "b")


def test_members_of_a_volcano_group_that_is_deleted_before_the_start_wait_for_another(story: Story):
    """The last member comes when the object is gone: the gang starts only once there is one again."""
    story.serve(VOLCANO)
    story.cluster.add_nodes(1, cpu=4)
    story.pod_group(VOLCANO, "ring", 3)
    with story.scheduled(gangs__settle="0s"):
        for name in ("a", "b"):
            volcano(story, name)
        assert "2 of 3" in story.events("b", "WaitingForGang")[-1]["message"]
        story.cluster.delete(VOLCANO, "ring")
        # PodGroups are watched in order, and this one's pod waits for it.
        story.pod_group(VOLCANO, "proof", 1)
        volcano(story, "proof", "proof", cpu=None)
        story.bound("proof")
        volcano(story, "c")
        assert story.meanwhile() == {"proof"}
        story.pod_group(VOLCANO, "ring", 3)
        story.bound("a", "b", "c")


def test_members_in_coschedulings_spelling_do_not_wait_for_an_object(story: Story):
    """Its pods start by their own number where there is no PodGroup, as they do with scheduler-plugins."""
    story.serve(COSCHEDULING)
    story.cluster.add_nodes(1, cpu=2)
    with story.scheduled(gangs__settle="0s"):
        for name in ("a", "b"):
            story.add(name, labels={LABEL: "ring"})
        story.bound("a", "b")


def test_groups_of_two_projects_with_one_name_are_two_gangs(story: Story):
    """coscheduling's group of two starts; Volcano's of the same name lacks its third member and waits."""
    story.serve(COSCHEDULING, VOLCANO)
    story.cluster.add_nodes(1, cpu=8)
    story.pod_group(COSCHEDULING, "ring", 2)
    story.pod_group(VOLCANO, "ring", 3)
    with story.scheduled():
        for index in range(2):
            volcano(story, f"volcano-{index}")
        assert story.meanwhile() == set()
        for index in range(2):
            story.add(f"plain-{index}", labels={LABEL: "ring"})
        story.bound("plain-0", "plain-1")
        assert story.meanwhile() == {"plain-0", "plain-1"}
        volcano(story, "volcano-2")
        story.bound(*(f"volcano-{index}" for index in range(3)))


def test_a_group_of_kubernetes_with_the_basic_policy_does_not_undo_anothers_of_its_name():
    """Which object speaks for a pod depends on how the pod declares its gang, not on the name alone."""
    theirs = [pod(f"c{index}", labels={LABEL: "ring"}) for index in range(2)]
    world = running(None, node("n", cpu=8), basic(), pod_group("ring", 3), *theirs, member("own")).after(60)
    assert set(world.bound) == {"default/own"}
    world.add(pod("c2", labels={LABEL: "ring"})).after(15)
    assert len(world.bound) == 4
