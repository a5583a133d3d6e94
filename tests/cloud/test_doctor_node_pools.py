"""The doctor on Karpenter's NodePools: what each could bring, and whether it may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fairlead.cli.nodegroups.doctor import command
from fairlead.cloud.karpenter import node_pools
from fairlead.nodegroups.file import read_file
from support.doctor import GROUPS, Told, doctor, event, objects_file, waiting


def pool(name: str = "large", **changes: Any) -> dict[str, Any]:
    """The NodePool that `fairlead nodegroups karpenter` makes of the example's group, ready."""
    groups = read_file(GROUPS.read_text(), "groups")
    provider = changes.pop("provider", "kwok")
    made = node_pools(groups, provider=provider, node_class="default", note=lambda text: None)
    [found] = [dict(each) for each in made if each["metadata"]["name"] == name]
    found["status"] = {
        "resources": {"cpu": "0", "memory": "0", "nodes": "0"},
        "conditions": [{"type": "NodeClassReady", "status": "True"}, {"type": "Ready", "status": "True"}],
    }
    template = found["spec"]["template"]["spec"]
    template["requirements"] = [*template["requirements"], *changes.pop("requirements", ())]
    found["status"] |= changes.pop("status", {})
    assert not changes
    return found


def told_of(folder: Path, *objects: dict[str, Any]) -> Told:
    return doctor("--objects", objects_file(folder, *objects))


@pytest.mark.parametrize("provider", ["kwok", "aws"])
def test_what_we_print_for_karpenter_brings_the_pods_their_nodes(tmp_path: Path, provider: str) -> None:
    pools = [pool("large", provider=provider), pool("medium", provider=provider)]
    told = told_of(tmp_path, *pools, waiting(), waiting("test-2", "medium"))
    assert (told.code, told.findings) == (0, [])
    assert [each["where"] for each in told.plain["pods"]] == ["NodePool large", "NodePool medium"]
    assert told.from_zero("NodePool large")


@pytest.mark.parametrize(
    ("provider", "key"),
    [("kwok", "karpenter.kwok.sh/instance-cpu"), ("aws", "karpenter.k8s.aws/instance-cpu")],
)
def test_requirements_filter_out_every_instance_type(tmp_path: Path, provider: str, key: str) -> None:
    more = [{"key": key, "operator": "In", "values": ["3"]}]
    told = told_of(tmp_path, pool(provider=provider, requirements=more), waiting())
    assert told.wrong == [("NodePool large", "nodepool-without-types")]
    assert f"{key} In ['3']" in told.findings[0]["says"]
    assert not told.from_zero("default/test-1")


def test_requirements_that_only_together_leave_nothing_are_all_named(tmp_path: Path) -> None:
    more = [{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]}]
    told = told_of(tmp_path, pool(provider="aws", requirements=more))
    assert told.wrong == [("NodePool large", "nodepool-without-types")]
    assert "all of" in told.findings[0]["says"]


def test_karpenters_own_event_is_evidence(tmp_path: Path) -> None:
    said = "NodePool requirements filtered out all compatible available instance types"
    seen = event("NoCompatibleInstanceTypes", said, kind="NodePool", name="large")
    told = told_of(tmp_path, pool(), seen)
    assert told.wrong == [("NodePool large", "nodepool-without-types")]
    assert said in told.findings[0]["evidence"][0]


def test_a_limit_is_reached(tmp_path: Path) -> None:
    status = {"resources": {"nodes": "3", "cpu": "12", "memory": "48Gi"}}
    told = told_of(tmp_path, pool(status=status), waiting())
    assert told.wrong == [("NodePool large", "nodepool-limit-reached")]
    assert "nodes: 3 of 3 in use" in told.findings[0]["says"]
    assert not told.from_zero("default/test-1")


def test_a_limit_is_reached_too_when_what_is_left_is_too_little_for_any_type(tmp_path: Path) -> None:
    told = told_of(tmp_path, pool(status={"resources": {"cpu": "9"}}), waiting())
    assert told.wrong == [("NodePool large", "nodepool-limit-reached")]


def test_a_full_pool_that_nobody_waits_for_is_simply_in_use(tmp_path: Path) -> None:
    status = {"resources": {"nodes": "3"}}
    told = told_of(tmp_path, pool(status=status), pool("medium"), waiting("test-2", "medium"))
    assert told.findings == []


def test_taints_are_not_tolerated(tmp_path: Path) -> None:
    told = told_of(tmp_path, pool(), waiting(tolerates="other"))
    assert told.wrong == [("default/test-1", "taint-not-tolerated")]
    assert "size=large:NoSchedule of NodePool large" in told.findings[0]["says"]


def test_a_label_that_no_pool_has(tmp_path: Path) -> None:
    told = told_of(tmp_path, pool(), waiting(size="huge", tolerates="large"))
    assert told.wrong == [("default/test-1", "affinity-unmet")]


