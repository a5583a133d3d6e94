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

Fairlead = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    """Runs ``fairlead dev`` with a state folder of its own, and ends what is left in it."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from fairlead.cli import main; main()", "dev", *arguments],
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
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
        (["--with", "magic"], "--with magic: there is only scheduler, karpenter"),
        (["--nodes", "-1"], "-1 is not in the range"),
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
