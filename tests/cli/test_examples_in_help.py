"""Every ``--help`` has an example, and every example works as it stands there.

They are run on an embedded cluster in a folder with the files that they name. What stands for an address of
one's own is this machine's, and a port that would be taken is any. Commands that run until they are told to
stop are stopped once they work.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

import click
import pytest
import yaml

from fairlead.cli import _COMMANDS
from fairlead.rig.nodes import is_ready, node_object
from fairlead.tenants.types import default_text
from support.cluster import Cluster, EmbeddedHost
from support.command import Command, needs_no_shell, start_command
from support.manifests import pod
from support.policies import plain_policy
from support.rig import programs
from support.simulated import told
from support.wire import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]

# What starts a whole control plane is run by the tests of `fairlead dev`, what installs by tests/deploy.
ELSEWHERE = ("dev", "install", "uninstall", "upgrade")
CALLED = ("webhook", "extender", "serve")  # they open a port whether or not they are told which


def commands() -> Iterator[tuple[str, click.Command]]:
    for name, (module, _) in sorted(_COMMANDS.items()):
        yield from within(name, import_module(module).command)


def within(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from within(f"{name} {sub}", found)


def examples(command: click.Command) -> list[str]:
    """The lines of an epilog that are commands; one that goes on in the next line is one."""
    text = re.sub(r"\\\n\s*", "", command.epilog or "")
    text = re.sub(r"^\s*Example: ", "", text, flags=re.MULTILINE)
    return [line.strip() for line in text.splitlines() if re.match(r"\s*(fairlead|kubectl|export) ", line)]


EVERY = dict(commands())
RUN = [
    (name, line)
    for name, command in EVERY.items()
    if name.split()[0] not in ELSEWHERE
    for line in examples(command)
]


@pytest.mark.parametrize("name", EVERY)
def test_it_has_an_example(name: str) -> None:
    assert examples(EVERY[name])


class Place:
    """Where examples run."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder = folder
        (kubectl,) = programs("kubectl")
        tools = folder / "tools"
        tools.mkdir()
        (tools / "kubectl").symlink_to(kubectl)
        (folder / ".kube").mkdir()
        (folder / ".kube" / "config").write_text(cluster.kubeconfig.read_text())
        (folder / "examples").symlink_to(ROOT / "examples")
        for name in ("policy.yaml", "policies.yaml"):
            (folder / name).write_text(yaml.safe_dump(plain_policy()))
        for name, seed in (("calm", 1), ("busy", 2)):
            (folder / f"{name}.json").write_bytes(told(name, seed=seed).encode())
        (folder / "values.yaml").write_text("replicas: 2\n")
        shipped = yaml.safe_load((ROOT / "deploy" / "configuration.yaml").read_text())
        (folder / "fairlead.yaml").write_text(shipped["data"]["fairlead.yaml"])
        tenants = [{"name": "a", "type": "standard"}, {"name": "b", "type": "premium", "namespace": "shop"}]
        document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "Tenants", "tenants": tenants}
        (folder / "tenants.yaml").write_text(yaml.safe_dump(document))
        (folder / "tenant-types.yaml").write_text(default_text())
        python = Path(sys.executable).parent
        self.env = {
            **os.environ,
            "HOME": str(folder),
            "BROWSER": "true",
            "KUBECONFIG": str(folder / ".kube" / "config"),
            "PATH": f"{tools}{os.pathsep}{python}{os.pathsep}{os.environ['PATH']}",
        }

    def run(self, line: str) -> None:
        """Run it to its end, or until it works if it has none."""
        log = self.folder / "log"
        with log.open("wb") as out:
            process = self._start(here(line), out)
        deadline = time.monotonic() + 2 * PATIENCE_S
        try:
            while process.poll() is None:
                assert time.monotonic() < deadline, f"{line}\n{log.read_text()}"
                if works(line, log.read_text()):
                    process.send_signal(signal.SIGTERM)
                    process.wait(2 * PATIENCE_S)
                time.sleep(0.05)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        # Lint ends with 1 where it warns, which is what it found in this small cluster.
        assert process.returncode in ((0, 1) if " policy lint " in f" {line} " else (0,)), log.read_text()

    def _start(self, line: str, out: BinaryIO) -> subprocess.Popen[bytes] | Command:
        if needs_no_shell(line):
            words = shlex.split(line)[1:]
            return start_command(
                *words, stdout=out.fileno(), stderr=out.fileno(), cwd=self.folder, env=self.env
            )
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", f"exec {line}" if "|" not in line else line],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )


def here(line: str) -> str:
    """The line with this machine's addresses."""
    line = line.replace("10.0.0.5", "127.0.0.1")
    line = re.sub(r"--listen \S+", "--listen 127.0.0.1:0", line)
    words = shlex.split(line)
    if (
        words[:2] in [["fairlead", door] for door in CALLED]
        and "config" not in words
        and "--listen" not in line
    ):
        line += " --listen 127.0.0.1:0"
    return line


def works(line: str, log: str) -> bool:
    """Whether a long-running command has said that it works."""
    words = shlex.split(line)
    if words[:2] == ["fairlead", "dashboard"]:
        return "dashboard: http" in log
    if words[0] != "fairlead" or words[1] not in (*CALLED, "scheduler", "burst", "rebalance"):
        return False
    if {"--once", "--dry-run", "--unregister", "config"} & set(words):
        return False  # it ends by itself
    if '"event":"listening"' not in log and "--listen" in here(line):
        return False
    said = "leading" if words[1] == "rebalance" else "synced"
    return f'"event":"{said}"' in log


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("examples")
    host = EmbeddedHost()
    cluster = Cluster(host)
    try:
        for name in ("node-0", "node-1", "virtual-node"):
            cluster.create(node_object(name))
        taint = {"key": "size", "value": "medium", "effect": "NoSchedule"}
        for name in ("medium-0", "medium-1"):
            cluster.create(node_object(name, labels={"size": "medium"}, taints=[taint]))
        cluster.wait(
            lambda: all(is_ready(node, untainted=True) for node in cluster.list("Node")["items"]),
            "the nodes to be Ready",
        )
        for name in ("shop", "fairlead-system"):
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        cluster.create(pod("web-1", namespace="shop"))
        found = Place(folder, cluster)
        found.run(f"kubectl apply -f {ROOT}/deploy/extender/extender.yaml")
        yield found
    finally:
        cluster.close()
        host.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", [line for _, line in RUN], ids=[f"{name}-{n}" for n, (name, _) in enumerate(RUN)]
)
def test_an_example_works(place: Place, line: str) -> None:
    if "annotate secret" in line:
        place.run("fairlead webhook --register")  # which makes the secret
    if line.startswith(("fairlead replay", "fairlead scenario import recording")):
        place.run("fairlead scheduler --record recording.jsonl")
    if line.startswith(("fairlead tenant show", "fairlead tenant delete")):
        place.run("fairlead tenant create -t premium --name premium-1")
        place.run("fairlead tenant create -t standard --name a --name b")
    place.run(line)
