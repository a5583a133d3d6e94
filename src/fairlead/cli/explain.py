"""``fairlead explain``: why a pod fits, or not, on each node of a cluster given as files."""

from __future__ import annotations

from typing import Any

import click

from fairlead.cli.flags import decision_options, state_options, take_fields
from fairlead.cli.output import show_json, show_lines, show_table, show_warnings
from fairlead.cli.state import read_objects
from fairlead.engine.ask.cluster import Cluster
from fairlead.engine.ask.explain import Explanation


@click.command(
    "explain",
    epilog="""Example:

    \b
    kubectl get nodes,pods,pvc,pv,sc,csinodes,ns,pdb -A -o yaml | fairlead explain shop/web-1 -f -

    The same, as a scheduler with this configuration decides:

    \b
    fairlead explain shop/checkout -f examples/state/shop.yaml --config fairlead.yaml

    Exits with 0 whether or not the pod fits somewhere, with 2 when the input cannot be used.
    """,
)
@click.argument("pod")
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of POD, if POD is only a name."
)
@state_options
@decision_options
def command(
    pod: str, *, files: tuple[str, ...], namespace: str, output: str, config_file: str | None, **flags: Any
) -> None:
    """Say why POD (NAMESPACE/NAME) fits, or not, on each node, and what would help.

    The words are kube-scheduler's. A pod that already has a node is explained as if it were to be
    placed now. With the scheduler's configuration file (--config) the answer is the scheduler's own.
    """
    from fairlead.doors.scheduler.configuration import read_configuration

    settings = read_configuration(config_file, take_fields(flags)).settings()
    cluster = Cluster.from_objects(read_objects(files), settings=settings)
    show_warnings(cluster.warnings())
    found = cluster.explain(pod if "/" in pod else f"{namespace}/{pod}")
    if output == "json":
        show_json(found.to_dict())
    else:
        _show(found)


def _show(found: Explanation) -> None:
    nodes = sorted((*found.feasible, *found.reasons))
    if found.message is None:
        show_lines(f"{found.pod} fits on {len(found.feasible)} of {len(nodes)} nodes.")
    else:
        show_lines(f"{found.pod}: {found.message}")
    show_table(
        ("NODE", "FITS", "RULE", "REASON"),
        (
            (
                node,
                ("no", "red") if node in found.reasons else ("yes", "green"),
                found.rules.get(node, ""),
                "; ".join(found.reasons.get(node, [])),
            )
            for node in nodes
        ),
    )
    show_lines(*(f"would help: {suggestion}" for suggestion in found.suggestions))
