"""``fairlead queue``: which units wait for the scheduler, in order, and why each is held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.asked import Scope, Source, show, since
from fairlead.cli.flags import decision_options, scope_options, state_options, watch_option
from fairlead.cli.output import show_lines, show_table, show_warnings

if TYPE_CHECKING:
    from fairlead.engine.ask.survey import QueueEntry
    from fairlead.feed.cluster import Cluster


@click.command(
    "queue",
    epilog="""Examples:

    \b
    fairlead queue
    fairlead queue -n shop -f examples/state/shop.yaml

    Exits with 0 whether or not something waits, with 1 when the cluster cannot be asked, with 2 when the
    input cannot be used.
    """,
)
@watch_option
@scope_options
@state_options
@decision_options
def command(*, watch: bool, **flags: Any) -> None:
    """Show what waits for Fairlead's scheduler, in the order in which it is tried, and why each is held.

    A unit is a pod, or a gang that has not started. The order follows from priority, size and age; what a
    running scheduler keeps to itself (backoff, reservations begun) is not in it. Positions are those among
    all that wait, whatever -n and -l show.
    """
    source, scope = Source.take(flags), Scope.take(flags)
    asked: list[Cluster] = []

    def ask() -> list[QueueEntry]:
        cluster, _ = source.cluster()
        show_warnings(cluster.warnings())
        asked[:] = [cluster]
        found = cluster.queue()
        if scope.whole:
            return found
        keys = scope.keys(cluster)
        return [one for one in found if keys.intersection(one.pods)]

    def view(found: list[QueueEntry]) -> None:
        (cluster,) = asked
        show_table(
            ("PLACE", "UNIT", "PRIORITY", "PODS", "SINCE", "WHY"),
            (
                (
                    str(one.position),
                    one.unit,
                    str(one.priority),
                    str(len(one.pods)),
                    since(cluster, one.since),
                    one.why,
                )
                for one in found
            ),
        )
        names = ", ".join(cluster.settings.scheduler_names)
        show_lines(f"{len(found)} {'waits' if len(found) == 1 else 'wait'} for {names}")

    show(source, ask, view, watch=watch)
