"""``fairlead dashboard``: watch placement in a browser, on this machine."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from fairlead.cli.flags import cluster_options, decision_options, take_fields


@click.command(
    "dashboard",
    epilog="""Examples:

    \b
    fairlead dashboard
    fairlead dashboard --context fairlead
    fairlead dashboard --listen 127.0.0.1:8080 --prices examples/cost/prices.yaml

    Exits with 0 after Ctrl-C, with 1 when the cluster cannot be watched, with 2 when the input cannot be
    used.
    """,
)
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Loopback address to listen on; port 0 is any that is free.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in the default browser.")
@click.option(
    "--prices",
    default="",
    metavar="FILE",
    help="Prices by node labels, YAML: prices: [{labels: {...}, pricePerHour: '0.1'}].",
)
@click.option(
    "--node-groups",
    default="",
    metavar="FILE",
    help="Node groups: their instance types may say their price, and a what-if may bring their nodes.",
)
@click.option("--policies", default="", metavar="FILE", help="Policies to use besides those of the cluster.")
@click.option(
    "--system-namespace",
    default="fairlead-system",
    show_default=True,
    metavar="NAME",
    help="Namespace of Fairlead's own objects: its leases say which replica leads.",
)
@cluster_options()
@decision_options
@click.pass_context
def command(
    ctx: click.Context, /, *, listen: str, opens: bool, prices: str, node_groups: str, **flags: Any
) -> None:
    """Show placement as it happens: nodes and their pods, the queue, gangs, decisions, policies.

    The page reads the cluster with the rights of your kubeconfig and changes nothing: a what-if on it is
    worked out on a copy. It listens on this machine only; the address that is printed opens it once, after
    which the browser keeps a cookie.
    """
    import threading
    import webbrowser

    from fairlead.cli.cost import given_prices
    from fairlead.cli.nodegroups.file import read_given
    from fairlead.doors.scheduler.configuration import read_configuration
    from fairlead.web.local import check_loopback

    check_loopback(listen)
    shown = {
        "prices": given_prices(prices, node_groups),
        "groups": read_given(node_groups) if node_groups else (),
        "flags": _flags_of_whatif(ctx),
    }
    configuration = read_configuration(flags.pop("config_file", None), take_fields(flags))

    def tell(address: str) -> None:
        first = not told
        told.append(address)
        click.echo(f"dashboard: {address}" if first else f"opened; for another browser: {address}")
        if first:
            click.echo("Ctrl-C ends it")
            if opens:
                # Some browsers return only when they are closed.
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    told: list[str] = []
    _serve(listen, configuration.settings(), tell, configuration.leader_election.lease_name, shown, **flags)


def _flags_of_whatif(ctx: click.Context) -> list[str]:
    """What was given here and ``fairlead whatif`` takes, too, so that a command line asks the same."""
    from fairlead.cli.whatif import command as whatif

    taken = {option for parameter in whatif.params for option in parameter.opts}
    found: list[str] = []
    for parameter in ctx.command.params:
        name, flag = parameter.name or "", parameter.opts[0]
        given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        value = ctx.params.get(name)
        if given and flag in taken and isinstance(value, str):
            found += [flag, value]
    return found


def _serve(
    listen: str,
    settings: Any,
    tell: Any,
    lease: str,
    shown: dict[str, Any],
    *,
    kubeconfig: str,
    context: str,
    policies: str,
    system_namespace: str,
) -> None:
    import asyncio
    import signal

    from fairlead.cli.cluster import call_cluster
    from fairlead.client.api import Client
    from fairlead.client.config import Target
    from fairlead.client.connection import Connection
    from fairlead.doors.process import Context, serve_doors
    from fairlead.errors import Missing
    from fairlead.feed.cluster import first_answer
    from fairlead.feed.policies import LivePolicies
    from fairlead.web.live import missing_rights
    from fairlead.web.local import LocalDashboard

    async def serve(connection: Connection, target: Target) -> None:
        client = Client(connection)
        await first_answer(client)
        if missing := await missing_rights(client):
            raise Missing(
                f"the page shows pods and nodes of all namespaces, which cannot be listed: {missing[0]}; "
                "fairlead status answers for one namespace, too"
            )
        live = LivePolicies(client, file=policies)
        live.optional = True
        here = Context(client, live, system_namespace, client.rng)
        here.memory.set_up(takes_bodies=False, garbage=0)
        title = context or target.server.url.partition("://")[2]
        dashboard = LocalDashboard(here, settings, tell, lease=lease, title=title, **shown)
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        await serve_doors([dashboard.door], here, listen=listen, stopping=stopping, ready=dashboard.opened_at)

    call_cluster(kubeconfig, context, serve)
