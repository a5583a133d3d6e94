"""``fairlead whatif``: what would happen to a cluster if something were done to it."""

from __future__ import annotations

import gc
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.asked import Source, read_progress
from fairlead.cli.cost import given_prices
from fairlead.cli.flags import decision_options, duration_s, state_options
from fairlead.cli.output import show_data, show_lines, show_table, show_warnings
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.simulation.changes import Change
    from fairlead.simulation.contents import Contents
    from fairlead.simulation.outcome import Outcome, Share
    from fairlead.simulation.whatif import Comparison, Question

NOT_AS_EXPECTED = 3
"""The exit code when an --expect does not hold."""

_ORDER = "fairlead.whatif.order"
_PROGRESS_EVERY_S = 0.2
_SHOWN = 20
_MOST = 100


class _InOrder(click.Command):
    """A command that remembers in which order its changes were given: they are made in that order."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given: list[tuple[str, str]] = []
        for number, word in enumerate(args):
            flag, equals, value = word.partition("=")
            if flag in _FLAGS:
                given += [(flag, value)] if equals else [(flag, one) for one in args[number + 1 : number + 2]]
        ctx.meta[_ORDER] = given
        return super().parse_args(ctx, args)


def _changes_option(flag: str, metavar: str, text: str) -> Callable[[Any], Any]:
    return click.option(
        flag, flag.strip("-").replace("-", "_"), multiple=True, metavar=metavar, expose_value=False, help=text
    )


@click.command(
    "whatif",
    cls=_InOrder,
    epilog="""Examples:

    \b
    fairlead whatif -f examples/whatif/cluster.yaml --lose-tier spot
    fairlead whatif -f examples/whatif/cluster.yaml --drain steady-1 --expect 'pending==0'
    fairlead whatif -f examples/whatif/cluster.yaml --drain 'spot-1,steady-*'
    fairlead whatif -f examples/whatif/cluster.yaml --apply examples/whatif/more.yaml --min-nodes steady
    fairlead whatif -f examples/whatif/cluster.yaml --scale shop/web=12 --drain spot-1 -o json

    NODES are names and patterns, separated by commas (steady-1,spot-*), or labels (pool=old). Every change
    may be given several times; they are made in the order in which they are given, a second apart. The
    cluster is only read.

    Exits with 0, with 1 when the cluster cannot be asked, with 2 when the input cannot be used, with 3 when
    an --expect does not hold.
    """,
)
@_changes_option("--add-nodes", "GROUP=N", "Add N nodes like those of a node group.")
@_changes_option("--remove-node", "NODES", "Remove nodes as a cloud does: at once, with their pods.")
@_changes_option("--drain", "NODES", "Cordon nodes and evict their pods, as disruption budgets allow.")
@_changes_option("--lose-tier", "[POLICY/]TIER", "Remove every node of a policy's tier; it gets no new ones.")
@_changes_option("--lose-zone", "ZONE", "Remove every node of a zone.")
@_changes_option("--scale", "NAMESPACE/[KIND/]NAME=N", "Give a workload another number of replicas.")
@_changes_option("--apply", "FILE", "Create or change the objects of a file, as kubectl apply does.")
@_changes_option("--delete", "NAMESPACE/KIND/NAME", "Delete an object and what it owns.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="FILE",
    help="Placement policies that hold instead of those of their names. Repeatable.",
)
@click.option(
    "--node-groups", default="", metavar="FILE", help="Node groups that an autoscaler may bring nodes of."
)
@click.option(
    "--node-pools/--no-node-pools",
    default=True,
    show_default=True,
    help="Let an autoscaler bring nodes like those that each Karpenter NodePool of the cluster has.",
)
@click.option(
    "--components",
    default=None,
    metavar="LIST",
    help="Components of Fairlead that act, comma-separated: scheduler, webhook, rebalancer, extender "
    "(default: those that the cluster's objects tell of).",
)
@click.option(
    "--min-nodes",
    default="",
    metavar="GROUP",
    help="Find the fewest more nodes of a group that make all pods fit.",
)
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="CONDITION",
    help="Exit with 3 unless this holds, such as 'pending==0'. Repeatable.",
)
@click.option(
    "--limit",
    default="2h",
    show_default=True,
    metavar="DURATION",
    help="Longest time, in the cluster's own, that is looked ahead.",
)
@click.option(
    "--quiet",
    default="15m",
    show_default=True,
    metavar="DURATION",
    help="Stop once nothing has changed for this long.",
)
@click.option("--prices", default="", metavar="FILE", help="Prices by node labels, as for fairlead cost.")
@state_options
@decision_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    policies: tuple[str, ...],
    node_groups: str,
    node_pools: bool,
    components: str | None,
    min_nodes: str,
    expected: tuple[str, ...],
    limit: str,
    quiet: str,
    prices: str,
    **flags: Any,
) -> None:
    """Show what would happen to a cluster if something were done to it.

    A copy of the cluster goes on in virtual time until nothing changes: its controllers, kube-scheduler,
    Fairlead's components and, with --node-groups or NodePools, an autoscaler, by the code that runs live.
    Beside it goes a copy to which nothing is done, so that the difference is the changes' own. Running jobs
    do not finish, and nothing else is created than what controllers create. Nothing is written to the
    cluster.
    """
    from fairlead.doors.process import configure_logging
    from fairlead.simulation.expectations import Expectation
    from fairlead.simulation.whatif import Question, compare, fewest_nodes

    source = Source.take(flags)
    expectations = [Expectation.read(one) for one in expected]
    question = Question(
        [_change(flag, value) for flag, value in ctx.meta[_ORDER]],
        _policies(policies),
        timedelta(seconds=duration_s("--quiet", quiet)),
        timedelta(seconds=duration_s("--limit", limit)),
        given_prices(prices, node_groups),
    )
    if not (question.changes or question.policies or min_nodes):
        raise BadInput("nothing is to be done: give a change, such as --drain NODE; see --help")
    configure_logging("auto", "warning")  # what happens in a copy is told by its outcome
    with _without_collection(), _progress() as say:
        contents = _contents(source, node_groups, components, say, node_pools=node_pools)
        gc.freeze()
        if min_nodes:
            number = fewest_nodes(contents, question, min_nodes, _MOST, say)
            question = _with_nodes(question, min_nodes, number)
        found = compare(contents, question, say)
    show_warnings(f"{number} objects of kind {kind} were left out" for kind, number in found.skipped.items())
    if source.output in ("json", "yaml"):
        data = found.to_dict()
        show_data({**data, "minNodes": {min_nodes: number}} if min_nodes else data, source.output)
    else:
        if min_nodes:
            more = "no more nodes are needed" if not number else f"{number} more would do"
            show_lines(f"{min_nodes}: {more}", "")
        _show(found, every_line=source.output == "wide")
    failures = [why for one in expectations if (why := one.failure(found.changed))]
    for why in failures:
        click.echo(why, err=True)
    if failures:
        sys.exit(NOT_AS_EXPECTED)


def _with_nodes(question: Question, group: str, number: int) -> Question:
    from dataclasses import replace

    from fairlead.simulation.changes import AddNodes

    return replace(question, changes=[AddNodes(group, number), *question.changes]) if number else question


# What is asked about


def _contents(
    source: Source,
    node_groups: str,
    components: str | None,
    say: Callable[[str], None],
    *,
    node_pools: bool,
) -> Contents:
    from fairlead.cli.nodegroups.file import read_given
    from fairlead.cli.state import read_objects
    from fairlead.simulation.contents import (
        Contents,
        check_components,
        components_seen,
        manifests,
        share_parts,
    )
    from fairlead.simulation.node_pools import groups_of_pools

    settings = source.configuration().settings()
    if source.files:
        if source.kubeconfig or source.context:
            raise BadInput("the state comes from files or from a cluster, not from both")
        say(f"reading {', '.join(source.files)}")
        objects = tuple(manifests(read_objects(source.files)))
        at = _newest(objects)
    else:
        objects, at = _live(source), datetime.now(UTC)
    share_parts(objects)
    named = None if components is None else [one for one in components.split(",") if one]
    acting = components_seen(objects, at, settings) if named is None else check_components(named)
    groups = {one.name: one for one in read_given(node_groups)} if node_groups else {}
    if node_pools:
        pools = groups_of_pools(objects)
        show_warnings(pools.left_out)
        groups = {one.name: one for one in pools.groups} | groups
    return Contents(objects, at, settings, acting, tuple(groups.values()))


def _policies(files: Sequence[str]) -> list[dict[str, Any]]:
    from fairlead.cli.state import read_objects
    from fairlead.kube.decode import call_it
    from fairlead.policy.names import POLICIES
    from fairlead.policy.rule.model import read_policies
    from fairlead.simulation.contents import manifests

    found = manifests(read_objects(files)) if files else []
    for one in found:
        if one.get("kind") != POLICIES.kind:
            raise BadInput(f"--policy: {call_it(one)} is no PlacementPolicy; --apply takes other objects")
    read_policies(found)
    return found


def _live(source: Source) -> tuple[dict[str, Any], ...]:
    from fairlead.cli.cluster import call_cluster
    from fairlead.client.api import Client
    from fairlead.client.config import Target
    from fairlead.client.connection import Connection
    from fairlead.feed.cluster_objects import read_objects

    async def read(connection: Connection, target: Target) -> tuple[dict[str, Any], ...]:
        with read_progress() as progress:
            found = await read_objects(
                Client(connection),
                own=target.namespace,
                system_namespace=source.system_namespace,
                progress=progress,
            )
        show_warnings(f"{kind}: {why}" for kind, why in sorted(found.unread.items()))
        for kind in ("Pod", "Node"):
            if kind in found.unread:
                raise BadInput(f"without {kind.lower()}s there is nothing to copy: {found.unread[kind]}")
        return tuple(found.plain)

    return call_cluster(source.kubeconfig, source.context, read)


def _newest(objects: Sequence[dict[str, Any]]) -> datetime:
    """The moment that files are about: a moment after the newest time that they know."""
    from fairlead.world.objects import parse_time

    stamps = [
        parse_time(one["metadata"]["creationTimestamp"])
        for one in objects
        if one["metadata"].get("creationTimestamp")
    ]
    return max(stamps, default=datetime(2026, 1, 1, tzinfo=UTC)) + timedelta(seconds=60)


# Changes, as they are written

_APPLY = "--apply"
_FLAGS = (
    "--add-nodes",
    "--remove-node",
    "--drain",
    "--lose-tier",
    "--lose-zone",
    "--scale",
    _APPLY,
    "--delete",
)


def _change(flag: str, text: str) -> Change:
    from fairlead.simulation.change_text import read_change

    return _apply(text) if flag == _APPLY else read_change(flag, flag.strip("-"), text)


def _apply(text: str) -> Change:
    from fairlead.cli.state import read_objects
    from fairlead.simulation.changes import Apply
    from fairlead.simulation.contents import manifests

    return Apply(text, manifests(read_objects([text])))


# The answer


def _show(found: Comparison, *, every_line: bool) -> None:
    a, b = found.without, found.changed
    show_lines(*(f"what if: {one}" for one in found.changes[:_SHOWN]), style="bold")
    if len(found.changes) > _SHOWN:
        show_lines(f"and {len(found.changes) - _SHOWN} more changes", style="bold")
    rows = [
        _row("pods with a node", a.placed, b.placed),
        _row("pods without", a.pending, b.pending, bad=True),
        _row("evicted", a.evicted, b.evicted, bad=True),
        _row("moved to their tier", a.moved, b.moved),
        _row("nodes", a.nodes, b.nodes),
    ]
    if a.cost is not None or b.cost is not None:
        rows.append(_row("cost per hour", a.cost or 0.0, b.cost or 0.0))
    rows.append(("nothing changed after", _rest(a), _rest(b), ""))
    show_table(("", "AS IT IS", "WITH THIS", "DIFFERENCE"), rows)
    if a.waiting or b.waiting:
        show_lines("")
        show_table(("WITHOUT A NODE", "AS IT IS", "WITH THIS", "WHY"), _reasons(a, b))
    changed = list(_workloads(a, b))
    if changed:
        shown = changed if every_line else changed[:_SHOWN]
        show_lines("")
        show_table(("WORKLOAD", "TIER", "AS IT IS", "WITH THIS", "EVICTED"), shown, sparse=True)
        if len(changed) > len(shown):
            show_lines(f"and {len(changed) - len(shown)} more: -o wide")
    kept = list(b.refused.items())
    for pod, why in kept if every_line else kept[:_SHOWN]:
        show_lines(f"not drained: {pod}: {why}", style="yellow")
    if len(kept) > _SHOWN and not every_line:
        show_lines(f"and {len(kept) - _SHOWN} more were not drained: -o wide", style="yellow")


def _row(what: str, a: float, b: float, *, bad: bool = False) -> tuple[Any, ...]:
    def said(number: float) -> str:
        return f"{number:.4f}" if isinstance(number, float) else f"{number}"

    off = b - a
    text = "" if not off else f"{off:+.4f}" if isinstance(off, float) else f"{off:+d}"
    return what, said(a), said(b), (text, "red" if bad and off > 0 else "")


def _rest(found: Outcome) -> str:
    after = f"{found.quiet.after.total_seconds():.0f} s"
    return after if found.quiet.reached else f"{after}, still changing"


def _reasons(a: Outcome, b: Outcome) -> list[tuple[Any, ...]]:
    before = {one.kind: one for one in a.waiting}
    after = {one.kind: one for one in b.waiting}
    return [
        (
            kind,
            str(before[kind].pods if kind in before else 0),
            str(after[kind].pods if kind in after else 0),
            (after.get(kind) or before[kind]).text,
        )
        for kind in dict.fromkeys([*after, *before])
    ]


def _workloads(a: Outcome, b: Outcome) -> list[tuple[Any, ...]]:
    """Workloads that end otherwise, tier by tier, those with most pods evicted first."""

    def of(found: Outcome, one: Share) -> str:
        placed, pending = found.placed_by.get(one, 0), found.pending_by.get(one, 0)
        if not pending:
            return f"{placed}"
        return f"{placed} and {pending} pending" if placed else f"{pending} pending"

    shares = {*a.placed_by, *b.placed_by, *a.pending_by, *b.pending_by, *b.evicted_by}
    evicted: Counter[str] = Counter()
    revisions: dict[str, set[str]] = {}
    for one in shares:
        evicted[one.workload] += b.evicted_by.get(one, 0)
        revisions.setdefault(one.workload, set()).add(one.revision)
    rows = []
    for one in sorted(shares, key=lambda one: (-evicted[one.workload], one)):
        gone = b.evicted_by.get(one, 0)
        if of(a, one) != of(b, one) or gone:
            several = one.revision and len(revisions[one.workload]) > 1
            name = one.workload + (f" ({one.revision})" if several else "")
            rows.append((name, one.tier, of(a, one), of(b, one), str(gone) if gone else ""))
    return rows


@contextmanager
def _without_collection() -> Iterator[None]:
    """What is read stays until the end: to look through it for garbage would take as long as all the rest."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line on standard error that says what is being done and how far it is, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    shown = float("-inf")

    def say(text: str) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= _PROGRESS_EVERY_S:
            shown = now
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"\r\x1b[K{text[:width]}", err=True, nl=False)

    try:
        yield say
    finally:
        click.echo("\r\x1b[K", err=True, nl=False)
