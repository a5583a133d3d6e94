"""``fairlead serve``: any set of components in one process, on one connection and one port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fairlead.cli.door_options import (
    called_options,
    check_client_ca,
    door_fields,
    options_of,
    run_components,
    service_and_port,
)
from fairlead.cli.flags import (
    PRIORITY_FLAGS,
    config_option,
    field_option,
    priority_options,
    take_fields,
)
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.doors.process import Context, Door


DOORS = ("webhook", "extender", "scheduler", "rebalance")
_LISTEN = ":9443"
_CALLED = ("webhook", "extender")  # unreachable without a port
_FLAGS_OF = (
    (("register", "url", "service", "failure_policy", "tls_ca_file"), ("webhook",)),
    (("client_ca_file",), _CALLED),
    (PRIORITY_FLAGS, ("scheduler",)),
)


@click.command(
    "serve",
    epilog="""\b
Examples:
  In a cluster, behind Service fairlead-webhook of the system namespace:
    fairlead serve --doors webhook,scheduler,rebalance --register
  On this machine, for a cluster that can reach it:
    fairlead serve --doors webhook,rebalance --kubeconfig ~/.kube/config --policies policies.yaml \\
        --listen :9443 --url https://10.0.0.5:9443 --register
  Without a port, two components that are never called:
    fairlead serve --doors scheduler,rebalance --kubeconfig ~/.kube/config
  With a page that shows placement, for kubectl port-forward; users sign in with a token of the cluster:
    fairlead serve --doors scheduler,rebalance --kubeconfig ~/.kube/config --listen 127.0.0.1:8080 --dashboard
  The same, with the annotation priority honoured in labelled namespaces only:
    fairlead serve --doors scheduler,rebalance --kubeconfig ~/.kube/config \\
        --priority-annotation-namespaces fairlead.dev/priority-annotation=honour
  Remove what --register created, once all is ended (same --kubeconfig, --system-namespace):
    fairlead webhook --unregister

With webhook among the components the whole port speaks TLS; with extender only the replica that answers
kube-scheduler is ready. Exits with 0 after SIGTERM or SIGINT.
""",
)
@click.option(
    "--doors",
    default="webhook,scheduler,rebalance",
    show_default=True,
    metavar="NAME,...",
    help=f"Components to run: {', '.join(DOORS)}.",
)
@config_option
@field_option(
    "--scheduler-name",
    field="schedulerNames",
    multiple=True,
    metavar="NAME",
    help="Name of Fairlead's own scheduler (default: the configuration's, else fairlead). Repeatable.",
)
@priority_options
@click.option("--register", is_flag=True, help="webhook: register it with the API server.")
@called_options("url", "service", "failure-policy", only="webhook")
@called_options(
    "tls-cert-file", "tls-key-file", certificate="Serve this certificate instead of Fairlead's own."
)
@click.option(
    "--tls-ca-file",
    default="",
    metavar="FILE",
    help="webhook: authority of that certificate, to be registered.",
)
@called_options("client-ca-file", only="webhook, extender")
@click.option(
    "--dashboard",
    is_flag=True,
    help="Show placement to users of the cluster, under /dashboard/ of the port; they sign in with a token.",
)
@click.option(
    "--dashboard-host",
    "dashboard_hosts",
    multiple=True,
    metavar="NAME",
    help="Name under which browsers call the dashboard, besides localhost. Repeatable.",
)
@door_fields
def command(
    doors: str,
    config_file: str | None,
    log_format: str,
    log_level: str,
    *,
    dashboard: bool,
    dashboard_hosts: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run several components in one process, with one Deployment to look after.

    They share a connection, the policies and one port (default :9443 when a component needs one), with
    /livez, /readyz and /metrics of all. Each does just what its own command does.
    """
    from fairlead.doors.scheduler.configuration import read_configuration

    chosen = _chosen(doors)
    _check_flags(click.get_current_context(), chosen, dashboard=dashboard)
    flags |= service_and_port(flags["service"])
    if "webhook" not in chosen:
        check_client_ca(flags["client_ca_file"], flags["tls_cert_file"])
    given = take_fields(flags)
    configuration = read_configuration(config_file, given)
    options = options_of(
        configuration,
        log_format=log_format,
        log_level=log_level,
        listen=_LISTEN if dashboard or any(door in _CALLED for door in chosen) else "",
    )
    if dashboard:
        from fairlead.web import shared

        shared.check_private(options.listen, tls="webhook" in chosen or bool(flags["tls_cert_file"]))
        files = {name: flags[name] for name in ("tls_cert_file", "tls_key_file")}
        lease = configuration.leader_election.lease_name
        board = shared.Settings(hosts=dashboard_hosts, lease=lease, **files)

    def shown(context: Context) -> list[Door]:
        """The dashboard, if there is to be one."""
        return [shared.SharedDashboard(context, board, configuration.settings())] if dashboard else []

    def made(door: str, context: Context) -> Door:
        """Nothing of a door that is not asked for is imported."""
        names = configuration.scheduler_names
        match door:
            case "webhook":
                from fairlead.doors.webhook import door as webhook

                return webhook.WebhookDoor(context, webhook.Settings(schedulers=names, **flags))
            case "extender":
                from fairlead.doors.extender import door as extender

                same = {name: flags[name] for name in ("tls_cert_file", "tls_key_file", "client_ca_file")}
                return extender.ExtenderDoor(context, extender.Settings(**same))
            case "scheduler":
                from fairlead.doors.scheduler.door import SchedulerDoor

                return SchedulerDoor(context, configuration, file=config_file, flags=given)
            case _:
                from fairlead.doors.rebalancer import door as rebalancer

                return rebalancer.RebalancerDoor(context, rebalancer.Settings(schedulers=names))

    run_components(
        options,
        lambda context: [
            *(made(door, context) for door in chosen),
            *shown(context),
        ],
        in_flight=configuration.in_flight,
    )


def _chosen(doors: str) -> list[str]:
    chosen = [door.strip() for door in doors.split(",") if door.strip()]
    if not chosen:
        raise BadInput(f"--doors: at least one of {', '.join(DOORS)} is needed")
    for door in chosen:
        if door not in DOORS:
            raise BadInput(f"--doors: there is no component {door!r}; there are {', '.join(DOORS)}")
    if len(set(chosen)) < len(chosen):
        raise BadInput(f"--doors: {doors} names a component twice")
    return chosen


def _check_flags(ctx: click.Context, chosen: list[str], *, dashboard: bool) -> None:
    """A flag for a door that is not there would be believed to work."""
    flags = {option.name: option.opts[0] for option in ctx.command.params}
    given = ctx.get_parameter_source
    if not dashboard and given("dashboard_hosts") is ParameterSource.COMMANDLINE:
        raise BadInput("--dashboard-host is for --dashboard")
    tls = () if dashboard else ((("tls_cert_file", "tls_key_file"), _CALLED),)
    for names, doors in (*_FLAGS_OF, *tls):
        if not any(door in chosen for door in doors):
            for name in names:
                if given(name) is ParameterSource.COMMANDLINE:
                    raise BadInput(f"{flags[name]} is for {' and '.join(doors)}, which --doors does not name")
