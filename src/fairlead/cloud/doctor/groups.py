"""What keeps a group itself from growing: its tags, its size, and whether the autoscaler hears what EKS says.

Tags are missing, malformed, misspelt, elsewhere, or overruled by EKS. What EKS tells the autoscaler need not
be tagged, if the autoscaler is known to read it; where that could not be found out, missing tags are named
all the same, as a possible cause. A question to EKS that failed is remembered for six minutes as a group
without labels and taints: a permission that was just granted seems not to help.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from fairlead.cloud.doctor.findings import Finding, TagChange
from fairlead.cloud.doctor.subjects import Context, Subject, activities_of, tag_command
from fairlead.cloud.shell import word
from fairlead.kube.tolerations import Taint
from fairlead.nodegroups.aws.tags import (
    LABEL,
    OWNED,
    PREFIX,
    RESOURCES,
    TAINT,
    discovery_tags,
    eks_effect,
    said_by,
)
from fairlead.nodegroups.aws.template import EKS_CACHE

_RULES = {LABEL: "NodeAffinity", TAINT: "TaintToleration"}


def _statement(action: str) -> str:
    return json.dumps({"Effect": "Allow", "Action": action, "Resource": "*"})


STATEMENT = _statement("eks:DescribeNodegroup")


def check_access(subjects: Sequence[Subject], context: Context) -> Iterator[Finding]:
    """On ``eks:DescribeNodegroup``: refused, unanswered, or an old refusal that is still remembered."""
    action = "autoscaling:DescribeAutoScalingGroups"
    if context.state.permissions.get(action) == "denied":
        yield Finding(
            "auto-scaling-denied",
            f"the autoscaler ({context.state.autoscaler_role}) may not call {action}: it knows no group at "
            "all.",
            f"add to its role's policy: {_statement(action)}",
            evidence=(f"IAM does not allow {action} on *",),
        )
    managed = [each for each in subjects if each.asg is not None and each.asg.nodegroup]
    relying = [each for each in managed if each.relies]
    for each in relying:
        yield from cached_empty(each)
    if managed and context.settings.as_version.asks_eks:
        yield from _deaf(context, [each.name for each in relying])


def cached_empty(subject: Subject) -> Iterator[Finding]:
    """The trap: it was refused, is allowed now, and goes on as if there were nothing to hear."""
    failed, context = subject.ask_failed, subject.context
    if failed is None or context.access != "allowed":
        return
    ago = context.evidence.ago(failed.at)
    if ago is not None and ago > EKS_CACHE:
        return
    left = "up to 6 minutes" if ago is None else f"{int((EKS_CACHE - ago).total_seconds())} more seconds"
    said = [f"{tag.rpartition('node-template/')[2]}={subject.lacking[tag]}" for tag in subject.relies]
    yield subject.finding(
        "empty-answer-cached",
        f"eks:DescribeNodegroup failed for {failed.nodegroup} and is allowed now, but the autoscaler keeps "
        f"the empty answer for {left}: it knows no labels and taints of the group.",
        f"wait, or {context.settings.restart}",
        f"log: {failed.why}",
        f"only EKS says {', '.join(said)}",
        seen=True,
    )


def _deaf(context: Context, relying: list[str]) -> Iterator[Finding]:
    needs = "tags say all that it would, for now"
    if relying:
        verb = "need" if len(relying) > 1 else "needs"
        needs = f"{', '.join(relying)} {verb} its answer: tags do not say all"
    if context.access == "denied":
        role = context.state.autoscaler_role or context.settings.role
        says = f"the autoscaler{f' ({role})' if role else ''} may not call eks:DescribeNodegroup; {needs}."
        fix = f"add to its role's policy: {STATEMENT}"
        evidence = "IAM does not allow eks:DescribeNodegroup on *"
    elif context.access == "unreachable":
        says = f"the autoscaler gets no answer from the EKS API; {needs}."
        fix = (
            "in a private network: aws ec2 create-vpc-endpoint --vpc-endpoint-type Interface "
            f"--service-name com.amazonaws.{context.state.region or 'REGION'}.eks --vpc-id VPC "
            "--subnet-ids SUBNETS --security-group-ids GROUP"
        )
        evidence = "its calls of eks:DescribeNodegroup are not answered"
    else:
        return
    reported = context.evidence.asked[-1:] if context.state.describe_nodegroup == "unknown" else []
    yield Finding(
        f"describe-nodegroup-{context.access}",
        says,
        fix,
        evidence=tuple(f"log: {each.nodegroup}: {each.why}" for each in reported) or (evidence,),
        severity="wrong" if relying else "risk",
        seen=bool(reported),
    )


def check_flags(context: Context) -> Iterator[Finding]:
    """Flags that keep it from acting."""
    settings = context.settings
    if settings.flags.get("scale-up-from-zero", ("true",))[-1] == "false":
        yield Finding(
            "scale-from-zero-forbidden",
            "the autoscaler does nothing while the cluster has no ready node.",
            "take away --scale-up-from-zero=false",
            evidence=(f"flags of {settings.namespace}/{settings.name}",),
        )


def check_size(subject: Subject, wanted: bool | None) -> Iterator[Finding]:
    """Whether the account has the group at all, and it may grow. `wanted`: some pod needs it to."""
    asg, context = subject.asg, subject.context
    if asg is None:
        strangers = subject.strangers
        fix = "fairlead nodegroups terraform -f FILE, and apply it"
        if strangers:
            fix += f"; if {strangers[0]} is the cluster's, tag it {OWNED}{context.cluster}=owned"
        yield subject.finding(
            "group-missing",
            f"no Auto Scaling group of cluster {context.cluster or '(unnamed)'} is {subject.name}'s.",
            fix,
            f"there are: {', '.join(each.name for each in context.groups) or 'none'}",
            *(f"{name} has the name, but nothing says that it is the cluster's" for name in strangers),
        )
        return
    called = word(asg.name)
    line = next((line for name, line in context.evidence.at_max.items() if subject.is_called(name)), "")
    # A group that is full and that no pod waits for is simply in use; which pods wait may not be known.
    if asg.desired >= asg.max and (wanted is not False or line):
        most = subject.group.max
        size = most if asg.max < most else asg.max + 1
        fix = (
            f"aws autoscaling update-auto-scaling-group --auto-scaling-group-name {called} --max-size {size}"
        )
        if subject.nodegroup:
            fix = f"{subject.update_nodegroup} --scaling-config maxSize={size}"
        if size > most:
            fix = f"if it may have more than the file's max of {most}, raise that, and {fix}"
        yield subject.finding(
            "max-reached",
            f"{asg.name} is to have {asg.desired} nodes and may have {asg.max}.",
            fix,
            f"log: {line}" if line else f"MaxSize {asg.max}, DesiredCapacity {asg.desired}",
            severity="wrong" if wanted or line else "risk",
            seen=bool(line),
        )
    if "Launch" in asg.suspended:
        yield subject.finding(
            "launch-suspended",
            f"the process Launch of {asg.name} is suspended: no node ever comes.",
            f"aws autoscaling resume-processes --auto-scaling-group-name {called} --scaling-processes Launch",
            "SuspendedProcesses: Launch",
        )
    yield from _by_log(subject)
    yield from _unhealthy(subject)


def _by_log(subject: Subject) -> Iterator[Finding]:
    """What only its log tells of a group."""
    evidence = subject.context.evidence
    for asg, kind in evidence.unknown_types.items():
        if subject.is_called(asg):
            yield subject.finding(
                "type-unknown",
                f"the autoscaler does not know the instance type {kind} of {asg}.",
                "update it, or let it read types: ec2:DescribeInstanceTypes on * for its role, and no "
                "--aws-use-static-instance-list",
                "log: uses the unknown EC2 instance type",
                seen=True,
            )
    for asg, why in evidence.backoff.items():
        if subject.is_called(asg):
            yield subject.finding(
                "in-backoff",
                f"the autoscaler asked {asg} for nodes that did not come, and waits.",
                activities_of(asg),
                f"log: {why}",
                seen=True,
            )


def _unhealthy(subject: Subject) -> Iterator[Finding]:
    nodegroup = subject.nodegroup
    if nodegroup is None or (nodegroup.status in ("ACTIVE", "UPDATING", "") and not nodegroup.issues):
        return
    yield subject.finding(
        "nodegroup-unhealthy",
        f"EKS node group {nodegroup.name} is {nodegroup.status or 'not well'}.",
        f"aws eks describe-nodegroup --cluster-name {word(subject.context.cluster)} --nodegroup-name "
        f"{word(nodegroup.name)} --query nodegroup.health",
        *(nodegroup.issues or (f"status {nodegroup.status}",)),
    )


# Tags


def check_tags(subject: Subject) -> Iterator[Finding]:
    """Everything about the tags of one group's Auto Scaling group."""
    if subject.asg is None:
        return
    overruled = _overruled(subject)
    causes = {
        tag: _cause(subject, tag, value)
        for tag, value in subject.lacking.items()
        if tag not in overruled and not _confirmed(subject, tag, value)
    }
    yield from _discovery(subject)
    yield from overruled.values()
    for cause, tags in groupby(sorted(causes, key=lambda tag: causes[tag]), key=lambda tag: causes[tag]):
        yield _finding(subject, cause, list(tags))
    yield from _harmless(subject, causes)
    yield from _promised(subject)


