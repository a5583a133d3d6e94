"""Scenarios from traces, dumps and recordings: what comes of each, and that it can be played."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.doors.scheduler.recording import lines_of, segments_of
from fairlead.engine.core.events import Gone
from fairlead.engine.planning.settings import Settings
from fairlead.errors import BadInput
from fairlead.simulation.imports.draft import Draft
from fairlead.simulation.imports.dump import import_dump
from fairlead.simulation.imports.openb import GPU, MODEL, Pods, import_openb
from fairlead.simulation.imports.recording import import_recording
from fairlead.simulation.imports.spot_trace import import_spot_traces
from fairlead.simulation.scenario.material import Material, load
from fairlead.simulation.simulate.result import Result
from fairlead.simulation.simulate.simulation import simulate
from fairlead.world.spot import Trace, read_trace
from support import units
from support.manifests import budget
from support.pages import ROOT
from support.recorded import record
from support.units import pod, workload

SHARED = ROOT.parent / "shared" / "data"


def loaded(draft: Draft, folder: Path) -> Material:
    folder.mkdir(exist_ok=True)
    for name, text in draft.files.items():
        (folder / name).write_text(text)
    (folder / "scenario.yaml").write_text(draft.text("a test"))
    return load(folder / "scenario.yaml")


def played(draft: Draft, folder: Path) -> Result:
    return simulate(loaded(draft, folder))


def rows(draft: Draft, name: str = "pods.csv") -> list[dict[str, str]]:
    return list(csv.DictReader(draft.files[name].splitlines()))


# A trace of a GPU cluster

NODES = """\
sn,cpu_milli,memory_mib,gpu,model
node-0,32000,131072,0,
node-1,96000,786432,8,V100M32
node-2,96000,786432,8,V100M32
node-3,8000,61440,1,P100
"""
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-0,12000,16384,1,1000,,LS,Running,100,400,110
pod-1,6500,12288,2,500,V100M32|A10,BE,Running,150,250,160
pod-2,1000,1024,0,0,,Burstable,Pending,160,190,
"""


def openb(how: Pods, nodes: str = NODES, pods: str = PODS) -> Draft:
    return import_openb(nodes, pods, how, nodes_file="nodes.csv", pods_file="pods.csv")


def test_nodes_of_one_shape_become_one_group() -> None:
    groups = {one["name"]: one for one in openb(Pods()).spec["nodeGroups"]}
    assert {name: one["nodes"] for name, one in groups.items()} == {
        "cpu-32c-128g": 1,
        "p100-1x-8c-60g": 1,
        "v100m32-8x-96c-768g": 2,
    }
    assert groups["v100m32-8x-96c-768g"]["resources"][GPU] == "8000"
    assert groups["v100m32-8x-96c-768g"]["labels"] == {MODEL: "V100M32"}


def test_pods_come_and_run_as_in_the_trace_with_their_share_of_gpus() -> None:
    draft = openb(Pods())
    first, second, third = rows(draft)
    assert (first["at"], first["runs_for"], first["priority"], first[GPU]) == ("0", "290", "100", "1000")
    assert (second["at"], second["runs_for"], second["priority"], second[GPU]) == ("50", "90", "0", "1000")
    assert (second["cpu"], second[f"node:{MODEL}"]) == ("6500m", "V100M32|A10")
    assert (third["runs_for"], third["priority"], third[GPU]) == ("30", "50", "")
    assert "devices within a node are not told apart" in draft.description


def test_it_can_be_played(tmp_path: Path) -> None:
    found = played(openb(Pods()), tmp_path)
    assert (found.pods.arrived, found.pods.placed, found.pods.finished) == (3, 3, 3)


def test_until_full_pods_come_a_second_apart_and_stay(tmp_path: Path) -> None:
    draft = openb(Pods(until_full=True))
    assert [(row["at"], row["runs_for"], row["priority"]) for row in rows(draft)] == [
        (str(at), "", "") for at in range(3)
    ]
    assert played(draft, tmp_path).pods.running == 3


def test_the_order_is_drawn_from_the_seed() -> None:
    pods = PODS + "".join(f"more-{number},1,1,0,0,,BE,Running,200,300,200\n" for number in range(20))

    def order(seed: int | None) -> list[str]:
        return [row["name"] for row in rows(openb(Pods(until_full=True, shuffle=seed), pods=pods))]

    assert order(1) == order(1)
    assert sorted(order(1)) == sorted(order(None))
    assert len({tuple(order(seed)) for seed in (None, 1, 2)}) == 3


