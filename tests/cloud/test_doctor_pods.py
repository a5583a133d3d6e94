"""The doctor on pods that wait, and on groups that cannot grow: verdicts on fit are the engine's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.aws import REGION, Aws, template_tags
from support.doctor import Told, autoscaler, doctor, log_file, objects_file, waiting

ZONES = (f"{REGION}a", f"{REGION}b")


@pytest.fixture
def both(aws: Aws) -> Aws:
    """Two groups with which all is well."""
    aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"), most=5)
    aws.group("large", asg_tags=template_tags("large"), zones=ZONES)
    return aws


def told_of(folder: Path, *objects: dict[str, Any]) -> Told:
    return doctor("--aws", "--objects", objects_file(folder, *objects))


def test_a_pod_gets_its_node_from_zero(both: Aws, tmp_path: Path) -> None:
    told = told_of(tmp_path, waiting(), waiting("test-2", "medium"))
    assert (told.code, told.findings) == (0, [])
    assert [(each["name"], each["where"]) for each in told.plain["pods"]] == [
        ("default/test-1", "large"),
        ("default/test-2", "medium"),
    ]


def test_a_pod_is_too_big_for_the_template(both: Aws, tmp_path: Path) -> None:
    told = told_of(tmp_path, waiting(cpu="6"))
    assert told.wrong == [("default/test-1", "pod-too-big")]
    assert "6 cpu where the node has 4" in told.findings[0]["says"]
    assert "large: Insufficient cpu" in told.findings[0]["evidence"][0]


def test_daemons_take_their_part_of_a_new_node(both: Aws, tmp_path: Path) -> None:
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m"}}}],
                },
            },
        },
    }
    assert told_of(tmp_path, waiting(cpu="3800m")).findings == []
    assert told_of(tmp_path, waiting(cpu="3800m"), daemon).wrong == [("default/test-1", "pod-too-big")]


def test_no_template_meets_a_pods_affinity(both: Aws, tmp_path: Path) -> None:
    told = told_of(tmp_path, waiting(size="huge", tolerates="large"))
    assert told.wrong == [("default/test-1", "affinity-unmet")]
    assert "size=huge" in told.findings[0]["says"]


def test_a_pod_does_not_tolerate_the_taints(both: Aws, tmp_path: Path) -> None:
    told = told_of(tmp_path, waiting(tolerates="other"))
    assert told.wrong == [("default/test-1", "taint-not-tolerated")]
    assert "{key: size, operator: Equal, value: " in told.findings[0]["fix"]


def test_another_rule_is_named_as_it_is(both: Aws, tmp_path: Path) -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "example.com/rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    told = told_of(tmp_path, waiting(topologySpreadConstraints=[spread]))
    assert told.wrong == [("default/test-1", "refused-by-rule")]
    assert "PodTopologySpread" in told.findings[0]["says"]


def test_the_template_shows_the_first_zone_only(both: Aws, tmp_path: Path) -> None:
    selector = {"size": "large", "topology.kubernetes.io/zone": ZONES[1]}
    told = told_of(tmp_path, waiting(selector=selector))
    assert told.wrong == [("large", "first-zone-template")]
    assert f"needs zone {ZONES[1]}" in told.findings[0]["says"]
    first = {**selector, "topology.kubernetes.io/zone": ZONES[0]}
    assert told_of(tmp_path, waiting(selector=first)).findings == []


def test_a_pod_waits_because_of_its_groups_tags(aws: Aws, tmp_path: Path) -> None:
    aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"))
    aws.group("large", discovery=False, asg_tags=template_tags("large"))
    told = told_of(tmp_path, waiting(), waiting("test-2", "medium"))
    assert told.wrong == [("large", "discovery-tags-missing")]
    assert not told.from_zero("default/test-1")
    assert told.from_zero("default/test-2")
    fixed = doctor("--aws", "--fix", "--yes", "--objects", str(tmp_path / "objects.yaml"))
    assert fixed.from_zero("default/test-1")
    assert fixed.code == 0


def test_a_pod_that_fits_on_a_node_that_is_there_needs_none(both: Aws, tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "ip-1", "labels": {"size": "huge"}},
        "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "10"}},
    }
    told = told_of(tmp_path, waiting(size="huge"), node)
    assert told.findings == []
    assert told.plain["pods"][0]["where"] == "ip-1"


def test_only_the_pod_that_is_asked_for_is_looked_at(both: Aws, tmp_path: Path) -> None:
    objects = objects_file(tmp_path, waiting(), waiting("big", cpu="100"))
    told = doctor("--aws", "--objects", objects, "--pod", "default/test-1")
    assert (told.code, [each["name"] for each in told.plain["pods"]]) == (0, ["default/test-1"])


class TestAGroupThatCannotGrow:
    def test_it_has_reached_its_maximum(self, aws: Aws, tmp_path: Path) -> None:
        aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"))
        aws.group("large", asg_tags=template_tags("large"), most=1, desired=1)
        told = told_of(tmp_path, waiting())
        assert told.wrong == [("large", "max-reached")]
        assert "maxSize=3" in told.findings[0]["fix"]
        assert not told.from_zero("default/test-1")

    def test_it_is_simply_in_use_while_nobody_waits_for_it(self, aws: Aws, tmp_path: Path) -> None:
        aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"))
        aws.group("large", asg_tags=template_tags("large"), most=1, desired=1)
        assert told_of(tmp_path, *autoscaler()).findings == []
        unasked = doctor("--aws")  # nobody knows who waits
        assert (unasked.code, unasked.wrong, unasked.risks) == (0, [], ["max-reached"])
        asg = aws.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
        [full] = [each["AutoScalingGroupName"] for each in asg if each["DesiredCapacity"] == 1]
        line = f"I1219 17:02:40.7 1 orchestrator.go:1] Skipping node group {full} - max size reached"
        flags = ("--objects", str(tmp_path / "objects.yaml"), "--ca-log", log_file(tmp_path, line))
        assert doctor("--aws", *flags).wrong == [("large", "max-reached")]

    def test_it_launches_nothing(self, aws: Aws, tmp_path: Path) -> None:
        aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"))
        asg = aws.group("large", asg_tags=template_tags("large"))
        aws.client("autoscaling").suspend_processes(AutoScalingGroupName=asg, ScalingProcesses=["Launch"])
        told = told_of(tmp_path, waiting())
        assert told.wrong == [("large", "launch-suspended")]
        assert not told.from_zero("default/test-1")