def _confirmed(subject: Subject, tag: str, value: str) -> bool:
    """Whether the autoscaler is known to learn of it from EKS, rightly."""
    if subject.context.access != "allowed" or not subject.told_by_eks(tag, value):
        return False
    if tag.startswith(TAINT) and tag in subject.tags and tag not in subject.wrong_tags:
        return False  # another taint than EKS': the template has both
    return _reads(subject, tag, value)


def _reads(subject: Subject, tag: str, value: str) -> bool:
    version = subject.context.settings.as_version
    if not version.asks_eks:
        return False
    if not tag.startswith(TAINT):
        return True
    return not version.misreads_effects and not value.startswith(":")


def _cause(subject: Subject, tag: str, value: str) -> str:
    """The one name for why a demanded tag is not there as it should be."""
    have = subject.tags
    kind = tag.removeprefix(PREFIX).partition("/")[0].removesuffix("s")
    if tag in subject.wrong_tags:
        return _kind_of_wrong(subject, tag)
    if tag in have:
        return f"{kind}-tag-wrong"
    if _stray(subject, tag):
        return "tag-malformed"
    if subject.nodegroup is not None and subject.nodegroup.tags.get(tag) == value:
        return "tags-not-propagated"
    if subject.told_by_eks(tag, value) and subject.context.access not in ("denied", "unreachable"):
        if tag.startswith(TAINT) and value.startswith(":"):
            return "taint-without-value"
        if not _reads(subject, tag, value):
            return "affected-version"
    return f"{kind}-tag-missing"


