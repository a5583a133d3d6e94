from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.nodegroups.aws import (
    AutoScalingGroup,
    CloudState,
    EksNodegroup,
    EksTaint,
    Memory,
    NoAnswer,
    Version,
    good_example,
    template_from,
)
from fairlead.nodegroups.group import InstanceType

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"
MANAGED = {"eks:cluster-name": "prod", "eks:nodegroup-name": "large"}
DENIED = NoAnswer("denied")


def asg(tags: dict[str, str] | None = None, **more: Any) -> AutoScalingGroup:
    kinds = (InstanceType(name="t3a.xlarge"),)
    zones = ("eu-west-1b", "eu-west-1a")
    made = AutoScalingGroup("eks-large-1", tags=tags or {}, max=3, zones=zones, instance_types=kinds)
    return msgspec.structs.replace(made, **more)


def managed(tags: dict[str, str] | None = None) -> AutoScalingGroup:
    return asg({**MANAGED, **(tags or {})})


def group(**more: Any) -> EksNodegroup:
    labels = {"size": "large"}
    taints = (EksTaint("size", "NO_SCHEDULE", "large"),)
    return msgspec.structs.replace(EksNodegroup("large", "prod", labels=labels, taints=taints), **more)


def live(name: str = "ip-1", **labels: str) -> Node:
    taints = [
        {"key": "size", "value": "large", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"},
    ]
    return convert(
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "3920m"}},
        },
        Node,
    )


def taints_of(node: Node) -> list[str]:
    return [str(taint) for taint in node.spec.taints]


class TestFromTags:
    def test_a_node_is_as_big_as_its_type_and_takes_a_hundred_and_ten_pods(self) -> None:
        made = template_from(asg(), None, now=NOW)
        assert made.source == "provider"
        assert made.node.status.allocatable == {"cpu": "4", "memory": "16Gi", "pods": "110"}
        assert made.said == ()

    def test_labels_taints_and_resources_come_from_tags(self) -> None:
        tags = {"label/size": "large", "taint/size": "large:NoSchedule", "resources/example.com/a": "2"}
        node = template_from(asg({TEMPLATE + key: value for key, value in tags.items()}), None, now=NOW).node
        assert node.metadata.labels["size"] == "large"
        assert taints_of(node) == ["size=large:NoSchedule"]
        assert node.status.allocatable["example.com/a"] == "2"

    def test_its_zone_is_the_first_only(self) -> None:
        labels = template_from(asg(), None, now=NOW).node.metadata.labels
        assert labels["topology.kubernetes.io/zone"] == "eu-west-1b"
        assert labels["topology.kubernetes.io/region"] == "eu-west-1"

    def test_a_tag_that_cannot_be_read_is_said(self) -> None:
        made = template_from(asg({TEMPLATE + "taint/size": "large"}), None, now=NOW)
        assert taints_of(made.node) == []
        assert "has no effect" in made.said[0]

    def test_an_unknown_type_has_the_size_that_is_given(self) -> None:
        unknown = asg(instance_types=(InstanceType(name="x9.huge"),))
        given = InstanceType(name="other", capacity={"cpu": "2"})
        node = template_from(unknown, None, now=NOW, kind=given).node
        assert node.status.allocatable["cpu"] == "2"
        assert node.metadata.labels["node.kubernetes.io/instance-type"] == "x9.huge"
        assert "not known" in template_from(unknown, None, now=NOW).said[0]


