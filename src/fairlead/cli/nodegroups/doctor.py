"""``fairlead nodegroups doctor``: why a pod gets no node from zero, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.flags import cluster_options, output_option
from fairlead.cli.nodegroups.file import file_option, note, read_given

if TYPE_CHECKING:
    from fairlead.cloud.account import Account
    from fairlead.cloud.doctor import CaSettings, Report, TagChange, Verdict
    from fairlead.feed.cluster_read import ClusterRead
    from fairlead.nodegroups import NodeGroup
    from fairlead.nodegroups.aws import CloudState


_ASGS = "autoscaling:DescribeAutoScalingGroups"


@dataclass(frozen=True, slots=True)
class _Given:
    """What the flags say of where to look."""

    aws: bool
    from_file: str
    objects: tuple[str, ...]
    kubeconfig: str
    context: str
    ca_log: str
    pod: str

    @property
    def live(self) -> bool:
        """Whether a cluster is asked."""
        return bool(self.kubeconfig or self.context or (self.pod and not self.objects))


@click.command(
    "doctor",
    short_help="Why a pod gets no node from zero, and what to do.",
    epilog="""\b
Examples:
  An account as it was once seen, and the log of its Cluster Autoscaler; something is wrong there:
    fairlead nodegroups doctor -f examples/node-groups.yaml --from-file examples/doctor/dump.json \\
      --ca-log examples/doctor/autoscaler.log || test $? = 1
  The same account later:
    fairlead nodegroups doctor -f examples/node-groups.yaml --from-file examples/doctor/mended.json
  With --aws instead of --from-file the account itself, and with --fix, mended.

