"""``fairlead rebalance``: bring pods back to their tier, and pass on pods whose tier has no room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.door_options import door_options, own_scheduler_option, run_components
from fairlead.cli.flags import duration_s, output_option

if TYPE_CHECKING:
    from rich.text import Text

    from fairlead.client.config import Target
    from fairlead.client.connection import Connection
    from fairlead.doors.process import Options
    from fairlead.doors.rebalancer.executor import Outcome
    from fairlead.nodegroups import NodeGroup


@click.command(
    "rebalance",
    epilog="""\b
Examples:
  What would be moved now, why that is safe, and what waits and why:
    fairlead rebalance --dry-run
  One pass, for a CronJob:
    fairlead rebalance --once
  For a cluster without our definitions, from outside of it:
    fairlead rebalance --kubeconfig ~/.kube/config --policies policies.yaml

Several replicas may run: one acts, by lease. Exits with 0 after SIGTERM or SIGINT.
""",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done now, and why; write nothing.")
@click.option(
    "--timeout",
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="How long --dry-run waits for the API server's first answers.",
)
@click.option(
    "--once", is_flag=True, help="Make one pass and exit; do nothing while another rebalancer is the leader."
)
@output_option("table", "json", help="Output format of --dry-run.")
@own_scheduler_option("Fairlead's own scheduler: its pods fall back without being deleted. Repeatable.")
@click.option(
    "--node-groups",
    default="",
    metavar="FILE",
    help="The node groups that an autoscaler adds nodes to, YAML: what an empty tier's nodes would be like.",
)
@door_options()
def command(
    *,
    options: Options,
    dry_run: bool,
    timeout: str,
    once: bool,
    output: str,
    schedulers: tuple[str, ...],
    node_groups: str,
) -> None:
    """Keep pods where their PlacementPolicy wants them.

    A tier that cannot take its pods is left alone for a while, and its pending pods are passed on. Pods
    that are not where they belong are brought back through the eviction API: one at a time, only where
    there is room, never below a PodDisruptionBudget, and only if a controller recreates them.
    """
    from fairlead.doors.rebalancer.door import RebalancerDoor, Settings

    groups: tuple[NodeGroup, ...] = ()
    if node_groups:
        from fairlead.cli.nodegroups.file import read_given

        groups = read_given(node_groups)
    settings = Settings(schedulers=schedulers, once=once, node_groups=groups)
    if dry_run:
        _show(_look(options, settings, timeout), output)
        return
    run_components(options, lambda context: [RebalancerDoor(context, settings)])


def _look(options: Options, settings: Any, timeout: str) -> Outcome:
    import asyncio
    import random

    from fairlead.cli.cluster import call_cluster
    from fairlead.client.api import Client
    from fairlead.doors.process import Context
    from fairlead.doors.rebalancer.door import RebalancerDoor
    from fairlead.doors.rebalancer.watching import check_rights
    from fairlead.errors import Unreachable
    from fairlead.feed.policies import LivePolicies

    timeout_s = duration_s("--timeout", timeout)

    async def look(connection: Connection, target: Target) -> Outcome:
        rng = random.Random()
        client = Client(connection, rng=rng)
        try:
            async with asyncio.timeout(timeout_s):
                await check_rights(client)
        except TimeoutError:
            raise Unreachable(f"{target.server.url} did not answer within {timeout}") from None
        policies = LivePolicies(client, file=options.policies, rng=rng)
        context = Context(client, policies, options.namespace, rng)
        return await RebalancerDoor(context, settings).look()

    return call_cluster(options.kubeconfig, options.context, look, log_format=options.log_format)


def _show(outcome: Outcome, output: str) -> None:
    from fairlead.cli.output import show_json, show_lines, show_table

    if output == "json":
        show_json(_plain(outcome))
        return
    rows = list(_rows(outcome))
    if rows:
        show_table(("WHAT", "POD OR GROUP", "FROM", "TO", "WHY"), rows)
    else:
        show_lines("Every pod is where it belongs.")


def _rows(outcome: Outcome) -> list[tuple[Text, ...]]:
    from rich.text import Text

    found: list[tuple[str, ...]] = []
    for policy, marks in sorted(outcome.marks.items()):
        for tier, mark in marks:
            until = f"until {mark.until:%H:%M:%S}"
            found.append(("leave alone", f"policy {policy}", tier, "", f"{until}: {mark.reason}"))
    found += [("pass on", one.pod, one.tier, "", one.why) for one in outcome.deletions]
    found += [("move", one.pod, one.from_tier, one.to_tier, one.why) for one in outcome.planned.moves]
    found += [("wait", one.group, "", "", one.reason) for one in outcome.planned.waits]
    return [tuple(Text(cell) for cell in row) for row in found]


def _plain(outcome: Outcome) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = {
        "marks": {policy: marks.to_plain() for policy, marks in sorted(outcome.marks.items())},
        "passedOn": msgspec.to_builtins(outcome.deletions),
        "moves": msgspec.to_builtins(outcome.planned.moves),
        "waits": msgspec.to_builtins(outcome.planned.waits),
    }
    return plain
