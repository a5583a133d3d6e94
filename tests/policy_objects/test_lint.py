"""What is likely to be a mistake in a policy."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.engine.ask.objects import read
from fairlead.policy.report.lint import Finding, lint
from fairlead.policy.report.preview import State, preview
from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Demand
from support.policies import ON_DEMAND, SPOT, policy
from support.units import budget, node, workload

TWO_NODES = (node("s1", labels={"capacity": "spot"}), node("o1", labels={"capacity": "on-demand"}))


def state(*things: dict[str, Any]) -> State:
    made = State()
    for thing in things:
        found = read(thing)
        assert found is not None
        made.add(*found, thing)
    return made


def codes(*policies: PlacementPolicy, given: State | None = None) -> dict[str, Finding]:
    return {finding.code: finding for finding in lint(policies, given)}


def deployment(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    made = workload("Deployment", name, replicas=replicas, **spec)
    made["spec"]["template"]["metadata"] = {"labels": {"app": name}}
    return made


def five() -> dict[str, Any]:
    """A budget that demands five of the pods of web."""
    made = budget("web", {"app": "web"}, 0)
    made["spec"]["minAvailable"] = 5
    return made


class TestByItself:
    def test_the_usual_policy_has_nothing_wrong(self) -> None:
        assert lint([policy()]) == []

    def test_a_tier_whose_nodes_are_all_claimed_before_it_is_unreachable(self) -> None:
        shadowed = {"name": "cheap-spot", "nodes": {"capacity": "spot", "size": "small"}}
        found = codes(policy("web", SPOT, shadowed, ON_DEMAND))["unreachable"]
        assert (found.severity, found.about) == ("warning", "cheap-spot")

    def test_a_tier_that_only_falls_back_is_noted(self) -> None:
        found = codes(policy("web", SPOT, ON_DEMAND | {"min": 0}))
        assert found["fallback-only"].about == "on-demand"
        assert "all-volatile" in found

    def test_percentages_that_take_from_a_tier_as_a_group_grows_are_not_nested(self) -> None:
        # From 2 to 3 pods b's share grows by one and, with all of them spoken for, c loses its pod.
        odd = policy(
            "odd",
            {"name": "a", "names": ["a"], "min": "34%"},
            {"name": "b", "names": ["b"], "min": "34%"},
            {"name": "c", "min": 1},
        )
        found = codes(odd)["not-nested"]
        assert found.severity == "warning"
        assert "leaves" in found.message

    def test_a_bound_on_every_tier_is_noted_with_its_number(self) -> None:
        found = codes(policy("web", SPOT | {"max": 5}, ON_DEMAND | {"min": 0, "max": 3}))
        assert "more than 8 pods" in found["bounded"].message

    def test_spreading_is_noted_to_take_the_place_of_the_default(self) -> None:
        found = codes(policy("web", SPOT | {"spread": ["topology.kubernetes.io/zone"]}, ON_DEMAND))
        assert (found["spread-defaults"].severity, found["spread-defaults"].about) == ("note", "spot")

    def test_single_replicas_on_volatile_nodes_are_noted(self) -> None:
        assert codes(policy(singleReplica="spot"))["single-volatile"].severity == "note"

    def test_the_loser_of_an_overlap_is_told_who_wins(self) -> None:
        found = lint([policy("all"), policy("shop", match={"namespaces": ["shop"]})])
        assert [(one.policy, one.code) for one in found] == [("all", "overlap")]
        assert "shop wins: it says more" in found[0].message

    def test_of_two_that_say_as_much_the_loser_is_told_that_the_name_decides(self) -> None:
        (found,) = lint([policy("shop"), policy("bank")])
        assert (found.policy, found.code) == ("shop", "overlap")
        assert found.message == "where both match, bank wins: both say as much, and its name comes first"


class TestAgainstNodes:
    def test_a_tier_that_matches_no_node(self) -> None:
        found = codes(policy(), given=state(TWO_NODES[0]))["no-node"]
        assert (found.severity, found.about) == ("warning", "on-demand")
        assert "capacity=on-demand" in found.message

    def test_a_state_without_nodes_says_nothing_about_nodes(self) -> None:
        assert "no-node" not in codes(policy(), given=state(deployment("web", 3)))

    def test_a_tier_whose_nodes_are_all_cordoned(self) -> None:
        cordoned = node("s1", labels={"capacity": "spot"}, unschedulable=True)
        assert codes(policy(), given=state(cordoned, TWO_NODES[1]))["cordoned"].about == "spot"

    @pytest.mark.parametrize("tolerated", [False, True])
    def test_a_taint_that_the_tier_does_not_tolerate(self, tolerated: bool) -> None:
        taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
        tainted = node("s1", labels={"capacity": "spot"}, taints=[taint])
        spot = SPOT | ({"tolerations": [{"key": "spot", "operator": "Exists"}]} if tolerated else {})
        found = codes(policy("web", spot, ON_DEMAND), given=state(tainted, TWO_NODES[1]))
        assert ("tainted" in found) is not tolerated
        if not tolerated:
            assert "spot=true:NoSchedule" in found["tainted"].message

    def test_taints_that_come_and_go_are_passed_over(self) -> None:
        taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
        away = node("s1", labels={"capacity": "spot"}, taints=[taint])
        assert "tainted" not in codes(policy(), given=state(away, TWO_NODES[1]))


class TestAgainstWorkloads:
    def test_a_min_that_is_less_than_the_budget_demands(self) -> None:
        given = state(*TWO_NODES, deployment("web", 10), five())
        found = codes(policy(), given=given)["min-below-budget"]
        assert found.about == "Deployment default/web"
        assert "demands 5 of 10 pods, but only 3 stay when spot is lost" in found.message

    def test_min_pdb_is_never_less(self) -> None:
        given = state(*TWO_NODES, deployment("web", 10), five())
        assert "min-below-budget" not in codes(policy("web", SPOT, ON_DEMAND | {"min": "pdb"}), given=given)

    @pytest.mark.parametrize(
        ("strategy", "nodes", "warned"),
        [
            ({}, 2, True),
            ({}, 3, False),
            ({"type": "Recreate"}, 2, False),
            ({"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}, 2, False),
            ({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}, 2, True),
            ({"rollingUpdate": {"maxUnavailable": "0%", "maxSurge": "0%"}}, 2, False),
        ],
    )
    def test_an_exclusive_workload_that_needs_a_spare_node(
        self, strategy: dict[str, Any], nodes: int, warned: bool
    ) -> None:
        alone = policy("alone", {"name": "own", "nodes": {"pool": "own"}, "exclusive": True})
        own = [node(f"n{number}", labels={"pool": "own"}) for number in range(nodes)]
        found = codes(alone, given=state(*own, deployment("web", 2, strategy=strategy)))
        assert ("no-spare-node" in found) is warned

    @pytest.mark.parametrize(("nodes", "warned"), [(4, ["a", "b"]), (5, [])])
    @pytest.mark.parametrize("policies", [1, 2])
    def test_exclusive_workloads_that_share_nodes_need_a_spare_one_beyond_all_of_them(
        self, policies: int, nodes: int, warned: list[str]
    ) -> None:
        tier = {"name": "own", "nodes": {"pool": "own"}, "exclusive": True}
        matches = [{}] if policies == 1 else [{"labels": {"app": name}} for name in "ab"]
        alone = [policy(f"p{number}", tier, match=match) for number, match in enumerate(matches)]
        own = [node(f"n{number}", labels={"pool": "own"}) for number in range(nodes)]
        careful = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        both = [deployment(name, 2, strategy=careful) for name in "ab"]
        found = [one for one in lint(alone, state(*own, *both)) if one.code == "no-spare-node"]
        assert [one.about for one in found] == [f"Deployment default/{name}" for name in warned]
        assert all("takes 2 of the 4 nodes of own, one each (others take 2)" in one.message for one in found)

    @pytest.mark.parametrize(
        ("few", "many", "warned"),
        [(1, 2, []), (1, 3, ["few", "many"]), (2, 1, ["few"]), (2, 2, ["few", "many"])],
    )
    def test_pods_that_have_other_nodes_too_take_only_what_they_do_not_find_there(
        self, few: int, many: int, warned: list[str]
    ) -> None:
        """Two nodes are for `few`; `many` may have them, too, and two others."""
        policies = [
            policy("few", {"name": "two", "names": ["n0", "n1"]}, match={"labels": {"app": "few"}}),
            policy("many", {"name": "all"}, match={"labels": {"app": "many"}}),
        ]
        made = [deployment("few", few), deployment("many", many)]
        for one in made:
            one["spec"]["strategy"] = {"rollingUpdate": {"maxUnavailable": 0}}
            one["spec"]["template"]["metadata"]["annotations"] = {"fairlead.dev/capacity": "exclusive"}
        given = state(*(node(f"n{number}") for number in range(4)), *made)
        found = [one.policy for one in lint(policies, given) if one.code == "no-spare-node"]
        assert found == warned

    def test_more_pods_than_a_tier_has_nodes_take_none_of_another(self) -> None:
        tier = {name: {"name": name, "names": [f"{name}0", f"{name}1"], "exclusive": True} for name in "ab"}
        policies = [policy(name, tier[name], match={"labels": {"app": name}}) for name in "ab"]
        nodes = [node(f"{name}{number}") for name in "ab" for number in range(2)]
        given = state(*nodes, deployment("a", 3), deployment("b", 1))
        assert [one.policy for one in lint(policies, given) if one.code == "no-spare-node"] == ["a"]

    def test_a_policy_that_governs_nothing_is_noted(self) -> None:
        found = codes(
            policy(match={"namespaces": ["elsewhere"]}), given=state(*TWO_NODES, deployment("web", 1))
        )
        assert found["no-workload"].severity == "note"

    def test_system_pods_are_no_policys_business(self) -> None:
        dns = deployment("dns", 10, namespace="kube-system")
        protecting = budget("dns", {"app": "dns"}, 0, namespace="kube-system")
        protecting["spec"]["minAvailable"] = 9
        found = codes(policy(), given=state(*TWO_NODES, dns, protecting))
        assert set(found) == {"no-workload"}


class TestLedgers:
    def test_a_group_of_more_pods_than_a_ledger_holds_is_warned_of_at_once(self) -> None:
        given = state(deployment("web", 2_000_000_000), deployment("app", 3))
        found = codes(policy(), given=given)["ledger-full"]
        assert (found.severity, found.about) == ("warning", "default Deployment/web")

    def test_workloads_that_share_a_group_are_counted_together(self) -> None:
        given = state(*(deployment(name, 4000) for name in "abc"))
        assert "ledger-full" not in codes(policy(), given=given)
        assert "12000 pods" in codes(policy(groupBy="policy"), given=given)["ledger-full"].message


class TestSharedBudgets:
    def test_a_min_that_would_do_for_each_workload_alone_does_not_for_both(self) -> None:
        shared = budget("shop", {"team": "shop"}, 0)
        shared["spec"]["maxUnavailable"] = 7
        both = [deployment("web", 10), deployment("app", 10)]
        for made in both:
            made["spec"]["template"]["metadata"]["labels"]["team"] = "shop"
        assert "min-below-budget" not in codes(policy(), given=state(both[0], shared))
        found = codes(policy(), given=state(*both, shared))["min-below-budget"]
        assert "demands 10 of 10 pods" in found.message


class TestBudgetsOfGroups:
    PDB = ON_DEMAND | {"min": "pdb"}

    def over_both(self) -> list[dict[str, Any]]:
        """Two workloads of five pods, and a budget that demands five of their ten."""
        both = [deployment("app", 5), deployment("web", 5)]
        for made in both:
            made["spec"]["template"]["metadata"]["labels"]["team"] = "shop"
        shared = budget("shop", {"team": "shop"}, 0)
        shared["spec"]["minAvailable"] = 5
        return [*both, shared]

    @pytest.mark.parametrize("by", ["policy", {"label": "team"}])
    @pytest.mark.parametrize("least", ["pdb", "30%"])
    def test_without_a_budget_there_is_none_to_fall_short_of(self, by: Any, least: str) -> None:
        shared = policy("web", SPOT, ON_DEMAND | {"min": least}, groupBy=by)
        given = state(*TWO_NODES, *self.over_both()[:2])
        assert "min-below-budget" not in codes(shared, given=given)

    def test_a_budget_over_several_is_kept_by_all_of_them_together(self) -> None:
        given = state(*TWO_NODES, *self.over_both())
        assert "min-below-budget" not in codes(policy("web", SPOT, self.PDB, groupBy="policy"), given=given)
        found = codes(policy(groupBy="policy"), given=given)["min-below-budget"]
        assert found.about == "PodDisruptionBudget default/shop"
        assert "demands 5 of 10 pods, but only 3 stay when spot is lost: say min: pdb" in found.message

    def test_budgets_in_one_group_keep_more_than_each_by_itself(self) -> None:
        given = state(*TWO_NODES, deployment("app", 7), deployment("web", 8), five())
        found = codes(policy("web", SPOT, self.PDB, groupBy="policy"), given=given)
        assert "min-below-budget" not in found
        said = found["budgets-in-one-group"]
        # Of the eight of web three may go, and so no more of all; by themselves, 5 of 8 and 3 of 7.
        assert (said.severity, said.about) == ("note", "default *")
        assert "keeps 12 of 15 pods" in said.message
        assert "say groupBy: workload to keep 8" in said.message
        assert "budgets-in-one-group" not in codes(policy("web", SPOT, self.PDB), given=given)

    def test_one_budget_over_a_whole_group_keeps_what_it_demands(self) -> None:
        given = state(*TWO_NODES, *self.over_both())
        assert "budgets-in-one-group" not in codes(
            policy("web", SPOT, self.PDB, groupBy="policy"), given=given
        )

    def test_what_is_demanded_of_a_workload_is_not_what_is_demanded_of_its_group(self) -> None:
        shared = policy("web", SPOT, self.PDB, groupBy="policy")
        found = preview(Policies([shared]), state(deployment("app", 10), deployment("web", 10), five()))
        assert [one.demand for one in found] == [Demand(), Demand(min_available=5)]
