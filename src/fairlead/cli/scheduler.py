"""``fairlead scheduler``: place the pods of a cluster that ask for us."""

from __future__ import annotations

from typing import Any

import click

from fairlead.cli.configuration import decision_options, field_option, fields_of

__all__ = ["command"]


@click.command(
    "scheduler",
    epilog="""\b
Examples:
  On this machine, for pods that ask for schedulerName fairlead, with a recording:
    fairlead scheduler --kubeconfig ~/.kube/config --record recording.jsonl
  With policies of a file and a port for health and metrics:
    fairlead scheduler --kubeconfig ~/.kube/config --policies policies.yaml --listen :8080
  Honour the annotation priority in labelled namespaces only, as the shipped manifests do:
    fairlead scheduler --kubeconfig ~/.kube/config \\
        --priority-annotation-namespaces fairlead.dev/priority-annotation=honour

Exits with 0 after SIGTERM or SIGINT, once what was under way is done and the lease is given back.
SIGHUP reads the configuration file again; so does a change of it.
""",
)
@decision_options
@field_option("--kubeconfig", field="kubeconfig", metavar="FILE", help="Which cluster, and who we are to it.")
@field_option("--context", field="context", metavar="NAME", help="Another context than the current one.")
@field_option(
    "-n",
    "--namespace",
    field="namespaces",
    multiple=True,
    metavar="NAME",
    help="Place only pods of this namespace; others are counted all the same. Repeatable.",
)
@field_option(
    "--scheduler-name",
    field="schedulerNames",
    multiple=True,
    metavar="NAME",
    help="Place pods that ask for this scheduler (default: fairlead). Repeatable.",
)
@field_option(
    "--evict",
    field="preemption.evict",
    type=click.Choice(["api", "delete"]),
    help="Through the eviction API, or by deletion as kube-scheduler does.",
)
@field_option(
    "--preempt-others",
    field="preemption.others",
    type=bool,
    metavar="true|false",
    help="Whether pods of other schedulers may be evicted.",
)
@field_option(
    "--queue-order", field="queue.order", type=click.Choice(["smallest", "fifo"]), help="Among equals."
)
@field_option(
    "--leader-elect",
    field="leaderElection.enabled",
    type=bool,
    metavar="true|false",
    help="Work only while holding the lease (default: true).",
)
@field_option(
    "--policies",
    field="policies",
    metavar="FILE",
    help="A YAML stream of policies, beside those of the cluster; read again when it changes.",
)
@field_option(
    "--system-namespace",
    field="systemNamespace",
    metavar="NAME",
    help="Where the lease lives (default: the pod's own, else fairlead-system).",
)
@field_option(
    "--listen",
    field="listen",
    metavar="ADDRESS:PORT",
    help="Serve /livez, /readyz and /metrics here; without it, no port is opened.",
)
@field_option("--record", field="record.file", metavar="FILE", help="Keep a recording for `fairlead replay`.")
@field_option("--in-flight", field="inFlight", type=int, metavar="N", help="Binds under way at once.")
@click.option(
    "--log-format",
    type=click.Choice(["auto", "json", "text"]),
    default="auto",
    show_default=True,
    help="auto: text on a terminal, JSON elsewhere.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning"]),
    default="info",
    show_default=True,
    help="info has one line per decision.",
)
def command(config_file: str | None, log_format: str, log_level: str, **flags: Any) -> None:
    """Place the pods of a cluster that ask for us, in order of priority, gangs whole or not at all."""
    from fairlead.doors.running import Options, run_doors
    from fairlead.doors.scheduler.configuration import read_configuration
    from fairlead.doors.scheduler.door import SchedulerDoor

    given = fields_of(flags)
    configuration = read_configuration(config_file, given)
    options = Options(
        kubeconfig=configuration.kubeconfig,
        context=configuration.context,
        policies=configuration.policies,
        listen=configuration.listen,
        system_namespace=configuration.system_namespace,
        log_format=log_format,
        log_level=log_level,
    )
    run_doors(
        options,
        lambda around: [SchedulerDoor(around, configuration, file=config_file, flags=given)],
        in_flight=configuration.in_flight,
    )
