"""From a served AWS account to a tenant's node: it fails as it does on AWS, the doctor says why and mends it.

The embedded cluster's autoscaler knows of the account what Cluster Autoscaler would; tenants and diagnoses
come from our own commands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.cloud.account import Account
from fairlead.nodegroups.aws import CloudState
from fairlead.nodegroups.file import read_file
from fairlead.world.autoscaler import Pacing
from support.aws import CLUSTER, TEMPLATE, Aws, template_tags
from support.cluster import Cluster
from support.grown import fairlead
from support.stage import Stage
from support.virtual_host import VirtualHost

GROUPS = Path(__file__).resolve().parents[2] / "examples" / "node-groups.yaml"
DENIED = {"Effect": "Allow", "Action": "autoscaling:*", "Resource": "*"}
ALLOWED = {"Effect": "Allow", "Action": ["autoscaling:*", "eks:DescribeNodegroup"], "Resource": "*"}
UNMATCHED = "node(s) didn't match Pod's node affinity/selector"


class Situation:
    """A cluster whose two groups stand on the account, and a tenant that wants a large node."""

    def __init__(self, role: str, folder: Path) -> None:
        self._role = role
        self._log = folder / "autoscaler.log"
        self.host = VirtualHost(
            groups=read_file(GROUPS.read_text(), GROUPS.name), account=self._account(), autoscaler=Pacing()
        )
        self.cluster = Cluster(self.host)
        self.stage = Stage(self.cluster, folder)
        self.stage.create(big="premium")
        self.pod = self.stage.pods()["big"]

    def refused(self, asg: str) -> None:
        """The pod waits, and the autoscaler says why in an event and in its log."""
        # The other group is known to the autoscaler for what it is: tainted for others.
        assert self.stage.told(self.pod, UNMATCHED).startswith("pod didn't trigger scale-up: ")
        metadata = self.pod["metadata"]
        assert (
            f"Pod {metadata['namespace']}/{metadata['name']} can't be scheduled on {asg}, predicate checking "
            f"error: {UNMATCHED}; predicateName=NodeAffinity; reasons: {UNMATCHED}; debugInfo=\n"
        ) in self.log()
        assert not self.stage.nodes()

    def log(self) -> str:
        autoscaler = self.host.world.autoscaler
        assert autoscaler is not None
        return self.host.on_loop(lambda: autoscaler.log.text)

    def doctor(self, *flags: str, code: int = 1) -> dict[str, Any]:
        """What the doctor makes of the account, the cluster and the autoscaler's log."""
        self._log.write_text(self.log())
        words = ["-f", GROUPS, "--aws", "--ca-role", self._role, "--ca-log", self._log, "-o", "json"]
        said = fairlead(
            "nodegroups", "doctor", *words, "--kubeconfig", self.cluster.kubeconfig, *flags, code=code
        )
        found: dict[str, Any] = json.loads(said)
        return found

    def served(self) -> None:
        """The account is looked at again; the same pod then runs on a node that is what its group is."""
        state = self._account()
        self.host.on_loop(lambda: self.host.world.pools.set_account(state))
        pod = self.stage.running(1)["big"]
        assert pod["metadata"]["uid"] == self.pod["metadata"]["uid"]
        (node,) = self.stage.nodes().values()
        assert pod["spec"]["nodeName"] == node["metadata"]["name"]
        assert node["metadata"]["labels"]["size"] == "large"
        assert [f"{one['value']}:{one['effect']}" for one in node["spec"]["taints"]] == ["large:NoSchedule"]

    def close(self) -> None:
        self.cluster.close()
        self.host.stop()

    def _account(self) -> CloudState:
        with Account(CLUSTER) as account:
            return account.state(role=self._role)


@pytest.fixture
def situation(aws: Aws, tmp_path: Path) -> Iterator[Any]:
    """Makes a situation in an account whose other group is as it should be."""
    aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"), most=5)
    made: list[Situation] = []

    def make(*rights: dict[str, Any]) -> Situation:
        made.append(Situation(aws.role("autoscaler", *rights), tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


def causes(report: dict[str, Any], *, of: str = "large") -> list[str]:
    return [each["cause"] for each in report["findings"] if of in (each["group"], each["pod"])]


def test_tags_on_the_node_group_only_and_no_right_to_ask_eks(aws: Aws, situation: Any) -> None:
    asg = aws.group("large", tags=template_tags("large"))
    story = situation(DENIED)
    story.refused(asg)
    assert causes(story.doctor())[0] == "tags-not-propagated"

    mended = story.doctor("--fix", "--yes", code=0)
    assert {tag["key"] for tag in mended["set"]} == set(template_tags("large"))
    story.served()


def test_tags_on_the_auto_scaling_group_that_are_malformed(aws: Aws, situation: Any) -> None:
    asg = aws.group("large", asg_tags={TEMPLATE + "labels/size": "large", TEMPLATE + "taint/size": "large"})
    story = situation(DENIED)
    story.refused(asg)
    assert "tag-malformed" in causes(story.doctor())

    story.doctor("--fix", "--yes", code=0)
    story.served()


def test_tags_that_what_eks_says_overrides(aws: Aws, situation: Any) -> None:
    asg = aws.group("large", asg_tags=template_tags("large"), labels={"size": "big"})
    story = situation(ALLOWED)
    story.refused(asg)
    assert "overridden-by-eks" in causes(story.doctor())

    aws.client("eks").update_nodegroup_config(
        clusterName=CLUSTER, nodegroupName="large", labels={"addOrUpdateLabels": {"size": "large"}}
    )
    # The autoscaler keeps the old answer for some minutes, and then asks again.
    story.served()


def test_an_empty_answer_that_is_kept_after_the_right_to_ask_was_given(aws: Aws, situation: Any) -> None:
    asg = aws.group("large")
    story = situation(DENIED)
    story.refused(asg)
    aws.client("iam").put_role_policy(
        RoleName="autoscaler",
        PolicyName="own",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [ALLOWED]}),
    )
    assert causes(story.doctor())[0] == "empty-answer-cached"
    story.served()
