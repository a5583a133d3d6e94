"""``fairlead plan``: what would be bound, evicted and held, for a cluster given as files."""

from __future__ import annotations

from typing import Any

import click

from fairlead.cli.flags import decision_options, field_option, state_options, take_fields
from fairlead.cli.output import show_json, show_lines, show_table, show_warnings
from fairlead.cli.state import read_objects
from fairlead.engine.ask.cluster import Cluster
from fairlead.engine.ask.plan import Plan


@click.command(
    "plan",
    epilog="""Example:

    \b
    kubectl get nodes,pods,pdb,deploy,rs,sts,jobs,pvc,pv,sc,ns -A -o yaml | fairlead plan -f -

    The same, as a scheduler with this configuration decides:

    \b
    fairlead plan -f examples/state/shop.yaml --config fairlead.yaml

    Exits with 0 whatever the plan says, with 2 when the input cannot be used.
    """,
)
@field_option(
    "--scheduler-name",
    field="schedulerNames",
    multiple=True,
    metavar="NAME",
    help="Plan pods with this schedulerName (default: fairlead). Repeatable.",
)
@state_options
@decision_options
def command(*, files: tuple[str, ...], output: str, config_file: str | None, **flags: Any) -> None:
    """Say what would be bound, evicted and held, in the order it would be done.

    Pods of other schedulers are counted, never touched. With the scheduler's configuration file (--config)
    the plan is the scheduler's own.
    """
    from fairlead.doors.scheduler.configuration import read_configuration

    settings = read_configuration(config_file, take_fields(flags)).settings()
    cluster = Cluster.from_objects(read_objects(files), settings=settings)
    show_warnings(cluster.warnings())
    found = cluster.plan()
    if output == "json":
        show_json(found.to_dict())
    else:
        _show(found)


def _show(found: Plan) -> None:
    lines = [
        *((("evict", "red"), eviction.pod, f"for {eviction.unit}") for eviction in found.evictions),
        *((("bind", "green"), bind.pod, bind.node) for bind in found.binds),
        *((("hold", "yellow"), hold.pod, hold.reason) for hold in found.holds),
    ]
    show_table(
        ("ACTION", "POD", "GANG", "WHERE / WHY"),
        ((action, pod, found.units.get(pod, ""), why) for action, pod, why in lines),
    )
    show_lines(f"{len(found.binds)} to bind, {len(found.evictions)} to evict, {len(found.holds)} held")
