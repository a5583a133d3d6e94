"""``fairlead serve``: any set of doors in one process, on one connection and one port."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fairlead.cli.configuration import (
    PRIORITY_FLAGS,
    config_option,
    field_option,
    fields_of,
    priority_options,
)
from fairlead.cli.running import running_options
from fairlead.cli.webhook import service_and_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fairlead.doors.running import Door, Options, Surroundings
    from fairlead.doors.scheduler.configuration import Configuration

__all__ = ["command"]

DOORS = ("webhook", "extender", "scheduler", "rebalance")
_LISTEN = ":9443"
_CALLED = ("webhook", "extender")  # nobody reaches these without a port
_FLAGS_OF = (
    (("register", "url", "service", "failure_policy", "tls_ca_file"), ("webhook",)),
    (("tls_cert_file", "tls_key_file", "client_ca_file"), _CALLED),
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
  Without a port, two doors that nobody calls:
    fairlead serve --doors scheduler,rebalance --kubeconfig ~/.kube/config
  The same, with the annotation priority honoured in labelled namespaces only:
    fairlead serve --doors scheduler,rebalance --kubeconfig ~/.kube/config \\
        --priority-annotation-namespaces fairlead.dev/priority-annotation=honour
  Take away again what --register made, once all is ended (same --kubeconfig, --system-namespace):
    fairlead webhook --unregister

With webhook among the doors the whole port speaks TLS; with extender only the replica that answers
kube-scheduler is ready. Exits with 0 after SIGTERM or SIGINT.
""",
)
@click.option(
    "--doors",
    default="webhook,scheduler,rebalance",
    show_default=True,
    metavar="NAME,...",
    help=f"Which: {', '.join(DOORS)}.",
)
@config_option
@field_option(
    "--scheduler-name",
    field="schedulerNames",
    multiple=True,
    metavar="NAME",
    help="Our own scheduler's name (default: the configuration's, else fairlead). Repeatable.",
)
@priority_options
@click.option("--register", is_flag=True, help="webhook: have the API server call us.")
@click.option(
    "--url",
    default="",
    metavar="https://HOST:PORT",
    help="webhook: where the API server reaches us from outside of a cluster; without it, by Service.",
)
@click.option(
    "--service",
    default="fairlead-webhook",
    show_default=True,
    metavar="NAME[:PORT]",
    help="webhook: the Service before us, in the system namespace; port 443 unless told.",
)
@click.option(
    "--failure-policy",
    type=click.Choice(["Ignore", "Fail"]),
    default="Ignore",
    show_default=True,
    help="webhook: what becomes of pods while we are away.",
)
@click.option("--tls-cert-file", default="", metavar="FILE", help="Show this certificate, not our own.")
@click.option("--tls-key-file", default="", metavar="FILE", help="Its key.")
@click.option("--tls-ca-file", default="", metavar="FILE", help="Who signed it, to be registered.")
@click.option(
    "--client-ca-file",
    default="",
    metavar="FILE",
    help="webhook, extender: answer only who shows a certificate that one of these authorities signed.",
)
@running_options
def command(options: Options, doors: str, config_file: str | None, **flags: Any) -> None:
    """Be several doors in one process: the fewest components that can work.

    They share a connection, the policies and one port (default :9443 when a door needs one), with
    /livez, /readyz and /metrics of all. Each does just what its own command does.
    """
    from fairlead.doors.running import run_doors
    from fairlead.doors.scheduler.configuration import read_configuration
    from fairlead.errors import BadInput

    chosen = _chosen(doors)
    _check_flags(click.get_current_context(), chosen)
    flags |= service_and_port(flags["service"])
    if flags["client_ca_file"] and "webhook" not in chosen and not flags["tls_cert_file"]:
        raise BadInput("--client-ca-file needs --tls-cert-file: without TLS nobody shows a certificate")
    given = fields_of({name: flags.pop(name) for name in ("schedulerNames", *PRIORITY_FLAGS)})
    configuration = read_configuration(config_file, given)
    options = replace(
        options,
        kubeconfig=options.kubeconfig or configuration.kubeconfig,
        context=options.context or configuration.context,
        policies=options.policies or configuration.policies,
        system_namespace=options.system_namespace or configuration.system_namespace,
        listen=options.listen
        or configuration.listen
        or (_LISTEN if any(door in _CALLED for door in chosen) else ""),
    )
    makers = _makers(configuration, config_file, given, flags)
    run_doors(
        options, lambda around: [makers[door](around) for door in chosen], in_flight=configuration.in_flight
    )


def _chosen(doors: str) -> list[str]:
    from fairlead.errors import BadInput

    chosen = [door.strip() for door in doors.split(",") if door.strip()]
    if not chosen:
        raise BadInput(f"--doors: at least one of {', '.join(DOORS)} is needed")
    for door in chosen:
        if door not in DOORS:
            raise BadInput(f"--doors: there is no door {door!r}; there are {', '.join(DOORS)}")
    if len(set(chosen)) < len(chosen):
        raise BadInput(f"--doors: {doors} names a door twice")
    return chosen


def _check_flags(ctx: click.Context, chosen: list[str]) -> None:
    """A flag for a door that is not there would be believed to work."""
    from fairlead.errors import BadInput

    flags = {option.name: option.opts[0] for option in ctx.command.params}
    for names, doors in _FLAGS_OF:
        if not any(door in chosen for door in doors):
            for name in names:
                if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                    raise BadInput(f"{flags[name]} is for {' and '.join(doors)}, which --doors does not name")


def _makers(
    configuration: Configuration, config_file: str | None, given: Mapping[str, Any], flags: Mapping[str, Any]
) -> dict[str, Callable[[Surroundings], Door]]:
    """How each door is made; nothing of a door that is not asked for is imported."""
    names = configuration.scheduler_names

    def webhook(around: Surroundings) -> Door:
        from fairlead.doors.webhook.door import Settings, WebhookDoor

        return WebhookDoor(around, Settings(schedulers=names, **flags))

    def extender(around: Surroundings) -> Door:
        from fairlead.doors.extender.door import ExtenderDoor, Settings

        same = ("tls_cert_file", "tls_key_file", "client_ca_file")
        return ExtenderDoor(around, Settings(**{name: flags[name] for name in same}))

    def scheduler(around: Surroundings) -> Door:
        from fairlead.doors.scheduler.door import SchedulerDoor

        return SchedulerDoor(around, configuration, file=config_file, flags=given)

    def rebalance(around: Surroundings) -> Door:
        from fairlead.doors.rebalancer.door import RebalancerDoor, Settings

        return RebalancerDoor(around, Settings(schedulers=names))

    return {"webhook": webhook, "extender": extender, "scheduler": scheduler, "rebalance": rebalance}
