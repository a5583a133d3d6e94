"""``fairlead gangs``: every gang, how much of it is there, and what keeps it from starting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.asked import Scope, Source, show
from fairlead.cli.flags import decision_options, scope_options, state_options, watch_option
from fairlead.cli.output import show_lines, show_table

if TYPE_CHECKING:
    from fairlead.engine.ask.diagnosis import GangView


@click.command(
    "gangs",
    epilog="""Examples:

    \b
    fairlead gangs
    fairlead gangs -f examples/split-gang.yaml -o wide

    Exits with 0 whether or not there are gangs, with 1 when the cluster cannot be asked, with 2 when the
    input cannot be used.
    """,
)
@watch_option
@scope_options
@state_options
@decision_options
def command(*, watch: bool, **flags: Any) -> None:
    """Show every gang of Fairlead's pods: how many members are there, and what it waits for.

    THERE counts members in any form, of the minimum that it needs to start; -o wide names each with its node.
    """
    source, scope = Source.take(flags), Scope.take(flags)

    def ask() -> list[GangView]:
        cluster, _ = source.cluster()
        found = cluster.gangs()
        if scope.whole:
            return found
        keys = scope.keys(cluster)
        return [one for one in found if any(pod in keys for pod, _ in one.members)]

    def view(found: list[GangView]) -> None:
        show_table(
            ("GANG", "THERE", "WITH A NODE", "STARTED", "WAITS FOR"),
            (
                (
                    one.name,
                    f"{one.present}/{one.minimum}",
                    str(one.running),
                    ("yes", "green") if one.started else ("no", "yellow"),
                    one.waits_for or ("room" if one.pending and not one.started else ""),
                )
                for one in found
            ),
        )
        if source.output == "wide":
            members = [(one.name, *member) for one in found for member in one.members]
            show_lines("")
            show_table(
                ("GANG", "MEMBER", "NODE"),
                ((gang, pod, node or ("-", "yellow")) for gang, pod, node in members),
            )
        show_lines(f"{len(found)} {'gang' if len(found) == 1 else 'gangs'}")

    show(source, ask, view, watch=watch)
