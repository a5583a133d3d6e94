"""Gangs make room whole and come back whole; victims are chosen with gangs in mind."""

from __future__ import annotations

from dataclasses import dataclass

from support.cluster_of import running
from support.faults import Answer, Faithful, RequestFault
from support.manifests import budget
from support.stories import Story
from support.units import node, pod

CLOSED = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]


def test_a_preempted_gang_comes_back_whole_though_single_pods_crowd_in(story: Story):
    """Single pods may use what an evicted gang leaves; it starts again only when all of it fits."""
    story.cluster.add_nodes(1, cpu=4)
    story.deployed("ring", 3, minimum=3, priority=5)
    with story.scheduled():
        before = {one["metadata"]["uid"] for one in story.running_of("ring", 3)}
        crowd = [f"crowd-{index}" for index in range(4)]
        for name in crowd:
            story.add(name, priority=5)
        story.add("boss", cpu="2", priority=9)
        story.bound("boss")
        assert not before & set(story.waiting("ring", 3))
        assert len(story.meanwhile() & set(crowd)) == 2
        story.cluster.delete("Pod", "boss")
        story.bound(*crowd)
        assert story.meanwhile() == set(crowd)
        for name in crowd[:2]:
            story.cluster.delete("Pod", name)
        assert story.meanwhile() == set(crowd[2:])
        story.cluster.delete("Pod", crowd[2])
        story.running_of("ring", 3)


def test_a_gang_takes_the_room_of_a_lower_gang_and_gives_it_back(story: Story):
    """One gang leaves whole for another, a third of equal priority is spared, and it returns afterwards."""
    story.cluster.add_nodes(2, cpu=2)
    for name in ("left", "right"):
        story.deployed(name, 2, minimum=2, priority=1)
    with story.scheduled():
        for name in ("left", "right"):
            story.running_of(name, 2)
        high = story.gang("high", 2, priority=9)
        story.bound(*high)
        story.cluster.wait(
            lambda: not any(story.uids("left").values()) or not any(story.uids("right").values()),
            "one of the lower gangs to have left",
        )
        assert len(story.meanwhile()) == 4
        for name in high:
            story.cluster.delete("Pod", name)
        for name in ("left", "right"):
            story.running_of(name, 2)


@dataclass
class OneEviction(Faithful):
    """The API server carries out one eviction and refuses all others until it is told otherwise."""

    carried_out: int = 0
    relents: bool = False

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if self.relents or not path.partition("?")[0].endswith("/eviction"):
            return None
        self.carried_out += 1
        return None if self.carried_out == 1 else Answer(403, "Forbidden")


def test_a_recreated_member_waits_while_the_rest_of_its_evicted_gang_is_still_there(story: Story):
    """Evictions come one by one; a member that is back early does not join those that have yet to leave."""
    story.cluster.add_nodes(1, cpu=3)
    story.deployed("ring", 3, minimum=3, priority=1)
    plan = OneEviction()
    with story.scheduled(plan, preemption__retry="100ms"):
        story.running_of("ring", 3)
        story.cluster.add_nodes(1, cpu=1)
        story.add("boss", cpu="3", priority=9)
        story.cluster.wait(lambda: "" in story.uids("ring").values(), "a member to be back")
        assert len(story.meanwhile()) == 2
        plan.relents = True
        story.bound("boss")
        story.waiting("ring", 3)
        assert story.meanwhile() == {"boss"}
        story.cluster.add_nodes(1, cpu=2)
        story.running_of("ring", 3)


def test_a_gang_that_is_preempted_while_a_member_is_being_replaced_starts_again_whole(story: Story):
    """A replacement that waits alone when its gang is evicted waits for the whole gang from then on."""
    (name,) = story.cluster.add_nodes(1, cpu=3)
    story.deployed("ring", 3, minimum=3, priority=1)
    with story.scheduled():
        members = story.running_of("ring", 3)
        story.cordon(name)
        story.cluster.delete("Pod", members[0]["metadata"]["name"])
        story.cluster.wait(lambda: list(story.uids("ring").values()).count("") == 1, "a replacement")
        story.add("boss", cpu="2", priority=9, tolerations=CLOSED)
        story.bound("boss")
        story.waiting("ring", 3)
        story.cordon(name, on=False)
        story.add("proof")
        assert "proof" in story.bound("proof")
        assert story.meanwhile() == {"boss", "proof"}
        story.cluster.add_nodes(1, cpu=3)
        story.running_of("ring", 3)


def test_every_member_is_marked_as_leaving_before_the_first_is_evicted(story: Story):
    """That a gang is to go can be read from the API before anything is irrevocable."""
    story.cluster.add_nodes(1, cpu=3)
    with story.scheduled() as running:
        members = story.gang("ring", 3, priority=1)
        story.bound(*members)
        story.add("boss", priority=9)
        story.bound("boss")
        for name in members:
            story.cluster.gone("Pod", name)
        writes = running.ledger.writes
    first = next(index for index, write in enumerate(writes) if write.endswith("/eviction"))
    for name in members:
        assert any(write.endswith(f"/{name}/status") for write in writes[:first]), (name, writes)


