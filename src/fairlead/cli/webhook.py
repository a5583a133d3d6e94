"""``fairlead webhook``: give pods their tier when they are created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.door_options import (
    call_once,
    called_options,
    door_options,
    own_scheduler_option,
    run_components,
    service_and_port,
)
from fairlead.cli.flags import duration_s
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.doors.process import Options


@click.command(
    "webhook",
    epilog="""\b
Examples:
  In a cluster, behind Service fairlead-webhook of the system namespace:
    fairlead webhook --register
  On this machine, for a cluster that can reach it:
    fairlead webhook --kubeconfig ~/.kube/config --policies policies.yaml \\
        --listen :9443 --url https://10.0.0.5:9443 --register
  Remove what --register created (policies and ledgers stay):
    fairlead webhook --kubeconfig ~/.kube/config --unregister
  Have another certificate authority made and rolled out, without a failed call:
    kubectl -n fairlead-system annotate secret fairlead-webhook-ca \\
        --overwrite fairlead.dev/rotate="$(date)"

Several replicas may answer at once: they share one authority and one ledger per group. /readyz says
when everything is listed and, with --register, the webhook is registered. Exits with 0 after SIGTERM or
SIGINT, once what was under way is answered.
""",
)
@click.option(
    "--register",
    is_flag=True,
    help="Have the API server call the webhook as soon as it can answer: for pods of all namespaces but "
    "kube-system and the system namespace.",
)
@click.option(
    "--unregister",
    is_flag=True,
    help="Remove the registration and the authority, and exit. Replicas that still run with --register "
    "register again within a minute: end them first.",
)
@called_options("url", "service", "failure-policy")
@own_scheduler_option(
    "Fairlead's own scheduler: it places its pods by policy, so they get no node affinity. Repeatable."
)
@called_options(
    "tls-cert-file",
    "tls-key-file",
    certificate="Serve this certificate (cert-manager's, for example) instead of the webhook's own; reloaded "
    "when it changes.",
)
@click.option(
    "--tls-ca-file",
    default="",
    metavar="FILE",
    help="Authority of that certificate, to be registered; without it, a caBundle that another controller "
    "injects is left alone.",
)
@called_options("client-ca-file")
@click.option(
    "--rotation-wait",
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="Time between the steps of a rotation of the webhook's authority, for all replicas to see each.",
)
@door_options(listen=":9443")
def command(
    options: Options, register: bool, unregister: bool, service: str, rotation_wait: str, **flags: Any
) -> None:
    """Give pods their tier when they are created, exactly, and leave binding to any scheduler.

    Each pod of a workload that a PlacementPolicy governs takes the lowest free slot of its group, and
    with it the tier that the policy says: as node affinity and tolerations, before any scheduler sees it.
    Opens --listen (default :9443) with TLS, also for /livez, /readyz and /metrics.
    """
    from fairlead.doors.webhook.door import Settings, WebhookDoor
    from fairlead.doors.webhook.registration import unregister as withdraw

    if unregister:
        if register:
            raise BadInput("--register and --unregister: one or the other")
        gone = call_once(options, withdraw, changes=True)
        click.echo("\n".join(f"deleted {what}" for what in gone) or "nothing was registered")
        return
    wait_s = duration_s("--rotation-wait", rotation_wait)
    settings = Settings(register=register, **service_and_port(service), rotation_wait_s=wait_s, **flags)
    run_components(options, lambda context: [WebhookDoor(context, settings)])