def _kind_of_wrong(subject: Subject, tag: str) -> str:
    return "effect-misspelt" if subject.wrong_tags[tag].startswith("the effect") else "tag-malformed"


def _stray(subject: Subject, tag: str) -> list[str]:
    """Tags that were probably meant to be this one; a taint's tag is not a label's, though the key be one."""
    last = tag.removeprefix(PREFIX).partition("/")[2]
    return [
        wrong
        for wrong in subject.wrong_tags
        if wrong.endswith(f"/{last}") and not wrong.startswith((LABEL, TAINT, RESOURCES))
    ]


def _finding(subject: Subject, cause: str, tags: list[str]) -> Finding:
    changes = tuple(TagChange(subject.asg_name, tag, subject.lacking[tag]) for tag in tags)
    rules = {rule for prefix, rule in _RULES.items() if any(tag.startswith(prefix) for tag in tags)}
    lines = [each for each in subject.refusals if not each.rule or each.rule in rules]
    # EKS may report what the tags do not; whether the autoscaler reads it is unknown.
    unsure = subject.context.access == "unknown" and all(
        subject.told_by_eks(tag, subject.lacking[tag]) and _reads(subject, tag, subject.lacking[tag])
        for tag in tags
    )
    return subject.finding(
        cause,
        _says(subject, cause, tags),
        tag_command(changes, subject.context.state.region),
        *_tag_evidence(subject, cause, tags),
        *map(str, lines[:1]),
        tags=changes,
        certain=not unsure,
        seen=bool(lines),
    )


