"""The API server is away from the doors for a while, and the world goes on: afterwards the split is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cluster import Cluster
from support.door import kubeconfig_of
from support.doors import Behind
from support.line import Line
from support.rebalancing import PACE, Rebalanced

pytestmark = pytest.mark.slow


def test_the_split_is_right_again_when_it_is_back(door: Behind, tmp_path: Path) -> None:
    cluster = Cluster(door.host)
    line = Line(cluster)
    try:
        with line.served() as url:
            cluster.kubeconfig = kubeconfig_of(url, tmp_path)
            with door.corner(cluster, tmp_path) as corner:
                away_and_back(corner, line)
    finally:
        cluster.close()


def away_and_back(corner: Rebalanced, line: Line) -> None:
    own = corner.corner
    own.nodes()
    policy = own.policy("web", rebalance=PACE, fallback={"after": "1h", "coolDown": "10m"})
    door = corner.running(policy)
    corner.deploy("web", 10)
    corner.lies("web", spot=7, on_demand=3)
    line.down()
    door.wait_for("watch_broken", 3)
    own.scale("web", 12)
    corner.cluster.wait(lambda: len(own.pods("web")) == 12, "the pods to be made all the same")
    line.up()
    corner.lies("web", spot=8, on_demand=4)
    line.down()
    own.scale("web", 4)
    corner.cluster.wait(lambda: len(own.pods("web")) == 4, "the pods to be gone all the same")
    line.up()
    corner.lies("web", spot=2, on_demand=2)
