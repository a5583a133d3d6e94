"""What the extender answers, in virtual time: calls, watch events and seconds in, verdicts out."""

from __future__ import annotations

from collections import Counter

from fairlead.policy.groups.member import GroupKey
from fairlead.policy.rule.split import Demand, Tiers
from support.filtering import ALL, Scene
from support.members import KEY, a_deployment, member
from support.policies import ON_DEMAND, SPOT, policy


def test_pods_that_a_budget_demands_are_answered_first_and_asking_again_changes_nothing() -> None:
    scene = Scene(policy("web", SPOT, {**ON_DEMAND, "min": "pdb"}))
    scene.tiers = Tiers(scene.policy.spec.tiers, Demand(max_unavailable=1), 10)
    names = [f"p{number}" for number in range(10)]
    for _ in range(3):
        assert [scene.tier(scene.filter(name)) for name in names] == ["on-demand"] * 9 + ["spot"]


def test_a_mark_beyond_all_reason_is_answered_at_once() -> None:
    scene = Scene()
    scene.state.shown(KEY, member("odd", tier="spot", slot=999_999_999), "s1")
    assert scene.tier(scene.filter("p1")) == "on-demand"


def test_where_the_highest_slots_are_left_the_last_pod_goes_where_one_is_missing() -> None:
    scene = Scene(replicas=4)
    for slot, tier, node in ((11, "on-demand", "d1"), (12, "spot", "s1"), (14, "on-demand", "d2")):
        scene.state.shown(KEY, member(f"p{slot}", tier=tier, slot=slot), node)
    verdict = scene.filter("new")
    assert (verdict.slot, scene.tier(verdict)) == (1, "spot")
    assert scene.tier(scene.filter("new")) == "spot"


def test_asking_again_gives_the_same_tier_where_nobody_says_how_many_pods_there_will_be() -> None:
    scene = Scene(policy(groupBy="policy"))
    for slot, tier, node in ((11, "on-demand", "d1"), (12, "spot", "s1"), (14, "on-demand", "d2")):
        scene.state.shown(KEY, member(f"p{slot}", tier=tier, slot=slot), node)

    assert [scene.tier(scene.filter("new")) for _ in range(4)] == ["spot"] * 4


def test_an_ordinal_has_its_own_tier_though_others_beyond_their_number_are_left() -> None:
    scene = Scene(replicas=4)
    for slot, tier, node in ((11, "on-demand", "d1"), (12, "spot", "s1"), (14, "on-demand", "d2")):
        scene.state.shown(KEY, member(f"db-{slot - 1}", tier=tier, ordinal=slot - 1), node)
    scene.workload = a_deployment(4, ordinal=0)

    # It will have this number again after every eviction: what others lack now is not its to make up for.
    assert [scene.tier(scene.filter("db-0", ordinal=0)) for _ in range(2)] == ["on-demand"] * 2


def test_ten_pods_are_split_three_to_seven_though_no_outcome_was_seen() -> None:
    scene = Scene()
    tiers = Counter(scene.tier(scene.filter(f"p{number}")) for number in range(10))

    assert tiers == {"on-demand": 3, "spot": 7}


def test_only_the_nodes_of_one_tier_are_returned_in_the_order_they_came() -> None:
    scene = Scene()

    assert scene.filter("p1", ("d2", "s1", "d1", "s2")).nodes == ["d2", "d1"]
    assert scene.filter("p2", ("d2", "s2", "d1", "s1")).nodes == ["s2", "s1"]


def test_asking_again_replaces_what_was_assumed() -> None:
    scene = Scene()
    first = scene.filter("p1")
    again = scene.filter("p1")

    assert (first.slot, again.slot) == (1, 1)
    assert scene.filter("p2").slot == 2


def test_an_assumption_ends_after_half_a_minute() -> None:
    scene = Scene()
    assert scene.filter("p1").slot == 1
    scene.now = 29.0
    assert scene.filter("p2").slot == 2
    scene.now = 30.0
    assert scene.filter("p3").slot == 1


def test_a_bound_pod_keeps_its_slot_and_a_terminating_one_frees_it() -> None:
    scene = Scene()
    scene.schedule("p1")
    scene.schedule("p2")
    scene.now = 1000.0
    assert scene.filter("p3").slot == 3

    scene.state.shown(KEY, member("p1", tier="on-demand", leaving=True), "d1")
    assert scene.filter("p4").slot == 1


def test_a_pod_that_is_gone_frees_its_slot() -> None:
    scene = Scene()
    for name in ("p1", "p2", "p3"):
        scene.schedule(name)
    scene.gone("p2")

    assert scene.filter("p4").slot == 2


def test_a_single_replica_has_a_tier_of_its_own() -> None:
    scene = Scene(policy("web", SPOT, {**ON_DEMAND, "min": 0}, singleReplica="on-demand"), replicas=1)

    assert scene.tier(scene.filter("p1")) == "on-demand"


