"""Simulations: what is counted is what happened, and the same scenario gives the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import BadInput
from fairlead.simulation.scenario.material import Material, from_data
from fairlead.simulation.scenario.model import API_VERSION, KIND
from fairlead.simulation.scenario.reader import Source
from fairlead.simulation.simulate.result import Result, WorkloadResult, decode
from fairlead.simulation.simulate.simulation import is_batch, simulate

ROOT = Path(__file__).resolve().parents[2]
LARGE = {"name": "large", "nodes": 2, "resources": {"cpu": 4, "memory": "16Gi"}, "pricePerHour": 0.5}
SPOT = {
    "name": "spot",
    "max": 4,
    "resources": {"cpu": 2, "memory": "8Gi"},
    "labels": {"kind": "spot"},
    "pricePerHour": 0.1,
    "bootTime": "60s",
}


def material(folder: Path = Path(), **spec: Any) -> Material:
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "test"}, "spec": spec}
    return from_data(document, Source("", "test.yaml"), folder)


def played(folder: Path = Path(), **spec: Any) -> Result:
    return simulate(material(folder, **spec))


def stream(**more: Any) -> dict[str, Any]:
    return {"name": "batch", "requests": {"cpu": 1, "memory": "1Gi"}, **more}


def service(**more: Any) -> dict[str, Any]:
    return {
        "name": "web",
        "replicas": 2,
        "requests": {"cpu": 1, "memory": "1Gi"},
        "scheduler": "default-scheduler",
        **more,
    }


def of(result: Result, name: str) -> WorkloadResult:
    return next(one for one in result.workloads if one.name == name)


def test_a_pod_runs_for_its_time_and_pays_for_the_nodes_all_the_time() -> None:
    result = played(duration="1h", nodeGroups=[LARGE], arrivals=[stream(at=["10m"], runsFor="30m")])
    assert (result.pods.arrived, result.pods.placed, result.pods.finished) == (1, 1, 1)
    assert result.cost == pytest.approx(1.0)
    # One of eight cores for half of the time, and the second that a pod takes to start.
    cpu = next(one for one in result.resources if one.name == "cpu")
    assert cpu.used == pytest.approx(1801 / 3600 / 8)
    assert cpu.peak_used == pytest.approx(1 / 8)


def test_what_does_not_fit_waits_for_room_and_the_wait_is_counted() -> None:
    eight = [stream(name=f"one-{number}", at=["0s"], runsFor="10m") for number in range(8)]
    late = stream(name="late", at=["1m"], runsFor="10m")
    result = played(duration="1h", nodeGroups=[LARGE], arrivals=[*eight, late])
    assert of(result, "late").waits.max == pytest.approx(601 - 60)
    assert result.pods.finished == 9


def test_a_gang_that_cannot_be_whole_waits_and_says_why() -> None:
    result = played(duration="1h", nodeGroups=[LARGE], arrivals=[stream(at=["0s"], pods=9)])
    assert (result.pods.placed, result.pods.pending) == (0, 9)
    assert [(one.text, one.pods) for one in result.waiting] == [("gang: Insufficient cpu", 9)]


def test_what_is_evicted_comes_again_and_runs_from_its_beginning() -> None:
    low = stream(name="low", at=["0s"], pods=1, runsFor="20m", requests={"cpu": 4})
    high = stream(name="high", at=["10m"], runsFor="10m", requests={"cpu": 4}, priority=100)
    spec = {"duration": "1h", "nodeGroups": [{**LARGE, "nodes": 1}], "arrivals": [low, high]}
    result = played(**spec)
    assert of(result, "low").pods.evicted == 1
    assert of(result, "low").pods.arrived == 2
    assert (of(result, "low").pods.finished, of(result, "high").pods.finished) == (1, 1)
    # It waits for the other's ten minutes, and a few seconds of stopping and starting.
    assert of(result, "low").waits.max == pytest.approx(600, abs=5)


def test_filling_nodes_up_leaves_others_empty() -> None:
    nodes = [{**LARGE, "nodes": 4}]
    small = stream(every="1m", count=8, runsFor="2h", requests={"cpu": "500m"})
    large = stream(name="large", at=["30m"], requests={"cpu": 4}, runsFor="1h")
    spread = played(duration="1h", nodeGroups=nodes, arrivals=[small, large])
    packed = played(duration="1h", nodeGroups=nodes, arrivals=[small, large], planning={"ranking": "pack"})
    assert (of(spread, "large").pods.placed, of(packed, "large").pods.placed) == (0, 1)


def test_what_is_free_but_of_no_use_is_counted() -> None:
    # The cpu of both nodes is taken, so what is left of their memory helps no pod that asks for it.
    hog = stream(name="hog", at=["0s"], count=1, runsFor="2h", requests={"cpu": 4})
    other = stream(name="other", at=["1m", "1m"], runsFor="2h", requests={"cpu": 4, "memory": "4Gi"})
    result = played(duration="1h", nodeGroups=[LARGE], arrivals=[hog, other])
    memory = next(one for one in result.resources if one.name == "memory")
    assert memory.unusable_share == pytest.approx(28 / 32)


def test_a_service_is_available_from_when_it_first_was_until_its_machines_go(tmp_path: Path) -> None:
    trace = {"metadata": {"gap_seconds": 600}, "data": [4, 4, 4, 0, 4, 4, 4, 4]}
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    result = played(
        tmp_path,
        duration="80m",
        nodeGroups=[SPOT],
        autoscaler={},
        markets=[{"groups": ["spot"], "trace": "trace.json"}],
        workloads=[service(minAvailable=2)],
    )
    web = of(result, "web")
    assert web.outages == 1
    # For ten minutes there is no node to be had; then one boots, and pods start.
    assert web.below_s == pytest.approx(600 + 60, abs=15)
    assert web.longest_outage_s == web.below_s
    # The first nodes took a minute to come: that is no outage.
    assert web.availability == pytest.approx(1 - web.below_s / (4800 - 75), abs=0.001)
    assert next(one for one in result.groups if one.name == "spot").taken == 1


def test_groups_of_one_market_go_together_and_markets_apart() -> None:
    groups = [{**SPOT, "name": name, "min": 1} for name in ("a", "b", "c")]
    result = played(
        duration="2d",
        nodeGroups=groups,
        markets=[
            {"groups": ["a", "b"], "up": "4h", "down": "2h"},
            {"groups": ["c"], "up": "4h", "down": "2h"},
        ],
        workloads=[service(replicas=1)],
        sampleEvery="10m",
    )
    nodes = {name: result.series.values[f"nodes:{name}"] for name in "abc"}
    assert nodes["a"] == nodes["b"]
    assert nodes["a"] != nodes["c"]
    assert 0 < sum(nodes["a"]) < len(nodes["a"])


def test_what_a_scenario_has_in_a_namespace_of_its_own_is_played_there() -> None:
    shop, jobs = service(namespace="shop"), stream(namespace="jobs", at=["1m"], runsFor="1m")
    result = played(duration="10m", nodeGroups=[LARGE], workloads=[shop], arrivals=[jobs])
    assert (of(result, "web").pods.running, of(result, "batch").pods.finished) == (2, 1)


def test_scaling_changes_the_replicas_and_the_minimum_with_them() -> None:
    result = played(
        duration="1h",
        nodeGroups=[LARGE],
        workloads=[service(minAvailable="50%", scale=[{"at": "30m", "replicas": 6}])],
    )
    web = of(result, "web")
    assert (web.pods.running, web.min_available) == (6, 3)
    # Three of six take a moment to start.
    assert web.outages == 1
    assert web.below_s < 30


def test_faults_befall_nodes_and_what_cannot_be_played_is_said() -> None:
    result = played(
        duration="1h",
        nodeGroups=[LARGE],
        workloads=[service(minAvailable=2)],
        faults=[
            {"at": "20m", "action": "kill", "node": "large-1"},
            {"at": "30m", "action": "drain", "node": "large-9"},
        ],
    )
    web = of(result, "web")
    # It serves no more at once; its replacement comes when the node was missed for 40 s and 5 more minutes.
    assert web.outages == 1
    assert web.below_s == pytest.approx(340, abs=20)
    assert result.notes == ("drain at 1800 s was not played: there is no node large-9",)


def test_the_autoscaler_brings_nodes_and_takes_them_away_again() -> None:
    result = played(
        duration="2h",
        nodeGroups=[{**SPOT, "labels": {}}],
        autoscaler={"scaleDownAfter": "5m", "delayAfterAdd": "5m"},
        arrivals=[stream(at=["10m"], pods=2, runsFor="20m")],
    )
    spot = result.groups[0]
    assert (spot.most, spot.at_end, spot.taken) == (1, 0, 0)
    assert result.pods.finished == 2
    assert 0.3 < spot.node_hours < 0.8


def test_streams_draw_apart_from_each_other() -> None:
    one = stream(name="one", perHour=20, runTimes="exponential")
    two = stream(name="two", perHour=20, runTimes="exponential")
    alone = played(duration="5h", nodeGroups=[LARGE], arrivals=[one])
    both = played(duration="5h", nodeGroups=[LARGE], arrivals=[two, one])
    assert of(alone, "one").pods.arrived == of(both, "one").pods.arrived
    assert of(both, "one").pods.arrived != of(both, "two").pods.arrived


@pytest.mark.parametrize("name", ["batch", "spot"])
def test_another_process_with_another_hash_seed_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from fairlead.simulation.scenario.material import load\n"
        "from fairlead.simulation.simulate.simulation import simulate\n"
        "sys.stdout.buffer.write(simulate(load(Path(sys.argv[1]))).encode())"
    )
    text = (ROOT / "examples" / "simulate" / f"{name}.yaml").read_text()
    file = tmp_path / "scenario.yaml"
    file.write_text(text.replace("duration: 1d", "duration: 3h").replace("duration: 2d", "duration: 12h"))
    seen = {
        subprocess.run(
            [sys.executable, "-c", code, str(file)],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        ).stdout.splitlines()[-1]
        for seed in ("1", "2")
    }
    assert len(seen) == 1
    assert decode(seen.pop(), "result").scenario == name


def test_a_result_of_a_later_version_is_refused() -> None:
    with pytest.raises(BadInput, match="version 2; this program reads version 1"):
        decode(b'{"version": 2}', "a.json")
    with pytest.raises(BadInput, match=r"a\.json: is not the result of a simulation"):
        decode(b"{}", "a.json")


def test_what_only_the_scheduler_has_a_part_in_is_played_by_its_core_alone() -> None:
    assert is_batch(material(duration="1h", nodeGroups=[LARGE], arrivals=[stream(at=["0s"])]))
    assert not is_batch(material(duration="1h", nodeGroups=[LARGE], workloads=[service()]))
    other = stream(at=["0s"], scheduler="default-scheduler")
    assert not is_batch(material(duration="1h", nodeGroups=[LARGE], arrivals=[other]))
