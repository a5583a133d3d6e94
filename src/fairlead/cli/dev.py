"""``fairlead dev``: a real control plane on this machine that keeps running between commands.

There is one per user; its state is a folder, its life is a process that holds a lock there.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click
import yaml

from fairlead.cli import user_kubeconfig
from fairlead.cli.dev_nodes import equal_nodes, nodes_of
from fairlead.errors import BadInput
from fairlead.kube.quantity import QuantityError, nano
from fairlead.rig import build, daemon

_NODES = 5
_MAX_NODES = 10_000


@click.group("dev", epilog="Example: fairlead dev up --nodes 5")
def command() -> None:
    """Run a real control plane on this machine, with simulated nodes.

    etcd, kube-apiserver and kube-controller-manager are Kubernetes' own; KWOK plays the kubelets. The
    first start builds them from source, which takes several minutes; later ones take seconds.
    """


@command.command(
    epilog="""\b
Examples:
  fairlead dev up --nodes 10 --cpu 8
  fairlead dev up --nodes-file examples/dev/nodes.yaml --with extender
  fairlead dev up --with webhook,karpenter --nodes-file examples/node-groups.yaml
  kubectl get nodes -o yaml | fairlead dev up --nodes-file -

The context fairlead is added to your kubeconfig (the first file of $KUBECONFIG, else ~/.kube/config), and
`fairlead dev down` removes it again. The current context stays what it is, unless --use-context is given.
"""
)
@click.option(
    "--nodes",
    type=click.IntRange(0, _MAX_NODES),
    help=f"Number of nodes.  [default: {_NODES}]",
)
@click.option(
    "--nodes-file",
    default="",
    metavar="FILE",
    help="Start with the nodes of this file instead: Nodes, YAML or JSON, or a file of node groups, each of "
    "which brings as many as it desires, at least one; - is standard input.",
)
@click.option("--cpu", default="4", show_default=True, metavar="QUANTITY", help="CPU of each node.")
@click.option("--memory", default="16Gi", show_default=True, metavar="QUANTITY", help="Memory of each node.")
@click.option(
    "--with",
    "extras",
    default="scheduler",
    show_default=True,
    metavar="LIST",
    help=f"What runs besides, comma-separated: {', '.join(daemon.OPTIONAL)}; '' for nothing. scheduler is "
    "kube-scheduler, and runs with any other. extender: kube-scheduler calls Fairlead's extender. webhook: "
    "the API server calls Fairlead's webhook. karpenter: Karpenter adds simulated nodes.",
)
@click.option(
    "--kubernetes",
    type=click.Choice(list(build.RELEASES)),
    default=build.DEFAULT,
    envvar="FAIRLEAD_KUBERNETES",
    show_default=True,
    help="Minor version of Kubernetes.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the kubeconfig here too.",
)
@click.option(
    "--add-context/--no-add-context",
    default=True,
    show_default=True,
    help="Whether to add the context fairlead to your kubeconfig.",
)
@click.option("--use-context", is_flag=True, help="Make it the current context.")
def up(
    *,
    nodes: int | None,
    nodes_file: str,
    cpu: str,
    memory: str,
    extras: str,
    kubernetes: str,
    kubeconfig: Path | None,
    add_context: bool,
    use_context: bool,
) -> None:
    """Start the control plane and wait until its nodes are Ready."""
    wanted = _extras(extras)
    for flag, quantity in (("--cpu", cpu), ("--memory", memory)):
        _check_quantity(flag, quantity)
    if nodes is not None and nodes_file:
        raise BadInput("--nodes and --nodes-file: one or the other")
    if use_context and not add_context:
        raise BadInput("--use-context needs the context: leave out --no-add-context")
    if kubeconfig is not None:
        _check_replaceable(kubeconfig)
    users = _users_kubeconfig(kubeconfig) if add_context else None
    if users is not None:
        user_kubeconfig.check_addable(users)
    if nodes_file:
        given, described = nodes_of(nodes_file, cpu=cpu, memory=memory), f"from {nodes_file}"
    else:
        number = _NODES if nodes is None else nodes
        given, described = equal_nodes(number, cpu=cpu, memory=memory), f"of {cpu} CPU and {memory}"
    held = daemon.find(_folder())
    if held is None:
        began = time.monotonic()
        held = daemon.start(
            _folder(),
            nodes=given,
            described=described,
            extras=wanted,
            kubernetes=kubernetes,
            say=lambda line: _say(f"  {line}"),
        )
        _say(f"  ready after {time.monotonic() - began:.1f} s")
    elif (held.asked, held.kubernetes) != (daemon.asked_for(given, wanted), kubernetes):
        _say("It was running already, and was left as it is; `fairlead dev down` first to change it.")
    if kubeconfig is not None:
        kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(yaml.safe_dump(user_kubeconfig.marked(Path(held.kubeconfig)), sort_keys=False))
    click.echo(f"A real control plane runs at {held.url} with {held.nodes} nodes.")
    if users is not None:
        _add_context(users, held, use=use_context)
        current = ", now the current one" if use_context else ""
        click.echo(f'Context "{user_kubeconfig.NAME}" is in {users}{current}.')
    click.echo("\nTry next:")
    _show_steps(list(_next_steps(held, kubeconfig or Path(held.kubeconfig))))


@command.command(epilog="Example: fairlead dev down")
def down() -> None:
    """End the control plane, forget everything in it, and remove its context from your kubeconfig."""
    ended = daemon.release(_folder())
    click.echo("The control plane has ended." if ended else "No control plane was running.")
    for file, before in _contexts().items():
        if user_kubeconfig.remove_context(Path(file), back_to=before):
            _say(f'Context "{user_kubeconfig.NAME}" was removed from {file}.')
    _contexts_file().unlink(missing_ok=True)


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
            "kubernetes": held.kubernetes,
            "kubeconfig": held.kubeconfig,
            "nodes": f"{held.nodes} {held.described}",
            "running for": f"{time.time() - held.since:.0f} s",
        }
        rows |= {name: f"process {pid}{_gone(pid)}" for name, pid in held.programs.items()}
        width = max(map(len, rows))
        for name, value in rows.items():
            click.echo(f"{name:{width}}  {value}")


def _folder() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "fairlead" / "dev"


def _next_steps(held: daemon.RunningPlane, config: Path) -> Iterator[tuple[str, str]]:
    """Commands, each with what it is for, in an order in which each shows something."""
    kubectl = _kubectl(held)
    yield f"export KUBECONFIG={config}", ""
    yield f"{kubectl} get nodes", ""
    yield "fairlead examples", "copies the examples to ./examples"
    if {"extender", "webhook"} & set(held.extras):
        yield f"{kubectl} apply -f examples/spot/policy.yaml -f examples/spot/workloads.yaml", ""
        yield f"{kubectl} get placementpolicies", "pods per tier, as wanted and as they are"
    if "karpenter" in held.extras:
        pools = "fairlead nodegroups karpenter -f examples/node-groups.yaml --provider kwok"
        yield f"{pools} | {kubectl} apply -f -", ""
    yield f"{kubectl} apply -f examples/priorities.yaml", "pods for Fairlead's scheduler"
    yield "fairlead status", "what waits, and why"
    yield "fairlead explain -n fairlead-priorities deploy/low", "what one waits for, and what would help"
    yield "fairlead scheduler", "in a terminal of its own: it places them"
    yield "fairlead dashboard", "the same in a browser"
    yield "fairlead dev down", ""


def _show_steps(steps: Sequence[tuple[str, str]]) -> None:
    width = max(len(command) for command, why in steps if why)
    for command, why in steps:
        click.echo(f"  {command:{width}}  # {why}" if why else f"  {command}")


def _users_kubeconfig(copy: Path | None) -> Path | None:
    """The file that gets the context; None where it is one of our own, which has it."""
    file = user_kubeconfig.file_to_change(os.environ, Path.home())
    real = Path(os.path.realpath(file))
    if _folder().resolve() in real.parents or (copy is not None and real == Path(os.path.realpath(copy))):
        return None
    return file


def _add_context(file: Path, held: daemon.RunningPlane, *, use: bool) -> None:
    before = user_kubeconfig.add_context(file, Path(held.kubeconfig), use=use)
    known = _contexts()
    known[str(file.absolute())] = known.get(str(file.absolute())) if before is None else before
    _contexts_file().write_text(json.dumps(known))


def _contexts() -> dict[str, str | None]:
    """The files that have the context, each with the one that was current before ours was made so."""
    try:
        found: dict[str, str | None] = json.loads(_contexts_file().read_text())
    except FileNotFoundError:
        return {}
    return found


def _contexts_file() -> Path:
    return _folder() / "contexts.json"


def _extras(given: str) -> tuple[str, ...]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in daemon.OPTIONAL:
            raise BadInput(f"--with {name}: there is only {', '.join(daemon.OPTIONAL)}")
    # Whatever else runs, pods of no particular scheduler are to be placed.
    return tuple(name for name in daemon.OPTIONAL if name in names or (names and name == "scheduler"))


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