def test_a_pod_too_big_for_every_type(tmp_path: Path) -> None:
    told = told_of(tmp_path, pool(), waiting(cpu="5"))
    assert told.wrong == [("default/test-1", "pod-too-big")]


@pytest.mark.parametrize("said_by", ["pool", "class", "nobody"])
def test_the_node_class_is_not_ready(tmp_path: Path, said_by: str) -> None:
    no = {"type": "Ready", "status": "False", "reason": "X", "message": "no subnets found"}
    name = "default" if said_by == "class" else "another"
    node_class = {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": name},
    }
    if said_by == "pool":
        objects = [pool(status={"conditions": [{**no, "type": "NodeClassReady"}]})]
    else:
        objects = [pool(), {**node_class, "status": {"conditions": [no]}}]
    told = told_of(tmp_path, *objects, waiting())
    assert told.wrong == [("NodePool large", "node-class-not-ready")]
    said = "there is no KWOKNodeClass default" if said_by == "nobody" else "no subnets found"
    assert said in told.findings[0]["evidence"][0]


def test_a_value_that_the_pool_leaves_open_is_the_pods_to_choose(tmp_path: Path) -> None:
    more = [{"key": "team", "operator": "Exists"}]
    selector = {"size": "large", "team": "blue", "topology.kubernetes.io/zone": "test-zone-c"}
    assert told_of(tmp_path, pool(requirements=more), waiting(selector=selector)).findings == []
    elsewhere = {**selector, "topology.kubernetes.io/zone": "eu-west-1a"}
    told = told_of(tmp_path, pool(requirements=more), waiting(selector=elsewhere))
    assert told.wrong == [("default/test-1", "affinity-unmet")]


def test_types_that_are_not_known_here_are_not_judged(tmp_path: Path) -> None:
    made = pool(provider="aws")
    requirements = made["spec"]["template"]["spec"]["requirements"]
    requirements[0] = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["x9.huge"]}
    assert told_of(tmp_path, made, waiting(cpu="100")).findings == []
    made["spec"]["template"]["spec"]["nodeClassRef"]["group"] = "karpenter.azure.com"
    selector = {"size": "large", "node.kubernetes.io/instance-type": "x9.huge"}
    assert told_of(tmp_path, made, waiting(selector=selector)).findings == []
    selector["node.kubernetes.io/instance-type"] = "x9.small"
    assert told_of(tmp_path, made, waiting(selector=selector)).wrong == [("default/test-1", "affinity-unmet")]


def test_a_pod_that_a_node_pool_helps_needs_no_group(tmp_path: Path) -> None:
    dump = GROUPS.parent / "doctor" / "mended.json"
    objects = objects_file(tmp_path, pool(), waiting(cpu="3"))
    assert doctor("--from-file", str(dump), "--objects", objects).findings == []


EC2 = "karpenter.k8s.aws/instance-"


