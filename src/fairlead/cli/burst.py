"""``fairlead burst``: N pods on the cluster's own nodes, the rest on a virtual one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.door_options import (
    called_options,
    door_options,
    run_components,
    service_and_port,
)
from fairlead.cli.flags import duration_s, priority_options, take_fields
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.doors.process import Context, Door, Options
    from fairlead.policy.rule.model import PlacementPolicy


_SCHEDULER = "fairlead"

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(rf"(?=.{{1,63}}$){_LABEL}")
# A pod may ask for any name, but leases are named after it: 253 characters with a namespace and our words.
_SCHEDULER_NAME = re.compile(rf"(?=.{{1,150}}$){_LABEL}(\.{_LABEL})*")
_LABEL_KEY = re.compile(
    rf"((?=[^/]{{1,253}}/){_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
)


@click.command(
    "burst",
    epilog="""\b
Examples:
  Ten pods of namespace shop on its own nodes, the rest on virtual-node, for pods that ask for
  schedulerName fairlead:
    fairlead burst --burst-node virtual-node --burst-value 10 --namespace shop
  The same per app and everywhere:
    fairlead burst --burst-node virtual-node --burst-value 10 -A --group-label app
  The same, with the annotation priority honoured in labelled namespaces only:
    fairlead burst --burst-node virtual-node --burst-value 10 -A --group-label app \\
        --priority-annotation-namespaces fairlead.dev/priority-annotation=honour
  Leave binding to the cluster's scheduler, from a machine that the cluster can reach:
    fairlead burst --burst-node virtual-node --burst-value 10 --via webhook \\
        --listen :9443 --url https://10.0.0.5:9443
  Once that is ended, have the cluster not call it any more (same --kubeconfig, --system-namespace):
    fairlead webhook --unregister

