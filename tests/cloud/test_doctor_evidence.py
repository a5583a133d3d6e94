"""What the doctor takes from logs, events, flags and policies."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fairlead.cloud.account import decide, statements_of
from fairlead.cloud.doctor.autoscaler import (
    Evidence,
    find_autoscaler,
    go_duration,
    read_events,
    read_log,
    without_suffix,
)
from support.doctor import REFUSED, autoscaler, event

AFFINITY = "node(s) didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    ("line", "rule", "reasons", "debug"),
    [
        (REFUSED.format(pod="a/b", asg="eks-x"), "NodeAffinity", AFFINITY, ""),
        (
            "I0721 11:10:41.1 1 orchestrator.go:588] Pod a/b can't be scheduled on eks-x, predicate checking "
            "error: can't schedule pod a/b: predicate \"NodeAffinity\" didn't pass "
            f"(predicateReasons=[{AFFINITY}];"
            ' debugInfo=nodeName: "template-node-for-eks-x")',
            "NodeAffinity",
            AFFINITY,
            'nodeName: "template-node-for-eks-x"',
        ),
        (
            "I0506 14:23:31.1 1 pod_schedulable.go:165] Pod a/b can't be scheduled on eks-x, predicate "
            "failed: PodToleratesNodeTaints predicate mismatch, reason: node(s) had taints, "
            "taints on node: []v1.Taint{}",
            "PodToleratesNodeTaints",
            "node(s) had taints",
            "",
        ),
    ],
    ids=["2024", "2025", "2020"],
)
def test_a_refusal_is_read_in_every_form_it_had(line: str, rule: str, reasons: str, debug: str) -> None:
    [found] = read_log(line).refusals
    assert (found.pod, found.group, found.rule) == ("a/b", "eks-x", rule)
    assert (found.reasons, found.debug) == (reasons, debug)


def test_the_same_refusal_again_is_one() -> None:
    line = REFUSED.format(pod="a/b", asg="eks-x")
    assert len(read_log(f"{line}\n{line}\n").refusals) == 1


def test_a_failed_question_is_read_from_either_line() -> None:
    text = (
        "E0101 00:00:01.0 1 c.go:1] Failed to query the managed nodegroup g for the cluster c while looking "
        "for labels/taints/tags: RequestError: i/o timeout\n"
        "E0101 00:00:02.0 1 m.go:1] Failed to get labels from EKS DescribeNodegroup API for nodegroup g in "
        "cluster c because AccessDeniedException: no.\n"
    )
    found = read_log(text)
    assert [(each.nodegroup, each.denied) for each in found.asked] == [("g", False), ("g", True)]
    last = found.failed("g")
    assert last is not None
    assert last.why == "AccessDeniedException: no"


def test_times_have_no_year_and_go_round_it() -> None:
    found = read_log("I1231 23:59:00.0 1 x] a\nI0101 00:01:00.0 1 x] b\n")
    before = read_log("I1231 23:59:00.0 1 x] a\n").last
    assert found.ago(before) == timedelta(minutes=2)
    assert found.ago(None) is None
    assert Evidence().ago(before) is None


def test_version_and_flags_are_in_the_log_of_a_start() -> None:
    found = read_log(
        'I1 1 flags.go:64] FLAG: --node-info-cache-expire-time="10m0s"\n'
        "I1 1 main.go:1] Cluster Autoscaler 1.27.5\n"
        'E1 1 a.go:1] ASG "eks-x" uses the unknown EC2 instance type "x9.huge"\n'
        "W1 1 o.go:1] Node group eks-x is not ready for scaleup - backoff with status: {}\n"
    )
    assert str(found.version) == "1.27.5"
    assert found.flags == {"node-info-cache-expire-time": "10m0s"}
    assert found.unknown_types == {"eks-x": "x9.huge"}
    assert list(found.backoff) == ["eks-x"]


@pytest.mark.parametrize("line", ["", "x", "I9999 99:99:99.9 1 x] y", "Pod a/b can't be scheduled"])
def test_anything_else_says_nothing(line: str) -> None:
    found = read_log(line)
    assert (found.refusals, found.asked, found.last) == ([], [], None)


def test_an_event_counts_groups_for_each_reason() -> None:
    said = f"pod didn't trigger scale-up: 1 max node group size reached, 2 {AFFINITY}"
    [found] = read_events([event("NotTriggerScaleUp", said), event("TriggeredScaleUp", "x")]).refusals
    assert (found.pod, found.reasons) == ("default/test-1", f"max node group size reached; {AFFINITY}")


@pytest.mark.parametrize(
    ("asg", "group"),
    [
        ("eks-large-56c9efb8-09b4-a2a8-50c7-7a370d197f3a", "large"),
        ("eks-a-b-56c9efb8-09b4-a2a8-50c7-7a370d197f3a", "a-b"),
        ("eks-56c9efb8-09b4-a2a8-50c7-7a370d197f3a", ""),
        ("workers", ""),
    ],
)
def test_the_node_group_is_in_the_name(asg: str, group: str) -> None:
    assert without_suffix(asg) == group


def test_the_autoscaler_is_found_by_its_image() -> None:
    flags = [
        "--node-info-cache-expire-time=10m",
        "--node-group-auto-discovery",
        "asg:tag=a,b=c",
        "--nodes=0:3:x:y",
    ]
    found = find_autoscaler(autoscaler(*flags, role="arn"))
    assert found is not None
    assert (str(found.version), found.role, found.expire) == ("1.32.1", "arn", timedelta(minutes=10))
    assert found.discovers_by() == ({"a": "", "b": "c"},)
    assert found.names() == ("x:y",)
    assert found.restart == "kubectl -n kube-system rollout restart deployment/cluster-autoscaler"
    assert find_autoscaler([{"kind": "Deployment"}, {"kind": "Pod"}]) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25), ("5", None), ("", None)]
)
def test_durations_are_gos(text: str, seconds: float | None) -> None:
    found = go_duration(text)
    assert (None if found is None else found.total_seconds()) == seconds


ACTION = "eks:DescribeNodegroup"


@pytest.mark.parametrize(
    ("statements", "access"),
    [
        ([], "denied"),
        ([{"Effect": "Allow", "Action": "*", "Resource": "*"}], "allowed"),
        ([{"Effect": "Allow", "Action": ["EKS:describenode?roup"], "Resource": ["*"]}], "allowed"),
        ([{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}], "allowed"),
        ([{"Effect": "Allow", "NotAction": "eks:*", "Resource": "*"}], "denied"),
        ([{"Effect": "Allow", "Action": ACTION, "Resource": "arn:aws:eks:*:*:nodegroup/a/*"}], "allowed"),
        ([{"Effect": "Allow", "Action": ACTION, "Resource": "arn:aws:eks:*:*:nodegroup/b/*"}], "denied"),
        ([{"Effect": "Allow", "Action": ACTION, "NotResource": "arn:aws:s3:*"}], "allowed"),
        ([{"Effect": "Allow", "Action": ACTION, "Resource": "*", "Condition": {"x": {}}}], "unknown"),
        (
            [{"Effect": "Allow", "Action": "*", "Resource": "*"}, {"Effect": "Deny", "Action": "eks:*"}],
            "denied",
        ),
    ],
)
def test_policies_are_read_where_nothing_can_be_simulated(
    statements: list[dict[str, Any]], access: str
) -> None:
    assert decide(ACTION, statements, "arn:aws:eks:eu-west-1:1:nodegroup/a/large/0") == access


def test_a_policy_may_be_text_and_have_a_single_statement() -> None:
    one = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    assert statements_of('{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}') == [one]
    assert statements_of({}) == []
