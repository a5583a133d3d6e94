"""What becomes of slots: taken, seen, free again, expired, adopted."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fairlead.errors import BadObject
from fairlead.kube.decode import decode
from fairlead.policy.groups.member import Member, group_of
from fairlead.policy.rule.choice import Choice
from fairlead.policy.rule.split import Tiers
from fairlead.policy.rule.workloads import Workload
from fairlead.policy.slots.ledger import EXPIRY_S, Entry, Ledger, PlacementLedger, Sightings
from fairlead.policy.slots.placing import place, place_alone
from support.members import KEY, a_deployment, member
from support.policies import ON_DEMAND, SPOT, policy

WEB = policy()
TIERS = Tiers(WEB.spec.tiers)
EMPTY = Ledger(KEY)
NOW = 1_000_000.0


def ledger_of(number: int, *, now: float = NOW) -> Ledger:
    """Slots 1 to `number`, taken under the tokens t1, t2, …"""
    found = EMPTY
    for slot in range(1, number + 1):
        found, _ = place(found, WEB, a_deployment(), TIERS, token=f"t{slot}", now=now)
    return found


def slots(ledger: Ledger) -> dict[int, str]:
    return {entry.slot: entry.token for entry in ledger.entries}


class TestTaking:
    def test_pods_take_the_lowest_free_slots_and_the_rules_tiers(self) -> None:
        found = ledger_of(10)
        assert slots(found) == {k: f"t{k}" for k in range(1, 11)}
        assert found.counts() == {"spot": 7, "on-demand": 3}

    def test_a_freed_slot_is_taken_first(self) -> None:
        found = ledger_of(5).gone({"t2", "t4"})
        found, placing = place(found, WEB, a_deployment(), TIERS, token="new", now=NOW)
        assert placing.slot == 2
        assert [entry.slot for entry in found.entries] == [1, 2, 3, 5]

    def test_the_same_token_finds_its_slot_again(self) -> None:
        first, placing = place(ledger_of(3), WEB, a_deployment(), TIERS, token="t", now=NOW)
        second, again = place(first, WEB, a_deployment(), TIERS, token="t", now=NOW + 5)
        assert second is first
        assert again == placing

    def test_a_slot_found_again_goes_where_it_was_sent_even_if_the_tier_has_become_unavailable(self) -> None:
        first, placing = place(ledger_of(1), WEB, a_deployment(), TIERS, token="t", now=NOW)
        _, again = place(first, WEB, a_deployment(), TIERS, token="t", now=NOW, unavailable=["spot"])
        assert again.choice.tier == placing.choice.tier == 0

    def test_a_stateful_sets_ordinal_is_its_slot_whoever_had_it(self) -> None:
        db = Workload("StatefulSet", "apps/v1", "default", "db", "uid-db", ordinal=4, replicas=9)
        found, placing = place(EMPTY, WEB, db, TIERS, token="old", now=NOW)
        assert placing.slot == 5
        found, placing = place(found, WEB, db, TIERS, token="new", now=NOW)
        assert slots(found) == {5: "new"}

    def test_a_pod_beyond_every_max_holds_a_slot_of_no_tier(self) -> None:
        full = policy("p", {"name": "only", "max": 1})
        found = EMPTY
        for token in ("a", "b", "b"):
            found, placing = place(found, full, a_deployment(), Tiers(full.spec.tiers), token=token, now=NOW)
        assert placing.choice.tier is None
        assert found.counts() == {"only": 1, "": 1}

    def test_a_pod_beyond_every_max_that_nobody_could_mend_later_goes_to_the_last_tier(self) -> None:
        full = policy(
            "p", {"name": "a", "names": ["n1"], "max": 1}, {"name": "b", "max": 0}, groupBy="policy"
        )
        job = Workload("Job", "batch/v1", "default", "work", "uid-work", replicas=3, job=True)
        bare = Workload("Pod", "v1", "default", "solo", replicas=1, recreated=False, bare=True)
        tiers = Tiers(full.spec.tiers)
        found, _ = place(EMPTY, full, job, tiers, token="first", now=NOW)
        for workload in (job, bare):
            _, placing = place(found, full, workload, tiers, token="more", now=NOW)
            assert placing.choice == Choice(1, "beyond")
            _, placing = place(found, full, workload, tiers, token="more", now=NOW, unavailable=["b"])
            assert placing.choice == Choice(0, "beyond")
        may_move = policy("p", {"name": "a", "max": 1}, groupBy="policy", rebalance={"jobs": True})
        _, placing = place(found, may_move, job, Tiers(may_move.spec.tiers), token="more", now=NOW)
        assert placing.choice == Choice(None, "full")

    def test_a_single_replica_and_a_bare_pod_go_where_single_replicas_go(self) -> None:
        single = policy("p", SPOT, ON_DEMAND | {"min": 0}, singleReplica="on-demand")
        tiers = Tiers(single.spec.tiers)
        _, placing = place(EMPTY, single, a_deployment(1), tiers, token="t", now=NOW)
        assert placing.choice.tier == 1
        bare = Workload("Pod", "v1", "default", "solo", replicas=1, recreated=False, bare=True)
        alone = place_alone(single, bare, tiers)
        assert (alone.slot, alone.choice.tier, alone.token) == (1, 1, "")

    def test_in_a_group_of_several_workloads_a_single_one_is_single_at_any_slot(self) -> None:
        shared = policy("p", SPOT, ON_DEMAND | {"min": 0}, singleReplica="on-demand", groupBy="policy")
        tiers = Tiers(shared.spec.tiers)
        found, first = place(EMPTY, shared, a_deployment(5), tiers, token="a", now=NOW)
        _, second = place(found, shared, a_deployment(1), tiers, token="b", now=NOW)
        assert (first.choice.tier, second.choice.tier) == (0, 1)


class TestReinvocation:
    def test_a_token_just_taken_is_known_again(self) -> None:
        assert ledger_of(2).again("t2", NOW + 1) is not None

    def test_tokens_that_are_unknown_old_or_whose_pod_exists_count_for_nothing(self) -> None:
        found = ledger_of(2)
        assert found.again("", NOW) is None
        assert found.again("other", NOW) is None
        assert found.again("t1", NOW + EXPIRY_S + 1) is None
        assert found.seen([member("web-1", "t1")]).again("t1", NOW) is None


class TestSeeing:
    def test_a_pod_gives_its_slot_its_name_and_the_tier_of_its_node(self) -> None:
        found = ledger_of(2).seen([member("web-a", "t2", tier="on-demand")])
        assert found.entries[1] == Entry(2, "on-demand", "t2", NOW, "web-a")

    def test_a_pod_without_a_known_node_leaves_its_slots_tier_as_it_is(self) -> None:
        assert ledger_of(2).seen([member("web-a", "t2")]).entries[1].tier == "spot"

    def test_leaving_pods_free_their_slots(self) -> None:
        assert slots(ledger_of(3).seen([member("web-a", "t2", leaving=True)])) == {1: "t1", 3: "t3"}

    def test_a_copied_token_is_its_first_owners(self) -> None:
        original, copied = member("z", "t1", created=5.0), member("a", "t1", created=5.0)
        first = ledger_of(1).seen([original])
        both = first.observe([original, copied], TIERS, NOW)
        assert [(entry.slot, entry.pod) for entry in both.entries] == [(1, "z"), (2, "a")]

    def test_nothing_new_is_the_same_ledger(self) -> None:
        pods = [member(f"web-{k}", f"t{k}", tier="on-demand" if k == 1 else "spot") for k in (1, 2, 3)]
        settled = ledger_of(3).observe(pods, TIERS, NOW)
        assert settled.observe(pods, TIERS, NOW + 1000) is settled

    def test_names_alone_are_not_worth_a_write_but_tiers_and_slots_are(self) -> None:
        found = ledger_of(2)
        assert found.same_slots(found.seen([member("a", "t1")]))
        assert not found.same_slots(found.seen([member("a", "t1", tier="spot")]))
        assert not found.same_slots(found.gone({"t1"}))


class TestFreeing:
    def test_a_pod_that_was_seen_and_is_gone_frees_its_slot_at_once(self) -> None:
        assert slots(ledger_of(2).observe([], TIERS, NOW, gone={"t1"})) == {2: "t2"}

    def test_that_another_door_saw_the_pod_does_not_free_it(self) -> None:
        """Our own watch may only be behind."""
        seen_elsewhere = ledger_of(1).seen([member("web-a", "t1")])
        assert slots(seen_elsewhere.observe([], TIERS, NOW + 1)) == {1: "t1"}

    def test_a_slot_whose_pod_never_shows_up_expires(self) -> None:
        found = ledger_of(1)
        assert slots(found.observe([], TIERS, NOW + EXPIRY_S)) == {1: "t1"}
        assert slots(found.observe([], TIERS, NOW + EXPIRY_S + 1)) == {}

    def test_a_slot_is_as_old_as_we_have_seen_it_whatever_its_writers_clock_says(self) -> None:
        sightings = Sightings()
        for skew in (-1000.0, 1000.0):
            found = ledger_of(1)
            ours = NOW + skew
            assert slots(sightings.of(found, ours).observe([], TIERS, ours)) == {1: "t1"}
            later = ours + EXPIRY_S
            assert slots(sightings.of(found, later).observe([], TIERS, later)) == {1: "t1"}
            assert slots(sightings.of(found, later + 1).observe([], TIERS, later + 1)) == {}
            sightings.of(replace(found, entries=()), later + 1)

    def test_how_old_slots_look_from_here_is_no_part_of_the_ledger(self) -> None:
        assert Sightings().of(ledger_of(2), 5.0) == ledger_of(2)

    def test_the_slots_of_a_ledger_that_was_deleted_are_young_again(self) -> None:
        sightings = Sightings()
        sightings.of(ledger_of(1), 0.0)
        sightings.forget(KEY)
        found = sightings.of(ledger_of(1), EXPIRY_S)
        assert found.age(found.entries[0], NOW) == 0.0

    def test_a_slot_that_is_taken_anew_is_young_again(self) -> None:
        sightings, found = Sightings(), ledger_of(1)
        sightings.of(found, NOW)
        retaken, _ = found.gone({"t1"}).take("t9", NOW, lambda _: "spot")
        after = sightings.of(retaken, NOW + EXPIRY_S + 1)
        assert slots(after.observe([], TIERS, NOW + EXPIRY_S + 1)) == {1: "t9"}

    def test_slots_of_other_writers_may_expire_early_but_not_those_that_are_spared(self) -> None:
        found = ledger_of(2).expire([], NOW + 5, after_s=2.0, spare={"t1"})
        assert slots(found) == {1: "t1"}
        assert slots(found.expire([], NOW + EXPIRY_S + 1, after_s=2.0, spare={"t1"})) == {}

    def test_a_slot_with_a_pod_never_expires(self) -> None:
        pods = [member("web-a", "t1", tier="on-demand")]
        assert slots(ledger_of(1).observe(pods, TIERS, NOW + 1e6)) == {1: "t1"}


class TestAdoption:
    def test_pods_without_a_mark_are_given_slots_of_their_nodes_tier(self) -> None:
        pods = [member("a", tier="spot"), member("b", tier="on-demand"), member("c", tier="spot")]
        found = EMPTY.observe(pods, TIERS, NOW)
        assert slots(found) == {1: "uid-b", 2: "uid-a", 3: "uid-c"}

    def test_an_unknown_mark_is_ignored(self) -> None:
        found = EMPTY.observe(
            [member("a", "lost", slot=7, tier="spot"), member("b", tier="on-demand")], TIERS, NOW
        )
        assert slots(found) == {1: "uid-b", 2: "uid-a"}

    def test_pods_beyond_their_tiers_slots_take_the_lowest_and_keep_their_own_tier(self) -> None:
        found = EMPTY.observe([member(name, tier="spot") for name in "abc"], TIERS, NOW)
        assert [(entry.slot, entry.tier) for entry in found.entries] == [
            (1, "spot"),
            (2, "spot"),
            (3, "spot"),
        ]

    @pytest.mark.parametrize(
        ("pod", "tier"),
        [
            (member("a", tier="", placed=True), ""),
            (member("a", tier="spot", placed=False), "spot"),
            (member("a", tier="", placed=False), "on-demand"),
        ],
        ids=["on a node of no tier", "sent to a tier", "neither"],
    )
    def test_a_pod_is_in_the_tier_of_its_node_or_was_sent_to_one_before_the_rule_decides(
        self, pod: Member, tier: str
    ) -> None:
        found = EMPTY.observe([pod], TIERS, NOW)
        assert [(entry.slot, entry.tier) for entry in found.entries] == [(1, tier)]

    def test_slots_already_held_are_not_touched(self) -> None:
        held = [member("old", "t1", tier="on-demand")]
        found = ledger_of(1).observe([*held, member("a", tier="on-demand")], TIERS, NOW)
        assert slots(found) == {1: "t1", 2: "uid-a"}

    def test_a_pending_pod_holds_the_lowest_slot_until_its_node_tells(self) -> None:
        waiting = EMPTY.observe([member("a"), member("b", tier="spot")], TIERS, NOW)
        assert slots(waiting) == {1: "uid-a", 2: "uid-b"}
        found = ledger_of(0).observe([member("a"), member("b")], TIERS, NOW)
        assert slots(found) == {1: "uid-a", 2: "uid-b"}
        placed = [member("a", tier="spot"), member("b", leaving=True)]
        assert slots(found.observe(placed, TIERS, NOW + 1)) == {1: "uid-a"}

    def test_an_adopted_pod_changes_to_a_slot_of_its_tier_that_became_free(self) -> None:
        pods = [member(name, tier="spot") for name in "abc"]
        found = EMPTY.observe(pods, TIERS, NOW)
        assert slots(found)[1] == "uid-c"
        gone = [member("a", tier="spot", leaving=True), *pods[1:], member("d", tier="on-demand")]
        assert slots(found.observe(gone, TIERS, NOW + 1)) == {1: "uid-d", 2: "uid-c", 3: "uid-b"}

    def test_a_stateful_sets_pod_is_adopted_into_its_ordinals_slot(self) -> None:
        found = EMPTY.observe([member("db-6", tier="spot", ordinal=6)], TIERS, NOW)
        assert slots(found) == {7: "uid-db-6"}

    def test_a_stateful_sets_pod_does_not_take_its_successors_slot(self) -> None:
        """Our watch may be behind: the pod is gone, and its next incarnation is being admitted."""
        db = Workload("StatefulSet", "apps/v1", "default", "db", "uid-db", ordinal=0, replicas=3)
        found, _ = place(EMPTY, WEB, db, TIERS, token="new", now=NOW)
        before = member("db-0", "old", tier="on-demand", ordinal=0, created=NOW - 60)
        assert slots(found.observe([before], TIERS, NOW + 1)) == {1: "new"}
        unmarked = member("db-0", tier="on-demand", ordinal=0, created=NOW + 1)
        assert slots(found.observe([unmarked], TIERS, NOW + 2)) == {1: "uid-db-0"}

    def test_leaving_pods_are_not_adopted(self) -> None:
        assert EMPTY.observe([member("a", tier="spot", leaving=True)], TIERS, NOW) == EMPTY

    def test_a_lost_ledger_is_made_again_from_the_pods(self) -> None:
        pods = [
            member(f"web-{k}", f"t{k}", tier=entry.tier, created=float(k))
            for k, entry in enumerate(ledger_of(10).entries, start=1)
        ]
        found = EMPTY.observe(pods, TIERS, NOW)
        assert found.counts() == {"spot": 7, "on-demand": 3}
        assert [entry.pod for entry in found.entries] == [f"web-{k}" for k in range(1, 11)]


class TestOwning:
    def test_the_workload_owns_the_ledger_of_its_revision(self) -> None:
        owner = ledger_of(1).to_object()["metadata"]["ownerReferences"]
        assert owner == [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web"}]

    def test_that_it_owns_the_ledger_is_worth_a_write(self) -> None:
        found = ledger_of(2)
        nobodys = replace(found, owner=None)
        assert nobodys.entries == found.entries
        assert not nobodys.same_slots(found)

    def test_a_workload_made_anew_under_its_name_begins_with_no_slots(self) -> None:
        again = replace(a_deployment(), uid="another")
        found = ledger_of(3).owned_by(again)
        assert found.entries == ()
        assert found.owner is not None
        assert found.owner.uid == "another"

    def test_a_guessed_workload_changes_no_owner(self) -> None:
        found = ledger_of(3)
        assert found.owned_by(replace(a_deployment(), uid="", guessed=True)) is found

    @pytest.mark.parametrize("by", ["policy", {"label": "app"}])
    def test_a_group_of_several_workloads_has_no_owner_and_keeps_all_their_slots(self, by: Any) -> None:
        shared = policy("p", groupBy=by)
        found = Ledger(group_of(shared, a_deployment(), {"app": "web"}))
        for token in ("a", "b"):
            other = replace(a_deployment(), name=token, uid=f"uid-{token}")
            found, _ = place(found, shared, other, Tiers(shared.spec.tiers), token=token, now=NOW)
        assert found.owner is None
        assert slots(found) == {1: "a", 2: "b"}


class TestTheObject:
    def test_it_survives_the_api(self) -> None:
        found = replace(ledger_of(4, now=NOW + 0.25), version="7", uid="u").seen([member("web-a", "t2")])
        assert Ledger.from_object(found.to_object()) == found
        assert Ledger.from_object(decode(msgspec.json.encode(found.to_object()), PlacementLedger)) == found

    def test_it_says_what_it_is_for(self) -> None:
        found = ledger_of(1).to_object()
        assert (found["apiVersion"], found["kind"]) == ("fairlead.dev/v1alpha1", "PlacementLedger")
        assert found["metadata"]["namespace"] == "default"
        assert found["spec"]["policy"] == "web"
        assert found["spec"]["group"] == "Deployment/web"
        assert found["spec"]["revision"] == "r1"
        (slot,) = found["spec"]["slots"]
        assert re.fullmatch(r"1 on-demand t1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", slot)

    def test_of_slots_and_tokens_that_occur_twice_the_first_counts(self) -> None:
        data = ledger_of(2).to_object()
        one, other = data["spec"]["slots"]
        again = (other.replace("2", "1", 1), other.replace("t2", "t1").replace("2", "3", 1))
        data["spec"]["slots"] = [one, *again]
        assert slots(Ledger.from_object(data)) == {1: "t1"}

    @pytest.mark.parametrize(
        "line",
        [
            "",
            "1 spot t",
            "0 spot t 2026-01-02T03:04:05Z",
            "-1 spot t 2026-01-02T03:04:05Z",
            "one spot t 2026-01-02T03:04:05Z",
            "1 spot t yesterday",
            "1 spot t 2026-01-02T03:04:05",
            "1 spot t 2026-01-02T03:04:05+01:00",
            "1 spot t 9999-12-31T23:59:59.999999Z",
            "1  t 2026-01-02T03:04:05Z",
            "1 spot  2026-01-02T03:04:05Z",
            "1 spot t 2026-01-02T03:04:05Z web-a web-b",
            {"slot": 1, "tier": "spot", "token": "t", "since": "2026-01-02T03:04:05Z"},
            7,
            None,
        ],
    )
    def test_a_line_that_is_no_slot_is_passed_over_and_the_others_count(self, line: object) -> None:
        data = ledger_of(2).to_object()
        data["spec"]["slots"][0] = line
        assert slots(Ledger.from_object(data)) == {2: "t2"}

    def test_a_pod_that_was_sent_nowhere_is_there(self) -> None:
        (line,) = (
            ledger_of(1).seen([Member("web-a", "uid-a", "t1", placed=True)]).to_object()["spec"]["slots"]
        )
        assert line.startswith("1 - t1 ")
        assert line.endswith("Z web-a")

    def test_one_that_cannot_be_read_says_which_field(self) -> None:
        data = ledger_of(1).to_object()
        data["spec"]["slots"] = "1"
        with pytest.raises(BadObject, match=r"PlacementLedger default/web-deployment-web-.*spec\.slots"):
            Ledger.from_object(data)


def test_a_member_of_no_tier_is_counted_there() -> None:
    outside = Member("a", "uid-a", "t1", placed=True)
    assert ledger_of(1).seen([outside]).counts() == {"": 1}
