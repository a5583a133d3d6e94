"""``fairlead extender``: answer an unchanged kube-scheduler's calls: which nodes a pod may go to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.door_options import (
    call_once,
    called_options,
    check_client_ca,
    door_options,
    run_components,
)
from fairlead.cli.flags import cluster_options, duration_s
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.doors.process import Options


@click.group(
    "extender",
    invoke_without_command=True,
    epilog="""\b
Examples:
  In a cluster, behind Service fairlead-extender of the system namespace:
    fairlead extender
  On this machine, for a kube-scheduler that can reach it:
    fairlead extender --kubeconfig ~/.kube/config --policies policies.yaml --listen 10.0.0.5:9444
  The configuration with which kube-scheduler calls it there:
    fairlead extender config --url http://10.0.0.5:9444

One replica answers: the one that holds Lease fairlead-extender, and /readyz says so. Exits with 0
after SIGTERM or SIGINT.
""",
)
@called_options(
    "tls-cert-file", "tls-key-file", "client-ca-file", certificate="Serve HTTPS with this certificate."
)
@click.option(
    "--report-after",
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="Report in log and status that no scheduler calls, after this long without a call.",
)
@click.option(
    "--max-body-size",
    default="64Mi",
    show_default=True,
    metavar="SIZE",
    help="Largest accepted call with whole nodes (nodeCacheCapable: false), one at a time; calls "
    "that only name nodes have 16Mi. All calls together have a quarter of the memory limit.",
)
@door_options(listen=":9444")
@click.pass_context
def command(
    ctx: click.Context, /, *, options: Options, report_after: str, max_body_size: str, **flags: str
) -> None:
    """Answer kube-scheduler's filter, prioritize and preempt calls: each pod gets the nodes of one tier.

    A pod that a PlacementPolicy governs takes the lowest free slot of its group when kube-scheduler asks
    about it, and may go to the nodes of that slot's tier. Opens --listen (default :9444), also for
    /livez, /readyz and /metrics.
    """
    if ctx.invoked_subcommand is not None:
        ctx.obj = options
        return
    from fairlead.doors.extender.door import ExtenderDoor, Settings
    from fairlead.kube.quantity import value

    patience_s = duration_s("--report-after", report_after)
    check_client_ca(flags["client_ca_file"], flags["tls_cert_file"])
    try:
        largest = value(max_body_size)
    except ValueError as error:
        raise BadInput(f"--max-body-size: {error}") from error
    settings = Settings(patience_s=patience_s, largest=largest, **flags)
    run_components(options, lambda context: [ExtenderDoor(context, settings)])


@command.command(
    "config",
    epilog="""\b
Examples:
  With the address of Service fairlead-extender, for kubeadm:
    fairlead extender config --kubeconfig ~/.kube/config --kubeadm
  With a given address:
    fairlead extender config --url http://10.0.0.5:9444 > scheduler.yaml
""",
)
@click.option("--kubeadm", is_flag=True, help="Also what changes in the static pod of kube-scheduler.")
@click.option(
    "--url",
    default="",
    metavar="http://HOST:PORT",
    help="Address at which kube-scheduler reaches the extender; without it, the ClusterIP of the Service.",
)
@click.option(
    "--service",
    default="fairlead-extender",
    show_default=True,
    metavar="NAME",
    help="Name of the Service in front of the extender, in the system namespace.",
)
@click.option(
    "--https", is_flag=True, help="The Service speaks HTTPS, with a certificate for NAME.NAMESPACE.svc."
)
@click.option(
    "--ca-file",
    default="",
    metavar="FILE",
    help="Authority of the extender's certificate: a file where kube-scheduler runs.",
)
@click.option(
    "--client-cert-file",
    "cert_file",
    default="",
    metavar="FILE",
    help="Certificate that kube-scheduler shows, for --client-ca-file: a file where it runs.",
)
@click.option(
    "--client-key-file",
    "key_file",
    default="",
    metavar="FILE",
    help="Private key of that certificate, also there.",
)
@click.option(
    "--scheduler-kubeconfig",
    default="/etc/kubernetes/scheduler.conf",
    show_default=True,
    metavar="FILE",
    help="Path to kube-scheduler's own kubeconfig file, where it runs.",
)
@cluster_options(kubeconfig="Path to the kubeconfig file, to look up the Service.")
@click.option("--system-namespace", default="", metavar="NAME", help="Namespace of the Service.")
@click.pass_obj
def config(
    options: Options,
    /,
    *,
    kubeadm: bool,
    url: str,
    service: str,
    https: bool,
    kubeconfig: str,
    context: str,
    system_namespace: str,
    **said: Any,
) -> None:
    """Print the configuration with which kube-scheduler calls the extender, and how to verify and undo it."""
    from fairlead.doors.extender.configuration import Wanted, service_address, written

    if url and https:
        raise BadInput("--https goes with --service; --url says it itself: https://HOST:PORT")
    given = {"kubeconfig": kubeconfig, "context": context, "system_namespace": system_namespace}
    options = replace(options, **{name: value for name, value in given.items() if value})
    # A given address is the one that its certificate names.
    address, name = url, ""
    if not url:
        address, name = call_once(
            options,
            lambda client, namespace: service_address(client, namespace, service, https=https),
        )
    click.echo(written(Wanted(address, server_name=name, **said), kubeadm=kubeadm), nl=False)
