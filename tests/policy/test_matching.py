"""Which policy governs a pod."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.workloads import Workload
from support.policies import policy

WEB = Workload("Deployment", "apps/v1", "shop", "web")


def matching(name: str, **match: Any) -> PlacementPolicy:
    return policy(name, match=match)


def winner(
    *policies: PlacementPolicy, labels: dict[str, str] | None = None, of: Workload = WEB
) -> str | None:
    found = Policies(policies).governing(of, labels or {})
    return found.name if found is not None else None


@pytest.mark.parametrize(
    ("match", "governs"),
    [
        ({}, True),
        ({"namespaces": ["shop", "bank"]}, True),
        ({"namespaces": ["bank"]}, False),
        ({"kinds": ["Deployment"]}, True),
        ({"kinds": ["ReplicaSet"]}, False),
        ({"labels": {"tier": "web"}}, True),
        ({"labels": {"tier": "web", "app": "x"}}, False),
        ({"namespaces": ["shop"], "kinds": ["Deployment"], "labels": {"tier": "web"}}, True),
    ],
)
def test_all_that_a_match_says_must_hold(match: dict[str, Any], governs: bool) -> None:
    assert (winner(matching("p", **match), labels={"tier": "web"}) == "p") is governs


def test_bare_pods_are_of_the_kind_pod() -> None:
    solo = Workload("Pod", "v1", "shop", "solo", recreated=False, bare=True)
    assert winner(matching("p", kinds=["Pod"]), of=solo) == "p"


def test_the_one_that_says_more_wins() -> None:
    everything, shop = matching("a"), matching("b", namespaces=["shop"])
    both = matching("c", namespaces=["shop"], labels={"app": "web"})
    assert winner(everything, shop, both, labels={"app": "web"}) == "c"
    assert winner(everything, shop, both) == "b"


def test_labels_win_over_a_namespace_and_names_break_ties() -> None:
    labelled, shop = matching("z", labels={"app": "web"}), matching("a", namespaces=["shop"])
    assert winner(shop, labelled, labels={"app": "web"}) == "z"
    assert winner(matching("b"), matching("a")) == "a"


def test_pods_that_are_not_governed_and_exempt_namespaces_have_no_policy() -> None:
    daemon = Workload("DaemonSet", "apps/v1", "shop", "logs", skip="DaemonSet pod")
    policies = Policies([matching("p")], exempt=["kube-system"])
    assert policies.governing(daemon, {}) is None
    assert policies.governing(Workload("Deployment", "apps/v1", "kube-system", "dns"), {}) is None
    assert policies.governing(WEB, {}) is not None


def test_overlaps_name_who_wins() -> None:
    policies = Policies(
        [
            matching("all"),
            matching("shop", namespaces=["shop"]),
            matching("bank", namespaces=["bank"]),
            matching("web", labels={"app": "web"}),
            matching("db", labels={"app": "db"}, kinds=["StatefulSet"]),
        ]
    )
    assert policies.overlaps() == {
        "shop": ("db", "web"),
        "bank": ("db", "web"),
        "all": ("db", "web", "bank", "shop"),
    }
