"""``fairlead extender``: let an unchanged kube-scheduler ask which nodes a pod may go to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from fairlead.cli.running import running_options

if TYPE_CHECKING:
    from fairlead.doors.running import Options

__all__ = ["command"]

_LISTEN = ":9444"


@click.group(
    "extender",
    invoke_without_command=True,
    epilog="""\b
Examples:
  In a cluster, behind Service fairlead-extender of the system namespace:
    fairlead extender
  On this machine, for a kube-scheduler that can reach it:
    fairlead extender --kubeconfig ~/.kube/config --policies policies.yaml --listen 10.0.0.5:9444
  What kube-scheduler needs to call us there:
    fairlead extender config --url http://10.0.0.5:9444

One replica answers: the one that holds Lease fairlead-extender, and /readyz says so. Exits with 0
after SIGTERM or SIGINT.
""",
)
@click.option("--tls-cert-file", default="", metavar="FILE", help="Speak HTTPS with this certificate.")
@click.option("--tls-key-file", default="", metavar="FILE", help="Its key.")
@click.option(
    "--client-ca-file",
    default="",
    metavar="FILE",
    help="Answer only who shows a certificate that one of these authorities signed (PEM); read again when it "
    "changes. Without it, anybody who reaches the port.",
)
@click.option(
    "--report-after",
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="Say in log and status that no scheduler calls, when none has for so long.",
)
@click.option(
    "--max-body-size",
    default="64Mi",
    show_default=True,
    metavar="SIZE",
    help="The largest call with whole nodes that is taken (nodeCacheCapable: false), one at a time; calls "
    "that only name nodes have 16Mi. All calls together have a quarter of the memory limit.",
)
@running_options
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
    from fairlead.doors.running import run_doors
    from fairlead.errors import BadInput
    from fairlead.kube.duration import seconds
    from fairlead.kube.quantity import value

    try:
        patience_s = seconds(report_after)
    except ValueError as error:
        raise BadInput(f"--report-after: {error}") from error
    if flags["client_ca_file"] and not flags["tls_cert_file"]:
        raise BadInput("--client-ca-file needs --tls-cert-file: without TLS nobody shows a certificate")
    try:
        largest = value(max_body_size)
    except ValueError as error:
        raise BadInput(f"--max-body-size: {error}") from error
    settings = Settings(patience_s=patience_s, largest=largest, **flags)
    run_doors(
        replace(options, listen=options.listen or _LISTEN), lambda around: [ExtenderDoor(around, settings)]
    )


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
    help="Where kube-scheduler reaches us; without it, the ClusterIP of the Service.",
)
@click.option(
    "--service",
    default="fairlead-extender",
    show_default=True,
    metavar="NAME",
    help="The Service before us, in the system namespace.",
)
@click.option(
    "--https", is_flag=True, help="The Service speaks HTTPS, with a certificate for NAME.NAMESPACE.svc."
)
@click.option(
    "--ca-file",
    default="",
    metavar="FILE",
    help="Who signed our certificate: a file where kube-scheduler runs.",
)
@click.option(
    "--client-cert-file",
    default="",
    metavar="FILE",
    help="What kube-scheduler shows us, for --client-ca-file: a file where it runs.",
)
@click.option("--client-key-file", default="", metavar="FILE", help="Its key, there.")
@click.option(
    "--scheduler-kubeconfig",
    default="/etc/kubernetes/scheduler.conf",
    show_default=True,
    metavar="FILE",
    help="kube-scheduler's own, where it runs.",
)
@click.option("--kubeconfig", default="", metavar="FILE", help="Where the Service is looked up.")
@click.option("--context", default="", metavar="NAME", help="Another context than the current one.")
@click.option("--system-namespace", default="", metavar="NAME", help="The namespace of the Service.")
@click.pass_obj
def config(
    options: Options,
    /,
    *,
    kubeadm: bool,
    url: str,
    service: str,
    https: bool,
    ca_file: str,
    client_cert_file: str,
    client_key_file: str,
    scheduler_kubeconfig: str,
    **given: str,
) -> None:
    """Print the configuration with which kube-scheduler calls us, how to verify it and how to go back."""
    from fairlead.doors.extender.configuration import Wanted, written
    from fairlead.errors import BadInput

    if url and https:
        raise BadInput("--https goes with --service; --url says it itself: https://HOST:PORT")
    options = replace(options, **{name: value for name, value in given.items() if value})
    # Who gives an address knows what its certificate says.
    address, name = (url, "") if url else _service_address(options, service, https=https)
    wanted = Wanted(
        address,
        ca_file,
        scheduler_kubeconfig,
        cert_file=client_cert_file,
        key_file=client_key_file,
        server_name=name,
    )
    click.echo(written(wanted, kubeadm=kubeadm), nl=False)


def _service_address(options: Options, service: str, *, https: bool) -> tuple[str, str]:
    from fairlead.client import config as kubeconfig
    from fairlead.client.api import Client
    from fairlead.client.connection import Connection
    from fairlead.doors.extender.configuration import service_address
    from fairlead.doors.running import configure_logging, event_loop, own_namespace

    configure_logging(options.log_format, options.log_level)  # or it would go to standard output

    async def look() -> tuple[str, str]:
        target = kubeconfig.load(options.kubeconfig or None, context=options.context or None)
        async with Connection(target) as connection:
            namespace = options.system_namespace or own_namespace()
            return await service_address(Client(connection), namespace, service, https=https)

    with event_loop() as runner:
        return runner.run(look())