class TestFromTheEksApi:
    def test_its_labels_win_over_tags(self) -> None:
        tagged = managed({TEMPLATE + "label/size": "large", TEMPLATE + "label/other": "kept"})
        labels = template_from(tagged, group(labels={"size": "big"}), now=NOW).node.metadata.labels
        assert (labels["size"], labels["other"]) == ("big", "kept")

    def test_it_says_which_group_and_what_capacity_nodes_are_of(self) -> None:
        labels = template_from(managed(), group(capacity_type="SPOT"), now=NOW).node.metadata.labels
        assert labels["eks.amazonaws.com/nodegroup"] == "large"
        assert labels["eks.amazonaws.com/capacityType"] == "SPOT"

    def test_its_taints_come_beside_those_of_tags(self) -> None:
        tagged = managed({TEMPLATE + "taint/a": "b:NoExecute"})
        assert taints_of(template_from(tagged, group(), now=NOW).node) == [
            "a=b:NoExecute",
            "size=large:NoSchedule",
        ]

    def test_a_taint_without_value_is_skipped(self) -> None:
        made = template_from(managed(), group(taints=(EksTaint("gpu", "NO_SCHEDULE"),)), now=NOW)
        assert taints_of(made.node) == []
        assert "has no value and is skipped" in made.said[0]

    @pytest.mark.parametrize(
        ("version", "labels", "effects"),
        [("1.23.1", False, []), ("1.24.0", True, ["NO_SCHEDULE"]), ("1.30.7", True, ["NO_SCHEDULE"]),
         ("1.31.0", True, ["NoSchedule"]), ("1.36.1", True, ["NoSchedule"])],
    )  # fmt: skip
    def test_versions_ask_since_1_24_and_read_effects_right_since_1_31(
        self, version: str, labels: bool, effects: list[str]
    ) -> None:
        node = template_from(managed(), group(), now=NOW, version=Version.read(version)).node
        assert ("size" in node.metadata.labels) is labels
        assert [taint.effect for taint in node.spec.taints] == effects

    def test_resources_in_its_tags_count_though_labels_in_them_do_not(self) -> None:
        tags = {TEMPLATE + "resources/example.com/a": "2", TEMPLATE + "label/x": "y"}
        node = template_from(managed(), group(tags=tags), now=NOW).node
        assert node.status.allocatable["example.com/a"] == "2"
        assert "x" not in node.metadata.labels

    def test_a_group_without_its_tags_is_not_asked_for(self) -> None:
        assert CloudState(nodegroups=(group(),)).answer_for(asg()) is None
        assert "size" not in template_from(asg(), group(), now=NOW).node.metadata.labels

    def test_a_failed_call_is_an_empty_group_for_six_minutes_even_when_the_next_would_succeed(self) -> None:
        memory = Memory()
        first = template_from(managed(), DENIED, now=NOW, memory=memory)
        assert "size" not in first.node.metadata.labels
        assert first.said == ("eks:DescribeNodegroup: denied",)
        soon = template_from(managed(), group(), now=NOW + timedelta(minutes=5), memory=memory)
        assert "size" not in soon.node.metadata.labels
        assert "is kept for 0:01:00 more" in soon.said[0]
        later = template_from(managed(), group(), now=NOW + timedelta(minutes=6, seconds=1), memory=memory)
        assert later.node.metadata.labels["size"] == "large"

    @pytest.mark.parametrize("access", ["denied", "unreachable"])
    def test_a_state_answers_as_the_autoscaler_would_be_answered(self, access: Any) -> None:
        state = CloudState(nodegroups=(group(),), describe_nodegroup=access)
        assert isinstance(state.answer_for(managed()), NoAnswer)
        allowed = msgspec.structs.replace(state, describe_nodegroup="allowed")
        assert allowed.answer_for(managed()) == group()
        assert isinstance(msgspec.structs.replace(allowed, nodegroups=()).answer_for(managed()), NoAnswer)


class TestMemory:
    def test_a_live_node_stands_for_its_group_without_the_taints_of_its_life(self) -> None:
        made = template_from(managed(), group(), now=NOW, live=live(zone="z"), name="next")
        assert made.source == "node"
        assert made.node.metadata.labels == {"kubernetes.io/hostname": "next", "zone": "z"}
        assert taints_of(made.node) == ["size=large:NoSchedule"]
        assert made.node.status.allocatable == {"cpu": "3920m"}

    def test_the_last_node_is_remembered_when_the_group_is_empty(self) -> None:
        memory = Memory()
        template_from(managed(), group(), now=NOW, memory=memory, live=live(old="yes"))
        made = template_from(managed(), group(), now=NOW + timedelta(days=365), memory=memory)
        assert (made.source, made.said) == ("cache", ("remembers node ip-1",))
        assert made.node.metadata.labels["old"] == "yes"

    def test_it_is_forgotten_after_the_expire_time(self) -> None:
        memory = Memory(expire=timedelta(minutes=10))
        template_from(managed(), group(), now=NOW, memory=memory, live=live())
        made = template_from(managed(), group(), now=NOW + timedelta(minutes=10, seconds=1), memory=memory)
        assert made.source == "provider"

    def test_only_ready_stable_and_schedulable_nodes_are_good_examples(self) -> None:
        def node(status: str = "True", since: datetime = NOW - timedelta(minutes=2), **spec: Any) -> Node:
            ready = {"type": "Ready", "status": status, "lastTransitionTime": since}
            return convert({"spec": spec, "status": {"conditions": [ready]}}, Node)

        assert good_example(node(), NOW)
        assert not good_example(node(since=NOW - timedelta(seconds=59)), NOW)
        assert not good_example(node(status="False"), NOW)
        assert not good_example(node(unschedulable=True), NOW)
        assert not good_example(Node(), NOW)