def _says(subject: Subject, cause: str, tags: list[str]) -> str:
    asg, version = subject.asg_name, subject.context.settings.as_version
    short = ", ".join(f"{tag.removeprefix(PREFIX)}={subject.lacking[tag]}" for tag in tags)
    deaf = {
        "denied": ", and the autoscaler may not ask EKS",
        "unreachable": ", and the autoscaler does not reach EKS",
        "unknown": ", and whether the autoscaler may ask EKS is not known" if subject.nodegroup else "",
    }.get(subject.context.access, "")
    name = subject.nodegroup.name if subject.nodegroup else subject.name
    match cause:
        case "tags-not-propagated":
            return f"{short}: tagged on the EKS node group {name}, and EKS copies no tag to {asg}{deaf}."
        case "effect-misspelt" | "tag-malformed":
            problems = "; ".join(
                f"{wrong.removeprefix(PREFIX)}={subject.tags[wrong]}: {subject.wrong_tags[wrong]}"
                for tag in tags
                for wrong in ([tag] if tag in subject.wrong_tags else _stray(subject, tag))
            )
            return f"on {asg} the autoscaler passes over {problems}."
        case "taint-without-value":
            keys = ", ".join(tag.removeprefix(TAINT) for tag in tags)
            return (
                f"the taint {keys} of EKS node group {name} has no value: the autoscaler skips it, "
                f"and no tag on {asg} says it."
            )
        case "affected-version":
            does = (
                "takes EKS' NO_SCHEDULE as it is, which means nothing to it"
                if version.asks_eks
                else "never asks EKS"
            )
            return f"Cluster Autoscaler {version} {does}, and no tag on {asg} says {short}."
        case _ if cause.endswith("-wrong"):
            other = ", ".join(f"{tag.removeprefix(PREFIX)}={subject.tags[tag]}" for tag in tags)
            return f"{asg} is tagged {other} where the file has {short}{deaf}."
    return f"no tag on {asg} says {short}{deaf}."


def _tag_evidence(subject: Subject, cause: str, tags: list[str]) -> list[str]:
    if cause == "affected-version":
        since = "from 1.24 on it asks, and from 1.31 on it reads effects as they are meant"
        return [f"the EKS node group has {_eks(subject, tags)}", since]
    said = said_by({tag: value for tag, value in subject.tags.items() if tag.startswith(PREFIX)})
    labels = ", ".join(f"{key}={value}" for key, value in sorted(said.labels.items())) or "none"
    return [f"its tags say labels {labels} and taints {', '.join(map(str, said.taints)) or 'none'}"]


def _eks(subject: Subject, tags: list[str]) -> str:
    parts = [
        f"{taint.key}={taint.value}:{eks_effect(taint.effect)}"
        for tag in tags
        if tag.startswith(TAINT)
        for taint in subject.eks_taints(tag)
    ]
    parts += [f"{tag.removeprefix(LABEL)}={subject.lacking[tag]}" for tag in tags if tag.startswith(LABEL)]
    return ", ".join(parts) or "it"


def _discovery(subject: Subject) -> Iterator[Finding]:
    asg, context = subject.asg_name, subject.context
    specs = context.settings.discovers_by()
    wanted = discovery_tags(context.cluster)
    ways = [dict.fromkeys(wanted, "")] if specs is None else [dict(spec) for spec in specs]
    lacks = [_lacks(way, subject.tags) for way in ways]
    if asg in context.settings.names() or any(not lack for lack in lacks):
        return
    if specs is not None and not any(way.keys() & wanted.keys() for way in ways):
        other = "; ".join(",".join(way) for way in ways) or "nothing"
        yield subject.finding(
            "discovery-flag-wrong",
            f"the autoscaler looks for groups tagged {other}, which {asg} is not.",
            f"give it --node-group-auto-discovery=asg:tag={','.join(wanted)}",
            f"flags of {context.settings.namespace}/{context.settings.name}",
        )
        return
    missing = min(lacks, key=len)
    changes = tuple(TagChange(asg, tag, value or wanted.get(tag, "true")) for tag, value in missing.items())
    yield subject.finding(
        "discovery-tags-missing",
        f"{asg} is not tagged {', '.join(missing)}: the autoscaler does not know it.",
        tag_command(changes, context.state.region),
        f"{asg} has {len(subject.tags)} tags",
        tags=changes,
    )


