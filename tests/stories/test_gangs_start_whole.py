"""Gangs start whole or not at all, and hold no other pod back while they wait."""

from __future__ import annotations

from support.cluster_of import running
from support.manifests import job
from support.stories import Story
from support.units import node, pod
from support.workloads import condition


def test_an_incomplete_gang_is_not_marked_unschedulable_and_starts_with_its_last_member(story: Story):
    """Two of three members wait quietly, so that no autoscaler acts; the third starts all (Koordinator)."""
    story.cluster.add_nodes(1, cpu=3)
    with story.scheduled():
        for name in ("a", "b"):
            story.add(name, gang="ring", minimum=3)
        assert story.meanwhile() == set()
        assert story.marked(["a", "b"]) == {"a": "", "b": ""}
        assert "2 of 3" in story.events("b", "WaitingForGang")[-1]["message"]
        story.add("c", gang="ring", minimum=3)
        story.bound("a", "b", "c")


def test_a_gang_whose_node_selector_matches_no_node_is_unschedulable_with_every_member(story: Story):
    """Autoscalers act on Unschedulable pods only, so every member of a complete gang must say it."""
    story.cluster.add_nodes(1, cpu=8)
    with story.scheduled():
        names = story.gang("ring", 3, nodeSelector={"test": story.cluster.namespace, "size": "huge"})
        for name in names:
            assert story.held(name)["reason"] == "Unschedulable"
        assert all("node affinity/selector" in told for told in story.marked(names).values())
        assert story.meanwhile() == set()


def test_a_gang_larger_than_the_cluster_holds_no_other_pod_back(story: Story):
    """The room that most members of a stuck gang would fit in stays usable (as coscheduling's users ask)."""
    story.cluster.add_nodes(2, cpu=2)
    with story.scheduled():
        large = story.gang("large", 5, priority=9)
        for name in large:
            story.held(name)
        small = [f"small-{index}" for index in range(4)]
        for name in small:
            story.add(name, priority=1)
        story.bound(*small)
        assert story.meanwhile() == set(small)


def test_two_gangs_that_each_fit_alone_do_not_start_half_and_half(story: Story):
    """Members that arrive in turns do not share out the room: one gang runs, the other follows it whole."""
    story.cluster.add_nodes(2, cpu=2)
    for index in range(3):
        for gang in ("left", "right"):
            story.add(f"{gang}-{index}", gang=gang, minimum=3)
    left, right = ({f"{gang}-{index}" for index in range(3)} for gang in ("left", "right"))
    with story.scheduled():
        first = story.meanwhile()
        assert first in (left, right)
        for name in first:
            story.cluster.delete("Pod", name)
        second = right if first == left else left
        story.bound(*second)
        assert story.meanwhile() == second


def test_gangs_of_jobs_that_share_too_little_room_complete_one_after_the_other(story: Story):
    """Each Job starts whole when the one before it has ended (Kueue: all pods ready, or the next in turn)."""
    story.cluster.add_nodes(1, cpu=3)
    names = ("sum", "product")
    with story.cluster.wire.watch(story.cluster.path("Pod")) as watch, story.scheduled(gangs__settle="1s"):
        for name in names:
            spec = {"completions": 3, "parallelism": 3}
            made = job(name, spec=spec, pods=story.spec(restartPolicy="Never"))
            template = made["spec"]["template"]
            template["metadata"] = {"annotations": story.marks(None, name), "labels": {"app": name}}
            made["spec"] = spec | {"template": template}
            story.cluster.create(made)
        for name in names:
            story.cluster.wait(
                lambda name=name: (
                    condition(story.cluster.get("Job", name), "Complete").get("status") == "True"
                ),
                f"Job {name} to complete",
            )
        order = []
        while len(order) < 6:
            item = watch.next()["object"]
            if item["spec"].get("nodeName") and item["metadata"]["uid"] not in dict(order):
                order.append((item["metadata"]["uid"], item["metadata"]["labels"]["app"]))
    apps = [app for _, app in order]
    assert apps in ([*["sum"] * 3, *["product"] * 3], [*["product"] * 3, *["sum"] * 3])


def test_a_gang_of_unlike_members_starts_only_where_each_of_them_fits(story: Story):
    """A launcher and its larger workers are one gang (as Volcano's jobs of several tasks are)."""
    story.cluster.add_nodes(1, cpu=1)
    (large,) = story.cluster.add_nodes(1, cpu=2)
    with story.scheduled():
        story.add("launcher", gang="mpi", minimum=3)
        for name in ("worker-0", "worker-1"):
            story.add(name, cpu="2", gang="mpi", minimum=3)
        story.held("launcher")
        assert story.meanwhile() == set()
        (another,) = story.cluster.add_nodes(1, cpu=2)
        found = story.bound("launcher", "worker-0", "worker-1")
        assert {found["worker-0"], found["worker-1"]} == {large, another}


def test_a_gang_that_a_lost_scheduler_left_half_bound_is_finished_before_older_pods(story: Story):
    """A scheduler that takes over completes what it finds begun, before what waits at the same priority."""
    (name,) = story.cluster.add_nodes(1, cpu=3)
    story.add("older")
    members = story.gang("ring", 3)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": members[0]},
        "target": {"kind": "Node", "name": name},
    }
    story.cluster.wire.request("POST", story.cluster.path("Pod", members[0], "binding"), binding).ok()
    with story.scheduled():
        story.bound(*members)
        assert story.meanwhile() == set(members)


def test_succeeded_members_count_as_present():
    """A member that has done its part is not waited for: the two that remain of three start."""
    done = pod("a", gang="ring", minimum=3, on="n", phase="Succeeded")
    rest = [pod(name, gang="ring", minimum=3) for name in ("b", "c")]
    assert set(running(None, node("n", cpu=2), done, *rest).bound) == {"default/b", "default/c"}


def test_a_member_that_is_gated_is_not_there_yet():
    """A gate on one member, set by a quota system say, keeps the whole gang from starting."""
    members = [pod(name, gang="ring", minimum=2) for name in ("a", "b")]
    gated = pod("b", gang="ring", minimum=2, schedulingGates=[{"name": "quota"}])
    world = running(None, node("n", cpu=2), members[0], gated)
    assert world.bound == {}
    assert not world.holds()["default/a"].unschedulable
    assert set(world.add(members[1]).bound) == {"default/a", "default/b"}
