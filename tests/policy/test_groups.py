"""Which group a pod is in, and how its ledger is called."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.policy.groups.member import GroupKey, facts_of, group_of, member_of, read_mark
from fairlead.policy.rule.workloads import Workload
from support.members import a_deployment
from support.policies import policy
from support.units import pod, typed

WEB = a_deployment()
BY_LABEL = policy("p", groupBy={"label": "app"})
MARKED = {
    "fairlead.dev/policy": "web",
    "fairlead.dev/slot": "3",
    "fairlead.dev/tier": "spot",
    "fairlead.dev/slot-token": "t",
}


def test_each_revision_of_a_workload_is_a_group() -> None:
    one, other = group_of(policy("p"), WEB, {}), group_of(policy("p"), replace(WEB, revision="r2"), {})
    assert one == GroupKey("p", "default", "Deployment/web", "r1")
    assert one != other


def test_label_and_policy_groups_ignore_workloads_and_revisions() -> None:
    other = replace(WEB, name="api", revision="r9")
    assert group_of(BY_LABEL, WEB, {"app": "a"}) == group_of(BY_LABEL, other, {"app": "a"})
    assert group_of(BY_LABEL, WEB, {"app": "a"}) != group_of(BY_LABEL, WEB, {"app": "b"})
    everything = policy("p", groupBy="policy")
    assert group_of(everything, WEB, {"app": "a"}) == group_of(everything, other, {})


def test_pods_that_lack_the_label_are_one_group_and_not_that_of_an_empty_value() -> None:
    assert group_of(BY_LABEL, WEB, {}) == group_of(BY_LABEL, replace(WEB, name="api"), {"x": "y"})
    assert group_of(BY_LABEL, WEB, {}) != group_of(BY_LABEL, WEB, {"app": ""})


@pytest.mark.parametrize("by", ["workload", "policy", {"label": "app"}])
def test_a_group_never_spans_namespaces(by: object) -> None:
    found = policy("p", groupBy=by)
    assert group_of(found, WEB, {}) != group_of(found, replace(WEB, namespace="bank"), {})


def test_kinds_of_the_same_name_in_different_apis_are_different_groups() -> None:
    one = Workload("Cluster", "postgres.example/v1", "default", "db")
    other = Workload("Cluster", "kafka.example/v1", "default", "db")
    assert group_of(policy("p"), one, {}) != group_of(policy("p"), other, {})


def test_a_bare_pod_is_alone_in_its_group_only_where_workloads_are_groups() -> None:
    solo = Workload("Pod", "v1", "default", "solo", replicas=1, recreated=False, bare=True)
    assert group_of(policy("p"), solo, {}).alone
    assert not group_of(policy("p", groupBy="policy"), solo, {}).alone


_text = st.text(st.characters(codec="utf-8"), max_size=300)


@given(_text, _text, _text)
def test_a_ledgers_name_is_a_dns_name(of_policy: str, group: str, revision: str) -> None:
    name = GroupKey(of_policy, "default", group, revision).ledger_name
    assert len(name) <= 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)


@given(st.lists(st.tuples(*[st.sampled_from(["", "a", "A", "a-b", "b", "a/b", "-"])] * 3), unique=True))
def test_different_groups_have_different_ledgers(keys: list[tuple[str, str, str]]) -> None:
    assert len({GroupKey(one, "default", *rest).ledger_name for one, *rest in keys}) == len(keys)


@pytest.mark.parametrize("slot", ["", "0", "-1", "x", "1.5", "٣", "999999999", "9999999999"])
def test_a_slot_that_cannot_be_read_is_no_mark(slot: str) -> None:
    assert read_mark(MARKED | {"fairlead.dev/slot": slot}) is None


def test_a_members_tier_is_its_nodes_and_before_that_where_it_was_sent() -> None:
    nodes = {"n1": {"capacity": "on-demand"}, "n2": {"capacity": "reserved"}}
    seen = [
        member_of(policy(), facts_of(typed(pod("a", on=on, annotations=MARKED))), WEB, nodes.get)
        for on in ("n1", "n2", "", "unknown")
    ]
    assert [(one.tier, one.placed) for one in seen] == [
        ("on-demand", True),
        ("", True),
        ("spot", False),
        ("spot", False),
    ]
    assert {(one.token, one.slot) for one in seen} == {("t", 3)}


def test_another_policys_mark_does_not_count() -> None:
    found = member_of(policy("other"), facts_of(typed(pod("a", annotations=MARKED))), WEB, {}.get)
    assert (found.token, found.slot, found.tier) == ("", None, "")


def test_terminating_and_finished_pods_are_leaving() -> None:
    leaving = [
        member_of(policy(), facts_of(typed(one)), WEB, {}.get).leaving
        for one in (
            pod("a", terminating=True),
            pod("b", phase="Succeeded"),
            pod("c", phase="Failed"),
            pod("d"),
        )
    ]
    assert leaving == [True, True, True, False]


def test_ordinals_count_only_where_a_group_is_one_workload() -> None:
    db = Workload("StatefulSet", "apps/v1", "default", "db", ordinal=2)
    assert member_of(policy("p"), facts_of(typed(pod("db-2"))), db, {}.get).ordinal == 2
    assert member_of(policy("p", groupBy="policy"), facts_of(typed(pod("db-2"))), db, {}.get).ordinal is None
