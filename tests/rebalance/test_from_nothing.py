"""Spot at zero: nodes come for the pods that wait; where none can be had, on-demand; and back again.

On the real control plane with Karpenter, on the embedded cluster with its own autoscaler.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.autoscaled import EAGER, add_pool, autoscaled
from support.cluster import Cluster, EmbeddedHost, Host
from support.rebalancing import PACE, Rebalanced, rebalanced
from support.workloads import is_ready

pytestmark = pytest.mark.slow


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)], scope="module")
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """Each kind of cluster in turn, with an autoscaler and without nodes."""
    with autoscaled(request.param, EAGER) as own:
        yield own


@pytest.fixture
def corner(host: Host, tmp_path: Path) -> Iterator[Rebalanced]:
    cluster = Cluster(host)
    try:
        with rebalanced(cluster, tmp_path) as own:
            yield own
    finally:
        cluster.close()


def pools(corner: Rebalanced, **fallback: str) -> dict[str, Any]:
    """A policy over pools ``spot`` and ``safe``, of which 30% must be safe."""
    tiers = [
        {"name": name, "nodes": _labels(corner, name), **more}
        for name, more in (("spot", {"volatile": True}), ("safe", {"min": "30%"}))
    ]
    return corner.corner.policy("web", *tiers, rebalance=PACE, fallback=fallback)


def _labels(corner: Rebalanced, name: str) -> dict[str, str]:
    return {"test": corner.cluster.namespace, "pool": corner.cluster.unique(name)}


def lies(corner: Rebalanced, app: str, **wanted: int) -> None:
    """Wait until the workload's pods are Ready on nodes of the pools like this."""

    def look() -> bool:
        homes = {
            one["metadata"]["name"]: one["metadata"]["labels"].get("pool", "")
            for one in corner.cluster.list("Node")["items"]
        }
        pods = corner.corner.pods(app)
        found = [homes.get(pod["spec"].get("nodeName", ""), "") for pod in pods if is_ready(pod)]
        split = {name: found.count(corner.cluster.unique(name)) for name in wanted}
        return split == wanted and len(pods) == sum(wanted.values())

    corner.cluster.wait(look, f"{app} to lie {wanted}")


def test_spot_nodes_come_for_the_pods_that_wait_for_them(corner: Rebalanced) -> None:
    add_pool(corner.cluster, "spot")
    add_pool(corner.cluster, "safe")
    door = corner.running(pools(corner, after="10m"))
    corner.corner.deploy("web", 5)
    lies(corner, "web", spot=3, safe=2)
    assert not door.log("passed_on")
    assert not door.log("moved")


def test_where_no_spot_can_be_had_pods_go_elsewhere_and_a_probe_finds_out_when_it_can(
    corner: Rebalanced, tmp_path: Path
) -> None:
    add_pool(corner.cluster, "safe")
    corner.policies(pools(corner, after="15s", coolDown="3s"))
    # The embedded cluster's autoscaler has no NodePools: there, the file says that spot may grow.
    spot = {"name": "spot", "instanceTypes": ["t3a.medium"], "labels": _labels(corner, "spot")}
    groups = tmp_path / "groups.yaml"
    groups.write_text(
        yaml.safe_dump({"apiVersion": "fairlead.dev/v1alpha1", "kind": "NodeGroups", "groups": [spot]})
    )
    embedded = isinstance(corner.cluster.host, EmbeddedHost)
    door = corner.start(*([f"--node-groups={groups}"] if embedded else []))
    door.wait_for("synced")
    corner.corner.deploy("web", 5)
    lies(corner, "web", safe=5)
    assert len(door.log("passed_on")) >= 3

    add_pool(corner.cluster, "spot")
    lies(corner, "web", spot=3, safe=2)
    assert any(one["probe"] for one in door.log("moved"))


def test_an_oscillating_number_and_an_autoscaler_make_a_bounded_number_of_moves(
    corner: Rebalanced, count: Callable[[int, int], int], capsys: pytest.CaptureFixture[str]
) -> None:
    add_pool(corner.cluster, "spot", most=1)  # where not all can be had that are wanted
    add_pool(corner.cluster, "safe")
    policy = pools(corner, after="3s", coolDown="2s")
    policy["spec"]["rebalance"] = {"minPodAge": "2s", "perMinute": 6, "stabilize": "3s"}
    door = corner.running(policy)
    asks = {"containers": [{"name": "main", "image": "image", "resources": {"requests": {"cpu": "400m"}}}]}
    corner.corner.deploy("web", 4, pods=asks)
    nodes = Nodes(corner)
    began = time.monotonic()
    number = made = 4
    while time.monotonic() < began + count(8, 240):
        made += max(0, 14 - 2 * number)
        number = 14 - number
        corner.corner.scale("web", number)
        corner.cluster.wait(lambda number=number: all_ready(corner, number), f"{number} ready pods")
        # Long enough for nodes to be taken away, and for pods to be moved.
        later = time.monotonic() + 6
        corner.cluster.wait(
            lambda later=later: nodes.look() and time.monotonic() > later, "the load to change"
        )
    corner.corner.scale("web", 4)
    lies(corner, "web", spot=2, safe=2)
    minutes = (time.monotonic() - began) / 60
    moves, passed_on = len(door.log("moved")), len(door.log("passed_on"))
    assert "move " not in corner.tell(), "nothing is left to do"
    # The four may be on a node each, and then none is empty before they go.
    corner.corner.scale("web", 0)
    corner.cluster.wait(lambda: nodes.look() and nodes.taken, "a node to be taken away")
    with capsys.disabled():
        sys.stdout.write(
            f"\n{moves} moves and {passed_on} pods passed on in {minutes:.1f} min, "
            f"{len(nodes.taken)} nodes taken away\n"
        )
    assert moves <= 6 * (minutes + 1)
    # Each pod that was asked for, or made in place of one that was moved, finds out once at most.
    assert passed_on <= made + moves


class Nodes:
    """The nodes of the test's pools, as they come and go: those that were seen, and then no more."""

    def __init__(self, corner: Rebalanced) -> None:
        self.taken: set[str] = set()
        self._corner = corner
        self._seen: set[str] = set()

    def look(self) -> bool:
        """Look at them again."""
        cluster = self._corner.cluster
        now = set(cluster.names("Node", labelSelector=f"test={cluster.namespace}"))
        self._seen |= now
        self.taken = self._seen - now
        return True


def all_ready(corner: Rebalanced, number: int) -> bool:
    pods = corner.corner.pods("web")
    return len(pods) == number and all(map(is_ready, pods))
