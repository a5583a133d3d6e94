"""Policies as they are written: what is wrong with one is said by field."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.errors import BadInput, BadObject
from fairlead.policy.rule.model import SingleReplica, read_policies, read_policy
from support.policies import plain_policy


def test_what_is_left_out_has_its_default() -> None:
    spec = read_policy(plain_policy("p", {"name": "all"})).spec
    assert (spec.group_by, spec.enforce, spec.single) == ("workload", "required", None)
    assert (spec.fallback.after_s, spec.fallback.cool_down_s) == (120.0, 60.0)
    assert (spec.rebalance.min_pod_age_s, spec.rebalance.per_minute, spec.rebalance.stabilize_s) == (
        300.0,
        2,
        300.0,
    )
    (tier,) = spec.tiers
    assert (tier.min, tier.max, tier.rest, tier.volatile, tier.exclusive) == (0, None, True, False, False)


def test_single_replica_may_be_a_name_or_have_an_else() -> None:
    assert read_policy(plain_policy(singleReplica="on-demand")).spec.single == SingleReplica("on-demand")
    both = {"tier": "on-demand", "else": "spot"}
    assert read_policy(plain_policy(singleReplica=both)).spec.single == SingleReplica("on-demand", "spot")


@pytest.mark.parametrize(
    ("tiers", "spec", "field"),
    [
        ([{"name": "a", "min": "130%"}], {}, r"tiers\[0\]\.min"),
        ([{"name": "a", "min": -1}], {}, r"tiers\[0\]\.min"),
        ([{"name": "a", "max": "pdb"}], {}, r"tiers\[0\]\.max"),
        ([{"name": "a", "min": 5, "max": 2}], {}, r"tiers\[0\]\.min"),
        ([{"name": "a", "min": "pdb", "volatile": True}], {}, r"tiers\[0\]\.min"),
        ([{"name": "A"}], {}, r"tiers\[0\]\.name"),
        ([{"name": "a"}, {"name": "a", "names": ["n"]}], {}, r"tiers\[1\]\.name"),
        ([{"name": "a"}, {"name": "b"}], {}, "only one tier"),
        ([{"name": "a", "nodse": {}}], {}, "nodse"),
        ([{"name": "a"}], {"singleReplica": "b"}, "singleReplica"),
        ([{"name": "a"}], {"groupBy": "label"}, "groupBy"),
        ([{"name": "a"}], {"groupBy": {"label": ""}}, r"groupBy\.label"),
        ([{"name": "a"}], {"enforce": "maybe"}, "enforce"),
        ([{"name": "a"}], {"fallback": {"after": "soon"}}, r"fallback\.after"),
        ([{"name": "a"}], {"rebalance": {"perMinute": -1}}, r"rebalance\.perMinute"),
    ],
)
def test_an_error_names_the_policy_and_the_field(
    tiers: list[dict[str, Any]], spec: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadObject, match=f"PlacementPolicy web: .*{field}"):
        read_policy(plain_policy("web", *tiers, **spec))


@pytest.mark.parametrize("data", [None, [], "text", {}, {"kind": "PlacementPolicy"}])
def test_what_is_no_policy_at_all_is_refused(data: object) -> None:
    with pytest.raises(BadObject):
        read_policy(data)


def test_policies_are_in_the_order_of_their_names_and_each_name_is_used_once() -> None:
    assert [one.name for one in read_policies([plain_policy("b"), plain_policy("a")])] == ["a", "b"]
    with pytest.raises(BadInput, match="two of that name"):
        read_policies([plain_policy("a"), plain_policy("a")])
