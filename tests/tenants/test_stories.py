"""Tenants get their nodes from zero, one each, from unchanged autoscalers, and leave none behind.

The same stories, told by the same words, on the embedded cluster in virtual time and on the real control
plane with Karpenter and, where there is one, Cluster Autoscaler; scheduled by kube-scheduler and by us.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fairlead.kube.quantity import milli, value
from support.cluster import Cluster
from support.grown import AUTOSCALERS, Grower
from support.seen import marked_because
from support.stage import Obj, Stage

REAL = [
    pytest.param("karpenter", marks=[pytest.mark.real, pytest.mark.slow]),
    pytest.param("cluster-autoscaler", marks=[pytest.mark.real, pytest.mark.slow]),
]
# Karpenter has no minimum: `fairlead nodegroups karpenter` refuses such groups.
WITH_MINIMUM = ["embedded", REAL[1]]

MEDIUM = 'instanceTypes: [t3a.medium], labels: {size: medium}, taints: ["size=medium:NoSchedule"]'
LARGE = 'instanceTypes: [t3a.xlarge], labels: {size: large}, taints: ["size=large:NoSchedule"]'
FROM_ZERO = f"""
- {{name: medium, {MEDIUM}, min: 0, desired: 0, max: 5, pricePerHour: 0.0376}}
- {{name: large, {LARGE}, min: 0, desired: 0, max: 3}}
"""
FEW = f"""
- {{name: medium, {MEDIUM}, max: 2}}
- {{name: large, {LARGE}, max: 1}}
"""
FROM_ONE = f"""
- {{name: medium, {MEDIUM}, min: 1, desired: 1, max: 5}}
- {{name: large, {LARGE}, min: 1, desired: 1, max: 3}}
"""

# What Cluster Autoscaler and Karpenter say when a group may not grow.
FULL = ("max node group size reached", "exceed limits", "limits have been exhausted")

Staged = Callable[[str], Stage]


@pytest.fixture(params=["embedded", *REAL], scope="module")
def autoscaler(request: pytest.FixtureRequest) -> Iterator[Grower]:
    """Each autoscaler in turn."""
    own = AUTOSCALERS[request.param]()
    yield own
    own.close()


@pytest.fixture(params=["kube-scheduler", "fairlead"])
def staged(request: pytest.FixtureRequest, autoscaler: Grower, tmp_path: Path) -> Iterator[Staged]:
    """Makes a stage with these node groups, whose tenants are scheduled by each scheduler in turn."""
    with ExitStack() as ends:

        def stage(groups: str) -> Stage:
            file = tmp_path / "groups.yaml"
            file.write_text(f"apiVersion: fairlead.dev/v1alpha1\nkind: NodeGroups\ngroups:{groups}")
            cluster = Cluster(ends.enter_context(autoscaler.growing(file)))
            ends.callback(cluster.close)
            scheduler = ""
            if request.param == "fairlead":
                scheduler = ends.enter_context(autoscaler.scheduling(cluster))
            return Stage(cluster, tmp_path, scheduler)

        yield stage


def test_two_tenants_of_each_type_at_once_get_a_node_each_and_leave_none_behind(staged: Staged) -> None:
    stage = staged(FROM_ZERO)
    with stage.watching() as past:
        stage.create(a="standard", b="standard", x="premium", y="premium")
        pods = stage.running(4)
        assert past.waited(4) == dict.fromkeys("abxy", True)
        assert_apart(stage, pods, {"a": "medium", "b": "medium", "x": "large", "y": "large"})
        assert stage.sizes() == Counter(medium=2, large=2)
        assert {name: one["status"] for name, one in stage.listed().items()} == dict.fromkeys(
            "abxy", "running"
        )

        stage.delete("a", "b", "x", "y")
        stage.settled()
        assert past.ever() == Counter(medium=2, large=2)


def test_beyond_the_maximum_tenants_wait_with_a_reason_until_a_node_is_free(staged: Staged) -> None:
    stage = staged(FEW)
    with stage.watching() as past:
        stage.create(a="standard", b="standard", c="standard", x="premium")
        pods = stage.running(3)
        (waits,) = [name for name, pod in pods.items() if pod["status"]["phase"] != "Running"]
        assert waits in ("a", "b", "c")
        assert marked_because(pods[waits])
        assert stage.told(pods[waits], *FULL)
        told = stage.listed()[waits]
        assert told["status"] == "pending"
        assert any(text in told["reason"] for text in FULL)

        leaving = {"a", "b"} - {waits}
        stage.delete(*leaving)
        pods = stage.running(len(pods) - len(leaving))
        assert pods[waits]["spec"]["nodeName"]
        assert past.ever() == Counter(medium=2, large=1)


@pytest.mark.parametrize("autoscaler", WITH_MINIMUM, indirect=True)
def test_a_group_with_a_minimum_uses_its_idle_node_first_and_never_goes_below(staged: Staged) -> None:
    stage = staged(FROM_ONE)
    stage.settled(medium=1, large=1)
    idle = stage.nodes().keys()
    with stage.watching() as past:
        stage.create(a="standard", x="premium")
        pods = stage.running(2)
        assert {pod["spec"]["nodeName"] for pod in pods.values()} == idle
        stage.create(b="standard")
        pods = stage.running(3)
        assert_apart(stage, pods, {"a": "medium", "b": "medium", "x": "large"})

        stage.delete("a", "b", "x")
        stage.settled(medium=1, large=1)
        assert past.ever() == Counter(medium=2, large=1)
        started = [sizes for sizes in past.sizes() if sum(sizes.values()) >= len(idle)]
        assert min(sizes["medium"] for sizes in started) == min(sizes["large"] for sizes in started) == 1


def assert_apart(stage: Stage, pods: dict[str, Obj], sizes: dict[str, str]) -> None:
    """Each tenant's pod is alone on a node of its size, on which two such pods would have room."""
    nodes = stage.nodes()
    homes = {tenant: nodes[pod["spec"]["nodeName"]] for tenant, pod in pods.items()}
    assert {tenant: node["metadata"]["labels"]["size"] for tenant, node in homes.items()} == sizes
    assert len({node["metadata"]["name"] for node in homes.values()}) == len(pods)
    for tenant, node in homes.items():
        (container,) = pods[tenant]["spec"]["containers"]
        asked, room = container["resources"]["requests"], node["status"]["allocatable"]
        assert 2 * milli(asked["cpu"]) <= milli(room["cpu"])
        assert 2 * value(asked["memory"]) <= value(room["memory"])
