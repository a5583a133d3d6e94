"""``fairlead plan``: what would be bound, evicted and held, for a cluster given as files."""

from __future__ import annotations

import sys

import click

from fairlead.cli.state import read_objects
from fairlead.engine.cluster import Cluster
from fairlead.engine.plan import Plan

__all__ = ["command"]


@click.command(
    "plan",
    epilog="""Example:

    \b
    kubectl get nodes,pods,pdb,deploy,rs,sts,jobs,pvc,pv,sc,ns -A -o yaml | fairlead plan -f -

    Exits with 0 whatever the plan says, with 2 when the input cannot be used.
    """,
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="State of the cluster, YAML or JSON; - is standard input. Repeatable.",
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Form."
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    default=("fairlead",),
    show_default=True,
    metavar="NAME",
    help="Plan pods that ask for this scheduler. Repeatable.",
)
@click.option(
    "--pdb",
    type=click.Choice(["respect", "best-effort"]),
    default="respect",
    show_default=True,
    help="Whether evictions must stay within PodDisruptionBudgets.",
)
@click.option(
    "--capacity",
    type=click.Choice(["resources", "exclusive"]),
    default="resources",
    show_default=True,
    help="exclusive: one Fairlead pod per node.",
)
def command(
    files: tuple[str, ...], output: str, scheduler_names: tuple[str, ...], pdb: str, capacity: str
) -> None:
    """Say what would be bound, evicted and held, in the order it would be done.

    Pods of other schedulers are counted, never touched.
    """
    cluster = Cluster.from_objects(read_objects(files), pdb=pdb, capacity=capacity)
    found = cluster.plan(scheduler_names=scheduler_names)
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(found.to_dict()), indent=2).decode())
    else:
        _show(found)


def _show(found: Plan) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    # Elsewhere than on a terminal nothing is wrapped or cut.
    console = Console(highlight=False, soft_wrap=not terminal, width=None if terminal else 10_000)
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for heading in ("ACTION", "POD", "GANG", "WHERE / WHY"):
        table.add_column(heading, no_wrap=not terminal)
    for eviction in found.evictions:
        table.add_row(
            Text("evict", style="red"),
            Text(eviction.pod),
            Text(found.units.get(eviction.pod, "")),
            Text(f"for {eviction.unit}"),
        )
    for bind in found.binds:
        table.add_row(
            Text("bind", style="green"),
            Text(bind.pod),
            Text(found.units.get(bind.pod, "")),
            Text(bind.node),
        )
    for hold in found.holds:
        table.add_row(
            Text("hold", style="yellow"),
            Text(hold.pod),
            Text(found.units.get(hold.pod, "")),
            Text(hold.reason),
        )
    if table.row_count:
        console.print(table)
    summary = f"{len(found.binds)} to bind, {len(found.evictions)} to evict, {len(found.holds)} held"
    console.print(summary)
