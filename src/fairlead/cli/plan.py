"""``fairlead plan``: what would be bound, evicted and held, for a cluster given as files."""

from __future__ import annotations

import click

from fairlead.cli.showing import show_json, show_lines, show_table, state_options
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
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    default=("fairlead",),
    show_default=True,
    metavar="NAME",
    help="Plan pods that ask for this scheduler. Repeatable.",
)
@state_options
def command(
    *, files: tuple[str, ...], output: str, scheduler_names: tuple[str, ...], pdb: str, capacity: str
) -> None:
    """Say what would be bound, evicted and held, in the order it would be done.

    Pods of other schedulers are counted, never touched.
    """
    cluster = Cluster.from_objects(read_objects(files), pdb=pdb, capacity=capacity)
    found = cluster.plan(scheduler_names=scheduler_names)
    if output == "json":
        show_json(found.to_dict())
    else:
        _show(found)


def _show(found: Plan) -> None:
    from rich.text import Text

    lines = [
        *(("evict", "red", eviction.pod, f"for {eviction.unit}") for eviction in found.evictions),
        *(("bind", "green", bind.pod, bind.node) for bind in found.binds),
        *(("hold", "yellow", hold.pod, hold.reason) for hold in found.holds),
    ]
    show_table(
        ("ACTION", "POD", "GANG", "WHERE / WHY"),
        (
            (Text(action, style=colour), Text(pod), Text(found.units.get(pod, "")), Text(why))
            for action, colour, pod, why in lines
        ),
    )
    show_lines(f"{len(found.binds)} to bind, {len(found.evictions)} to evict, {len(found.holds)} held")