When fewer than the value are left on base, pods return from the burst node, one at a time: only if they
fit, only if a controller recreates them, pods of Jobs only with --return-jobs. Several replicas may run: one
acts, by lease. Without --via webhook so may one command per namespace, but none beside one with -A for
the same scheduler name. Exits with 0 after SIGTERM or SIGINT, with 2 when a flag cannot be used.
""",
)
@click.option(
    "--burst-node",
    "--burstNode",
    required=True,
    metavar="NAME",
    help="Name of the node that takes the pods beyond the value; virtual-kubelet's taint is tolerated.",
)
@click.option(
    "--burst-value",
    "--burstValue",
    type=int,
    required=True,
    metavar="N",
    help="How many pods of a group stay on the other nodes; at least 1.",
)
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="Namespace of the pods.  [default: default]",
    show_default=False,
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Pods of all namespaces; each counts by itself.")
@click.option(
    "--group-label",
    default="",
    metavar="KEY",
    help="Pods with the same value of this label are a group, pods without it another. Without this flag "
    "all pods of a namespace are one.",
)
@click.option(
    "--scheduler-name",
    default=_SCHEDULER,
    show_default=True,
    metavar="NAME",
    help="Schedule the pods with this schedulerName. Only they count.",
)
@click.option(
    "--via",
    type=click.Choice(["scheduler", "webhook"]),
    default="scheduler",
    show_default=True,
    help="scheduler: bind the pods. webhook: steer the pods of any scheduler when they are created.",
)
@click.option(
    "--return-after",
    default="1m",
    show_default=True,
    metavar="DURATION",
    help="How old a pod on the burst node must be, and for how long the wanted number must have stayed, "
    "before it returns.",
)
@click.option("--return-jobs", is_flag=True, help="Let pods of Jobs return too: their Job counts a failure.")
@priority_options
@called_options("url", "service", "client-ca-file", only="With --via webhook")
@door_options()
def command(options: Options, **flags: Any) -> None:
    """Keep up to --burst-value pods of a group on the cluster's own nodes and send the rest to a virtual one.

    It equals a PlacementPolicy of two tiers, base with a max and burst, without the object.
    """
    asked = _Asked(priority=take_fields(flags), **flags)
    policy = asked.policy(options)
    make = asked.steering if asked.via == "webhook" else asked.scheduling
    run_components(options, lambda context: make(context, policy), fixed=(policy,))


@dataclass(frozen=True, slots=True)
class _Asked:
    """The flags of burst's own."""

    burst_node: str
    burst_value: int
    namespace: str
    all_namespaces: bool
    group_label: str
    scheduler_name: str
    via: str
    return_after: str
    return_jobs: bool
    url: str
    service: str
    client_ca_file: str
    priority: dict[str, Any]  # as fields of the scheduler's configuration

    def policy(self, options: Options) -> PlacementPolicy:
        """The policy that the flags stand for; BadInput where they cannot be used."""
        from fairlead.policy.rule.burst import burst_policy

        if self.namespace and self.all_namespaces:
            raise BadInput("--namespace and --all-namespaces: one or the other")
        if self.namespace and _NAMESPACE.fullmatch(self.namespace) is None:
            raise BadInput(f"--namespace: {self.namespace!r} is not the name of a namespace")
        if self.group_label and _LABEL_KEY.fullmatch(self.group_label) is None:
            raise BadInput(f"--group-label: {self.group_label!r} is not the key of a label")
        if _SCHEDULER_NAME.fullmatch(self.scheduler_name) is None:
            raise BadInput(
                f"--scheduler-name: {self.scheduler_name!r} cannot be part of a lease's name: use up to 150 "
                "lower case letters, digits, - and ., with a letter or digit at each end and around each dot"
            )
        if self.via == "webhook" and self.scheduler_name != _SCHEDULER:
            raise BadInput("--scheduler-name goes with --via scheduler: a webhook steers the pods of any")
        if self.via == "webhook" and not options.listen:
            raise BadInput("--via webhook needs --listen ADDRESS:PORT, where the API server calls us")
        if self.via == "webhook" and self.priority:
            raise BadInput("--priority-annotation flags go with --via scheduler: a webhook orders no pods")
        for flag, value in (("--url", self.url), ("--client-ca-file", self.client_ca_file)):
            if self.via == "scheduler" and value:
                raise BadInput(f"{flag} goes with --via webhook")
        service_and_port(self.service)
        duration_s("--return-after", self.return_after)
        namespace = "" if self.all_namespaces else self.namespace or "default"
        name = "burst" if self.scheduler_name == _SCHEDULER else f"burst-{self.scheduler_name}"
        if namespace:
            # Leases and marks are called after it, and those of two namespaces are two. The dot, which no
            # namespace has, tells a namespace from a scheduler's name.
            name = f"{namespace}.{name}"
        return burst_policy(
            self.burst_node,
            self.burst_value,
            name=name,
            namespace=namespace,
            group_label=self.group_label,
            return_after=self.return_after,
            return_jobs=self.return_jobs,
        )

    def scheduling(self, context: Context, policy: PlacementPolicy) -> list[Door]:
        """A scheduler for these pods, and a rebalancer that brings them back."""
        from fairlead.doors.rebalancer.door import RebalancerDoor, Settings
        from fairlead.doors.scheduler.configuration import merged
        from fairlead.doors.scheduler.door import SchedulerDoor

        lease = f"fairlead-{policy.name}"
        flags = {
            "schedulerNames": [self.scheduler_name],
            "namespaces": list(policy.spec.match.namespaces),
            "leaderElection.leaseName": lease,
            **self.priority,
        }
        returning = Settings((self.scheduler_name,), only_ours=True, lease=f"{lease}-rebalancer")
        scheduler = SchedulerDoor(context, merged({}, flags), only_ours=True)
        return [scheduler, RebalancerDoor(context, returning)]

    def steering(self, context: Context, policy: PlacementPolicy) -> list[Door]:
        """A webhook for the pods of any scheduler, and a rebalancer that brings them back."""
        from fairlead.doors.rebalancer.door import RebalancerDoor
        from fairlead.doors.rebalancer.door import Settings as Returning
        from fairlead.doors.webhook.door import Settings, WebhookDoor

        webhook = Settings(
            register=True,
            url=self.url,
            **service_and_port(self.service),
            client_ca_file=self.client_ca_file,
            schedulers=(),
        )
        returning = Returning((), lease=f"fairlead-{policy.name}-rebalancer")
        return [WebhookDoor(context, webhook), RebalancerDoor(context, returning)]
