"""``fairlead dev``: a real control plane on this machine that keeps running between commands.

There is one per user; its state is a folder, its life is a process that holds a lock there.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path

import click
import yaml

from fairlead.errors import BadInput
from fairlead.kube.quantity import QuantityError, nano
from fairlead.rig import daemon

_MAX_NODES = 10_000


@click.group("dev", epilog="Example: fairlead dev up --nodes 5")
def command() -> None:
    """A real control plane on this machine, with simulated nodes.

    etcd, kube-apiserver and kube-controller-manager are Kubernetes' own; KWOK plays the kubelets. The
    first start builds them from source, which takes several minutes; later ones take seconds.
    """


@command.command(epilog="Example: fairlead dev up --nodes 10 --cpu 8 --with scheduler,karpenter")
@click.option(
    "--nodes", default=5, show_default=True, type=click.IntRange(0, _MAX_NODES), help="Number of nodes."
)
@click.option("--cpu", default="4", show_default=True, metavar="QUANTITY", help="CPU of each node.")
@click.option("--memory", default="16Gi", show_default=True, metavar="QUANTITY", help="Memory of each node.")
@click.option(
    "--with",
    "extras",
    default="scheduler",
    show_default=True,
    metavar="LIST",
    help=f"What runs besides, comma-separated: {', '.join(daemon.OPTIONAL)}; '' for nothing.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the kubeconfig here too.",
)
def up(nodes: int, cpu: str, memory: str, extras: str, kubeconfig: Path | None) -> None:
    """Start the control plane and wait until its nodes are Ready."""
    wanted = _extras(extras)
    for flag, quantity in (("--cpu", cpu), ("--memory", memory)):
        _check_quantity(flag, quantity)
    if kubeconfig is not None:
        _check_replaceable(kubeconfig)
    held = daemon.find(_folder())
    if held is None:
        began = time.monotonic()
        held = daemon.start(
            _folder(), nodes=nodes, cpu=cpu, memory=memory, extras=wanted, say=lambda line: _say(f"  {line}")
        )
        _say(f"  ready after {time.monotonic() - began:.1f} s")
    elif (held.nodes, held.cpu, held.memory, held.extras) != (nodes, cpu, memory, wanted):
        _say("It was running already, and was left as it is; `fairlead dev down` first to change it.")
    if kubeconfig is not None:
        kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(Path(held.kubeconfig).read_text())
    config = kubeconfig or Path(held.kubeconfig)
    click.echo(f"A real control plane runs at {held.url} with {held.nodes} nodes.")
    click.echo("\nTry next:")
    for line in (
        f"export KUBECONFIG={config}",
        f"{_kubectl(held)} get nodes",
        f"{_kubectl(held)} create deployment web --image=web --replicas=3",
        f"{_kubectl(held)} get pods -o wide",
        "fairlead dev down",
    ):
        click.echo(f"  {line}")


@command.command(epilog="Example: fairlead dev down")
def down() -> None:
    """End the control plane and forget everything in it."""
    ended = daemon.release(_folder())
    click.echo("The control plane has ended." if ended else "No control plane was running.")


@command.command(epilog="Example: export KUBECONFIG=$(fairlead dev status -o kubeconfig)")
@click.option(
    "-o",
    "output",
    type=click.Choice(["table", "json", "yaml", "kubeconfig"]),
    default="table",
    show_default=True,
    help="kubeconfig prints only the file's path.",
)
def status(output: str) -> None:
    """Say whether the control plane runs, and where. Exits with 1 when it does not."""
    held = daemon.find(_folder())
    if held is None:
        if output in ("json", "yaml"):
            click.echo(json.dumps({"running": False}) if output == "json" else "running: false")
        else:
            click.echo("No control plane is running; `fairlead dev up` starts one.", err=True)
        raise SystemExit(1)
    if output == "kubeconfig":
        click.echo(held.kubeconfig)
    elif output in ("json", "yaml"):
        data = {"running": True} | asdict(held) | {"extras": list(held.extras)}
        click.echo(json.dumps(data, indent=2) if output == "json" else yaml.safe_dump(data, sort_keys=False))
    else:
        rows = {
            "url": held.url,
            "kubeconfig": held.kubeconfig,
            "nodes": f"{held.nodes} of {held.cpu} CPU and {held.memory}",
            "running for": f"{time.time() - held.since:.0f} s",
        }
        rows |= {name: f"process {pid}{_gone(pid)}" for name, pid in held.programs.items()}
        width = max(map(len, rows))
        for name, value in rows.items():
            click.echo(f"{name:{width}}  {value}")


def _folder() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "fairlead" / "dev"


def _extras(given: str) -> tuple[str, ...]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in daemon.OPTIONAL:
            raise BadInput(f"--with {name}: there is only {', '.join(daemon.OPTIONAL)}")
    return tuple(name for name in daemon.OPTIONAL if name in names)


def _check_quantity(flag: str, quantity: str) -> None:
    try:
        if nano(quantity) > 0:
            return
    except QuantityError as error:
        raise BadInput(f"{flag}: {error}") from error
    raise BadInput(f"{flag} {quantity}: it must be more than zero")


def _check_replaceable(path: Path) -> None:
    """A kubeconfig that `dev` did not write may be a user's only way to their cluster."""
    if not path.exists():
        return
    try:
        contexts = [context["name"] for context in yaml.safe_load(path.read_text())["contexts"]]
    except (OSError, yaml.YAMLError, TypeError, KeyError):
        contexts = []
    if contexts != ["fairlead"]:
        raise BadInput(f"--kubeconfig {path}: it exists and is not from `fairlead dev`; name another file")


def _kubectl(held: daemon.RunningPlane) -> str:
    return "kubectl" if shutil.which("kubectl") else held.kubectl


def _gone(pid: int) -> str:
    return "" if Path(f"/proc/{pid}").exists() else " (it has ended)"


def _say(line: str) -> None:
    click.echo(line, err=True)