Exits with 0 when nothing is wrong (risks may be), with 1 when something is or when too little could be read
to tell, with 2 when the input cannot be used.
""",
)
@file_option
@click.option("--aws", is_flag=True, help="Look into the AWS account (Auto Scaling, EKS, IAM), with boto3.")
@click.option("--from-file", default="", metavar="FILE", help="A dump of --save, or the AWS CLI's answers.")
@click.option("--save", default="", metavar="FILE", help="Write what --aws read, for --from-file elsewhere.")
@click.option("--cluster", default="", metavar="NAME", help="The EKS cluster; not needed if there is one.")
@click.option("--region", default="", metavar="NAME", help="Region to use instead of the AWS CLI's.")
@click.option("--profile", default="", metavar="NAME", help="Profile to use instead of the AWS CLI's.")
@click.option("--ca-log", default="", metavar="FILE", help="Cluster Autoscaler's log; - is standard input.")
@click.option(
    "--ca-version",
    default="",
    metavar="X.Y.Z",
    help="Version of Cluster Autoscaler, if no Deployment shows it.",
)
@click.option(
    "--ca-role",
    default="",
    metavar="ARN",
    help="IAM role of Cluster Autoscaler, if no ServiceAccount shows it.",
)
@click.option("--as-autoscaler", is_flag=True, help="The AWS credentials are the autoscaler's own.")
@click.option(
    "--pod", default="", metavar="NAMESPACE/NAME", help="Check only this pod; by default, all pending pods."
)
@click.option(
    "--objects",
    multiple=True,
    metavar="FILE",
    help="What the cluster has, as kubectl get -o yaml prints it. Repeatable.",
)
@cluster_options(kubeconfig="Path to a kubeconfig file: read the cluster itself.")
@click.option("--fix", is_flag=True, help="Set the tags that are missing or wrong; shows them and asks.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option("table", "json", "yaml")
def command(
    *,
    file: str,
    save: str,
    cluster: str,
    region: str,
    profile: str,
    ca_version: str,
    ca_role: str,
    as_autoscaler: bool,
    fix: bool,
    yes: bool,
    output: str,
    **where: Any,
) -> None:
    """Say of each group and each pod that waits whether scale-up from zero would work, and why not.

    Known causes are named, each with its evidence and the exact fix, most likely first. With --fix, tags are
    set on Auto Scaling groups, and everything is looked at again; nothing else is ever changed.
    """
    from fairlead.cli.state import read_bytes
    from fairlead.client.clock import WALL_CLOCK
    from fairlead.cloud.account import Account
    from fairlead.cloud.cluster import is_blind
    from fairlead.cloud.doctor import CaSettings, diagnose, read_log
    from fairlead.cloud.doctor.diagnosis import settings_of
    from fairlead.nodegroups.aws import Version

    given = _Given(**where)
    _check(given, save=save, fix=fix, as_autoscaler=as_autoscaler)
    groups = read_given(file)
    told = CaSettings(version=Version.read(ca_version) if ca_version else None, role=ca_role)
    read = _objects(given)
    objects = read.plain
    log = read_bytes(given.ca_log).decode(errors="replace") if given.ca_log else ""

    def find(state: CloudState | None, *, mended: bool = False) -> Report:
        evidence, shown = read_log(log), objects
        if mended:
            # Refusals from before the tags were set say nothing of what the tags do.
            evidence.refusals.clear()
            shown = [each for each in objects if each.get("kind") != "Event"]
        now = WALL_CLOCK.wall() if given.aws or given.live else None
        found = diagnose(groups, state, shown, evidence=evidence, settings=told, pod=given.pod, now=now)
        unread = {**read.unread, **(state.unread if state is not None else {})}
        return replace(found, unread=unread, blind=is_blind(read) or _ASGS in unread)

    if not given.aws:
        report = find(_dumped(given, cluster))
        _show(report, output)
        sys.exit(1 if report.wrong or report.blind else 0)
    settings = settings_of(objects, read_log(log), told)
    with Account(cluster, region=region, profile=profile) as account:
        state = _look(account, settings, as_autoscaler, groups)
        if save:
            _save(state, save)
        report = find(state)
        if not fix:
            _show(report, output)
        elif changes := _agreed(report, state, yes, output):
            account.tag(changes)
            note(f"{len(changes)} tags set; the autoscaler sees them within a minute")
            report = find(_look(account, settings, as_autoscaler, groups), mended=True)
            _show_after(report, changes, output)
        elif output != "table":
            _show_after(report, (), output)
    sys.exit(1 if report.wrong or report.blind else 0)


def _check(given: _Given, *, save: str, fix: bool, as_autoscaler: bool) -> None:
    from fairlead.errors import BadInput

    if given.aws and given.from_file:
        raise BadInput("--aws and --from-file: which of the two?")
    for flag, is_set in (("--fix", fix), ("--save", bool(save)), ("--as-autoscaler", as_autoscaler)):
        if is_set and not given.aws:
            raise BadInput(f"{flag} needs --aws")
    if not (given.aws or given.from_file or given.objects or given.ca_log or given.live):
        raise BadInput(
            "nothing to look at: give --aws or --from-file; --kubeconfig, --objects and --ca-log tell more"
        )
    if [given.ca_log, given.from_file, *given.objects].count("-") > 1:
        raise BadInput("standard input can be read once only")


def _look(account: Account, settings: CaSettings, own: bool, groups: Sequence[NodeGroup]) -> CloudState:
    state = account.state(
        role=settings.role,
        service_account=settings.service_account,
        own=own,
        named=[*settings.names(), *(group.name for group in groups)],
    )
    for action, why in state.unread.items():
        note(f"{action} could not be called: {why}")
    return state


def _dumped(given: _Given, cluster: str) -> CloudState | None:
    import msgspec

    from fairlead.cli.state import read_objects
    from fairlead.errors import BadInput
    from fairlead.nodegroups.aws import read_state

    if not given.from_file:
        return None
    state = read_state(read_objects([given.from_file]), given.from_file)
    if not (cluster or state.cluster):
        raise BadInput(f"{given.from_file}: says of no one cluster whose it is; name it with --cluster")
    return msgspec.structs.replace(state, cluster=cluster) if cluster else state


def _save(state: CloudState, path: str) -> None:
    import msgspec

    from fairlead.errors import BadInput

    text = msgspec.json.format(msgspec.json.encode(state.to_plain()), indent=2)
    try:
        Path(path).write_bytes(text + b"\n")
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror or error}") from error


def _objects(given: _Given) -> ClusterRead:
    from fairlead.cli.cluster import call_cluster
    from fairlead.cli.state import read_objects
    from fairlead.client.api import Client
    from fairlead.cloud.cluster import read_cluster
    from fairlead.engine.ask.objects import opened
    from fairlead.feed.cluster_read import ClusterRead

    found = list(opened(read_objects(given.objects))) if given.objects else []
    if not given.live:
        return ClusterRead(plain=found)
    read = call_cluster(
        given.kubeconfig, given.context, lambda connection, _: read_cluster(Client(connection))
    )
    return ClusterRead(plain=[*found, *read.plain], unread=read.unread)


def _agreed(report: Report, state: CloudState, yes: bool, output: str) -> tuple[TagChange, ...]:
    """The tags to set, if there are any and the user agrees."""
    from fairlead.cli.change_notice import print_account_notice
    from fairlead.cli.output import show_lines
    from fairlead.errors import BadInput

    changes = report.tags
    if output == "table":
        _show(report, output)
        show_lines("")
    if not changes:
        note("there is nothing that --fix could set")
        return ()
    print_account_notice(state)
    for each in changes:
        click.echo(f"set on {each.asg}: {each.key}={each.value}", err=True)
    try:
        agreed = yes or click.confirm(f"Set these {len(changes)} tags?", err=True)
    except click.Abort as error:
        raise BadInput("--fix asks first and got no answer: nothing was set; scripts give --yes") from error
    return changes if agreed else ()


def _show(report: Report, output: str) -> None:
    from fairlead.cli.output import show_data, show_lines, show_table

    if output != "table":
        show_data(report.to_plain(), output)
        return
    for heading, verdicts in (("GROUP", (*report.groups, *report.pools)), ("POD", report.pods)):
        if verdicts:
            rows = ((one.name, (str(one), _colour(one)), one.where, one.why) for one in verdicts)
            show_table((heading, "FROM ZERO", "WHERE", "WHY"), rows)
            show_lines("")
    if report.unread:
        show_lines("Could not be read, so that nothing is known of it:")
        show_lines(*(f"  {what}: {why}" for what, why in sorted(report.unread.items())), "")
    if report.blind:
        show_lines("Too little could be read to call anything well.")
    elif not report.findings:
        show_lines("Nothing wrong was found in what could be read." if report.unread else "Nothing is wrong.")
    show_lines(*(f"{number}. {finding}" for number, finding in enumerate(report.findings, 1)))


def _colour(verdict: Verdict) -> str:
    if not verdict.certain:
        return "yellow"
    return "green" if verdict.works else "red"


def _show_after(report: Report, changes: Sequence[TagChange], output: str) -> None:
    from fairlead.cli.output import show_data, show_lines

    if output != "table":
        show_data({**report.to_plain(), "set": [asdict(each) for each in changes]}, output)
        return
    show_lines("", "After the fix:")
    _show(report, output)
    left = [each for each in report.findings if not each.tags]
    if left:
        show_lines("", f"--fix cannot do what is left: {', '.join(dict.fromkeys(e.cause for e in left))}.")
