"""``fairlead cost``: what nodes cost, by tier, namespace, workload or tenant, and what is idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.asked import Source, show
from fairlead.cli.flags import decision_options, state_options
from fairlead.cli.output import show_lines, show_table

if TYPE_CHECKING:
    from fairlead.engine.ask.cost import Cost, Price

_WAYS = ("tier", "namespace", "workload", "tenant")
_LINES_SHOWN = 15


@click.command(
    "cost",
    epilog="""Examples:

    \b
    fairlead cost --prices examples/cost/prices.yaml
    fairlead cost -f examples/cost/cluster.yaml --by workload
    fairlead cost -f examples/cost/cluster.yaml --node-groups examples/node-groups.yaml -o json

    Exits with 0, with 1 when the cluster cannot be asked, with 2 when the input cannot be used.
    """,
)
@click.option(
    "--by",
    "ways",
    type=click.Choice(_WAYS),
    multiple=True,
    help="What to share the cost out to (default: tier and namespace). Repeatable.",
)
@click.option(
    "--prices",
    default="",
    metavar="FILE",
    help="Prices by node labels, YAML: prices: [{labels: {...}, pricePerHour: '0.1'}].",
)
@click.option(
    "--node-groups", default="", metavar="FILE", help="Node groups, whose instance types may say their price."
)
@click.option("-a", "--all", "every_line", is_flag=True, help="Show every line, however many there are.")
@state_options
@decision_options
def command(*, ways: tuple[str, ...], prices: str, node_groups: str, every_line: bool, **flags: Any) -> None:
    """Show what nodes cost per hour and month, for which pods, what is idle, and what policies save.

    A node's price is its label fairlead.dev/price-per-hour, else that of --prices, else that of its node
    group. Prices have no currency of their own: they are in whatever they are given in.
    """
    source = Source.take(flags)
    known = given_prices(prices, node_groups)

    def ask() -> Cost:
        cluster, _ = source.cluster()
        return cluster.cost(known)

    def view(found: Cost) -> None:
        _show(found, ways or ("tier", "namespace"), every_line=every_line or source.output == "wide")

    show(source, ask, view)


def given_prices(prices: str, node_groups: str) -> list[Price]:
    """The prices that these files say; "" is none."""
    from fairlead.cli.nodegroups.file import read_given
    from fairlead.cli.state import read_objects
    from fairlead.engine.ask.cost import prices_of_groups, read_prices

    known = list(read_prices(read_objects([prices]), prices)) if prices else []
    if node_groups:
        known += prices_of_groups(read_given(node_groups))
    return known


def _show(found: Cost, ways: tuple[str, ...], *, every_line: bool) -> None:
    from fairlead.engine.ask.cost import HOURS_PER_MONTH

    def money(per_hour: float) -> tuple[str, str]:
        return f"{per_hour:.4f}", f"{per_hour * HOURS_PER_MONTH:.2f}"

    for way in ways:
        lines = found.by.get(way, ())
        shown = lines if every_line else lines[:_LINES_SHOWN]
        rest = lines[len(shown) :]
        rows: list[tuple[Any, ...]] = [(one.name, *money(one.per_hour), str(one.pods)) for one in shown]
        if rest:
            pods = str(sum(one.pods for one in rest))
            rows.append((f"({len(rest)} more)", *money(sum(one.per_hour for one in rest)), pods))
        rows.append((("(idle)", "dim"), *money(found.idle), ""))
        rows.append((("(all)", "bold"), *money(found.per_hour), ""))
        show_table((way.upper(), "PER HOUR", "PER MONTH", "PODS"), rows)
        show_lines("")
    for one in found.savings:
        hour, month = money(one.per_hour)
        pods = "pod" if one.pods == 1 else "pods"
        show_lines(f"policy {one.policy} saves {hour} per hour, {month} per month, by {one.pods} {pods}")
    if found.unpriced:
        names = ", ".join(found.unpriced[:3]) + (", …" if len(found.unpriced) > 3 else "")
        number = f"{len(found.unpriced)} of {found.nodes} nodes have no price and count as nothing ({names})"
        show_lines(f"{number}: label them fairlead.dev/price-per-hour, or give --prices", style="yellow")
    show_lines(*(f"assumed: {one}" for one in found.assumptions))