def test_pods_are_drawn_again_until_they_ask_for_the_share(tmp_path: Path) -> None:
    draft = openb(Pods(until_full=True, fill=1.2))
    asked = sum(int(row[GPU] or 0) for row in rows(draft))
    assert 1.2 * 17_000 <= asked < 1.2 * 17_000 + 1000
    assert len({row["name"] for row in rows(draft)}) == len(rows(draft))
    found = played(draft, tmp_path)
    (gpus,) = (one for one in found.resources if one.name == GPU)
    assert found.pods.pending > 0
    assert gpus.used_at_end > 0.9


@pytest.mark.parametrize(
    ("nodes", "pods", "said"),
    [
        ("sn,gpu\n", PODS, "nodes.csv:1: lacks cpu_milli, memory_mib, model; the columns are sn, gpu"),
        (NODES, "", "pods.csv:1: lacks name, .* the columns are none"),
        (NODES.replace("32000", "many"), PODS, "nodes.csv:2: cpu_milli: 'many' is not a number"),
        (NODES, PODS.replace("6500", "-1"), "pods.csv:3: cpu_milli: -1 is less than 0"),
        (NODES + "node-4,1\n", PODS, "nodes.csv:6: has 2 values for 5 columns"),
        (NODES.splitlines()[0] + "\n", PODS, "nodes.csv: has no nodes"),
        (NODES, PODS.replace("pod-2", "Pod-1"), "pods.csv: 'pod-1' is the name of 2 pods"),
    ],
)
def test_files_that_are_no_such_trace_are_refused(nodes: str, pods: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        openb(Pods(), nodes, pods)


@pytest.mark.skipif(not (SHARED / "openb").exists(), reason="the trace is not here")
def test_the_whole_trace_is_read(tmp_path: Path) -> None:
    nodes = (SHARED / "openb" / "openb_node_list_all_node.csv").read_text()
    pods = (SHARED / "openb" / "openb_pod_list_default.csv").read_text()
    material = loaded(openb(Pods(), nodes, pods), tmp_path)
    assert sum(group.desired for group in material.groups) == 1523
    assert len(material.pods["pods.csv"]) == 8152  # type: ignore[index]


# Spot markets


def spot(folder: Path) -> dict[str, Trace]:
    """Two zones, of the recorded traces where they are here, else of the same format."""
    recorded = sorted((SHARED / "spot-traces" / "availability" / "16-node").glob("*/*.json"))
    paths = recorded[:2]
    if not paths:
        paths = [folder / "us-west-2a_v100_1.json", folder / "us-west-2c_v100_1.json"]
        for number, path in enumerate(paths):
            data = [0, 4, 4, 2 + number, 0, 0, 3, 3] * 6
            path.write_text(json.dumps({"metadata": {"gap_seconds": 300}, "data": data}))
    return {str(path): read_trace(path) for path in paths}


def test_each_trace_is_a_market_with_a_group_in_its_zone(tmp_path: Path) -> None:
    spec = import_spot_traces(spot(tmp_path), "gpu").spec
    groups = {one["name"]: one for one in spec["nodeGroups"]}
    assert list(groups) == ["gpu-us-west-2a", "gpu-us-west-2c", "gpu-on-demand"]
    assert groups["gpu-us-west-2c"]["zones"] == ["us-west-2c"]
    assert [one["groups"] for one in spec["markets"]] == [["gpu-us-west-2a"], ["gpu-us-west-2c"]]


def test_the_sample_of_a_spot_market_can_be_played(tmp_path: Path) -> None:
    draft = import_spot_traces(spot(tmp_path), "gpu")
    short = {**draft.spec, "duration": "3h"}
    found = played(Draft(draft.name, draft.description, short), tmp_path / "out")
    (web,) = found.workloads
    assert web.pods.placed >= web.pods.running > 0
    assert web.availability is not None
    assert "gpu-us-west-2a" in {one.name for one in found.groups}


def test_files_of_one_zone_are_told_apart() -> None:
    trace = Trace(60.0, (1, 2))
    names = ["x/us-west-2a_v100_1.json", "y/us-west-2a_v100_1.json", "odd name.json"]
    spec = import_spot_traces(dict.fromkeys(names, trace), "s", scale=3).spec
    assert [one["name"] for one in spec["nodeGroups"][:3]] == ["s-us-west-2a", "s-us-west-2a-2", "s-odd-name"]
    assert [one["max"] for one in spec["nodeGroups"][:3]] == [6, 6, 6]
    assert all(one["scale"] == 3 for one in spec["markets"])


# Dumps


def cluster() -> list[dict[str, Any]]:
    text = (ROOT / "examples" / "whatif" / "cluster.yaml").read_text()
    return [one for one in yaml.safe_load_all(text) if one]


def test_a_dump_begins_as_the_cluster_was(tmp_path: Path) -> None:
    found = played(import_dump(cluster(), name="mine", lasts_s=600), tmp_path)
    assert (found.pods.arrived, found.pods.running, found.pods.pending) == (10, 10, 0)
    assert {one.name: one.at_end for one in found.groups} == {"spot": 3, "steady": 2}


def test_groups_are_what_labels_of_nodes_tell() -> None:
    spec = import_dump(cluster(), name="mine", lasts_s=600).spec
    groups = {one["name"]: one for one in spec["nodeGroups"]}
    assert groups["spot"] | {"labels": {}} == {
        "name": "spot",
        "max": 3,
        "resources": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        "zones": ["zone-a", "zone-b"],
        "labels": {},
        "volatile": True,
        "pricePerHour": 0.07,
    }
    assert spec["components"] == ["rebalancer", "scheduler", "webhook"]
    assert [one["metadata"]["name"] for one in spec["policies"]] == ["web"]


def test_what_a_dump_has_and_a_simulation_has_not_is_named() -> None:
    more = [
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "aGlkZGVu"}},
    ]
    draft = import_dump([*cluster(), *more], name="mine", lasts_s=600)
    assert any("1 of kind Widget (example.com/v1)" in note for note in draft.notes)
    assert "aGlkZGVu" not in draft.files["objects.json"]


