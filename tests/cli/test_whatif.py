"""``fairlead whatif``: what it prints, with which code it ends, and what it makes of bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.cli.whatif import NOT_AS_EXPECTED, command
from fairlead.errors import BadInput, FairleadError
from support.cluster import Cluster
from support.command import run_command
from support.manifests import deployment

NAMELESS = str(Path(__file__).parent / "nameless.yaml")
STATE = Path(__file__).resolve().parents[2] / "examples" / "whatif" / "cluster.yaml"


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(command, ["-f", str(STATE), *arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def data(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "-o", "json").stdout)
    return found


def test_both_outcomes_stand_beside_each_other() -> None:
    output = run("--drain", "steady-1").stdout
    assert output.splitlines()[0] == "what if: drain node steady-1"
    (evicted,) = (line.split() for line in output.splitlines() if line.startswith("evicted"))
    assert evicted == ["evicted", "0", "2", "+2"]
    assert "shop/Deployment/web" in output


def test_changes_are_made_in_the_order_of_the_command_line() -> None:
    found = data("--scale", "shop/web=12", "--delete=shop/deployment/report", "--add-nodes", "steady=1")
    assert found["changes"] == [
        "scale shop/web to 12",
        "delete deployment shop/report",
        "add 1 node of steady",
    ]


def test_what_is_expected_decides_the_exit_code() -> None:
    run("--lose-tier", "spot", "--expect", "pending>0", "--expect", "nodes==2")
    failed = run("--lose-tier", "spot", "--expect", "pending==0", code=NOT_AS_EXPECTED)
    assert "expected pending==0, but pending is" in failed.stderr
    assert "WITH THIS" in failed.stdout


def test_several_nodes_are_drained_at_once() -> None:
    found = data("--drain", "steady-*,spot-1")
    assert found["changes"] == ["drain nodes steady-*, spot-1"]
    assert found["with"]["evicted"] == 5
    by_label = data("--remove-node", "topology.kubernetes.io/zone=zone-a")
    assert by_label["with"]["nodes"] == by_label["without"]["nodes"] - 3


def test_what_fills_a_screen_is_cut_and_says_so() -> None:
    lines = run(*(["--scale", "shop/web=12"] * 30)).stdout.splitlines()
    assert [line for line in lines if line.startswith("what if")] == ["what if: scale shop/web to 12"] * 20
    assert "and 10 more changes" in lines


def test_tiers_of_a_workload_stand_together() -> None:
    lines = run("--lose-tier", "spot").stdout.splitlines()
    at = lines.index(next(line for line in lines if line.startswith("WORKLOAD")))
    assert [line.split()[0] for line in lines[at + 1 :]] == ["shop/Deployment/web"] * 3 + [
        "shop/Deployment/report"
    ]


def test_a_node_pool_brings_nodes_unless_told_otherwise(tmp_path: Path) -> None:
    items = [*yaml.safe_load_all(STATE.read_text())]
    listed = [one for item in items for one in (item.get("items") or [item])]
    for one in listed:
        if one["kind"] == "Node" and one["metadata"]["name"].startswith("steady"):
            labels = one["metadata"]["labels"]
            labels["karpenter.sh/nodepool"] = labels.pop("eks.amazonaws.com/nodegroup")
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {}}
    pools = [{**pool, "metadata": {"name": name}} for name in ("steady", "gpu")]
    state = tmp_path / "state.yaml"
    state.write_text(yaml.safe_dump_all([*listed, *pools]))

    def ask(*more: str) -> Result:
        arguments = ["-f", str(state), "--scale", "shop/report=12", "-o", "json", *more]
        return CliRunner().invoke(command, arguments, catch_exceptions=False)

    brought, without = ask(), ask("--no-node-pools")
    assert "NodePool gpu: no node of it shows what it would bring" in brought.stderr
    assert without.stderr == ""
    assert json.loads(brought.stdout)["with"]["pending"] == 0
    assert json.loads(brought.stdout)["with"]["nodes"] > 5
    assert json.loads(without.stdout)["with"]["pending"] > 0


def test_the_fewest_nodes_are_found() -> None:
    found = data("--apply", str(STATE.with_name("more.yaml")), "--min-nodes", "steady")
    assert found["minNodes"] == {"steady": 2}
    assert found["with"]["pending"] == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "nothing is to be done"),
        (["--add-nodes", "steady"], "--add-nodes steady: write GROUP=N"),
        (["--scale", "web=3"], "--scale web=3: write NAMESPACE/NAME=N"),
        (["--delete", "web"], "--delete web: write NAMESPACE/KIND/NAME"),
        (["--drain", "no-such-node"], "there is no node 'no-such-node'"),
        (["--drain", ""], "the name is missing"),
        (["--drain", ","], "',' names no node"),
        (["--drain", "a=b=c"], "label selector 'a=b=c': cannot read 'a=b=c'"),
        (["--drain", "spot-9*"], "there is no node 'spot-9*'"),
        (["--remove-node", "pool=old"], "there is no node with labels pool=old"),
        (["--lose-tier", "gone"], "no policy has a tier 'gone'; there are web/on-demand, web/spot"),
        (["--drain", "steady-1", "--expect", "pods==0"], "values are placed, pending, evicted"),
        (["--drain", "steady-1", "--components", "kubelet"], "there is no component 'kubelet'"),
        (["--drain", "steady-1", "--limit", "soon"], "--limit: 'soon' is not a duration"),
        (["--min-nodes", "large"], "there is no node group 'large'; there are spot, steady"),
        (
            ["--policy", str(STATE.with_name("more.yaml"))],
            "--policy: Deployment shop/search is no PlacementPolicy",
        ),
        (["--apply", str(STATE)], "PlacementPolicy web: a policy is tried with --policy"),
        (["--apply", "no-such-file.yaml"], "no-such-file.yaml: cannot be read"),
        (["--apply", NAMELESS], "Pod (no name): metadata.name: is missing"),
        (["--drain", "steady-1", "--context", "prod"], "from files or from a cluster, not from both"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], problem: str) -> None:
    with pytest.raises(FairleadError) as error:
        run(*arguments)
    assert problem in str(error.value)
    assert error.value.exit_code == BadInput.exit_code


@pytest.mark.slow
def test_a_live_cluster_is_only_read(cluster: Cluster) -> None:
    (node,) = cluster.add_nodes(1)
    spec = {"nodeSelector": {"test": cluster.namespace}, "schedulerName": "default-scheduler"}
    cluster.create(deployment("web", 2, pods=spec))

    def homes() -> list[str]:
        return [pod["spec"].get("nodeName", "") for pod in cluster.list("Pod")["items"]]

    cluster.wait(lambda: homes() == [node, node], "the pods to be placed")
    done = run_command(
        "whatif", "--kubeconfig", str(cluster.kubeconfig), "--remove-node", node, "-o", "json", timeout=300
    )
    assert done.returncode == 0, done.stderr
    mine = [
        one for one in json.loads(done.stdout)["with"]["workloads"] if cluster.namespace in one["workload"]
    ]
    assert sum(one["evicted"] for one in mine) == 2
    assert sum(one["pending"] for one in mine) == 2
    assert homes() == [node, node]
    assert not cluster.get("Node", node)["spec"].get("unschedulable")
