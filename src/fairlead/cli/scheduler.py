"""``fairlead scheduler``: schedule pods whose schedulerName is fairlead."""

from __future__ import annotations

from typing import Any

import click

from fairlead.cli.door_options import door_fields, options_of, run_components
from fairlead.cli.flags import decision_options, field_option, take_fields


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
@field_option(
    "-n",
    "--namespace",
    field="namespaces",
    multiple=True,
    metavar="NAME",
    help="Schedule only pods of this namespace; other pods still count. Repeatable.",
)
@field_option(
    "--scheduler-name",
    field="schedulerNames",
    multiple=True,
    metavar="NAME",
    help="Schedule pods with this schedulerName (default: fairlead). Repeatable.",
)
@field_option(
    "--evict",
    field="preemption.evict",
    type=click.Choice(["api", "delete"]),
    help="Evict through the eviction API, or by deletion as kube-scheduler does.",
)
@field_option(
    "--preempt-others",
    field="preemption.others",
    type=bool,
    metavar="true|false",
    help="Whether pods of other schedulers may be evicted.",
)
@field_option(
    "--queue-order",
    field="queue.order",
    type=click.Choice(["smallest", "fifo"]),
    help="Order of units of equal priority.",
)
@field_option(
    "--leader-elect",
    field="leaderElection.enabled",
    type=bool,
    metavar="true|false",
    help="Schedule only while holding the lease (default: true).",
)
@field_option(
    "--record", field="record.file", metavar="FILE", help="Write a recording for `fairlead replay`."
)
@field_option(
    "--in-flight", field="inFlight", type=int, metavar="N", help="Maximum number of concurrent binds."
)
@door_fields
def command(config_file: str | None, log_format: str, log_level: str, **flags: Any) -> None:
    """Schedule pods whose schedulerName is fairlead: by priority, gangs as a whole or not at all."""
    from fairlead.doors.scheduler.configuration import read_configuration
    from fairlead.doors.scheduler.door import SchedulerDoor

    given = take_fields(flags)
    configuration = read_configuration(config_file, given)
    run_components(
        options_of(configuration, log_format=log_format, log_level=log_level),
        lambda context: [SchedulerDoor(context, configuration, file=config_file, flags=given)],
        in_flight=configuration.in_flight,
    )
