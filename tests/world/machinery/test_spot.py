from __future__ import annotations

import json
import os
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from fairlead.errors import BadInput
from fairlead.world.spot import INTERRUPTION, Supply, read_trace
from fairlead.world.world import World
from support.manifests import deployment
from support.worlds import active, asking, group, homes, names, ready, seconds, world

TWO_MINUTES = seconds(120)


def market(*supply: tuple[float, int], notice: timedelta = timedelta(), size: int = 4) -> World:
    cluster = World(groups=[group("spot", desired=size, max=size, bootS=60, volatile=True)], notice=notice)
    cluster.run_until(seconds(1))
    cluster.spot.follow("spot", [Supply(seconds(at), nodes) for at, nodes in supply], cluster.clock.now())
    return cluster


def trace(path: Path, *data: int, gap_s: int = 60) -> Path:
    path.write_text(json.dumps({"metadata": {"gap_seconds": gap_s}, "data": list(data)}))
    return path


def test_nodes_beyond_the_supply_are_gone_at_once() -> None:
    cluster = market((100, 1))
    cluster.run_until(seconds(99))
    assert len(cluster.all("Node")) == 4
    cluster.run_until(seconds(1))
    assert names(cluster.all("Node")) == ["spot-1"]


def test_a_group_comes_back_when_there_is_supply_again() -> None:
    cluster = market((100, 0), (400, 4))
    cluster.run_until(seconds(399))
    assert not cluster.all("Node")
    cluster.run_until(seconds(62))
    assert len(cluster.all("Node")) == 4


def test_with_notice_a_node_is_cordoned_and_marked_for_two_minutes() -> None:
    cluster = market((100, 3), notice=TWO_MINUTES)
    cluster.run_until(seconds(101))
    told = cluster.get("Node", "spot-4") or {}
    assert told["spec"]["unschedulable"] is True
    assert INTERRUPTION in [taint["key"] for taint in told["spec"]["taints"]]
    cluster.run_until(seconds(118))
    assert len(cluster.all("Node")) == 4
    cluster.run_until(seconds(2))
    assert names(cluster.all("Node")) == ["spot-1", "spot-2", "spot-3"]


def test_one_node_can_be_taken_by_name() -> None:
    cluster = market()
    cluster.spot.take("spot-2", cluster.clock.now(), seconds(30))
    cluster.run_until(seconds(29))
    assert "spot-2" in names(cluster.all("Node"))
    cluster.run_until(seconds(1))
    assert "spot-2" not in names(cluster.all("Node"))
    cluster.run_until(seconds(120))
    assert len(cluster.all("Node")) == 4  # another one took its place


def test_pods_of_taken_nodes_move_to_those_that_stay() -> None:
    cluster = market((600, 1))
    cluster.create(deployment("web", 4, pods=asking("1")))
    cluster.run_until(lambda: len(ready(cluster)) == 4)
    cluster.run_until(seconds(700))
    assert homes(active(cluster)) == {"spot-1": 4}
    assert len(ready(cluster)) == 4


def test_zones_are_taken_separately() -> None:
    cluster = World(groups=[group("spot", desired=4, max=4, zones=["a", "b"])])
    cluster.run_until(seconds(1))
    now = cluster.clock.now()
    cluster.spot.follow("spot", [Supply(seconds(0), 2)], now, zone="a")
    cluster.spot.follow("spot", [Supply(seconds(0), 2), Supply(seconds(60), 0)], now, zone="b")
    cluster.run_until(seconds(61))
    zones = [each["metadata"]["labels"]["topology.kubernetes.io/zone"] for each in cluster.all("Node")]
    assert zones == ["a", "a"]


def test_a_trace_is_read_as_changes_of_supply(tmp_path: Path) -> None:
    path = trace(tmp_path / "zone.json", 0, 0, 3, 3, 1, gap_s=300)
    assert read_trace(path).supply() == [
        Supply(seconds(0), 0),
        Supply(seconds(600), 3),
        Supply(seconds(1200), 1),
    ]
    assert read_trace(path).supply(start=2, probes=2) == [Supply(seconds(0), 3)]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"data": [1]}', '{"metadata": {"gap_seconds": 1}, "data": ["x"]}']
)
def test_a_file_that_is_no_trace_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "zone.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"zone\.json: not a trace"):
        read_trace(path)


def test_a_trace_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        read_trace(tmp_path / "missing.json")


def recorded() -> list[Path]:
    folder = os.environ.get("FAIRLEAD_SPOT_TRACES", "")
    return sorted(Path(folder).rglob("*.json")) if folder else []


def test_a_day_of_a_recorded_market_is_followed_to_the_node(tmp_path: Path) -> None:
    made = trace(
        tmp_path / "made.json",
        *[0, 0, 5, 16, 16, 8, 8, 0, 0, 16, 11, 11, 16, 3, 3, 0, 1, 0, 2, 16],
        gap_s=300,
    )
    for path in recorded() or [made]:
        cluster = World(groups=[group("spot", desired=16, max=16, bootS=60, volatile=True)])
        supply = [each for each in read_trace(path).supply() if each.after <= timedelta(days=1)]
        cluster.spot.follow("spot", supply, cluster.clock.now())
        start = cluster.clock.now()
        for now, later in pairwise(supply):
            cluster.run_until(start + now.after)
            assert len(cluster.all("Node")) <= now.nodes
            if later.after - now.after > seconds(61):
                cluster.run_until(start + now.after + seconds(61))
                assert len(cluster.all("Node")) == min(16, now.nodes)


def test_an_ordinary_node_is_never_taken_for_lack_of_supply() -> None:
    cluster = world(2)
    cluster.run_until(seconds(3600))
    assert names(cluster.all("Node")) == ["n1", "n2"]