def test_a_scheduler_that_takes_over_finishes_what_was_decided_about_a_gang(story: Story):
    """One member has left when the scheduler ends; its successor does not leave the gang halved."""
    story.cluster.add_nodes(1, cpu=2)
    story.deployed("ring", 2, minimum=2, priority=1)
    with story.scheduled():
        before = {one["metadata"]["uid"] for one in story.running_of("ring", 2)}
    story.add("boss", priority=9)
    with story.scheduled(OneEviction()):
        story.cluster.wait(lambda: len(before & set(story.uids("ring"))) == 1, "the first member to leave")
    with story.scheduled():
        story.bound("boss")
        assert not before & set(story.waiting("ring", 2))
        assert story.meanwhile() == {"boss"}


def test_no_pod_leaves_for_a_gang_that_would_not_fit_even_then(story: Story):
    """Kubernetes' own gangs promise it too: running pods are left alone unless the whole gang gains."""
    story.cluster.add_nodes(2, cpu=1)
    with story.scheduled():
        for name in ("low-0", "low-1"):
            story.add(name, priority=1)
        story.bound("low-0", "low-1")
        members = story.gang("ring", 3, priority=9)
        for name in members:
            story.held(name)
        assert story.meanwhile() == {"low-0", "low-1"}
        story.cluster.add_nodes(1, cpu=1)
        story.bound(*members)
        assert story.meanwhile() == set(members)


def test_only_what_is_strictly_less_important_makes_room_for_a_gang(story: Story):
    """Equal priority is no reason to evict anything, not even for the sake of a larger unit."""
    story.cluster.add_nodes(1, cpu=2)
    with story.scheduled():
        for name in ("equal-0", "equal-1"):
            story.add(name, priority=5)
        story.bound("equal-0", "equal-1")
        members = story.gang("ring", 2, priority=5)
        for name in members:
            story.held(name)
        assert story.meanwhile() == {"equal-0", "equal-1"}


def test_a_gang_is_as_important_as_its_least_important_member(story: Story):
    """One urgent member does not let the others push pods aside that matter more than they do."""
    story.cluster.add_nodes(1, cpu=2)
    with story.scheduled():
        for name in ("middle-0", "middle-1"):
            story.add(name, priority=5)
        story.bound("middle-0", "middle-1")
        story.add("urgent", gang="ring", minimum=2, priority=9)
        story.add("modest", gang="ring", minimum=2, priority=1)
        story.held("urgent")
        assert story.meanwhile() == {"middle-0", "middle-1"}


def test_a_gang_under_a_budget_that_allows_nothing_is_not_a_victim(story: Story):
    """A disruption budget over the members protects the whole gang until it is lifted."""
    story.cluster.add_nodes(1, cpu=2)
    story.deployed("ring", 2, minimum=2, priority=1)
    with story.scheduled():
        before = set(story.uids("ring")) if story.running_of("ring", 2) else set()
        story.cluster.create(budget("all", {"app": "ring"}, minAvailable=2))

        def guarded() -> bool:
            status = story.cluster.get("PodDisruptionBudget", "all").get("status", {})
            return status.get("currentHealthy") == 2 and status.get("disruptionsAllowed") == 0

        story.cluster.wait(guarded, "the budget to allow nothing")
        story.add("boss", priority=9)
        story.held("boss")
        assert set(story.uids("ring")) == before
        story.cluster.delete("PodDisruptionBudget", "all")
        story.bound("boss")
        assert not before & set(story.waiting("ring", 2))


def test_one_member_that_may_not_preempt_speaks_for_its_gang():
    """Room is made for all members or for none, so a single ``preemptionPolicy: Never`` forbids it."""
    low = pod("low", 2, on="n", priority=1)
    polite = pod("polite", gang="ring", minimum=2, priority=5, preemptionPolicy="Never")
    world = running(None, node("n", cpu=2), low, polite, pod("other", gang="ring", minimum=2, priority=5))
    assert world.after(30).evicted == []


def test_a_gang_is_one_unit_of_cost_when_victims_are_chosen():
    """Among sets of equal size and priority the one that hurts a single gang is better than two pods."""
    gang = [pod(f"g{index}", on="n", gang="ring", minimum=2, priority=1) for index in range(2)]
    single = [pod(f"s{index}", on="m", priority=1) for index in range(2)]
    world = running(None, node("n", cpu=2), node("m", cpu=2), *gang, *single)
    world.add(pod("boss", 2, priority=9, created=50))
    assert sorted(world.evicted) == ["default/g0", "default/g1"]


def test_members_elsewhere_count_when_a_gang_would_have_to_leave():
    """Taking one member takes the gang, so a single pod of the same priority is the smaller loss."""
    gang = [pod(f"g{index}", on=f"n{index}", gang="ring", minimum=3, priority=1) for index in range(3)]
    nodes = [node(f"n{index}", cpu=1) for index in range(3)]
    world = running(None, *nodes, node("z", cpu=1), *gang, pod("single", on="z", priority=1))
    world.add(pod("boss", priority=9, created=50))
    assert world.evicted == ["default/single"]


def test_a_gang_with_a_member_above_the_preemptor_is_no_victim():
    """Taking its modest member would take its urgent one, and no pod leaves for what matters less."""
    gang = [
        pod("urgent", on="n", gang="ring", minimum=2, priority=9),
        pod("modest", on="n", gang="ring", minimum=2, priority=1),
    ]
    world = running(None, node("n", cpu=2), *gang).add(pod("middle", priority=5, created=50))
    assert world.evicted == []
    assert set(world.bound) == {"default/modest", "default/urgent"}
