"""Gangs that run and lose members for reasons of others are mended, not restarted."""

from __future__ import annotations

from support.stories import Story


def test_a_member_that_a_user_deletes_is_replaced_while_the_gang_runs(story: Story):
    """The replacement starts alone; the others are not touched (scheduler-plugins' users ask for it)."""
    story.cluster.add_nodes(1, cpu=3)
    story.deployed("ring", 3, minimum=3)
    with story.scheduled():
        members = story.running_of("ring", 3)
        lost = members[0]["metadata"]
        story.cluster.delete("Pod", lost["name"])
        story.cluster.gone("Pod", lost["name"])
        after = {one["metadata"]["uid"] for one in story.running_of("ring", 3)}
        assert len(after & {one["metadata"]["uid"] for one in members}) == 2


def test_a_gang_with_members_on_a_drained_node_heals_elsewhere(story: Story):
    """Members that are evicted by a drain come back on other nodes; those elsewhere stay where they are."""
    first, second = story.cluster.add_nodes(2, cpu=2)
    story.deployed("ring", 3, minimum=3)
    with story.scheduled():
        members = story.running_of("ring", 3)
        (third,) = story.cluster.add_nodes(1, cpu=2)
        story.cordon(first)
        leaving = [one["metadata"] for one in members if one["spec"]["nodeName"] == first]
        for one in leaving:
            story.evict(one["name"])
            story.cluster.gone("Pod", one["name"])
        after = story.running_of("ring", 3)
    assert leaving
    assert {one["spec"]["nodeName"] for one in after} <= {second, third}
    stayed = {one["metadata"]["uid"] for one in after} & {one["metadata"]["uid"] for one in members}
    assert len(stayed) == 3 - len(leaving)


def test_a_member_that_is_lost_while_no_scheduler_runs_is_replaced_by_the_next(story: Story):
    """That the gang had started survives a restart: one pending member joins the two that run."""
    story.cluster.add_nodes(1, cpu=3)
    story.deployed("ring", 3, minimum=3)
    with story.scheduled():
        members = story.running_of("ring", 3)
    name = members[0]["metadata"]["name"]
    story.cluster.delete("Pod", name)
    story.cluster.gone("Pod", name)
    with story.scheduled():
        after = {one["metadata"]["uid"] for one in story.running_of("ring", 3)}
        assert len(after & {one["metadata"]["uid"] for one in members}) == 2


def test_a_gang_that_lost_a_member_keeps_running_while_there_is_no_room_for_another(story: Story):
    """A replacement that fits nowhere waits; the rest of the gang is not taken down for it."""
    (name,) = story.cluster.add_nodes(1, cpu=3)
    story.deployed("ring", 3, minimum=3)
    with story.scheduled():
        members = story.running_of("ring", 3)
        story.cordon(name)
        story.cluster.delete("Pod", members[0]["metadata"]["name"])
        (waiting,) = story.cluster.wait(
            lambda: [one for one in story.nodes_of().items() if not one[1]], "a replacement that waits"
        )
        assert story.held(waiting[0])["reason"] == "Unschedulable"
        assert {one["metadata"]["uid"] for one in members[1:]} <= set(story.uids("ring"))
        story.cordon(name, on=False)
        after = {one["metadata"]["uid"] for one in story.running_of("ring", 3)}
        assert {one["metadata"]["uid"] for one in members[1:]} <= after
