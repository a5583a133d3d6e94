"""Which pods are brought back, which must wait, and why: each sentence of the specification."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.nodegroups import read_groups
from support.pictured import NOW, Picture
from support.policies import ON_DEMAND, SPOT, policy
from support.units import EPOCH, budget, pod, workload

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def strayed(used: Any = None, **more: Any) -> Picture:
    """Three pods on demand where the rule wants one there and two on spot."""
    return Picture(used, **more).pods("d1", "d1", "d2")


def with_another(picture: Picture) -> Picture:
    """Deployment app has strayed in the same way."""
    picture.deployment(3, "app")
    for number in (1, 2, 3):
        made = picture.web(f"app-{number}", "d2", slot=number)
        made["metadata"]["ownerReferences"][0] |= {"name": "app-1", "uid": "uid-ReplicaSet-app-1"}
        made["metadata"]["labels"] = {"app": "app", "pod-template-hash": "1"}
        picture.add(made)
    return picture


def unmarked(made: dict[str, Any]) -> dict[str, Any]:
    """The pod as it was before any door had seen it."""
    made["metadata"]["annotations"] = {}
    return made


def test_pods_come_back_from_on_demand_to_spot() -> None:
    move = strayed().move()
    assert (move.from_tier, move.to_tier, move.node) == ("on-demand", "spot", "s1")
    assert move.pod == "default/web-3", "the highest slot first: scale-in would take it anyway"
    assert move.uid == "uid-default-web-3"


def test_pods_whose_slots_are_beyond_their_number_are_brought_back_too() -> None:
    # What is left of twenty: of these slots the lowest is on-demand's, like three of the pods.
    picture = Picture().deployment(4)
    for slot, on in ((11, "d1"), (12, "s1"), (14, "d1"), (17, "d2")):
        picture.add(picture.web(f"web-{slot}", on, slot=slot))
    move = picture.move()
    assert (move.from_tier, move.to_tier) == ("on-demand", "spot")


class TestSlotsOfTheTier:
    """With ``min: pdb`` what tiers hold decides, not slots; scaling in goes by slots all the same."""

    def lost(self, *young: int) -> Picture:
        """Four pods on demand, of which the last two were on spot, and their slots are spot's."""
        kept = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "status": {"disruptionsAllowed": 2}}
        kept |= {"metadata": {"name": "web", "namespace": "default"}}
        kept |= {"spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 2}}
        picture = Picture(policy("web", SPOT, ON_DEMAND | {"min": "pdb"}, rebalance={"stabilize": "0s"}))
        picture.deployment(4).add(kept)
        for slot in (1, 2, 3, 4):
            created = {"created": NOW - 100} if slot in young else {}
            picture.add(picture.web(f"web-{slot}", "d1", slot=slot, **created))
        return picture

    def test_who_holds_one_goes_there(self) -> None:
        assert self.lost().move().pod == "default/web-4"

    def test_it_is_waited_for_until_it_is_old_enough(self) -> None:
        assert self.lost(3, 4).waits() == "web-4 is younger than 5 min"
        assert self.lost(4).waits() == "web-4 is younger than 5 min"

    def test_what_a_min_lacks_is_not_waited_for(self) -> None:
        picture = self.lost(1)
        for slot, on in ((1, "s1"), (2, "s1"), (3, "s2"), (4, "s2")):
            created = {"created": NOW - 100} if slot == 1 else {}
            picture.add(picture.web(f"web-{slot}", on, slot=slot, **created))
        assert picture.move().pod == "default/web-2"


def test_a_move_says_why_it_is_safe() -> None:
    assert strayed().move().why == (
        "tier on-demand has 3 pods where the rule has 1; there is room on s1; no budget; "
        "Deployment web recreates it"
    )


def test_pods_come_back_from_burst_to_base() -> None:
    base = {"name": "base", "nodes": {"capacity": "on-demand"}, "max": 2}
    picture = Picture(policy("burst", base, {"name": "burst", "nodes": {"capacity": "spot"}}))
    picture.deployment(3)
    picture.add(
        picture.web("a", "d1", slot=1), picture.web("b", "s1", slot=2), picture.web("c", "s1", slot=3)
    )
    move = picture.move()
    assert (move.pod, move.from_tier, move.to_tier) == ("default/b", "burst", "base")


def test_what_is_where_it_belongs_stays() -> None:
    Picture().pods("d1", "s1", "s2").rests()


def test_a_split_that_is_right_in_numbers_is_right() -> None:
    """Slots 1 and 3 have changed places: nobody is evicted for that."""
    Picture().pods("s1", "s2", "d1").rests()


def test_it_is_never_below_a_budget() -> None:
    picture = strayed().add(budget("web", {"app": "web"}, 0))
    assert picture.waits() == "PodDisruptionBudget web does not let web-3 go now"
    picture.add(budget("web", {"app": "web"}, 1))
    assert "PodDisruptionBudget web allows it" in picture.move().why


def test_groups_share_what_a_budget_allows() -> None:
    picture = with_another(strayed()).add(budget("both", {"pod-template-hash": "1"}, 1))
    planned = picture.plan()
    assert [move.pod for move in planned.moves] == ["default/app-3"]
    assert [wait.reason for wait in planned.waits] == ["PodDisruptionBudget both does not let web-3 go now"]


def test_a_pod_that_nobody_has_placed_yet_is_left_to_who_will() -> None:
    picture = Picture().deployment(3)
    picture.add(picture.web("a", "d1", slot=1), picture.web("b", "s1", slot=2), unmarked(picture.web("c")))
    assert picture.waits() == "c has no place yet"


def test_a_pod_on_a_node_that_is_not_known_yet_is_not_moved() -> None:
    picture = Picture().deployment(3)
    stray = unmarked(picture.web("c", "s9"))
    picture.add(picture.web("a", "d1", slot=1), picture.web("b", "s1", slot=2), stray)
    assert picture.waits() == "c is on a node that is not known yet"
    picture.add(picture.spot("s9")).rests()


def test_a_pod_under_two_budgets_cannot_be_evicted() -> None:
    picture = strayed().add(budget("a", {"app": "web"}, 1), budget("b", {"app": "web"}, 1))
    assert picture.waits() == "web-3 has more than one PodDisruptionBudget: a, b"


def test_a_budget_with_an_empty_selector_protects_every_pod_from_eviction() -> None:
    picture = strayed().add(budget("all", {}, 0))
    assert picture.waits() == "PodDisruptionBudget all does not let web-3 go now"
    picture.add(budget("web", {"app": "web"}, 1))
    assert picture.waits() == "web-3 has more than one PodDisruptionBudget: all, web"


def test_never_a_pod_that_nobody_recreates() -> None:
    picture = Picture(policy(groupBy="policy"))
    picture.add(*(picture.web(f"bare-{number}", "d1", owner=None) for number in range(1, 4)))
    assert picture.waits() == "no controller would recreate bare-3"


def test_job_pods_only_by_opt_in() -> None:
    owner = {
        "kind": "Job",
        "name": "batch",
        "uid": "uid-Job-batch",
        "apiVersion": "batch/v1",
        "controller": True,
    }
    for jobs in (False, True):
        picture = Picture(policy(rebalance={"jobs": jobs}))
        picture.add(workload("Job", "batch", parallelism=3))
        picture.add(
            *(
                picture.web(f"batch-{number}", "d1", owner=owner | {"controller": True})
                for number in range(1, 4)
            )
        )
        if jobs:
            assert picture.move().pod == "default/batch-3"
        else:
            assert picture.waits() == "batch-3 is a Job's, and rebalance.jobs is not set"


def test_a_new_home_is_room_seen_now() -> None:
    picture = strayed(cpu=1)
    picture.add(pod("other", on="s1"), pod("another", on="s2"))
    assert picture.waits() == "no node of tier spot has room for web-3"
    picture.remove("Pod", "another")
    assert picture.move().node == "s2"


def test_room_is_for_the_whole_move_and_not_given_twice() -> None:
    picture = with_another(strayed(cpu=1))
    picture.add(pod("other", on="s1"))
    planned = picture.plan()
    assert [move.node for move in planned.moves] == ["s2"]
    assert [wait.reason for wait in planned.waits] == ["no node of tier spot has room for web-3"]


def test_what_the_controller_makes_pods_of_counts_for_room() -> None:
    picture = Picture().pods("d1", "d2", "s1")
    picture.add(picture.spot("s2", unschedulable=True))
    assert picture.move().node == "s1"
    deployment = {"kind": "Deployment", "name": "web", "uid": "uid-Deployment-web", "apiVersion": "apps/v1"}
    made = workload("ReplicaSet", "web-1", replicas=3, owner=deployment | {"controller": True})
    made["spec"]["template"]["spec"]["affinity"] = APART
    picture.add(made)
    assert picture.waits() == "no node of tier spot has room for web-2"


@pytest.mark.parametrize(
    "how",
    [
        {"unschedulable": True},
        {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]},
        {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]},
    ],
)
def test_nodes_that_are_cordoned_or_marked_for_removal_are_no_home(how: Any) -> None:
    picture = strayed()
    picture.add(picture.spot("s1", **how))
    assert picture.move().node == "s2"


