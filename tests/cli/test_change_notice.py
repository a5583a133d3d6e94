"""Which cluster a command is about to change is said before anything is sent to it.

The server that the kubeconfig names is not there: what a command prints first, it prints without an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fairlead.cli import root
from support.command import run_command
from support.door import DoorProcess, kubeconfig_of

ROOT = Path(__file__).resolve().parents[2]
NOTICE = 'About to change the cluster of context "a" (http://127.0.0.1:1)'

ONCE = {
    "tenant create": ("-t", "standard", "--name", "one"),
    "tenant apply": ("-f", str(ROOT / "examples" / "tenants" / "tenants.yaml")),
    "tenant delete": ("one", "--yes"),
    "webhook": ("--unregister",),
    "install": (),
    "upgrade": (),
    "uninstall": (),
}
"""Commands that change a cluster and end, with arguments for a change."""

RUNNING = {
    "scheduler": (),
    "webhook": ("--register", "--listen=127.0.0.1:0"),
    "extender": ("--listen=127.0.0.1:0",),
    "rebalance": (),
    "serve": ("--doors=scheduler,rebalance",),
    "burst": ("--burst-node=virtual", "--burst-value=1"),
}
"""Components: they change a cluster for as long as they run."""

ELSEWHERE = {
    "nodegroups doctor": "changes an AWS account with --fix, and names that one",
    "dev up": "starts a cluster of its own",
    "dev down": "ends the cluster that dev up started",
    "demo": "has a cluster of its own",
}

READING = {
    *("completion", "cost", "dashboard", "dev status", "examples", "explain", "extender config", "gangs"),
    *("nodegroups karpenter", "nodegroups kwok", "nodegroups terraform", "nodes", "plan"),
    *("policy crds", "policy lint", "policy test", "queue", "replay", "status"),
    *("tenant list", "tenant show", "tenant types", "version", "whatif", "simulate", "report", "sweep"),
    "spot-plan",
    *("scenario lint", "scenario schema", "scenario import openb", "scenario import spot-trace"),
    *("scenario import dump", "scenario import recording"),
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return kubeconfig_of("http://127.0.0.1:1", tmp_path)


def leaves(command: click.Command, *path: str) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    if command.invoke_without_command:
        yield " ".join(path)
    for name in command.list_commands(click.Context(command)):
        below = command.get_command(click.Context(command), name)
        assert below is not None
        yield from leaves(below, *path, name)


def test_every_command_either_says_which_cluster_it_changes_or_changes_none() -> None:
    assert set(leaves(root())) == {*ONCE, *RUNNING, *ELSEWHERE, *READING}


@pytest.mark.parametrize("name", ONCE)
def test_a_command_says_so_before_it_sends_anything(name: str, config: Path) -> None:
    done = run_command(*name.split(), *ONCE[name], f"--kubeconfig={config}")

    assert done.stderr.splitlines()[0] == NOTICE
    assert done.returncode == 1


@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("level", ["info", "warning"])
def test_a_component_says_so_in_the_first_line_of_its_log(name: str, level: str, config: Path) -> None:
    process = DoorProcess(config, name, *RUNNING[name], f"--log-level={level}")
    try:
        process.wait_for("changes_cluster")
        first = process.log()[0]
    finally:
        process.close()

    assert (first["event"], first["context"], first["server"]) == (
        "changes_cluster",
        "a",
        "http://127.0.0.1:1",
    )


@pytest.mark.parametrize("name", ["tenant create", "tenant delete"])
def test_a_dry_run_changes_nothing_and_says_nothing(name: str, config: Path) -> None:
    done = run_command(*name.split(), *ONCE[name], "--dry-run", f"--kubeconfig={config}")

    assert "About to change" not in done.stderr
