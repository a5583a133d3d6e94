"""``fairlead explain``: why a pod fits, or not, on each node of a cluster given as files."""

from __future__ import annotations

import sys

import click

from fairlead.cli.state import read_objects
from fairlead.engine.cluster import Cluster
from fairlead.engine.explain import Explanation

__all__ = ["command"]


@click.command(
    "explain",
    epilog="""Example:

    \b
    kubectl get nodes,pods,pvc,pv,sc,csinodes,ns,pdb -A -o yaml | fairlead explain shop/web-1 -f -

    Exits with 0 whether or not the pod fits somewhere, with 2 when the input cannot be used.
    """,
)
@click.argument("pod")
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
    "-n", "--namespace", default="default", show_default=True, help="Where POD is, if it does not say."
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Form."
)
@click.option(
    "--capacity",
    type=click.Choice(["resources", "exclusive"]),
    default="resources",
    show_default=True,
    help="exclusive: one Fairlead pod per node.",
)
def command(pod: str, files: tuple[str, ...], namespace: str, output: str, capacity: str) -> None:
    """Say why POD (NAMESPACE/NAME) fits, or not, on each node, and what would help.

    The words are kube-scheduler's. A pod that already has a node is explained as if it were to be
    placed now.
    """
    cluster = Cluster.from_objects(read_objects(files), capacity=capacity)
    found = cluster.explain(pod if "/" in pod else f"{namespace}/{pod}")
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(found.to_dict()), indent=2).decode())
    else:
        _show(found)


def _show(found: Explanation) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    # Elsewhere than on a terminal nothing is wrapped or cut.
    console = Console(highlight=False, soft_wrap=not terminal, width=None if terminal else 10_000)
    if found.message is None:
        console.print(f"{found.pod} fits on {len(found.feasible)} of {_count(found)} nodes.")
    else:
        console.print(f"{found.pod}: {found.message}", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for heading in ("NODE", "FITS", "RULE", "REASON"):
        table.add_column(heading, no_wrap=not terminal)
    for node in sorted((*found.feasible, *found.reasons)):
        fits = node not in found.reasons
        table.add_row(
            Text(node),
            Text("yes", style="green") if fits else Text("no", style="red"),
            Text(found.rules.get(node, "")),
            Text("; ".join(found.reasons.get(node, []))),
        )
    if table.row_count:
        console.print(table)
    for suggestion in found.suggestions:
        console.print(Text(f"would help: {suggestion}"))


def _count(found: Explanation) -> int:
    return len(found.feasible) + len(found.reasons)
