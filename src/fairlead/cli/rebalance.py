"""``fairlead rebalance``: bring pods back to where they belong, and pass on those that wait in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.running import running_options

if TYPE_CHECKING:
    from rich.text import Text

    from fairlead.doors.rebalancer.carrying import Outcome
    from fairlead.doors.running import Options
    from fairlead.nodegroups import NodeGroup

__all__ = ["command"]


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
@click.option("--dry-run", is_flag=True, help="Only say what would be done now, and why; write nothing.")
@click.option(
    "--timeout",
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="How long --dry-run waits for the API server's first answers.",
)
@click.option(
    "--once", is_flag=True, help="Do what is to be done now, and end; nothing while another rebalancer leads."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Form of --dry-run.",
)
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    default=("fairlead",),
    show_default=True,
    metavar="NAME",
    help="Our own scheduler: its pods fall back without being deleted. Repeatable.",
)
@click.option(
    "--node-groups",
    default="",
    metavar="FILE",
    help="The node groups that an autoscaler adds nodes to, YAML: what an empty tier's nodes would be like.",
)
@running_options
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
    there is room, never below a PodDisruptionBudget, and only if somebody makes them anew.
    """
    from fairlead.doors.rebalancer.door import RebalancerDoor, Settings
    from fairlead.doors.running import run_doors

    groups: tuple[NodeGroup, ...] = ()
    if node_groups:
        from fairlead.cli.nodegroups.reading import read_given

        groups = read_given(node_groups)
    settings = Settings(schedulers=schedulers, once=once, node_groups=groups)
    if dry_run:
        _show(_look(options, settings, timeout), output)
        return
    run_doors(options, lambda around: [RebalancerDoor(around, settings)])


def _look(options: Options, settings: Any, timeout: str) -> Outcome:
    import asyncio
    import random

    from fairlead.client import config as kubeconfig
    from fairlead.client.api import Client
    from fairlead.client.connection import Connection
    from fairlead.doors.policies import LivePolicies
    from fairlead.doors.rebalancer.door import RebalancerDoor
    from fairlead.doors.rebalancer.watching import check_rights
    from fairlead.doors.running import Surroundings, configure_logging, event_loop, own_namespace
    from fairlead.errors import BadInput, Unreachable
    from fairlead.kube.duration import seconds

    configure_logging(options.log_format, "warning")
    try:
        timeout_s = seconds(timeout)
    except ValueError as error:
        raise BadInput(f"--timeout: {error}") from error

    async def look() -> Outcome:
        target = kubeconfig.load(options.kubeconfig or None, context=options.context or None)
        async with Connection(target) as connection:
            rng = random.Random()
            client = Client(connection, rng=rng)
            try:
                async with asyncio.timeout(timeout_s):
                    await check_rights(client)
            except TimeoutError:
                raise Unreachable(f"{target.server.url} did not answer within {timeout}") from None
            policies = LivePolicies(client, file=options.policies, rng=rng)
            around = Surroundings(client, policies, options.system_namespace or own_namespace(), rng)
            door = RebalancerDoor(around, settings)
            following = asyncio.ensure_future(policies.run())
            try:
                return await door.look()
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    with event_loop() as runner:
        return runner.run(look())


def _show(outcome: Outcome, output: str) -> None:
    from fairlead.cli.showing import show_json, show_lines, show_table

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