def test_a_gang_of_a_later_day_does_not_wait_for_that_day(tmp_path: Path) -> None:
    """Objects are of the day on which they were printed, the scenario has a beginning of its own."""
    members = [pod(name, gang="g", created=86400 * 400) for name in ("a", "b")]
    found = played(import_dump([units.node("n"), *members], name="mine", lasts_s=60), tmp_path)
    assert found.pods.running == 2


def test_a_dump_without_nodes_is_refused() -> None:
    with pytest.raises(BadInput, match="has no nodes: kubectl get nodes,pods"):
        import_dump([pod("a")], name="mine", lasts_s=60)


# Recordings


def imported(path: Path) -> Draft:
    return import_recording(map(lines_of, segments_of(path)), name="recorded")


def on(thing: dict[str, Any], node: str) -> dict[str, Any]:
    return {**thing, "spec": {**thing["spec"], "nodeName": node}, "status": {"phase": "Running"}}


def gone(thing: dict[str, Any]) -> Gone:
    meta = thing["metadata"]
    return Gone("Pod", meta["namespace"], meta["name"], meta["uid"])


def test_pods_come_when_they_came_and_run_as_long_as_they_ran(tmp_path: Path) -> None:
    a = pod("a", cpu="500m", memory="1Gi", priority=7)
    members = [pod(name, cpu=2, gang="g", minimum=2) for name in ("g-1", "g-2")]
    record(
        tmp_path / "r",
        {
            0.0: [units.node("n", cpu=8)],
            10.0: [a],
            11.0: [on(a, "n")],
            20.0: [members[0]],
            25.0: [members[1]],
            26.0: [on(one, "n") for one in members],
            71.0: [gone(a)],
            126.0: [gone(one) for one in members],
            200.0: [units.node("n", cpu=8)],
        },
    )
    draft = imported(tmp_path / "r")
    single, gang = rows(draft)
    assert (single["at"], single["runs_for"], single["cpu"], single["memory"]) == ("10", "60", "500m", "1Gi")
    assert (single["priority"], single["name"]) == ("7", "a")
    assert (gang["at"], gang["runs_for"], gang["pods"], gang["cpu"]) == ("25", "100", "2", "2")
    found = played(draft, tmp_path / "out")
    assert (found.pods.arrived, found.pods.placed, found.pods.finished) == (3, 3, 3)
    assert found.duration_s == 201