def test_a_tier_that_is_left_alone_is_waited_for() -> None:
    picture = strayed().failed()
    assert picture.waits().startswith("tier spot is unavailable")
    assert picture.plan().wake_at == EPOCH.timestamp() + NOW + 60


def test_after_the_cool_down_one_move_tries_the_tier() -> None:
    picture = strayed().failed(ago=61)
    assert picture.move().probe
    claimed = picture.marks.claim_probe("spot", "somebody", EPOCH.timestamp() + NOW)
    assert claimed is not None
    picture.marks = claimed
    assert picture.waits() == "tier spot is being tried by another pod"


def test_with_no_node_in_the_tier_one_pod_is_moved_as_a_probe_after_the_cool_down() -> None:
    picture = strayed()
    for name in ("s1", "s2"):
        picture.remove("Node", name)
    spot = {"name": "spot", "labels": {"capacity": "spot"}, "instanceTypes": [{"capacity": {"cpu": "4"}}]}
    picture.machine.node_groups(read_groups([spot]))
    picture.add(budget("web", {"app": "web"}, 1)).failed()
    assert "unavailable" in picture.waits()
    picture.now += 61
    move = picture.move()
    assert move.probe
    assert not move.node
    assert "tier spot has no node and is tried with one pod" in move.why


def test_a_probe_is_never_of_the_mins() -> None:
    picture = Picture(policy("web", SPOT, {**ON_DEMAND, "min": 3})).pods("d1", "d1", "d2")
    picture.remove("Node", "s1")
    picture.remove("Node", "s2")
    picture.failed(ago=61).rests()


