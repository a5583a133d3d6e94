"""The doctor on the autoscaler itself: what it may ask, what it remembers, how it was started.

The account is served; logs, events and Deployments are given as files, as one has them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.aws import (
    ACCOUNT,
    CLUSTER,
    DISCOVERY,
    REGION,
    TEMPLATE,
    Aws,
    refusing,
    simulating,
    template_tags,
)
from support.doctor import REFUSED, autoscaler, doctor, event, log_file, objects_file, waiting

DENIED = {"Effect": "Allow", "Action": "autoscaling:*", "Resource": "*"}
ALLOWED = {"Effect": "Allow", "Action": ["autoscaling:*", "eks:DescribeNodegroup"], "Resource": "*"}
ASKED = (
    "E1219 17:{minute}:00.000000       1 managed_nodegroup_cache.go:135] Failed to query the managed "
    "nodegroup large for the cluster prod while looking for labels/taints/tags: {why}"
)
NO = "AccessDeniedException: User is not authorized to perform: eks:DescribeNodegroup"
# The one that people meet, name and all.
SEEN = REFUSED.format(pod="default/test-1", asg="eks-large-56c9efb8-09b4-a2a8-50c7-7a370d197f3a")


@pytest.fixture
def medium(aws: Aws) -> str:
    return aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"), most=5)


class TestWhatItMayAsk:
    def test_iam_does_not_allow_describe_nodegroup(self, aws: Aws, medium: str) -> None:
        aws.group("large")
        told = doctor("--aws", "--ca-role", aws.role("autoscaler", DENIED))
        assert ("autoscaler", "describe-nodegroup-denied") in told.wrong
        found = told.one("describe-nodegroup-denied")
        assert '"Action": "eks:DescribeNodegroup", "Resource": "*"' in found["fix"]
        assert not found["fixable"]

    def test_it_is_only_a_risk_while_tags_say_all(self, aws: Aws, medium: str) -> None:
        aws.group("large", asg_tags=template_tags("large"))
        told = doctor("--aws", "--ca-role", aws.role("autoscaler", DENIED))
        assert (told.code, told.wrong, told.risks) == (0, [], ["describe-nodegroup-denied"])

    def test_the_role_is_found_at_the_deployments_service_account(
        self, aws: Aws, medium: str, tmp_path: Path
    ) -> None:
        aws.group("large")
        objects = objects_file(tmp_path, *autoscaler(role=aws.role("autoscaler", ALLOWED)))
        assert doctor("--aws", "--objects", objects).findings == []

    def test_the_log_tells_where_iam_does_not(self, aws: Aws, medium: str, tmp_path: Path) -> None:
        aws.group("large")
        log = log_file(tmp_path, ASKED.format(minute="01", why=NO), SEEN)
        told = doctor("--aws", "--ca-log", log)
        assert told.wrong[0] == ("large", "label-tag-missing")
        found = told.one("describe-nodegroup-denied")
        assert NO in found["evidence"][0]
        assert found["severity"] == "wrong"

    def test_the_eks_api_is_out_of_reach(self, aws: Aws, medium: str, tmp_path: Path) -> None:
        aws.group("large")
        why = "RequestError: send request failed caused by: dial tcp 10.0.0.9:443: i/o timeout"
        told = doctor("--aws", "--ca-log", log_file(tmp_path, ASKED.format(minute="01", why=why)))
        assert ("autoscaler", "describe-nodegroup-unreachable") in told.wrong
        assert "com.amazonaws.eu-west-1.eks" in told.one("describe-nodegroup-unreachable")["fix"]
        fixed = doctor("--aws", "--fix", "--yes", "--ca-log", str(tmp_path / "autoscaler.log"))
        assert (fixed.wrong, fixed.risks) == ([], ["describe-nodegroup-unreachable"])

    def test_ones_own_credentials_are_the_autoscalers(self, aws: Aws, medium: str) -> None:
        aws.group("large")
        assert doctor("--aws", "--as-autoscaler").findings == []

    def test_a_node_group_that_is_just_gone_is_no_refusal(self, aws: Aws, medium: str) -> None:
        aws.group("large")
        aws.asg("eks-gone", {"eks:cluster-name": CLUSTER, "eks:nodegroup-name": "was"})
        told = doctor("--aws", "--as-autoscaler")
        assert (told.findings, told.stderr) == ([], "")

    def test_one_question_that_fails_says_nothing_of_the_others(
        self, aws: Aws, medium: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        aws.group("large", asg_tags=template_tags("large"))
        with refusing(aws, "/node-groups/large", "InvalidParameterException") as url:
            monkeypatch.setenv("AWS_ENDPOINT_URL", url)
            told = doctor("--aws", "--as-autoscaler")
        assert told.findings == []
        assert "eks:DescribeNodegroup could not be called: InvalidParameterException" in told.stderr

    @pytest.mark.parametrize("simulated", [True, False])
    @pytest.mark.parametrize(("named", "code"), [("*", 0), ("large/*", 1)])
    def test_a_policy_may_name_node_groups(
        self, aws: Aws, named: str, code: int, simulated: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        aws.group("medium", instance_type="t3a.medium", most=5)
        aws.group("large", asg_tags=template_tags("large"))
        arn = f"arn:aws:eks:{REGION}:{ACCOUNT}:nodegroup/{CLUSTER}/{named}"
        role = aws.role(
            "autoscaler", DENIED, {"Effect": "Allow", "Action": "eks:DescribeNodegroup", "Resource": arn}
        )
        with simulating(aws, {"eks:DescribeNodegroup": arn, "autoscaling:*": "*"}) as url:
            monkeypatch.setenv("AWS_ENDPOINT_URL", url if simulated else aws.url)
            told = doctor("--aws", "--ca-role", role)
        assert told.code == code
        assert (("autoscaler", "describe-nodegroup-denied") in told.wrong) is bool(code)


class TestWhatItRemembers:
    def test_an_empty_answer_hides_labels_for_six_minutes_after_the_permission_is_there(
        self, aws: Aws, medium: str, tmp_path: Path
    ) -> None:
        aws.group("large")
        role = aws.role("autoscaler", ALLOWED)
        log = log_file(tmp_path, ASKED.format(minute="01", why=NO), SEEN)  # a minute and a half later
        told = doctor("--aws", "--ca-role", role, "--ca-log", log)
        assert told.wrong == [("large", "empty-answer-cached")]
        found = told.one("empty-answer-cached")
        assert "260 more seconds" in found["says"]
        assert "rollout restart deployment/cluster-autoscaler" in found["fix"]

    def test_it_is_over_after_six_minutes(self, aws: Aws, medium: str, tmp_path: Path) -> None:
        aws.group("large")
        lines = [ASKED.format(minute="01", why=NO), "I1219 17:07:01.000000 1 x.go:1] later"]
        role = aws.role("autoscaler", ALLOWED)
        assert doctor("--aws", "--ca-role", role, "--ca-log", log_file(tmp_path, *lines)).findings == []

    def test_the_last_node_is_remembered_after_scale_to_zero(
        self, aws: Aws, medium: str, tmp_path: Path
    ) -> None:
        aws.group("large", asg_tags=template_tags("large"))
        objects = objects_file(tmp_path, *autoscaler(), waiting())
        told = doctor("--aws", "--objects", objects, "--ca-log", log_file(tmp_path, SEEN))
        assert told.wrong == [("large", "stale-node-info")]
        found = told.one("stale-node-info")
        assert "--node-info-cache-expire-time" in found["fix"]
        assert "debugInfo empty" in found["evidence"][0]
        assert not told.from_zero("default/test-1")

    def test_an_event_tells_it_too(self, aws: Aws, medium: str, tmp_path: Path) -> None:
        aws.group("large", asg_tags=template_tags("large"))
        said = "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector"
        objects = objects_file(tmp_path, waiting(), event("NotTriggerScaleUp", said))
        told = doctor("--aws", "--objects", objects)
        assert told.wrong == [("large", "stale-node-info")]
        assert said in told.findings[0]["evidence"][0]

    def test_what_it_says_of_a_pod_that_we_do_not_have_is_only_perhaps_so(
        self, aws: Aws, medium: str, tmp_path: Path
    ) -> None:
        aws.group("large", asg_tags=template_tags("large"))
        told = doctor("--aws", "--ca-log", log_file(tmp_path, SEEN))
        assert told.wrong == [("large", "stale-node-info")]
        assert not told.findings[0]["certain"]


class TestHowItWasStarted:
    def test_its_version_is_read_from_its_image(self, aws: Aws, medium: str, tmp_path: Path) -> None:
        aws.group("large", asg_tags={TEMPLATE + "label/size": "large"})
        role = aws.role("autoscaler", ALLOWED)
        objects = objects_file(tmp_path, *autoscaler(version="1.29.4", role=role))
        assert doctor("--aws", "--objects", objects).wrong == [("large", "affected-version")]

    def test_it_looks_for_groups_of_other_tags(self, aws: Aws, medium: str, tmp_path: Path) -> None:
        aws.group("large", asg_tags=template_tags("large"))
        flag = "--node-group-auto-discovery=asg:tag=team/autoscaled"
        told = doctor("--aws", "--objects", objects_file(tmp_path, *autoscaler(flag)))
        assert told.wrong == [("large", "discovery-flag-wrong"), ("medium", "discovery-flag-wrong")]
        assert "k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod" in told.findings[0]["fix"]

    def test_a_group_that_it_is_given_by_name_needs_no_discovery(
        self, aws: Aws, tmp_path: Path, medium: str
    ) -> None:
        asg = aws.group("large", asg_tags=template_tags("large"), discovery=False)
        flags = [f"--nodes=0:3:{asg}", f"--nodes=0:5:{medium}"]
        assert doctor("--aws", "--objects", objects_file(tmp_path, *autoscaler(*flags))).findings == []

    def test_it_needs_fewer_tags_than_usual(self, aws: Aws, tmp_path: Path, medium: str) -> None:
        only = dict(list(DISCOVERY.items())[:1])
        aws.group("large", asg_tags={**template_tags("large"), **only}, discovery=False)
        flag = f"--node-group-auto-discovery=asg:tag={next(iter(only))}"
        assert doctor("--aws", "--objects", objects_file(tmp_path, *autoscaler(flag))).findings == []

    def test_it_may_not_act_without_nodes(self, aws: Aws, tmp_path: Path, medium: str) -> None:
        aws.group("large", asg_tags=template_tags("large"))
        objects = objects_file(tmp_path, *autoscaler("--scale-up-from-zero=false"))
        told = doctor("--aws", "--objects", objects)
        assert told.wrong == [("autoscaler", "scale-from-zero-forbidden")]


class TestTheLineThatPeopleMeet:
    """NodeAffinity, an empty debugInfo, and a configuration that seems right."""

    def test_tags_are_on_the_node_group_only_and_eks_may_not_be_asked(
        self, aws: Aws, medium: str, tmp_path: Path
    ) -> None:
        aws.group("large", tags=template_tags("large"))
        role = aws.role("autoscaler", DENIED)
        flags = ("--ca-role", role, "--ca-log", log_file(tmp_path, SEEN))
        told = doctor("--aws", *flags)
        assert told.wrong[0] == ("large", "tags-not-propagated")
        assert any("debugInfo empty" in each for each in told.findings[0]["evidence"])
        assert doctor("--aws", "--fix", "--yes", "--ca-role", role).wrong == []

    @pytest.mark.parametrize(
        ("tags", "labels", "cause"),
        [
            ({TEMPLATE + "labels/size": "large"}, None, "tag-malformed"),
            ({TEMPLATE + "label/size": "large"}, {"size": "big"}, "overridden-by-eks"),
        ],
    )
    def test_tags_are_on_the_auto_scaling_group_and_it_fails_all_the_same(
        self,
        aws: Aws,
        medium: str,
        tmp_path: Path,
        tags: dict[str, str],
        labels: dict[str, str] | None,
        cause: str,
    ) -> None:
        taint = {TEMPLATE + "taint/size": "large:NoSchedule"}
        aws.group("large", asg_tags={**tags, **taint}, labels=labels)
        told = doctor("--aws", "--ca-log", log_file(tmp_path, SEEN))
        assert told.wrong == [("large", cause)]

    def test_with_nothing_but_the_line_it_is_said_what_it_most_likely_is(self, tmp_path: Path) -> None:
        told = doctor("--ca-log", log_file(tmp_path, SEEN))
        assert told.code == 1
        assert told.wrong == [("large", "label-tag-missing")]
        found = told.findings[0]
        assert not found["certain"]
        assert "ResourceId=eks-large-56c9efb8-09b4-a2a8-50c7-7a370d197f3a" in found["fix"]
        assert "Value=large" in found["fix"]
