"""Gangs that wait and are edited: what people change counts, what they replaced does not."""

from __future__ import annotations

from support.stories import Story
from support.workloads import pods_of, rolled_out

ALL_AT_ONCE = {"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}}


def test_a_waiting_gang_that_is_edited_pod_by_pod_is_told_what_helps_and_starts_with_it(story: Story):
    """By default a rollout makes one new pod and waits for it, which a gang of three cannot start with."""
    story.cluster.add_nodes(1, cpu=3)
    story.deployed("ring", 3, cpu="64")
    with story.scheduled(gangs__settle="0s"):
        old = set(story.waiting("ring", 3))
        story.edit("ring", containers=story.spec(cpu="1")["containers"])
        (new,) = story.cluster.wait(
            lambda: [one for one in pods_of(story.cluster, "ring") if one["metadata"]["uid"] not in old],
            "the first new member",
        )
        story.cluster.wait(
            lambda: "Recreate" in story.said(new["metadata"]["name"]), "the event that says what helps"
        )
        assert story.meanwhile() == set()
        strategy = {"type": "Recreate", "rollingUpdate": None}
        story.cluster.patch("Deployment", "ring", {"spec": {"strategy": strategy}})
        rolled_out(story.cluster, "ring", 3)


def test_a_waiting_gang_that_is_mended_by_editing_its_deployment_starts(story: Story):
    """A rolling update with room for all new members starts them while the old, too large, still wait."""
    story.cluster.add_nodes(1, cpu=3)
    story.deployed("ring", 3, cpu="64", strategy=ALL_AT_ONCE)
    with story.scheduled(gangs__settle="0s"):
        old = set(story.waiting("ring", 3))
        for name in story.nodes_of():
            assert story.held(name)["reason"] == "Unschedulable"
        story.edit("ring", containers=story.spec(cpu="1")["containers"])
        rolled_out(story.cluster, "ring", 3)
        assert not old & set(story.uids("ring"))


def test_members_of_an_older_revision_do_not_complete_a_gang_that_waits(story: Story):
    """Three old members that fit nowhere and three new ones that do are not one gang of six."""
    story.cluster.add_nodes(1, cpu=3)
    story.deployed("ring", 3, minimum=3, cpu="64", strategy=ALL_AT_ONCE)
    with story.scheduled():
        old = set(story.waiting("ring", 3))
        story.edit("ring", containers=story.spec(cpu="1")["containers"])
        rolled_out(story.cluster, "ring", 3)
        assert not old & set(story.uids("ring"))


def test_a_raised_priority_counts_although_old_members_are_still_there(story: Story):
    """The gang is as important as its newest revision says, while none of it runs."""
    story.cluster.add_nodes(1, cpu=2)
    story.deployed("ring", 2, minimum=2, priority=1, strategy=ALL_AT_ONCE)
    with story.scheduled():
        story.running_of("ring", 2)
        for name in ("low-0", "low-1"):
            story.add(name, priority=5)
        story.bound("low-0", "low-1")
        story.waiting("ring", 2)
        story.edit("ring", annotations={"priority": "9"})
        rolled_out(story.cluster, "ring", 2)
        assert "low-0" not in story.nodes_of()
        assert "low-1" not in story.nodes_of()


def test_a_waiting_gang_that_is_scaled_to_what_fits_starts(story: Story):
    """Without a declared minimum the replicas say how many start together, also after an edit."""
    story.cluster.add_nodes(1, cpu=3)
    story.deployed("ring", 5)
    with story.scheduled(gangs__settle="0s"):
        story.waiting("ring", 5)
        assert story.meanwhile() == set()
        story.cluster.patch("Deployment", "ring", {"spec": {"replicas": 3}})
        story.running_of("ring", 3)


def test_a_declared_minimum_that_is_edited_while_the_gang_waits_counts_at_once(story: Story):
    """A minimum lowered to what is there starts the gang that waited for more."""
    story.cluster.add_nodes(1, cpu=2)
    with story.scheduled():
        for name in ("a", "b"):
            story.add(name, gang="ring", minimum=3)
        story.events("b", "WaitingForGang")
        assert story.meanwhile() == set()
        for name in ("a", "b"):
            story.cluster.patch("Pod", name, {"metadata": {"annotations": {"pod-group-min-member": "2"}}})
        story.bound("a", "b")
