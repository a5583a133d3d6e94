"""``fairlead scenario import``: scenarios from traces, dumps of clusters, and recordings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.flags import options
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.simulation.imports.draft import Draft

_SCENARIO = "scenario.yaml"

_folder_options = options(
    click.option(
        "-o",
        "--output",
        "folder",
        required=True,
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Folder for scenario.yaml and the files beside it.",
    ),
    click.option("--force", is_flag=True, help="Replace files that are there already."),
)


@click.group(
    "import",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: fairlead scenario import dump examples/whatif/cluster.yaml -o theirs",
)
def import_group() -> None:
    """Make a scenario from a trace, a dump of a cluster, or a recording.

    What was chosen, and what could not be carried over, is printed, and stands as comments in the scenario.
    """


@import_group.command(
    "openb",
    epilog="""Examples:

    \b
    fairlead scenario import openb -o gpus \\
      --nodes examples/simulate/traces/nodes.csv --pods examples/simulate/traces/pods.csv
    fairlead scenario import openb -o full --until-full --fill 1.3 \\
      --nodes examples/simulate/traces/nodes.csv --pods examples/simulate/traces/pods.csv
    """,
)
@click.option(
    "--nodes", required=True, metavar="FILE", help="CSV file of nodes: sn, cpu_milli, memory_mib, gpu, model."
)
@click.option(
    "--pods",
    required=True,
    metavar="FILE",
    help="CSV file of pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli, and so on.",
)
@click.option(
    "--until-full",
    is_flag=True,
    help="Pods come a second apart and never leave, to compare how full nodes get.",
)
@click.option(
    "--shuffle",
    type=int,
    default=None,
    metavar="SEED",
    help="With --until-full: in another order, drawn from this seed.",
)
@click.option(
    "--fill",
    type=click.FloatRange(0, 100),
    default=0.0,
    metavar="SHARE",
    help="With --until-full: go on with pods drawn from the trace until they ask for this share of all GPUs.",
)
@click.option(
    "--priorities/--no-priorities",
    default=True,
    help="Give pods a priority by their quality of service (default), or none.",
)
@_folder_options
def openb(
    *,
    nodes: str,
    pods: str,
    until_full: bool,
    shuffle: int | None,
    fill: float,
    priorities: bool,
    folder: Path,
    force: bool,
) -> None:
    """Import the nodes and pods of a GPU cluster's trace (the CSV files of cluster-trace-gpu-v2023).

    Nodes that are alike become one node group. A node offers its GPUs as one pool of thousandths: devices
    within a node are not told apart.
    """
    from fairlead.simulation.imports.openb import Pods, import_openb
    from fairlead.simulation.scenario.reader import text_of

    if not until_full and (shuffle is not None or fill):
        raise BadInput("--shuffle and --fill go with --until-full")
    how = Pods(until_full, shuffle, fill, priorities)
    draft = import_openb(text_of(Path(nodes)), text_of(Path(pods)), how, nodes_file=nodes, pods_file=pods)
    _write(draft, folder / _SCENARIO, "openb", force=force)


@import_group.command(
    "spot-trace",
    epilog="""Example:

    \b
    fairlead scenario import spot-trace --group gpu -o gpu.yaml \\
      examples/simulate/traces/zone-a.json examples/simulate/traces/zone-b.json
    """,
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--group",
    required=True,
    metavar="NAME",
    help="What the names of node groups begin with; the zone follows.",
)
@click.option(
    "--scale",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    metavar="N",
    help="How many nodes each node of a trace stands for.",
)
@click.option(
    "-o",
    "--output",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The scenario's file.",
)
@click.option("--force", is_flag=True, help="Replace the file if it is there already.")
def spot_trace(*, files: tuple[str, ...], group: str, scale: int, file: Path, force: bool) -> None:
    """Import recorded spot markets, one zone a file, with a sample workload and policy to edit.

    A file is JSON: `{"metadata": {"gap_seconds": N}, "data": [nodes available at each probe, ...]}`. The
    scenario names the files where they are.
    """
    from fairlead.simulation.imports.spot_trace import import_spot_traces
    from fairlead.world.spot import read_trace

    traces = {_seen_from(file.parent, one): read_trace(Path(one)) for one in files}
    _write(import_spot_traces(traces, group, scale=scale), file, "spot-trace", force=force)


@import_group.command(
    "dump",
    epilog="""Example:

    \b
    kubectl get nodes,pods,deploy,rs,sts,jobs,pdb -A -o json | fairlead scenario import dump - -o mine
    fairlead scenario import dump examples/whatif/cluster.yaml -o yours
    """,
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--duration", default="1d", show_default=True, metavar="TIME", help="How long the scenario lasts."
)
@_folder_options
def dump(*, files: tuple[str, ...], duration: str, folder: Path, force: bool) -> None:
    """Import a cluster as `kubectl get ... -o yaml` (or json) printed it; - is standard input."""
    from fairlead.cli.state import read_objects
    from fairlead.simulation.imports.draft import name_from
    from fairlead.simulation.imports.dump import import_dump
    from fairlead.simulation.scenario.model import span

    try:
        lasts_s = span(duration)
    except ValueError as error:
        raise BadInput(f"--duration: {error}") from error
    draft = import_dump(
        read_objects(files), name=name_from(folder.resolve().name, "cluster"), lasts_s=lasts_s
    )
    _write(draft, folder / _SCENARIO, "dump", force=force)


@import_group.command(
    "recording", epilog="Example: fairlead scenario import recording recording.jsonl -o monday"
)
@click.argument("file", metavar="FILE")
@click.option("--segment", is_flag=True, help="Only FILE itself, not the older segments beside it.")
@_folder_options
def recording(*, file: str, segment: bool, folder: Path, force: bool) -> None:
    """Import a recording of the scheduler (`fairlead scheduler --record FILE`).

    Its nodes become node groups, Deployments and StatefulSets workloads, and other pods a trace, with their
    times, requests, priorities and gangs.
    """
    from fairlead.doors.scheduler.recording import lines_of, segments_of
    from fairlead.simulation.imports.draft import name_from
    from fairlead.simulation.imports.recording import import_recording

    path = Path(file)
    segments = [path] if segment and path.exists() else segments_of(path)
    name = name_from(folder.resolve().name, "recording")
    _write(import_recording(map(lines_of, segments), name=name), folder / _SCENARIO, "recording", force=force)


def _write(draft: Draft, file: Path, what: str, *, force: bool) -> None:
    """Write a scenario and the files beside it, check it, and say what was made."""
    from fairlead.cli.output import show_lines
    from fairlead.simulation.scenario.material import load

    texts = {file.parent / name: text for name, text in draft.files.items()}
    texts[file] = draft.text(f"`fairlead scenario import {what}`")
    there = sorted(str(path) for path in texts if path.exists())
    if there and not force:
        raise BadInput(f"{', '.join(there)}: is there already; --force replaces it")
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError as error:
            raise BadInput(f"{path}: cannot be written: {error.strerror or error}") from error
    load(file)
    show_lines(f"{file}: {draft.description}", *(f"note: {note}" for note in draft.notes))


def _seen_from(folder: Path, file: str) -> str:
    """A file's path as one in a folder names it."""
    return Path(os.path.relpath(file, folder)).as_posix()
