"""Which nodes a tier is, asked of a node and said as affinity."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.nodes import intersect, terms_of_tier, tier_of_node
from support.policies import policy
from support.tiers import NODES, matched, node_terms, policies


def names(name: str, operator: str = "In") -> dict[str, Any]:
    return {"key": "metadata.name", "operator": operator, "values": [name]}


def test_a_node_belongs_to_the_first_tier_that_claims_it_and_else_to_the_rest() -> None:
    found = policy(
        "p",
        {"name": "rest"},
        {"name": "spot", "nodes": {"c": "spot"}},
        {"name": "two", "names": ["n1", "n2"]},
    )
    assert tier_of_node(found, "n1", {"c": "spot"}) == 1
    assert tier_of_node(found, "n1", {}) == 2
    assert tier_of_node(found, "n3", {}) == 0


def test_a_node_that_no_tier_claims_belongs_to_none() -> None:
    assert tier_of_node(policy("p"), "n1", {"capacity": "reserved"}) is None


def test_labels_are_expressions_that_all_hold() -> None:
    found = policy("p", {"name": "a", "nodes": {"c": "spot", "zone": "a"}})
    assert terms_of_tier(found, 0) == (
        {
            "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["spot"]},
                {"key": "zone", "operator": "In", "values": ["a"]},
            ]
        },
    )


def test_each_name_is_a_term_because_a_field_takes_one_value() -> None:
    found = policy("p", {"name": "a", "names": ["n1", "n2"]})
    assert terms_of_tier(found, 0) == ({"matchFields": [names("n1")]}, {"matchFields": [names("n2")]})


def test_the_rest_is_neither_the_labels_nor_the_names_of_the_others() -> None:
    found = policy(
        "p",
        {"name": "rest"},
        {"name": "spot", "nodes": {"c": "spot"}},
        {"name": "safe", "nodes": {"c": "safe"}},
        {"name": "burst", "names": ["v1", "v2"]},
    )
    assert terms_of_tier(found, 0) == (
        {
            "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["spot", "safe"]}],
            "matchFields": [names("v1", "NotIn"), names("v2", "NotIn")],
        },
    )


def test_tiers_of_one_label_need_not_exclude_each_other() -> None:
    assert terms_of_tier(policy("p"), 1) == (
        {"matchExpressions": [{"key": "capacity", "operator": "In", "values": ["on-demand"]}]},
    )


def test_a_tier_that_is_all_nodes_requires_nothing() -> None:
    assert terms_of_tier(policy("p", {"name": "all"}), 0) == ()


@given(policies(), st.sampled_from(NODES))
def test_terms_match_exactly_the_nodes_of_their_tier(found: PlacementPolicy, node: Any) -> None:
    for index in range(len(found.spec.tiers)):
        terms = list(terms_of_tier(found, index))
        expected = tier_of_node(found, *node) == index
        assert (matched(terms, node) if terms else True) is expected


@given(policies())
def test_every_field_has_one_value_as_the_api_demands(found: PlacementPolicy) -> None:
    for index in range(len(found.spec.tiers)):
        for term in terms_of_tier(found, index):
            assert all(len(field["values"]) == 1 for field in term.get("matchFields", ()))


@given(node_terms, policies(), st.data())
def test_an_intersection_matches_what_both_match_and_is_stable(
    existing: list[dict[str, Any]], found: PlacementPolicy, data: st.DataObject
) -> None:
    wanted = terms_of_tier(found, data.draw(st.integers(0, len(found.spec.tiers) - 1)))
    both = intersect(existing, wanted)
    for node in NODES:
        assert matched(both, node) is (
            matched(existing, node) and (not wanted or matched(list(wanted), node))
        )
    assert intersect(both, wanted) == both


def test_an_empty_term_does_not_begin_to_match() -> None:
    wanted = terms_of_tier(policy("p"), 0)
    assert intersect([{}], wanted) == [{}]


def test_names_that_conflict_are_left_out_unless_nothing_else_is_left() -> None:
    wanted = terms_of_tier(policy("p", {"name": "a", "names": ["n1", "n2"]}), 0)
    assert intersect([{"matchFields": [names("n2")]}], wanted) == [{"matchFields": [names("n2")]}]
    stuck = intersect([{"matchFields": [names("n9")]}], wanted)
    assert stuck == [{"matchFields": [names("n9"), names("n1")]}]
