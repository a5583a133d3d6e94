"""``fairlead plan``: what would be bound, evicted and held now."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.asked import Scope, Source, show
from fairlead.cli.flags import decision_options, field_option, scope_options, state_options
from fairlead.cli.output import show_lines, show_table, show_warnings

if TYPE_CHECKING:
    from fairlead.engine.ask.plan import Plan

# Longer plans are summed up, unless every line is asked for.
_LINES_SHOWN = 40
_NAMES_SHOWN = 3


@click.command(
    "plan",
    epilog="""Examples:

    \b
    fairlead plan
    fairlead plan -f examples/state/shop.yaml
    kubectl get nodes,pods,pdb,deploy,rs,sts,jobs,pvc,pv,sc,ns -A -o yaml | fairlead plan -f -

    As a scheduler with this configuration decides:

    \b
    fairlead plan -f examples/state/shop.yaml --config fairlead.yaml

    Exits with 0 whatever the plan says, with 1 when the cluster cannot be asked, with 2 when the input cannot
    be used.
    """,
)
@field_option(
    "--scheduler-name",
    field="schedulerNames",
    multiple=True,
    metavar="NAME",
    help="Plan pods with this schedulerName (default: fairlead). Repeatable.",
)
@click.option("-a", "--all", "every_line", is_flag=True, help="Show every line, however many there are.")
@scope_options
@state_options
@decision_options
def command(*, every_line: bool, **flags: Any) -> None:
    """Say what would be bound, evicted and held, in the order in which it would be done.

    Everything is planned; -n and -l only choose which pods are shown. Pods of other schedulers are counted,
    never touched. With the scheduler's configuration file (--config) the plan is the scheduler's own.
    """
    source, scope = Source.take(flags), Scope.take(flags)
    others: Counter[str] = Counter()

    def ask() -> Plan:
        cluster, _ = source.cluster()
        show_warnings(cluster.warnings())
        pods = scope.of(cluster.pods.values())
        own = cluster.settings.scheduler_names
        others.update(
            pod.spec.scheduler_name
            for pod in pods
            if not (pod.spec.node_name or pod.terminal or pod.metadata.deletion_timestamp is not None)
            and pod.spec.scheduler_name not in own
        )
        found = cluster.plan()
        return found if scope.whole else found.only({pod.metadata.key for pod in pods})

    def view(found: Plan) -> None:
        _show(found, every_line=every_line or source.output == "wide")
        if others:
            named = ", ".join(f"{name} {number}" for name, number in sorted(others.items()))
            number = others.total()
            wait = "pod waits" if number == 1 else "pods wait"
            show_lines(f"{number} {wait} for other schedulers ({named}): fairlead explain says why")

    show(source, ask, view)


def _show(found: Plan, *, every_line: bool) -> None:
    lines = [
        *((("evict", "red"), eviction.pod, f"for {eviction.unit}") for eviction in found.evictions),
        *((("bind", "green"), bind.pod, bind.node) for bind in found.binds),
        *((("hold", "yellow"), hold.pod, hold.reason) for hold in found.holds),
    ]
    if every_line or len(lines) <= _LINES_SHOWN:
        show_table(
            ("ACTION", "POD", "GANG", "WHERE / WHY"),
            ((action, pod, found.units.get(pod, ""), why) for action, pod, why in lines),
        )
    else:
        alike: dict[tuple[tuple[str, str], str], list[str]] = {}
        for action, pod, why in lines:
            alike.setdefault((action, why), []).append(pod)
        show_table(
            ("ACTION", "PODS", "WHERE / WHY", "FOR EXAMPLE"),
            (
                (action, str(len(pods)), why, ", ".join(pods[:_NAMES_SHOWN]))
                for (action, why), pods in alike.items()
            ),
        )
    show_lines(f"{len(found.binds)} to bind, {len(found.evictions)} to evict, {len(found.holds)} held")
