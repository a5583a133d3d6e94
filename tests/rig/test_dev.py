"""``fairlead dev``: a person's control plane, one command to have it and one to be rid of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.rig.processes import wait_until
from support.rig import programs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Fairlead = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    """Runs ``fairlead dev`` with a state folder of its own, and ends what is left in it."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from fairlead.cli import main; main()", "dev", *arguments],
            env={
                **os.environ,
                "XDG_STATE_HOME": str(tmp_path / "state"),
                "KUBECONFIG": str(tmp_path / "users"),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    yield run
    run("down")


@pytest.mark.real
def test_up_gives_a_control_plane_that_stays_until_down(fairlead: Fairlead, tmp_path: Path) -> None:
    (kubectl,) = programs("kubectl")
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
    config = tmp_path / "config"

    up = fairlead("up", "--nodes", "2", "--cpu", "8", "--kubeconfig", str(config))
    assert up.returncode == 0, up.stderr
    assert f"export KUBECONFIG={config}" in up.stdout
    nodes = subprocess.run(
        [kubectl, "--kubeconfig", config, "get", "nodes", "-o", "name"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert nodes.stdout.split() == ["node/node-0", "node/node-1"]

    running = json.loads(fairlead("status", "-o", "json").stdout)
    again = fairlead("up", "--nodes", "2", "--cpu", "8")
    assert again.returncode == 0
    assert json.loads(fairlead("status", "-o", "json").stdout) == running
    assert "kube-apiserver" in fairlead("status").stdout

    down = fairlead("down")
    assert down.returncode == 0
    assert fairlead("status").returncode == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in running["programs"].values())


@pytest.mark.real
def test_after_a_crash_of_what_holds_it_nothing_runs_and_down_leaves_no_keys(
    fairlead: Fairlead, tmp_path: Path
) -> None:
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kubectl")
    fairlead("up", "--nodes", "0", "--with", "")
    running = json.loads(fairlead("status", "-o", "json").stdout)

    os.kill(running["pid"], signal.SIGKILL)

    wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in running["programs"].values()),
        "every program to end",
        timeout_s=60,
    )
    assert json.loads(fairlead("status", "-o", "json").stdout) == {"running": False}
    assert list(tmp_path.rglob("*.key"))
    assert fairlead("down").returncode == 0
    assert not list(tmp_path.rglob("*.key"))


def test_without_one_status_fails_and_down_has_nothing_to_do(fairlead: Fairlead) -> None:
    status, down = fairlead("status"), fairlead("down")

    assert (status.returncode, down.returncode) == (1, 0)
    assert "`fairlead dev up` starts one" in status.stderr
    assert "No control plane was running" in down.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--cpu", "lots"], "--cpu: 'lots' is not a quantity"),
        (["--memory", "0"], "--memory 0: it must be more than zero"),
        (["--with", "magic"], "--with magic: there is only scheduler, extender, webhook, karpenter"),
        (["--nodes", "-1"], "-1 is not in the range"),
        (["--nodes", "1", "--nodes-file", "nodes.yaml"], "--nodes and --nodes-file: one or the other"),
        (["--nodes-file", "nodes.yaml"], "--nodes-file nodes.yaml: cannot be read: No such file"),
        (["--use-context", "--no-add-context"], "--use-context needs the context"),
        (["--kubernetes", "1.20"], "'1.20' is not one of '1.35', '1.36', '1.37'"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(
    fairlead: Fairlead, arguments: list[str], problem: str
) -> None:
    done = fairlead("up", *arguments)

    assert done.returncode == 2
    assert problem in done.stderr


def test_somebody_elses_kubeconfig_is_not_overwritten(fairlead: Fairlead, tmp_path: Path) -> None:
    precious = tmp_path / "config"
    precious.write_text("contexts: [{name: production}]")

    done = fairlead("up", "--kubeconfig", str(precious))

    assert done.returncode == 2
    assert precious.read_text() == "contexts: [{name: production}]"


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ("{kind: Pod}", "holds a Pod; it takes Nodes, or node groups in one NodeGroups"),
        ("{kind: Node, metadata: {name: A_b}}", 'Node "A_b" is invalid: metadata.name: Invalid value'),
        ("{kind: Node, metadata: {name: a, labels: [x]}}", "Node a: metadata.labels: "),
        (
            "{kind: Node, metadata: {name: a}, status: {capacity: {cpu: lots}}}",
            "Node a: status.capacity.cpu: 'lots' is not a quantity",
        ),
        (
            "{kind: Node, metadata: {name: a}, spec: {taints: [{key: b, effect: Never}]}}",
            'Node "a" is invalid: metadata.taints[0].effect: Unsupported value: "Never"',
        ),
        ("[{kind: Node, metadata: {name: a}}, {kind: Node, metadata: {name: a}}]", '"a" already exists'),
        (
            "{apiVersion: fairlead.dev/v1alpha1, kind: NodeGroups, groups: [{name: a, size: 3}]}",
            "size",
        ),
    ],
)
def test_a_file_of_nodes_that_cannot_be_used_is_refused_with_file_and_field(
    fairlead: Fairlead, tmp_path: Path, nodes: str, problem: str
) -> None:
    (tmp_path / "nodes.yaml").write_text(nodes)

    done = fairlead("up", "--nodes-file", "nodes.yaml")

    assert done.returncode == 2
    assert done.stderr.startswith("error: --nodes-file nodes.yaml: ")
    assert problem in done.stderr


