"""``fairlead nodes``: how full each node is, what is left, and the largest pod that still fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.asked import Source, show
from fairlead.cli.flags import decision_options, state_options, watch_option
from fairlead.cli.output import fill_bar, show_lines, show_table
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.engine.ask.capacity import Fill, NodeFill

# More nodes than these are summed up by group, unless all are asked for.
_NODES_SHOWN = 50
_ALWAYS = ("cpu", "memory")


@click.command(
    "nodes",
    epilog="""Examples:

    \b
    fairlead nodes
    fairlead nodes -f examples/state/shop.yaml -o wide

    Exits with 0, with 1 when the cluster cannot be asked, with 2 when the input cannot be used.
    """,
)
@click.option("-a", "--all", "every_node", is_flag=True, help="Show every node, however many there are.")
@click.option(
    "-l", "--selector", "labels", default="", metavar="SELECTOR", help="Only nodes with these labels."
)
@watch_option
@state_options
@decision_options
def command(*, every_node: bool, labels: str, watch: bool, **flags: Any) -> None:
    """Show how full nodes are by what pods request, what is free, and the largest pod that still fits.

    What is free counts as the scheduler counts it. Many nodes are summed up by node group (or zone); -a shows
    each, -o wide other resources, too.
    """
    source = Source.take(flags)
    wide = source.output == "wide"

    def ask() -> list[NodeFill]:
        cluster, _ = source.cluster()
        if "Node" in cluster.unread and not cluster.nodes():
            raise BadInput(f"nodes cannot be read: {cluster.unread['Node']}")
        chosen = _chosen(cluster, labels)
        return [one for one in cluster.nodes() if chosen is None or one.name in chosen]

    def view(found: list[NodeFill]) -> None:
        if len(found) > _NODES_SHOWN and not every_node:
            _show_groups(found)
        else:
            _show_nodes(found, wide=wide)
        _show_largest(found)

    show(source, ask, view, watch=watch)


def _chosen(cluster: Any, labels: str) -> set[str] | None:
    """The names of the nodes with these labels; None: all."""
    from fairlead.kube.selectors import matches, parse_label_selector

    if not labels:
        return None
    selector = parse_label_selector(labels)
    return {node.metadata.name for node in cluster.each_node() if matches(selector, node.metadata.labels)}


def _show_nodes(found: list[NodeFill], *, wide: bool) -> None:
    from fairlead.engine.ask.capacity import quantity

    more = sorted({name for one in found for name in one.has} - {*_ALWAYS, "pods"}) if wide else []
    show_table(
        (
            "NODE", "GROUP", "ZONE", "STATE", "PODS", "CPU", "CPU FREE", "MEMORY", "MEMORY FREE",
            *(f"{name.upper()} FREE" for name in more),
        ),
        (
            (
                one.name,
                one.group,
                one.zone,
                (one.state, "" if one.schedulable else "yellow"),
                f"{one.pods}/{one.has.get('pods', 0)}",
                fill_bar(one.fill("cpu")),
                quantity("cpu", one.free("cpu")),
                fill_bar(one.fill("memory")),
                quantity("memory", one.free("memory")),
                *(quantity(name, one.free(name)) if name in one.has else "" for name in more),
            )
            for one in found
        ),
        sparse=True,
    )  # fmt: skip


def _show_groups(found: list[NodeFill]) -> None:
    from fairlead.engine.ask.capacity import together

    by: dict[str, list[NodeFill]] = {}
    for one in found:
        by.setdefault(one.group or one.zone or "(no group)", []).append(one)
    show_fills("GROUP", [together(name, by[name]) for name in sorted(by)])


def show_fills(title: str, fills: list[Fill]) -> None:
    """Groups of nodes, each with its fill."""
    show_table(
        (title, "NODES", "READY", "PODS", "CPU", "MEMORY"),
        (
            (
                one.name,
                str(one.nodes),
                (str(one.ready), "" if one.ready == one.nodes else "yellow"),
                f"{one.used.get('pods', 0)}/{one.has.get('pods', 0)}",
                fill_bar(one.fill("cpu")),
                fill_bar(one.fill("memory")),
            )
            for one in fills
        ),
    )


def _show_largest(found: list[NodeFill]) -> None:
    from fairlead.engine.ask.capacity import largest, quantity

    roomy = [(name, largest(found, name)) for name in _ALWAYS]
    said = [
        f"{quantity('cpu', one.free('cpu'))} cpu and {quantity('memory', one.free('memory'))} on {one.name}"
        for _, one in roomy
        if one is not None
    ]
    ready = sum(one.schedulable for one in found)
    show_lines(f"{len(found)} {'node' if len(found) == 1 else 'nodes'}, {ready} that take pods")
    if said:
        show_lines(f"largest pod that still fits: {' or '.join(dict.fromkeys(said))}")
    elif found:
        show_lines("no pod fits any more")
