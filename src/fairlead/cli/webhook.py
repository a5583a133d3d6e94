"""``fairlead webhook``: give pods their tier when they are created."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.running import running_options

if TYPE_CHECKING:
    from fairlead.doors.running import Options

__all__ = ["command", "service_and_port"]

_LISTEN = ":9443"


@click.command(
    "webhook",
    epilog="""\b
Examples:
  In a cluster, behind Service fairlead-webhook of the system namespace:
    fairlead webhook --register
  On this machine, for a cluster that can reach it:
    fairlead webhook --kubeconfig ~/.kube/config --policies policies.yaml \\
        --listen :9443 --url https://10.0.0.5:9443 --register
  Take away again what --register made (policies and ledgers stay):
    fairlead webhook --kubeconfig ~/.kube/config --unregister
  Have another certificate authority made and rolled out, without a failed call:
    kubectl -n fairlead-system annotate secret fairlead-webhook-ca \\
        --overwrite fairlead.dev/rotate="$(date)"

Several replicas may answer at once: they share one authority and one ledger per group. /readyz says
when everything is listed and, with --register, the API server was told. Exits with 0 after SIGTERM or
SIGINT, once what was under way is answered.
""",
)
@click.option(
    "--register",
    is_flag=True,
    help="Have the API server call us, as soon as we can answer: for pods of all namespaces but "
    "kube-system and the system namespace.",
)
@click.option(
    "--unregister",
    is_flag=True,
    help="Take away the registration and the authority, and end. Replicas that still run with --register "
    "come back within a minute: end them first.",
)
@click.option(
    "--url",
    default="",
    metavar="https://HOST:PORT",
    help="Where the API server reaches us from outside of a cluster, perhaps through a balancer; "
    "without it, by Service.",
)
@click.option(
    "--service",
    default="fairlead-webhook",
    show_default=True,
    metavar="NAME[:PORT]",
    help="The Service before us, in the system namespace; port 443 unless told.",
)
@click.option(
    "--failure-policy",
    type=click.Choice(["Ignore", "Fail"]),
    default="Ignore",
    show_default=True,
    help="Ignore: while we are away pods are created without a tier, and adopted later. "
    "Fail: they are not created.",
)
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    default=("fairlead",),
    show_default=True,
    metavar="NAME",
    help="Our own scheduler: it steers its pods itself, so they get no node affinity. Repeatable.",
)
@click.option(
    "--tls-cert-file",
    default="",
    metavar="FILE",
    help="Show this certificate (cert-manager's, say) instead of our own; read again when it changes.",
)
@click.option("--tls-key-file", default="", metavar="FILE", help="Its key.")
@click.option(
    "--tls-ca-file",
    default="",
    metavar="FILE",
    help="Who signed it, to be registered; without it a caBundle that others inject is left alone.",
)
@click.option(
    "--client-ca-file",
    default="",
    metavar="FILE",
    help="Take reviews only from who shows a certificate that one of these authorities signed (PEM); read "
    "again when it changes. Without it, from anybody who reaches the port.",
)
@click.option(
    "--rotation-wait",
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="Between the steps of a rotation of our authority: the time all replicas need to see one.",
)
@running_options
def command(
    options: Options, register: bool, unregister: bool, service: str, rotation_wait: str, **flags: Any
) -> None:
    """Give pods their tier when they are created, exactly, and leave binding to any scheduler.

    Each pod of a workload that a PlacementPolicy governs takes the lowest free slot of its group, and
    with it the tier that the policy says: as node affinity and tolerations, before any scheduler sees it.
    Opens --listen (default :9443) with TLS, also for /livez, /readyz and /metrics.
    """
    from fairlead.doors.running import run_doors
    from fairlead.doors.webhook.door import Settings, WebhookDoor
    from fairlead.errors import BadInput
    from fairlead.kube.duration import seconds

    if unregister:
        if register:
            raise BadInput("--register and --unregister: one or the other")
        _unregister(options)
        return
    try:
        wait_s = seconds(rotation_wait)
    except ValueError as error:
        raise BadInput(f"--rotation-wait: {error}") from error
    settings = Settings(register=register, **service_and_port(service), rotation_wait_s=wait_s, **flags)
    run_doors(
        replace(options, listen=options.listen or _LISTEN), lambda around: [WebhookDoor(around, settings)]
    )


def service_and_port(service: str) -> dict[str, Any]:
    """What ``--service NAME[:PORT]`` says, as the webhook's settings have it."""
    from fairlead.errors import BadInput

    name, colon, port = service.partition(":")
    # isdecimal knows the digits of all scripts; a port has ASCII's.
    if not name or (colon and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536)):
        raise BadInput(f"--service: {service!r} is not NAME or NAME:PORT")
    return {"service": name, "service_port": int(port) if port else 443}


def _unregister(options: Options) -> None:
    from fairlead.client import config as kubeconfig
    from fairlead.client.api import Client
    from fairlead.client.connection import Connection
    from fairlead.doors.running import configure_logging, event_loop, own_namespace
    from fairlead.doors.webhook.registration import unregister

    configure_logging(options.log_format, options.log_level)  # or it would go to standard output

    async def take_away() -> list[str]:
        target = kubeconfig.load(options.kubeconfig or None, context=options.context or None)
        async with Connection(target) as connection:
            return await unregister(Client(connection), options.system_namespace or own_namespace())

    with event_loop() as runner:
        gone = runner.run(take_away())
    for what in gone:
        click.echo(f"deleted {what}")
    if not gone:
        click.echo("nothing was registered")