def test_a_context_of_that_name_that_is_not_ours_is_refused_before_anything_starts(
    fairlead: Fairlead, tmp_path: Path
) -> None:
    theirs = "contexts: [{name: fairlead, context: {cluster: production}}]"
    (tmp_path / "users").write_text(theirs)

    done = fairlead("up")

    assert done.returncode == 2
    assert "has a context 'fairlead' that is not from `fairlead dev up`" in done.stderr
    assert (tmp_path / "users").read_text() == theirs


@pytest.mark.real
def test_nodes_of_a_file_with_fairleads_components_beside_kube_scheduler(
    fairlead: Fairlead, tmp_path: Path
) -> None:
    (kubectl,) = programs("kubectl")
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
    (tmp_path / "users").write_text("contexts: [{name: production, context: {cluster: p}}]")

    up = fairlead("up", "--nodes-file", str(EXAMPLES / "dev/nodes.yaml"), "--with", "extender,webhook")
    assert up.returncode == 0, up.stderr
    assert 'Context "fairlead" is in' in up.stdout
    assert "fairlead explain" in up.stdout

    def run(*arguments: str) -> str:
        flags = ["--kubeconfig", tmp_path / "users", "--context", "fairlead"]
        done = subprocess.run([kubectl, *flags, *arguments], capture_output=True, text=True, check=True)
        return done.stdout

    nodes = json.loads(run("get", "nodes", "-o", "json"))["items"]
    gpu = next(node for node in nodes if node["metadata"]["name"] == "gpu-a")
    assert gpu["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert gpu["status"]["allocatable"]["cpu"] == "15500m"
    assert len(nodes) == 5

    run("apply", "-f", str(EXAMPLES / "spot/policy.yaml"), "-f", str(EXAMPLES / "spot/workloads.yaml"))

    def status() -> dict[str, object]:
        found: dict[str, object] = json.loads(run("get", "pp", "spot", "-o", "json")).get("status", {})
        return found

    wait_until(lambda: status().get("actual") == "spot 7, on-demand 4", "the split", timeout_s=60)
    called = "jsonpath={.status.conditions[?(@.type=='ExtenderCalled')].status}"
    wait_until(lambda: run("get", "pp", "spot", "-o", called) == "True", "the call", timeout_s=60)
    run("get", "mutatingwebhookconfigurations", "fairlead")

    assert fairlead("down").returncode == 0
    assert "fairlead" not in (tmp_path / "users").read_text()
    assert "production" in (tmp_path / "users").read_text()


@pytest.mark.real
def test_a_file_of_node_groups_brings_at_least_one_node_of_each(fairlead: Fairlead, tmp_path: Path) -> None:
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kubectl")

    groups = str(EXAMPLES / "node-groups.yaml")
    up = fairlead("up", "--nodes-file", groups, "--with", "", "--no-add-context")

    assert up.returncode == 0, up.stderr
    assert "with 2 nodes" in up.stdout
    assert not (tmp_path / "users").exists()