def test_two_groups_do_not_probe_one_tier_at_once() -> None:
    picture = with_another(strayed().failed(ago=61))
    planned = picture.plan()
    assert len(planned.moves) == 1
    assert planned.waits[0].reason == "tier spot is being tried by another pod"


def moved(picture: Picture) -> None:
    """Carry out the one move: the pod is gone, its controller will make another."""
    move = picture.move()
    picture.sent(move)
    picture.remove("Pod", move.pod.partition("/")[2])


def test_one_move_is_in_flight_until_its_replacement_is_ready() -> None:
    picture = strayed()
    moved(picture)
    assert picture.waits() == "2 of 3 pods are there"
    new = picture.web("new", "s1", slot=3, created=NOW)
    new["status"]["conditions"] = []
    picture.add(new)
    assert picture.waits() == "the replacement of default/web-3 is not Ready yet"
    picture.add(picture.web("new", "s1", slot=3, created=NOW))
    assert picture.move().pod == "default/web-2"


def test_after_a_restart_a_young_pod_that_is_not_ready_may_be_a_replacement() -> None:
    picture = strayed()
    young = picture.web("web-3", "d2", slot=3, created=NOW - 10)
    young["status"]["conditions"] = []
    picture.add(young)
    assert picture.waits() == "web-3 is not Ready yet"


def test_none_during_a_rollout() -> None:
    picture = strayed()
    picture.add(picture.web("next", "s1", slot=1, revision="2"))
    assert all("is being rolled out" in wait.reason for wait in picture.plan().waits)
    assert not picture.plan().moves
    unfinished = strayed().deployment(3, updatedReplicas=1)
    assert unfinished.waits() == "Deployment default/web is being rolled out"


def test_none_within_stabilize_of_a_change_in_desired_replicas() -> None:
    picture = strayed()
    picture.plan()
    picture.deployment(4).add(picture.web("web-4", "d2"))
    assert picture.waits() == "the number of pods changed to 4 within the last 5 min"
    assert picture.plan().wake_at == EPOCH.timestamp() + NOW + 300
    picture.now += 300
    picture.move()


