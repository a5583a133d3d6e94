"""Gangs with more members than they need: the minimum comes first, and follows its object."""

from __future__ import annotations

from support.cluster_of import running, seen
from support.stories import COSCHEDULING, Story
from support.units import node, pod
from support.workloads import rolled_out

LABEL = "scheduling.x-k8s.io/pod-group"
UNSETTLED = {"gangs__settle": "1h"}


def test_the_minimums_of_all_gangs_come_before_the_extra_members_of_any(story: Story):
    """Two gangs that need two of their four members share four places, as with KAI and Volcano."""
    story.cluster.add_nodes(2, cpu=2)
    names = [*story.gang("left", 4, minimum=2), *story.gang("right", 4, minimum=2)]
    with story.scheduled():
        story.cluster.wait(lambda: sum(map(bool, story.nodes_of().values())) == 4, "four to be bound")
        started = story.meanwhile()
    assert len(started) == 4
    assert len([name for name in names if name in started and name.startswith("left")]) == 2


def test_a_waiting_pod_comes_before_the_extra_members_of_a_gang_that_runs():
    """What a gang has beyond its minimum does not overtake units of the same priority that have nothing."""
    members = [pod(name, gang="ring", minimum=1) for name in ("a", "b")]
    world = running(None, node("n", cpu=1), *members)
    assert len(world.bound) == 1
    world.add(pod("single", created=50)).add(node("m", cpu=1)).after(15)
    assert "default/single" in world.bound
    assert len(world.bound) == 2


def test_a_replacement_below_the_minimum_comes_before_units_that_wait():
    """A gang that runs and lost a member it needs is mended before anything of its priority starts."""
    members = [pod(name, gang="ring", minimum=2, on="n") for name in ("a", "b")]
    older = pod("older", created=10)
    world = running(None, node("n", cpu=2), *members, older)
    replaced = seen(pod("b2", gang="ring", minimum=2, created=50))
    world.settle(world.tell(world.gone("default/b"), replaced))
    assert set(world.after(15).bound) == {"default/a", "default/b2"}


def test_extra_members_leave_one_by_one_before_the_gang_does(story: Story):
    """Each higher pod takes one member above the minimum; only then does the rest leave (KAI)."""
    story.cluster.add_nodes(1, cpu=4)
    with story.scheduled():
        names = set(story.gang("ring", 4, minimum=2, priority=1))
        story.bound(*names)
        for number in (1, 2):
            story.add(f"boss-{number}", priority=9)
            story.bound(f"boss-{number}")
            assert len(story.meanwhile() & names) == 4 - number
        story.add("boss-3", priority=9)
        story.bound("boss-3")
        story.cluster.wait(lambda: not names & set(story.nodes_of()), "the rest to leave")


def test_a_minimum_that_is_lowered_while_the_gang_runs_frees_members_to_leave(story: Story):
    """From four to two: one higher pod takes exactly one member, not the gang (KAI, Volcano)."""
    story.serve(COSCHEDULING)
    story.pod_group(COSCHEDULING, "ring", 4)
    story.cluster.add_nodes(1, cpu=4)
    names = {f"ring-{index}" for index in range(4)}
    with story.scheduled(**UNSETTLED):
        for name in names:
            story.add(name, priority=1, labels={LABEL: "ring"})
        story.bound(*names)
        story.cluster.patch(COSCHEDULING, "ring", {"spec": {"minMember": 2}})
        heard_of_pod_groups(story)
        story.add("boss", priority=9)
        story.bound("boss")
        assert len(story.meanwhile() & names) == 3


def test_a_minimum_that_is_raised_while_the_gang_runs_moves_no_pod_and_admits_the_missing_ones(story: Story):
    """Two of two run when four are asked for: they stay, and each new member starts as it comes."""
    story.serve(COSCHEDULING)
    story.pod_group(COSCHEDULING, "ring", 2)
    story.cluster.add_nodes(1, cpu=5)
    with story.scheduled(**UNSETTLED):
        for name in ("a", "b"):
            story.add(name, labels={LABEL: "ring"})
        first = story.bound("a", "b")
        story.cluster.patch(COSCHEDULING, "ring", {"spec": {"minMember": 4}})
        heard_of_pod_groups(story)
        story.add("c", labels={LABEL: "ring"})
        assert {"a", "b"} <= first.keys()
        story.bound("c")
        story.add("d", labels={LABEL: "ring"})
        assert {name for name in story.bound("d") if len(name) == 1} == {"a", "b", "c", "d"}


def test_a_running_gang_that_is_scaled_up_takes_new_members_one_by_one(story: Story):
    """Members beyond those it started with bind singly, as many as there is room for."""
    story.cluster.add_nodes(1, cpu=3)
    story.deployed("ring", 2, minimum=2)
    with story.scheduled():
        first = {one["metadata"]["uid"] for one in story.running_of("ring", 2)}
        story.cluster.patch("Deployment", "ring", {"spec": {"replicas": 4}})
        story.cluster.wait(
            lambda: sorted(map(bool, story.uids("ring").values())) == [False, *[True] * 3], "one more"
        )
        assert first <= set(story.uids("ring"))


def test_the_surge_of_a_rollout_binds_singly(story: Story):
    """A gang that runs is rolled over pod by pod, with room for one more than it has."""
    story.cluster.add_nodes(1, cpu=3)
    story.deployed("ring", 2, minimum=2, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    with story.scheduled():
        first = {one["metadata"]["uid"] for one in story.running_of("ring", 2)}
        story.edit("ring", annotations={"revision": "second"})
        rolled_out(story.cluster, "ring", 2)
        assert not first & set(story.uids("ring"))


def heard_of_pod_groups(story: Story) -> None:
    """Wait until the scheduler has seen all that happened to PodGroups: they are watched in order, too."""
    # Only its object says that one member is enough: by itself its size is not believed within a test.
    story.pod_group(COSCHEDULING, "later", 1)
    story.add("later", cpu=None, labels={LABEL: "later"})
    story.bound("later")
