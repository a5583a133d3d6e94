"""``fairlead status``: placement on one screen."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.asked import Scope, Source, show, since
from fairlead.cli.flags import decision_options, scope_options, state_options, watch_option
from fairlead.cli.nodes import show_fills
from fairlead.cli.output import show_lines, show_table

if TYPE_CHECKING:
    from fairlead.engine.ask.survey import PolicyNow, Survey
    from fairlead.feed.cluster import Cluster

_GANGS_SHOWN = 10


@click.command(
    "status",
    epilog="""Examples:

    \b
    fairlead status
    fairlead status -f examples/state/shop.yaml

    Exits with 0 whatever it finds, with 1 when the cluster cannot be asked, with 2 when the input cannot be
    used.
    """,
)
@watch_option
@scope_options
@state_options
@decision_options
def command(*, watch: bool, **flags: Any) -> None:
    """Show placement on one screen: fill, what waits and why, gangs, policies, moves, the leader.

    -n and -l choose the pods that are counted; nodes and policies are all there are. Every reason is said
    once, with how many pods it is true of.
    """
    source, scope = Source.take(flags), Scope.take(flags)
    asked: list[Cluster] = []

    def ask() -> Survey:
        from fairlead.engine.ask.survey import survey

        cluster, _ = source.cluster()
        asked[:] = [cluster]
        return survey(cluster.asked, scope.of(cluster.pods.values()))

    def view(found: Survey) -> None:
        _show(found, asked[0])

    show(source, ask, view, watch=watch)


def _show(found: Survey, cluster: Cluster) -> None:
    leader = found.leader
    led = f"led by {leader.holder} for {since(cluster, leader.since)}" if leader.holder else leader.why
    runs = {True: "runs", False: "does not run", None: "is not known to run"}[leader.runs]
    show_lines(f"scheduler {leader.name} {runs}" + (f": {led}" if led else ""), style="bold")
    waiting = sum(one.pods for one in found.waiting)
    show_lines(f"{found.nodes.nodes} nodes, {found.running} pods with a node, {waiting} waiting", "")
    groups = found.groups or found.zones
    title = "GROUP" if found.groups else "ZONE" if found.zones else ""
    show_fills(title, [*groups, found.nodes] if groups else [found.nodes])
    if found.waiting:
        show_lines("")
        show_table(
            ("WAITING", "CAUSE", "OLDEST", "WHY", "FOR EXAMPLE"),
            (
                ((str(one.pods), "yellow"), one.kind, since(cluster, one.oldest), one.text, one.examples[0])
                for one in found.waiting
            ),
        )
    gangs = [one for one in found.gangs if one.pending]
    if gangs:
        show_lines("")
        show_table(
            ("GANG", "THERE", "WITH A NODE", "WAITS FOR"),
            (
                (one.name, f"{one.present}/{one.minimum}", str(one.running), one.waits_for or "room")
                for one in gangs[:_GANGS_SHOWN]
            ),
        )
        if len(gangs) > _GANGS_SHOWN:
            show_lines(f"and {len(gangs) - _GANGS_SHOWN} more gangs that wait: fairlead gangs")
    if found.policies:
        show_lines("")
        show_table(
            ("POLICY", "TIER", "NODES", "DESIRED", "ACTUAL", "PENDING", "NOTE"),
            (row for policy in found.policies for row in _rows(policy)),
        )
    for title, decisions in (("LEAVING", found.moving), ("LAST", found.decisions)):
        if decisions:
            show_lines("")
            show_table(
                (title, "POD", ""),
                ((f"{since(cluster, one.at)} ago", one.pod, one.what) for one in decisions),
            )
    if found.warnings:
        show_lines("", *(f"warning: {one}" for one in found.warnings))


def _rows(policy: PolicyNow) -> Iterator[tuple[Any, ...]]:
    marks = {tier: (until, why) for tier, until, why in policy.marks}
    for number, (tier, desired, actual, pending, fill) in enumerate(policy.tiers):
        notes = []
        if tier in marks:
            until, why = marks[tier]
            moment = datetime.fromtimestamp(until, UTC).strftime("%H:%M:%SZ")
            notes.append(f"left alone until {moment}" + (f": {why}" if why else ""))
        if not number and policy.misplaced:
            notes.append(f"{policy.misplaced} misplaced")
        off = "" if desired == actual else "yellow"
        yield (
            policy.name if not number else "",
            tier,
            str(fill.nodes),
            str(desired),
            (str(actual), off),
            str(pending),
            "; ".join(notes),
        )
