"""Every command in a document works as it stands there.

Documents show commands in ``console`` blocks, behind ``$``. What `make` and `setup.sh` would do is only
asked for (their dry runs): the one's real run is what runs these tests, the other's needs minikube or kind.
Everything else is run for real, block by block, in a folder that has the repository's `examples`. A block
under the comment ``<!-- on: embedded -->`` is run with `kubectl` on an embedded cluster of its own, four
nodes large, where Fairlead schedules with its shipped configuration; under ``spot`` and ``burst`` on one with
the nodes and doors that the document has installed, under ``tenants`` on one that grows the example's node
groups from zero; under ``aws`` with a served AWS account in which the tags of these groups are not as they
should be.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from fairlead.nodegroups.file import read_file
from fairlead.rig.nodes import is_ready, node_object
from fairlead.world.autoscaler import Pacing
from support.balancer import Balancer
from support.cluster import Cluster, EmbeddedHost
from support.command import needs_no_shell, run_command
from support.door import DoorProcess
from support.rig import programs
from support.scheduler import SchedulerProcess

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    if "```console" in path.read_text()
)
BLOCK = re.compile(r"^(?:<!-- on: (\w+) -->\n)?```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
NODES = 4


@dataclass(frozen=True, slots=True)
class Block:
    """The commands of a console block, without their comments, and where they are to run."""

    commands: list[str]
    on: str


def blocks(document: Path) -> list[Block]:
    found = []
    for on, text in BLOCK.findall(document.read_text()):
        commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        found.append(Block([re.sub(r"\s+# .*$", "", command) for command in commands], on))
    return found


@pytest.mark.parametrize(
    ("document", "number"),
    [
        pytest.param(document, number, marks=[pytest.mark.slow] if block.on else [])
        for document in DOCUMENTS
        for number, block in enumerate(blocks(document))
    ],
    ids=lambda value: value.name if isinstance(value, Path) else str(value),
)
def test_the_commands_of_a_block_work(document: Path, number: int, tmp_path: Path) -> None:
    block = blocks(document)[number]
    assert block.on in CLUSTERS, f"{document.name}: no block can be run on {block.on}"
    folder = tmp_path / "here"
    folder.mkdir()
    for name in ("charts", "examples", "deploy", "setup.sh"):
        (folder / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with CLUSTERS[block.on](tmp_path) as env:
        for command in block.commands:
            done = run(rehearsed(command, tmp_path), folder, {**os.environ, "PATH": path, **env})
            assert done.returncode == 0, f"{document.name}: {command}\n{done.stdout}\n{done.stderr}"


def run(command: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    if shlex.split(command)[:2] == ["fairlead", "dashboard"]:
        return until_it_works(command, folder, env)
    if needs_no_shell(command):
        return run_command(*shlex.split(command)[1:], cwd=folder, env=env, timeout=300)
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def until_it_works(command: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What runs until it is told to end: once it has said where it is, it is told."""
    words = shlex.split(command)
    with subprocess.Popen(words, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.terminate()
        process.communicate(timeout=60)
    return subprocess.CompletedProcess(words, process.returncode if said else 1, said, "")


def rehearsed(command: str, tmp_path: Path) -> str:
    """The command, as a dry run where it must be one."""
    words = shlex.split(command)
    if words[0] == "openssl" and shutil.which("openssl") is None:
        pytest.skip("there is no openssl here")
    if words[0] == "make":
        return shlex.join(["make", "--dry-run", "-C", str(ROOT), *words[1:]])
    if words[0] == "./setup.sh" and not {"--help", "--render"} & set(words):
        # Stubs that only exist: a dry run looks whether its tools are there, and runs none of them.
        stubs = tmp_path / "stubs"
        stubs.mkdir(exist_ok=True)
        for tool in ("kubectl", "docker", "minikube", "kind"):
            (stubs / tool).write_text("#!/bin/sh\n")
            (stubs / tool).chmod(0o755)
        return f"PATH={shlex.quote(str(stubs))}:$PATH {shlex.join([words[0], '--dry-run', *words[1:]])}"
    return command


@contextmanager
def nowhere(_: Path) -> Iterator[dict[str, str]]:
    yield {}


@contextmanager
def embedded(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A cluster with a scheduler and its configuration as shipped; yields where `kubectl` finds it."""
    shipped = [
        yaml.safe_load((ROOT / "deploy" / f"{name}.yaml").read_text())
        for name in ("namespace", "configuration")
    ]
    config = tmp_path / "fairlead.yaml"
    config.write_text(shipped[1]["data"]["fairlead.yaml"])
    with cluster_of(tmp_path, *(node_object(f"node-{index}") for index in range(NODES))) as cluster:
        for one in shipped:
            cluster.create(one)
        scheduler = SchedulerProcess(cluster.kubeconfig, "--leader-elect=false", f"--config={config}")
        try:
            scheduler.wait_for("synced")
            yield environment(cluster, tmp_path)
        finally:
            scheduler.close()


@contextmanager
def spot(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The nodes of the example, with webhook and rebalancer as `setup.sh` installs them."""
    with cluster_of(tmp_path, *kind_nodes("spot")) as cluster, Balancer() as balancer:
        door = DoorProcess(
            cluster.kubeconfig,
            "serve",
            "--doors=webhook,rebalance",
            "--listen=127.0.0.1:0",
            f"--url={balancer.url}",
            "--register",
        )
        try:
            (said,) = door.wait_for("listening")
            balancer.ports.append(int(said["url"].rpartition(":")[2]))
            door.wait_for("registered")
            yield environment(cluster, tmp_path)
        finally:
            door.close()


@contextmanager
def burst(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The nodes of the example, the virtual one too, with `fairlead burst` as `deploy/burst` runs it."""
    (deployed,) = (
        one
        for one in yaml.safe_load_all((ROOT / "deploy" / "burst" / "burst.yaml").read_text())
        if one["kind"] == "Deployment"
    )
    (container,) = deployed["spec"]["template"]["spec"]["containers"]
    flags = [flag for flag in container["args"][1:] if not flag.startswith("--listen")]
    virtual = yaml.safe_load((ROOT / "examples" / "burst" / "virtual-node.yaml").read_text())
    with cluster_of(tmp_path, *kind_nodes("burst"), virtual) as cluster:
        door = DoorProcess(cluster.kubeconfig, "burst", *flags)
        try:
            door.wait_for("synced")
            yield environment(cluster, tmp_path)
        finally:
            door.close()


@contextmanager
def tenants(tmp_path: Path) -> Iterator[dict[str, str]]:
    """No nodes, and an autoscaler that may bring those of the example's groups."""
    groups = ROOT / "examples" / "node-groups.yaml"
    ready = [replace(group, boot_s=0) for group in read_file(groups.read_text(), groups.name)]
    pacing = Pacing(scan=timedelta(seconds=0.5))
    with cluster_of(tmp_path, groups=ready, autoscaler=pacing) as cluster:
        yield environment(cluster, tmp_path)


@contextmanager
def aws(_: Path) -> Iterator[dict[str, str]]:
    """The example's groups: one's tags are only on the EKS node group, the other's effect is misspelt."""
    from support.aws import TEMPLATE, Aws, template_tags

    account = Aws()
    try:
        account.reset()
        account.group("large", tags=template_tags("large"))
        misspelt = {**template_tags("medium"), TEMPLATE + "taint/size": "medium:NO_SCHEDULE"}
        account.group("medium", instance_type="t3a.medium", asg_tags=misspelt)
        yield account.env
    finally:
        account.close()


CLUSTERS = {
    "": nowhere,
    "aws": aws,
    "embedded": embedded,
    "spot": spot,
    "burst": burst,
    "tenants": tenants,
}


def kind_nodes(example: str) -> list[dict[str, Any]]:
    """The worker nodes of an example's kind configuration."""
    config = yaml.safe_load((ROOT / "examples" / example / "kind.yaml").read_text())
    workers = [node for node in config["nodes"] if node["role"] == "worker"]
    return [node_object(f"worker-{n}", labels=node.get("labels")) for n, node in enumerate(workers)]


@contextmanager
def cluster_of(tmp_path: Path, *nodes: dict[str, Any], **shape: Any) -> Iterator[Cluster]:
    """An embedded cluster with these nodes, Ready."""
    host = EmbeddedHost(**shape)
    try:
        cluster = Cluster(host)
        for node in nodes:
            cluster.create(node)
        cluster.wait(
            lambda: all(is_ready(node, untainted=True) for node in cluster.list("Node")["items"]),
            "the nodes to be Ready",
        )
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        host.stop()


def environment(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """In which `kubectl` and `fairlead` find the cluster."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for program in programs("kubectl", "helm"):
        (tools / program.name).symlink_to(program)
    python = Path(sys.executable).parent
    return {
        "KUBECONFIG": str(cluster.kubeconfig),
        "KUBECACHEDIR": str(tmp_path / "cache"),
        "PATH": f"{tools}{os.pathsep}{python}{os.pathsep}{os.environ['PATH']}",
    }


def test_the_readme_names_the_two_commands() -> None:
    commands = [command for block in blocks(ROOT / "README.md") for command in block.commands]
    assert "make demo" in commands
    assert "make test" in commands


@pytest.mark.parametrize(
    "target", ["demo", "test", "verify", "check", "coverage", "bench", "e2e", "controlplane"]
)
def test_make_help_lists_the_target(target: str) -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(rf"^  {target} +\S", done.stdout, re.MULTILINE)
