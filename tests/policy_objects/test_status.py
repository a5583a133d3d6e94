"""What a policy's status says of groups, tiers and conditions."""

from __future__ import annotations

from typing import Any

from fairlead.policy.groups.member import GroupKey, Member
from fairlead.policy.report.status import GROUPS_SHOWN, GroupCount, count_group, refused_status, status_of
from fairlead.policy.rule.split import Tiers
from fairlead.policy.rule.workloads import Workload
from fairlead.policy.tiers.marks import Marks
from support.policies import policy

WEB = policy("web", match={"namespaces": ["shop"]}, singleReplica={"tier": "on-demand", "else": "spot"})
KEY = GroupKey("web", "shop", "Deployment/web", "abc")


def members(**counts: int) -> list[Member]:
    """Pods by tier; `none` have a node of no tier."""
    return [
        Member(f"{tier}-{number}", f"{tier}-{number}", tier="" if tier == "none" else tier, placed=True)
        for tier, count in counts.items()
        for number in range(count)
    ]


def counted(pods: list[Member], *, replicas: int = 10, single: bool | None = None) -> GroupCount:
    workload = Workload("Deployment", "apps/v1", "shop", "web", replicas=replicas, single=single)
    return count_group(WEB, KEY, pods, Tiers(WEB.spec.tiers), workload)


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


class TestGroups:
    def test_a_split_as_the_rule_has_it_is_not_misplaced(self) -> None:
        found = counted(members(**{"spot": 7, "on-demand": 3}))
        assert (found.desired, found.actual) == ({"spot": 7, "on-demand": 3}, {"spot": 7, "on-demand": 3})
        assert found.misplaced == 0

    def test_pods_beyond_their_tiers_share_are_misplaced(self) -> None:
        assert counted(members(**{"spot": 9, "on-demand": 1})).misplaced == 2

    def test_pods_on_nodes_of_no_tier_are_misplaced(self) -> None:
        found = counted(members(**{"spot": 6, "on-demand": 3, "none": 1}))
        assert (found.elsewhere, found.misplaced) == (1, 1)

    def test_pods_without_a_node_are_pending_not_misplaced(self) -> None:
        waiting = [Member(f"w{n}", f"w{n}", tier="on-demand") for n in range(3)]
        found = counted([*members(spot=7), *waiting])
        assert (found.pods, found.pending["on-demand"], found.misplaced) == (10, 3, 0)

    def test_pods_on_their_way_out_do_not_count(self) -> None:
        leaving = [Member("x", "x", tier="spot", placed=True, leaving=True)]
        assert counted([*members(**{"spot": 7, "on-demand": 3}), *leaving]).pods == 10

    def test_a_single_replica_belongs_where_single_replicas_go(self) -> None:
        assert counted(members(spot=1), replicas=10).misplaced == 1
        assert counted(members(**{"on-demand": 1}), replicas=1).desired == {"spot": 0, "on-demand": 1}

    def test_a_single_replica_may_be_in_its_other_tier(self) -> None:
        assert counted(members(spot=1), replicas=1).misplaced == 0

    def test_all_pods_of_a_workload_that_says_it_is_single_belong_there(self) -> None:
        found = counted(members(**{"on-demand": 3}), replicas=3, single=True)
        assert (found.desired["on-demand"], found.misplaced) == (3, 0)

    def test_a_workload_of_one_that_says_it_is_not_single_is_split_as_any(self) -> None:
        assert counted(members(spot=1), replicas=1, single=False).misplaced == 1


class TestWholeStatus:
    def test_totals_are_over_all_groups_and_read_like_a_sentence(self) -> None:
        groups = [counted(members(**{"spot": 7, "on-demand": 3})), counted(members(spot=1))]
        found = status_of(WEB, groups, now=0, before={})
        assert (found["groups"], found["pods"], found["misplaced"]) == (2, 11, 1)
        assert (found["desired"], found["actual"]) == ("spot 7, on-demand 4", "spot 8, on-demand 3")
        assert found["tiers"][0] == {"name": "spot", "desired": 7, "actual": 8, "pending": 0}

    def test_groups_are_bounded_and_the_worst_come_first(self) -> None:
        fine = [
            GroupCount(GroupKey("web", "shop", f"Deployment/{n}"), 1, {"spot": 1}, {"spot": 1})
            for n in range(GROUPS_SHOWN + 10)
        ]
        bad = GroupCount(KEY, 1, {"on-demand": 1}, {"spot": 1})
        found = status_of(WEB, [*fine, bad], now=0, before={})
        assert found["groups"] == GROUPS_SHOWN + 11
        assert len(found["groupCounts"]) == GROUPS_SHOWN
        assert found["groupCounts"][0] == {
            "namespace": "shop",
            "name": "Deployment/web",
            "revision": "abc",
            "pods": 1,
            "misplaced": 1,
            "desired": {"on-demand": 1},
            "actual": {"spot": 1},
        }

    def test_a_policy_that_is_used_says_so(self) -> None:
        found = conditions(status_of(WEB, [], now=0, before={}))
        assert found == {
            "Accepted": ("True", "Accepted"),
            "Overlapped": ("False", "Alone"),
            "TierUnavailable": ("False", "AllAvailable"),
            "Ready": ("True", "Settled"),
        }

    def test_an_overlap_names_who_wins(self) -> None:
        found = status_of(WEB, [], now=0, before={}, overlapped_by=("a", "b"))
        assert found["conditions"][1]["message"] == "where both match, a, b win"
        assert conditions(found)["Overlapped"] == ("True", "MoreSpecific")

    def test_an_unavailable_tier_is_named_with_its_reason(self) -> None:
        marks = Marks(60).failed("spot", now=1000, reason="no node in time")
        found = status_of(WEB, [], now=1001, before={}, marks=marks)
        assert found["unavailable"] == "spot"
        assert conditions(found)["TierUnavailable"] == ("True", "NoRoom")
        assert found["conditions"][2]["message"] == "spot is passed over until 00:17:40Z: no node in time"

    def test_a_condition_keeps_its_time_while_it_says_the_same(self) -> None:
        first = status_of(WEB, [], now=1000, before={})
        again = status_of(WEB, [], now=2000, before=first)
        assert again == first
        changed = status_of(WEB, [], now=2000, before=first, overlapped_by=("a",))
        times = [one["lastTransitionTime"] for one in changed["conditions"]]
        assert times == ["1970-01-01T00:16:40Z", "1970-01-01T00:33:20Z", *["1970-01-01T00:16:40Z"] * 2]

    def test_what_others_say_about_a_policy_stays(self) -> None:
        theirs = {"type": "ExtenderCalled", "status": "False", "reason": "NeverCalled"}
        for found in (
            status_of(WEB, [], now=0, before={"conditions": [theirs]}),
            refused_status("bad", generation=1, now=0, before={"conditions": [theirs]}),
        ):
            assert found["conditions"][-1] == theirs

    def test_a_policy_that_is_left_out_says_why(self) -> None:
        found = refused_status("spec.tiers: at least one is needed", generation=3, now=0, before={})
        assert found["observedGeneration"] == 3
        assert conditions(found) == {"Accepted": ("False", "Invalid"), "Ready": ("False", "Invalid")}
        assert "at least one is needed" in found["conditions"][0]["message"]