def test_a_stateful_set_has_its_ordinals_for_slots() -> None:
    scene = Scene()
    scene.workload = a_deployment(5, ordinal=3)
    assert scene.filter("db-3", ordinal=3).slot == 4
    scene.workload = a_deployment(5, ordinal=0)
    assert scene.filter("db-0", ordinal=0).slot == 1


def test_the_same_ordinal_takes_its_slot_back_from_its_predecessor() -> None:
    scene = Scene()
    scene.workload = a_deployment(5, ordinal=0)
    scene.state.shown(KEY, member("db-0", uid="old", tier="on-demand", ordinal=0), "d1")
    assert scene.filter("db-0", uid="new", ordinal=0).slot == 1
    assert list(scene.state.groups[KEY].holders) == ["new"]


def test_pods_that_slipped_through_are_counted_by_the_tier_of_their_node() -> None:
    scene = Scene()
    for name, node in (("old1", "s1"), ("old2", "s1"), ("old3", "d1")):
        scene.bound(name, node)
    # One of three is on demand, as it should be; of four it takes two.
    assert [scene.tier(scene.filter(f"p{number}")) for number in range(3)] == [
        "on-demand",
        "spot",
        "spot",
    ]


def test_after_a_restart_pods_hold_the_slots_that_they_are_marked_with() -> None:
    scene = Scene()
    for name, slot, node in (("a", 3, "s1"), ("b", 2, "s1"), ("c", 1, "d1")):
        tier = "spot" if node == "s1" else "on-demand"
        scene.state.shown(KEY, member(name, tier=tier, slot=slot), node)
    assert scene.filter("p").slot == 4
    assert {held.name: held.slot for held in scene.state.groups[KEY].holders.values()} == {
        "a": 3,
        "b": 2,
        "c": 1,
        "p": 4,
    }


def test_a_pod_that_the_webhook_admitted_goes_where_its_affinity_says() -> None:
    scene = Scene()
    verdict = scene.filter("p1", ("s1", "d1"), token="t1", slot=1)

    assert list(verdict.nodes) == ["s1", "d1"]


def test_nothing_of_the_tier_on_offer_is_said_in_words() -> None:
    scene = Scene()
    scene.filter("p1")
    verdict = scene.filter("p2", ("d1", "d2"))

    assert not verdict.nodes
    assert verdict.refusal == "node(s) outside tier spot of placement policy web"


def test_a_node_that_the_watch_has_not_shown_is_said_to_be_unknown() -> None:
    scene = Scene()
    verdict = scene.filter("p1", ("s1", "new"))

    assert not verdict.nodes
    assert list(verdict.unknown) == ["new"]


def test_whoever_has_a_node_or_is_gone_waits_no_more() -> None:
    scene = Scene()
    scene.filter("p1")
    scene.filter("p2")
    assert len(scene.state.waiting) == 2
    scene.bound("p1", "d1")
    scene.gone("p2")
    assert not scene.state.waiting


def test_when_pods_that_were_passed_on_leave_the_split_is_made_up_for() -> None:
    scene = Scene()
    scene.marked = {"spot"}
    for number in range(10):
        assert scene.schedule(f"p{number}", ("d1", "d2")) == "on-demand"
    scene.marked = set()

    # Whoever is evicted, the next pod goes where the split lacks one: until seven of ten are on spot.
    for number in (0, 3, 6, 9, 1, 2, 4):
        scene.gone(f"p{number}")
        assert scene.schedule(f"q{number}") == "spot"
    scene.gone("p5")
    assert scene.schedule("q5") == "on-demand"


def test_a_pod_beyond_every_max_is_refused_everywhere() -> None:
    scene = Scene(policy("burst", {**SPOT, "max": 1}, {**ON_DEMAND, "min": 0, "max": 1}))
    scene.schedule("p1")
    scene.schedule("p2")
    verdict = scene.filter("p3")

    assert not verdict.nodes
    assert "at its max" in verdict.refusal
    scene.gone("p1")
    assert scene.filter("p3").nodes == ["s1", "s2"]


def test_preemption_keeps_the_candidates_of_the_tier() -> None:
    scene = Scene()
    assert list(scene.state.preempt(scene.ask("p1"), {"s1": (), "d1": ()}, 0.0)) == ["d1"]
    scene.schedule("p1")
    assert list(scene.state.preempt(scene.ask("p2"), {"s1": (), "d1": ()}, 0.0)) == ["s1"]
    # Nothing was assumed by asking: no node was promised.
    assert scene.filter("p3").slot == 2


def test_scores_prefer_the_zone_with_the_fewest_of_the_group() -> None:
    scene = Scene(policy("web", {**SPOT, "spread": ["zone"]}, {**ON_DEMAND, "min": 0}))
    scene.put_node("s3", "spot", "c")
    scene.bound("a", "s1")
    scene.bound("b", "s1")
    scene.bound("c", "s2")
    scene.filter("p1", ("s1", "s2", "s3"))

    assert scene.state.scores(scene.ask("p1"), ("s1", "s2", "s3"), 10) == [0, 0, 10]


