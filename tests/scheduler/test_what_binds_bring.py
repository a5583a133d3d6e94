"""What a bind under a policy leaves on the pod, beside a cluster of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster
from support.scheduled_tiers import ByScheduler, by_scheduler


@pytest.fixture
def corner(cluster: Cluster, tmp_path: Path) -> Iterator[ByScheduler]:
    """The test's own nodes and scheduler, on each kind of cluster."""
    with by_scheduler(cluster, tmp_path) as own:
        yield own


def placed(corner: ByScheduler) -> dict[str, dict[str, Any]]:
    """The pods that have a node, by its name."""
    return {one["spec"]["nodeName"]: one for one in corner.corner.pods("web") if "nodeName" in one["spec"]}


def test_a_bind_brings_the_tolerations_of_its_tier_and_the_marks_of_its_slot(corner: ByScheduler):
    own, cluster = corner.corner, corner.cluster
    (plain,) = cluster.add_nodes(1, labels={"capacity": "spot"})
    (kept,) = cluster.add_nodes(1, labels={"capacity": "on-demand"})
    cluster.patch("Node", kept, {"spec": {"taints": [{"key": "kept", "effect": "NoExecute"}]}})
    tolerant = own.tier("on-demand", min=1, tolerations=[{"key": "kept", "operator": "Exists"}])
    corner.policies(own.policy("web", own.tier("spot"), tolerant))
    corner.deploy("web", 2)
    cluster.wait(lambda: len(placed(corner)) == 2, "both pods to be bound")
    pods = placed(corner)
    assert pods.keys() == {plain, kept}
    assert pods[kept]["metadata"]["annotations"] == {
        "fairlead.dev/policy": "web",
        "fairlead.dev/slot": "1",
        "fairlead.dev/tier": "on-demand",
        "controller.kubernetes.io/pod-deletion-cost": "-1",
    }
    tolerated = {name: [one["key"] for one in each["spec"]["tolerations"]] for name, each in pods.items()}
    assert [name for name, keys in tolerated.items() if "kept" in keys] == [kept]
