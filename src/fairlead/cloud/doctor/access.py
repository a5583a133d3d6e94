"""Whether the autoscaler hears what EKS says, and everything else that keeps a group from growing.

A question to EKS that failed is remembered for six minutes as a group without labels and taints: a
permission that was just granted seems not to help.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from fairlead.cloud.doctor.findings import Finding
from fairlead.cloud.doctor.subjects import Around, Subject
from fairlead.cloud.shell import word
from fairlead.nodegroups.aws.tags import OWNED
from fairlead.nodegroups.aws.template import EKS_CACHE

__all__ = ["STATEMENT", "cached_empty", "check_access", "check_flags", "check_size"]


def _statement(action: str) -> str:
    return json.dumps({"Effect": "Allow", "Action": action, "Resource": "*"})


STATEMENT = _statement("eks:DescribeNodegroup")


def check_access(subjects: Sequence[Subject], around: Around) -> list[Finding]:
    """On ``eks:DescribeNodegroup``: refused, unanswered, or an old refusal that is still remembered."""
    managed = [each for each in subjects if each.asg is not None and each.asg.nodegroup]
    relying = [each for each in managed if each.relies]
    found = [_blind(around), *(cached_empty(each) for each in relying)]
    if managed and around.settings.as_version.asks_eks:
        found.append(_deaf(around, [each.name for each in relying]))
    return [each for each in found if each is not None]


def _blind(around: Around) -> Finding | None:
    action = "autoscaling:DescribeAutoScalingGroups"
    if around.state.permissions.get(action) != "denied":
        return None
    return Finding(
        "auto-scaling-denied",
        f"the autoscaler ({around.state.autoscaler_role}) may not call {action}: it knows no group at all.",
        f"add to its role's policy: {_statement(action)}",
        evidence=(f"IAM does not allow {action} on *",),
    )


def cached_empty(subject: Subject) -> Finding | None:
    """The trap: it was refused, is allowed now, and goes on as if there were nothing to hear."""
    failed, around = subject.ask_failed, subject.around
    if failed is None or around.access != "allowed":
        return None
    ago = around.evidence.ago(failed.at)
    if ago is not None and ago > EKS_CACHE:
        return None
    left = "up to 6 minutes" if ago is None else f"{int((EKS_CACHE - ago).total_seconds())} more seconds"
    return Finding(
        "empty-answer-cached",
        f"eks:DescribeNodegroup failed for {failed.nodegroup} and is allowed now, but the autoscaler keeps "
        f"the empty answer for {left}: it knows no labels and taints of the group.",
        f"wait, or {around.settings.restart}",
        group=subject.name,
        evidence=(f"log: {failed.why}", f"only EKS says {', '.join(_short(subject))}"),
        seen=True,
    )


def _deaf(around: Around, relying: list[str]) -> Finding | None:
    reported = around.evidence.asked[-1:] if around.state.describe_nodegroup == "unknown" else []
    evidence = tuple(f"log: {each.nodegroup}: {each.why}" for each in reported)
    if relying:
        needs = (
            f"{', '.join(relying)} {'need' if len(relying) > 1 else 'needs'} its answer: tags do not say all"
        )
    else:
        needs = "tags say all that it would, for now"
    if around.access == "denied":
        role = around.state.autoscaler_role or around.settings.role
        says = f"the autoscaler{f' ({role})' if role else ''} may not call eks:DescribeNodegroup; {needs}."
        if not evidence:
            evidence = ("IAM does not allow eks:DescribeNodegroup on *",)
        fix = f"add to its role's policy: {STATEMENT}"
        cause = "describe-nodegroup-denied"
    elif around.access == "unreachable":
        region = around.state.region or "REGION"
        says = f"the autoscaler gets no answer from the EKS API; {needs}."
        if not evidence:
            evidence = ("its calls of eks:DescribeNodegroup are not answered",)
        fix = (
            "in a private network: aws ec2 create-vpc-endpoint --vpc-endpoint-type Interface "
            f"--service-name com.amazonaws.{region}.eks --vpc-id VPC --subnet-ids SUBNETS "
            "--security-group-ids GROUP"
        )
        cause = "describe-nodegroup-unreachable"
    else:
        return None
    return Finding(
        cause,
        says,
        fix,
        evidence=evidence,
        severity="wrong" if relying else "risk",
        seen=bool(reported),
    )


def check_size(subject: Subject, wanted: bool | None) -> list[Finding]:
    """Whether the account has the group at all, and it may grow. `wanted`: some pod needs it to."""
    asg, around = subject.asg, subject.around
    if asg is None:
        there = ", ".join(each.name for each in around.groups) or "none"
        strangers = subject.strangers
        fix = "fairlead nodegroups terraform -f FILE, and apply it"
        if strangers:
            fix += f"; if {strangers[0]} is the cluster's, tag it {OWNED}{around.cluster}=owned"
        return [
            Finding(
                "group-missing",
                f"no Auto Scaling group of cluster {around.cluster or '(unnamed)'} is {subject.name}'s.",
                fix,
                group=subject.name,
                evidence=(
                    f"there are: {there}",
                    *(
                        f"{name} has the name, but nothing says that it is the cluster's"
                        for name in strangers
                    ),
                ),
            )
        ]
    found = []
    line = next((line for name, line in around.evidence.at_max.items() if subject.is_called(name)), "")
    # A group that is full and that nobody waits for is simply in use; who waits may not be known.
    if asg.desired >= asg.max and (wanted is not False or line):
        most = subject.group.max
        size = most if asg.max < most else asg.max + 1
        fix = (
            f"{subject.update_nodegroup} --scaling-config maxSize={size}"
            if subject.nodegroup
            else f"aws autoscaling update-auto-scaling-group --auto-scaling-group-name {word(asg.name)} "
            f"--max-size {size}"
        )
        if size > most:
            fix = f"if it may have more than the file's max of {most}, raise that, and {fix}"
        says = f"{asg.name} is to have {asg.desired} nodes and may have {asg.max}."
        evidence = (f"log: {line}",) if line else (f"MaxSize {asg.max}, DesiredCapacity {asg.desired}",)
        found.append(
            Finding(
                "max-reached",
                says,
                fix,
                group=subject.name,
                evidence=evidence,
                severity="wrong" if wanted or line else "risk",
                seen=bool(line),
            )
        )
    if "Launch" in asg.suspended:
        found.append(
            Finding(
                "launch-suspended",
                f"the process Launch of {asg.name} is suspended: no node ever comes.",
                f"aws autoscaling resume-processes --auto-scaling-group-name {word(asg.name)} "
                "--scaling-processes Launch",
                group=subject.name,
                evidence=("SuspendedProcesses: Launch",),
            )
        )
    return [*found, *_by_log(subject), *_unhealthy(subject)]


def check_flags(around: Around) -> list[Finding]:
    """Flags that keep it from acting."""
    settings = around.settings
    if settings.flags.get("scale-up-from-zero", ("true",))[-1] != "false":
        return []
    return [
        Finding(
            "scale-from-zero-forbidden",
            "the autoscaler does nothing while the cluster has no ready node.",
            "take away --scale-up-from-zero=false",
            evidence=(f"flags of {settings.namespace}/{settings.name}",),
        )
    ]


def _by_log(subject: Subject) -> list[Finding]:
    """What only its log tells of a group."""
    found = []
    evidence = subject.around.evidence
    for asg, kind in evidence.unknown_types.items():
        if subject.is_called(asg):
            found.append(
                Finding(
                    "type-unknown",
                    f"the autoscaler does not know the instance type {kind} of {asg}.",
                    "update it, or let it read types: ec2:DescribeInstanceTypes on * for its role, and no "
                    "--aws-use-static-instance-list",
                    group=subject.name,
                    evidence=("log: uses the unknown EC2 instance type",),
                    seen=True,
                )
            )
    for asg, why in evidence.backoff.items():
        if subject.is_called(asg):
            found.append(
                Finding(
                    "in-backoff",
                    f"the autoscaler asked {asg} for nodes that did not come, and waits.",
                    f"aws autoscaling describe-scaling-activities --auto-scaling-group-name {word(asg)} "
                    "--max-items 5 tells why",
                    group=subject.name,
                    evidence=(f"log: {why}",),
                    seen=True,
                )
            )
    return found


def _unhealthy(subject: Subject) -> list[Finding]:
    nodegroup = subject.nodegroup
    if nodegroup is None or (nodegroup.status in ("ACTIVE", "UPDATING", "") and not nodegroup.issues):
        return []
    return [
        Finding(
            "nodegroup-unhealthy",
            f"EKS node group {nodegroup.name} is {nodegroup.status or 'not well'}.",
            f"aws eks describe-nodegroup --cluster-name {word(subject.around.cluster)} --nodegroup-name "
            f"{word(nodegroup.name)} --query nodegroup.health",
            group=subject.name,
            evidence=nodegroup.issues or (f"status {nodegroup.status}",),
        )
    ]


def _short(subject: Subject) -> list[str]:
    return [f"{tag.rpartition('node-template/')[2]}={subject.lacking[tag]}" for tag in subject.relies]