def requirement(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def ec2_pool(*requirements: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A NodePool of an EC2NodeClass that says nothing of types but what is given."""
    made = pool(provider="aws", **changes)
    made["spec"]["template"]["spec"]["requirements"] = list(requirements)
    return made


class TestWhatTheTableDoesNotKnow:
    """It cannot be said whether a NodePool has such types: it is neither wrong nor surely well."""

    @pytest.mark.parametrize("named", [True, False], ids=["of a known type", "of any type"])
    @pytest.mark.parametrize(
        "outside",
        [
            requirement(f"{EC2}hypervisor", "nitro"),
            requirement(f"{EC2}cpu-manufacturer", "amd"),
            requirement(f"{EC2}network-bandwidth", "1000", operator="Gt"),
            requirement(f"{EC2}encryption-in-transit-supported", "true"),
            requirement("karpenter.sh/capacity-type", "reserved"),
            requirement("kubernetes.io/os", "windows"),
        ],
        ids=lambda one: str(one["key"].rpartition("/")[2]),
    )
    def test_a_label_that_it_does_not_have(
        self, tmp_path: Path, outside: dict[str, Any], named: bool
    ) -> None:
        types = [requirement("node.kubernetes.io/instance-type", "m5.large")] if named else []
        told = told_of(tmp_path, ec2_pool(*types, outside), waiting())
        assert (told.code, told.findings) == (0, [])
        for verdict in (*told.plain["nodePools"], *told.plain["pods"]):
            assert (verdict["fromZero"], verdict["certain"]) == (True, False), verdict

    @pytest.mark.parametrize(
        "outside",
        [
            requirement(f"{EC2}family", "i4i"),
            requirement(f"{EC2}category", "x"),
            requirement(f"{EC2}size", "metal"),
            requirement(f"{EC2}generation", "8", operator="Gt"),
            requirement(f"{EC2}gpu-name", "h200"),
            requirement(f"{EC2}cpu", "448"),
            requirement("node.kubernetes.io/instance-type", "i4i.large", "x9.huge"),
        ],
        ids=lambda one: str(one["key"].rpartition("/")[2]),
    )
    def test_a_type_that_it_does_not_have(self, tmp_path: Path, outside: dict[str, Any]) -> None:
        gpus = {"containers": [{"name": "m", "resources": {"requests": {"nvidia.com/gpu": "8"}}}]}
        told = told_of(tmp_path, ec2_pool(outside), waiting(**gpus))
        assert (told.code, told.findings) == (0, [])
        assert [each["certain"] for each in told.plain["pods"]] == [False]

    def test_it_is_said_in_so_many_words(self, tmp_path: Path) -> None:
        objects = objects_file(tmp_path, ec2_pool(requirement(f"{EC2}family", "i4i")))
        done = CliRunner().invoke(command, ["-f", str(GROUPS), "--objects", objects])
        assert "cannot say" in done.stdout
        assert "not known here" in done.stdout

    def test_a_type_that_is_known_makes_it_sure(self, tmp_path: Path) -> None:
        mixed = ec2_pool(requirement(f"{EC2}family", "i4i", "m5"))
        told = told_of(tmp_path, mixed, waiting())
        assert [each["certain"] for each in (*told.plain["nodePools"], *told.plain["pods"])] == [True, True]
        assert not told_of(tmp_path, mixed, waiting(cpu="120")).plain["pods"][0]["certain"]

    def test_another_NodePool_that_surely_brings_a_node_is_named_instead(self, tmp_path: Path) -> None:
        unsure = ec2_pool(requirement(f"{EC2}family", "i4i"))
        unsure["metadata"] = {"name": "a"}
        [verdict] = told_of(tmp_path, unsure, pool(provider="aws"), waiting()).plain["pods"]
        assert (verdict["where"], verdict["certain"]) == ("NodePool large", True)

    @pytest.mark.parametrize("asks", ["label", "storage"])
    def test_what_only_the_pod_asks_for(self, tmp_path: Path, asks: str) -> None:
        pod = waiting(selector={"size": "large", f"{EC2}hypervisor": "nitro"} if asks == "label" else None)
        if asks == "storage":
            pod["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = "10Gi"
        told = told_of(tmp_path, pool(provider="aws"), pod)
        assert told.findings == []
        assert [each["certain"] for each in told.plain["pods"]] == [False]

    def test_what_it_does_know_is_still_wrong(self, tmp_path: Path) -> None:
        gpus = requirement(f"{EC2}gpu-name", "t4")
        told = told_of(tmp_path, pool(provider="aws", requirements=[gpus]), waiting())
        assert told.wrong == [("NodePool large", "nodepool-without-types")]
        assert told.findings[0]["certain"]

    def test_with_Karpenters_own_event_it_is_certain(self, tmp_path: Path) -> None:
        seen = event("NoCompatibleInstanceTypes", "filtered out all", kind="NodePool", name="large")
        told = told_of(tmp_path, ec2_pool(requirement(f"{EC2}family", "i4j")), seen, waiting())
        assert told.wrong == [("NodePool large", "nodepool-without-types")]
        assert told.findings[0]["certain"]

    @pytest.mark.parametrize(("used", "certain"), [("12", True), ("11", False)])
    def test_a_limit_that_is_reached_is_found_anyway(self, tmp_path: Path, used: str, certain: bool) -> None:
        large = requirement(f"{EC2}size", "xlarge")
        told = told_of(tmp_path, ec2_pool(large, status={"resources": {"cpu": used}}), waiting())
        assert told.wrong == [("NodePool large", "nodepool-limit-reached")]
        assert told.findings[0]["certain"] is certain


def test_a_label_of_nodes_that_types_do_not_speak_of_is_the_NodePools_to_give(tmp_path: Path) -> None:
    made = pool()
    made["spec"]["template"]["metadata"]["labels"]["node.kubernetes.io/lifecycle"] = "spot"
    selector = {"size": "large", "node.kubernetes.io/lifecycle": "spot"}
    told = told_of(tmp_path, made, waiting(selector=selector))
    assert told.findings == []
    assert told.plain["pods"][0]["certain"]


@pytest.mark.parametrize(
    ("operator", "amount", "well"),
    [("Gte", "4", True), ("Gte", "5", False), ("Lte", "4", True), ("Lte", "3", False)],
)
def test_bounds_that_only_Karpenter_has(tmp_path: Path, operator: str, amount: str, well: bool) -> None:
    more = [requirement("karpenter.kwok.sh/instance-cpu", amount, operator=operator)]
    assert told_of(tmp_path, pool(requirements=more), waiting()).from_zero("default/test-1") is well