def _lacks(way: Mapping[str, str], tags: Mapping[str, str]) -> dict[str, str]:
    # A value counts only where the flag names one.
    return {tag: value for tag, value in way.items() if tag not in tags or (value and tags[tag] != value)}


def _overruled(subject: Subject) -> dict[str, Finding]:
    """By the tag concerned: where EKS says something else, which is what nodes will have."""
    if subject.nodegroup is None:
        return {}
    name, change, found = subject.nodegroup.name, subject.update_nodegroup, {}
    for key, value in subject.group.labels.items():
        theirs = subject.nodegroup.labels.get(key)
        if theirs is not None and theirs != value:
            tagged = subject.tags.get(LABEL + key)
            found[LABEL + key] = subject.finding(
                "overridden-by-eks",
                f"EKS node group {name} has the label {key}={theirs} where the file"
                f"{' and the tag have' if tagged == value else ' has'} {key}={value}; EKS wins.",
                f"{change} --labels " + word(f"addOrUpdateLabels={{{key}={value}}}"),
                f"the tag on {subject.asg_name} says {key}={tagged or '(nothing)'}",
                seen=any(each.rule == "NodeAffinity" for each in subject.refusals),
            )
    for taint in subject.group.taints:
        theirs_all = subject.eks_taints(TAINT + taint.key)
        if theirs_all and taint not in theirs_all:
            found[TAINT + taint.key] = subject.finding(
                "overridden-by-eks",
                f"EKS node group {name} has the taint {', '.join(map(str, theirs_all))} where the file has "
                f"{taint}; nodes get EKS'.",
                f"{change} --taints " + word(f"addOrUpdateTaints=[{_eks_taint(taint)}]"),
                f"the tag on {subject.asg_name} says {subject.tags.get(TAINT + taint.key, '(nothing)')}",
                seen=any(each.rule == "TaintToleration" for each in subject.refusals),
            )
    return found


def _harmless(subject: Subject, causes: Mapping[str, str]) -> Iterator[Finding]:
    """Tags that say nothing where nothing is lacking: today they do no harm."""
    blamed = {wrong for tag in causes for wrong in (tag, *_stray(subject, tag))}
    for tag, why in subject.wrong_tags.items():
        if tag not in blamed:
            which = f"ResourceId={subject.asg_name},ResourceType=auto-scaling-group,Key={tag}"
            yield subject.finding(
                _kind_of_wrong(subject, tag),
                f"the autoscaler passes over the tag {tag} of {subject.asg_name}: {why}.",
                f"aws autoscaling delete-tags --tags {word(which)}",
                f"its value is {subject.tags[tag]!r}",
                severity="risk",
            )


def _promised(subject: Subject) -> Iterator[Finding]:
    """What the file promises and EKS does not put on nodes; a launch template may."""
    if subject.nodegroup is None:
        return
    has = subject.nodegroup.labels
    labels = ",".join(f"{key}={value}" for key, value in subject.group.labels.items() if key not in has)
    taints = [taint for taint in subject.group.taints if not subject.eks_taints(TAINT + taint.key)]
    spelt = ",".join(map(_eks_taint, taints))
    for kind, shown, update, otherwise in (
        ("label", labels, f"addOrUpdateLabels={{{labels}}}", "scale-up goes on without effect"),
        ("taint", ", ".join(map(str, taints)), f"addOrUpdateTaints=[{spelt}]", "any pod may come there"),
    ):
        if shown:
            yield subject.finding(
                f"nodegroup-lacks-{kind}",
                f"EKS node group {subject.nodegroup.name} does not put {shown} on its nodes.",
                f"{subject.update_nodegroup} --{kind}s {word(update)}",
                f"unless its launch template does, {otherwise}",
                severity="risk",
                certain=False,
            )


def _eks_taint(taint: Taint) -> str:
    """As the AWS CLI takes it."""
    return f"{{key={taint.key},value={taint.value},effect={eks_effect(taint.effect)}}}"