def test_nodes_that_are_alike_are_one_group_less_what_daemons_take(tmp_path: Path) -> None:
    daemon = on(
        pod("d", cpu=1, owner={"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}), "a"
    )
    nodes = [units.node(name, cpu=4, labels={"topology.kubernetes.io/zone": "z"}) for name in "abc"]
    record(tmp_path / "r", {0.0: [*nodes, daemon]})
    groups = imported(tmp_path / "r").spec["nodeGroups"]
    assert [(one["nodes"], one["resources"]["cpu"], one["resources"]["pods"]) for one in groups] == [
        (1, "3", "109"),
        (2, "4", "110"),
    ]
    assert all(one["zones"] == ["z"] for one in groups)


def test_a_deployment_is_a_workload_with_its_replicas_over_time(tmp_path: Path) -> None:
    web = workload("Deployment", "web", replicas=2, namespace="shop")
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "schedulerName": "fairlead",
        },
    }
    web["spec"]["template"] = template
    controller = {"kind": "Deployment", "name": "web", "uid": web["metadata"]["uid"], "controller": True}
    revision = workload("ReplicaSet", "web-1", replicas=2, namespace="shop", owner=controller)
    of = {"kind": "ReplicaSet", "name": "web-1", "uid": revision["metadata"]["uid"], "controller": True}
    pods = [
        on(pod(f"web-{number}", namespace="shop", owner=of, labels={"app": "web"}), "n")
        for number in range(2)
    ]
    guard = budget("shop", {"app": "web"}, minAvailable=1)
    guard["metadata"]["namespace"] = "shop"
    later = {**web, "spec": {**web["spec"], "replicas": 5}}
    record(
        tmp_path / "r",
        {0.0: [units.node("n", cpu=8), web, revision, guard, *pods], 60.0: [later], 300.0: [later]},
    )
    draft = imported(tmp_path / "r")
    (found,) = draft.spec["workloads"]
    assert found == {
        "name": "web",
        "kind": "Deployment",
        "replicas": 2,
        "scale": [{"at": "60s", "replicas": 5}],
        "minAvailable": 1,
        "namespace": "shop",
        "labels": {"app": "web"},
        "requests": {"cpu": "1"},
    }
    assert "arrivals" not in draft.spec
    (result,) = played(draft, tmp_path / "out").workloads
    assert (result.pods.running, result.min_available) == (5, 1)


def test_cordons_and_lost_nodes_are_faults_of_the_nodes_new_names(tmp_path: Path) -> None:
    record(
        tmp_path / "r",
        {
            0.0: [units.node("a"), units.node("b"), pod("p")],
            30.0: [units.node("b", unschedulable=True)],
            60.0: [Gone("Node", "", "b")],
        },
    )
    draft = imported(tmp_path / "r")
    assert draft.spec["faults"] == [
        {"at": "30s", "action": "cordon", "node": "nodes-2"},
        {"at": "60s", "action": "drain", "node": "nodes-2"},
    ]
    assert any(note.startswith("1 node that went meanwhile") for note in draft.notes)
    assert played(draft, tmp_path / "out").pods.running == 1


def test_what_a_session_does_not_tell_again_has_gone_in_between(tmp_path: Path) -> None:
    a, b = on(pod("a"), "n"), on(pod("b"), "n")
    record(tmp_path / "r", {0.0: [units.node("n"), a, b]})
    record(tmp_path / "r", {100.0: [units.node("n"), b]})
    assert [(row["name"], row["runs_for"]) for row in rows(imported(tmp_path / "r"))] == [
        ("a", "100"),
        ("b", ""),
    ]


def test_what_cannot_be_carried_over_is_said(tmp_path: Path) -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    waits = pod("never", cpu=99)
    record(
        tmp_path / "r",
        {
            0.0: [units.node("n"), pod("a", volumes=volumes), waits],
            5.0: [gone(waits), units.node("late")],
            9.0: [],
        },
    )
    notes = imported(tmp_path / "r").notes
    assert "1 pod with volumes: volumes are left out." in notes
    assert "1 pod gone without ever having a node: left out." in notes
    assert "1 node that came meanwhile: there from the beginning." in notes


def test_the_schedulers_configuration_is_carried_over(tmp_path: Path) -> None:
    settings = Settings(ranking="pack", order="fifo", reserve_after_s=30)
    record(tmp_path / "r", {0.0: [units.node("n"), pod("a")]}, settings=settings)
    assert imported(tmp_path / "r").spec["planning"] == {
        "ranking": "pack",
        "order": "fifo",
        "reserveAfter": "30s",
    }


def test_a_recording_of_an_older_version_can_be_played(tmp_path: Path) -> None:
    path = ROOT / "tests" / "scheduler" / "recordings" / "format-2.jsonl"
    found = played(import_recording([lines_of(path)], name="old"), tmp_path)
    assert found.pods.arrived >= 7


def test_a_recording_without_nodes_is_refused(tmp_path: Path) -> None:
    record(tmp_path / "r", {0.0: [pod("a")]})
    with pytest.raises(BadInput, match="the recording has no nodes"):
        imported(tmp_path / "r")