def test_young_pods_are_left_where_they_are() -> None:
    picture = Picture().deployment(3)
    picture.add(*(picture.web(f"web-{number}", "d1", created=NOW - 200) for number in range(1, 4)))
    picture.plan()
    picture.now += 60
    assert "within the last 5 min" in picture.waits(), "for all we know the number has just changed"
    older = Picture(policy(rebalance={"stabilize": "1s"})).deployment(3)
    older.add(*(older.web(f"web-{number}", "d1", created=NOW - 200) for number in range(1, 4)))
    assert older.waits() == "web-3 is younger than 5 min"
    older.now += 100
    older.move()


def test_never_faster_than_allowed() -> None:
    picture = Picture(policy(rebalance={"perMinute": 1, "minPodAge": "0s", "stabilize": "0s"}))
    picture.pods("d1", "d1", "d2", "d2", "d2")
    moved(picture)
    picture.add(picture.web("new", "s1", slot=5, created=NOW))
    assert picture.waits() == "1 moves were made within a minute"
    picture.now += 61
    picture.move()


def test_a_per_minute_of_zero_moves_nobody() -> None:
    assert strayed(policy(rebalance={"perMinute": 0})).waits() == "rebalance.perMinute is 0"


def test_each_failed_move_doubles_the_wait_and_a_node_that_appears_ends_it() -> None:
    picture = Picture(policy(rebalance={"minPodAge": "0s", "stabilize": "0s"}))
    picture.pods("d1", "d1", "d2")
    waits = []
    for number in range(3):
        moved(picture)
        picture.add(picture.web(f"again-{number}", "d1", slot=3, created=picture.now))
        planned = picture.plan()
        assert planned.wake_at is not None
        waits.append(planned.wake_at - EPOCH.timestamp() - picture.now)
        picture.now += waits[-1]
    assert waits == [60, 120, 240]
    moved(picture)
    picture.add(picture.web("again", "d1", slot=3, created=picture.now))
    assert picture.waits() == "a move failed 4 times in a row"
    picture.failed()
    picture.plan()
    picture.marks = picture.marks.cleared("spot")
    picture.move()


def test_an_eviction_that_was_refused_is_no_failed_move_but_waits_a_little() -> None:
    picture = strayed()
    move = picture.move()
    picture.sent(move)
    picture.machine.refused(move, EPOCH.timestamp() + picture.now)
    assert picture.waits() == "an eviction was refused"
    picture.now += 15
    assert picture.move() == move


def test_a_single_replica_on_the_wrong_tier_is_brought_back() -> None:
    used = policy("web", SPOT, {**ON_DEMAND, "min": 0}, singleReplica="on-demand")
    move = Picture(used).pods("s1").move()
    assert (move.from_tier, move.to_tier) == ("spot", "on-demand")


def test_a_missing_min_comes_before_a_preference() -> None:
    tiers = [SPOT, {**ON_DEMAND, "min": 1}, {"name": "rest"}]
    picture = Picture(policy("web", *tiers))
    other = picture.spot("r1")
    other["metadata"]["labels"]["capacity"] = "other"
    picture.add(other).deployment(3)
    picture.add(*(picture.web(f"web-{number}", "r1", tier="rest") for number in range(1, 4)))
    move = picture.move()
    assert (move.from_tier, move.to_tier) == ("rest", "on-demand")


def test_what_is_beyond_a_max_is_moved() -> None:
    base = {"name": "base", "nodes": {"capacity": "spot"}, "max": 1}
    picture = Picture(policy("web", base, {"name": "burst", "nodes": {"capacity": "on-demand"}}))
    picture.pods("s1", "s1", "s2")
    move = picture.move()
    assert (move.from_tier, move.to_tier) == ("base", "burst")


def test_a_pod_on_no_tier_s_node_is_brought_to_one() -> None:
    picture = Picture().deployment(1)
    other = picture.spot("x1")
    other["metadata"]["labels"]["capacity"] = "other"
    picture.add(other, picture.web("web-1", "x1", tier="on-demand"))
    assert (picture.move().from_tier, picture.move().to_tier) == ("", "on-demand")


def test_pods_that_slipped_through_without_a_mark_are_adopted_and_mended() -> None:
    picture = Picture().deployment(3)
    for number in (1, 2, 3):
        made = picture.web(f"web-{number}", "d1")
        made["metadata"]["annotations"] = {}
        picture.add(made)
    assert picture.move().to_tier == "spot"


def test_the_same_picture_gives_the_same_plan() -> None:
    assert strayed().plan() == strayed().plan()