def test_of_equal_zones_each_pod_is_advised_another_before_any_is_seen_there() -> None:
    scene = Scene(policy("web", {**SPOT, "spread": ["zone"]}, {**ON_DEMAND, "min": 0}))
    scene.put_node("s3", "spot", "c")
    spot = ("s1", "s2", "s3")
    advised: Counter[str] = Counter()
    for number in range(9):
        scene.filter(f"p{number}", spot)
        scores = scene.state.scores(scene.ask(f"p{number}"), spot, 10)
        advised[spot[scores.index(10)]] += 1
        assert scores.count(10) == 1

    assert advised == {"s1": 3, "s2": 3, "s3": 3}


def test_under_preferred_every_node_passes_and_the_tier_has_the_points() -> None:
    scene = Scene(policy(enforce="preferred"))
    assert list(scene.filter("p1").nodes) == list(ALL)

    assert scene.state.scores(scene.ask("p1"), ALL, 10) == [0, 0, 10, 10]


def test_scores_of_a_pod_that_never_asked_are_all_zero() -> None:
    scene = Scene()

    assert scene.state.scores(scene.ask("p1"), ALL, 10) == [0, 0, 0, 0]


def test_starting_over_counts_what_runs_and_forgets_what_was_assumed() -> None:
    scene = Scene()
    scene.schedule("p1")
    scene.filter("p2")
    scene.state.start_over([(KEY, member("p1", tier="on-demand"), "d1")], ())

    assert scene.filter("p3").slot == 2


def test_what_an_unchanged_policy_assumed_lasts_until_it_is_shown_or_its_time_is_up() -> None:
    scene = Scene()
    scene.schedule("p1")
    for name in ("p2", "p3", "p4"):
        scene.filter(name)
    scene.now = 20.0
    # The watch shows that one was bound, another waits, and does not know the third yet.
    pods = [
        (KEY, member("p1", tier="on-demand"), "d1"),
        (KEY, member("p2", tier="spot"), "s1"),
        (KEY, member("p3"), ""),
    ]
    scene.state.start_over(pods, {"web"})
    assert scene.filter("p5").slot == 5

    scene.now = 30.0
    assert scene.filter("p6").slot == 3, "twenty seconds old by then, not new"


def test_a_pod_that_changes_hands_holds_nothing_where_it_was() -> None:
    scene = Scene(policy(enforce="preferred"))
    scene.schedule("p1")
    scene.filter("p2")
    other = GroupKey("other", "default", "Deployment/web", "r1")
    pods = [(other, member("p1", tier="on-demand"), "d1"), (other, member("p2"), "")]
    scene.state.start_over(pods, {"web"})

    assert scene.state.scores(scene.ask("p2", other), ALL, 10) == [0, 0, 0, 0], "by another's tiers"
    assert scene.filter("p3").slot == 1


def test_another_policys_change_does_not_take_back_where_a_pod_was_sent() -> None:
    scene = Scene(policy(enforce="preferred"))
    scene.filter("p1")
    scene.state.start_over([(KEY, member("p1"), "")], {"web"})

    assert scene.state.scores(scene.ask("p1"), ALL, 10) == [0, 0, 10, 10]


def test_who_was_refused_asks_again_whichever_policy_changed() -> None:
    scene = Scene()
    scene.schedule("p1")
    scene.filter("p2", ("d1", "d2"))
    scene.now = 100.0
    pods = [(KEY, member("p1", tier="on-demand"), "d1"), (KEY, member("p2"), "")]
    scene.state.start_over(pods, {"web"})
    assert scene.state.waiting[member("p2").uid].outdated

    scene.now = 120.0
    assert scene.filter("p2", ("d1", "d2")).passed == ("spot",), "it waits since its first call"


def test_a_pod_that_other_policies_refused_is_outdated_until_it_asks_again() -> None:
    scene = Scene(policy("web", SPOT, {**ON_DEMAND, "min": 0}, {"name": "last"}))
    scene.filter("p1", ("d1",))
    scene.filter("p2")
    scene.policy = policy("web", {"name": "only"})
    scene.tiers = Tiers(scene.policy.spec.tiers, Demand())
    scene.nodes.use([scene.policy])
    scene.state.start_over([], ())

    refused, sent = (scene.state.waiting[member(name).uid] for name in ("p1", "p2"))
    assert (refused.tier, refused.outdated) == (None, "policies-changed"), (
        "its tier's number means nothing any more"
    )
    assert not sent.outdated
    assert scene.state.scores(scene.ask("p2"), ALL, 10) == [0, 0, 0, 0]
    assert list(scene.filter("p1", ("d1",)).nodes) == ["d1"]
    assert not refused.outdated


def test_what_nobody_asks_about_is_forgotten() -> None:
    scene = Scene()
    scene.filter("p1")
    scene.state.tidy(1000.0)

    assert not scene.state.waiting
    assert not scene.state.groups
