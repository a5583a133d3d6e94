"""What is wrong with a group's tags: missing, malformed, misspelt, elsewhere, or overruled by EKS.

What EKS tells the autoscaler need not be tagged, as long as it is known to hear it; where nobody could
tell, the missing tags are named all the same, as what it perhaps is.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from fairlead.cloud.doctor.findings import Finding, TagChange
from fairlead.cloud.doctor.subjects import Subject, tag_command
from fairlead.cloud.shell import word
from fairlead.nodegroups.aws.tags import LABEL, PREFIX, RESOURCES, TAINT, discovery_tags, eks_effect, said_by

__all__ = ["check_tags"]

_RULES = {LABEL: "NodeAffinity", TAINT: "TaintToleration"}


def check_tags(subject: Subject) -> list[Finding]:
    """Everything about the tags of one group's Auto Scaling group."""
    if subject.asg is None:
        return []
    overruled = _overruled(subject)
    causes = {
        tag: _cause(subject, tag, value)
        for tag, value in subject.lacking.items()
        if tag not in overruled and not _heard(subject, tag, value)
    }
    found = [*_discovery(subject), *overruled.values()]
    for cause, tags in groupby(sorted(causes, key=lambda tag: causes[tag]), key=lambda tag: causes[tag]):
        found.append(_finding(subject, cause, list(tags)))
    found += _harmless(subject, causes)
    found += _promised(subject)
    return found


def _heard(subject: Subject, tag: str, value: str) -> bool:
    """Whether the autoscaler is known to learn of it from EKS, rightly."""
    assert subject.asg is not None
    if subject.around.access != "allowed" or not subject.told_by_eks(tag, value):
        return False
    if tag.startswith(TAINT) and tag in subject.asg.tags and tag not in subject.wrong_tags:
        return False  # another taint than EKS': the template has both
    return _reads(subject, tag, value)


def _reads(subject: Subject, tag: str, value: str) -> bool:
    version = subject.around.settings.as_version
    if not version.asks_eks:
        return False
    if not tag.startswith(TAINT):
        return True
    return not version.misreads_effects and not value.startswith(":")


def _cause(subject: Subject, tag: str, value: str) -> str:
    """The one name for why a demanded tag is not there as it should be."""
    assert subject.asg is not None
    have = subject.asg.tags
    kind = tag.removeprefix(PREFIX).partition("/")[0].removesuffix("s")
    if tag in subject.wrong_tags:
        return _kind_of_wrong(subject, tag)
    if tag in have:
        return f"{kind}-tag-wrong"
    if _stray(subject, tag):
        return "tag-malformed"
    if subject.nodegroup is not None and subject.nodegroup.tags.get(tag) == value:
        return "tags-not-propagated"
    if subject.told_by_eks(tag, value) and subject.around.access not in ("denied", "unreachable"):
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
    assert subject.asg is not None
    changes = tuple(TagChange(subject.asg.name, tag, subject.lacking[tag]) for tag in tags)
    rules = {rule for prefix, rule in _RULES.items() if any(tag.startswith(prefix) for tag in tags)}
    lines = [each for each in subject.refusals if not each.rule or each.rule in rules]
    # It could be that EKS tells what the tags do not; nobody knows whether it is heard.
    unsure = subject.around.access == "unknown" and all(
        subject.told_by_eks(tag, subject.lacking[tag]) and _reads(subject, tag, subject.lacking[tag])
        for tag in tags
    )
    return Finding(
        cause=cause,
        says=_says(subject, cause, tags),
        fix=tag_command(changes, subject.around.state.region),
        group=subject.name,
        evidence=(
            *_tag_evidence(subject, cause, tags),
            *(str(each) for each in lines[:1]),
        ),
        tags=changes,
        certain=not unsure,
        seen=bool(lines),
    )


def _says(subject: Subject, cause: str, tags: list[str]) -> str:
    assert subject.asg is not None
    asg, version = subject.asg.name, subject.around.settings.as_version
    short = ", ".join(f"{tag.removeprefix(PREFIX)}={subject.lacking[tag]}" for tag in tags)
    deaf = {
        "denied": ", and the autoscaler may not ask EKS",
        "unreachable": ", and the autoscaler does not reach EKS",
        "unknown": ", and whether the autoscaler may ask EKS is not known" if subject.nodegroup else "",
    }.get(subject.around.access, "")
    name = subject.nodegroup.name if subject.nodegroup else subject.name
    match cause:
        case "tags-not-propagated":
            return f"{short}: tagged on the EKS node group {name}, and EKS copies no tag to {asg}{deaf}."
        case "effect-misspelt" | "tag-malformed":
            problems = "; ".join(
                f"{wrong.removeprefix(PREFIX)}={subject.asg.tags[wrong]}: {subject.wrong_tags[wrong]}"
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
            other = ", ".join(f"{tag.removeprefix(PREFIX)}={subject.asg.tags[tag]}" for tag in tags)
            return f"{asg} is tagged {other} where the file has {short}{deaf}."
    return f"no tag on {asg} says {short}{deaf}."


def _tag_evidence(subject: Subject, cause: str, tags: list[str]) -> list[str]:
    if cause == "affected-version":
        since = "from 1.24 on it asks, and from 1.31 on it reads effects as they are meant"
        return [f"the EKS node group has {_eks(subject, tags)}", since]
    assert subject.asg is not None
    said = said_by({tag: value for tag, value in subject.asg.tags.items() if tag.startswith(PREFIX)})
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


def _discovery(subject: Subject) -> list[Finding]:
    assert subject.asg is not None
    asg, around = subject.asg, subject.around
    specs = around.settings.discovers_by()
    if asg.name in around.settings.names():
        return []
    wanted = discovery_tags(around.cluster)
    ways = [dict.fromkeys(wanted, "")] if specs is None else [dict(spec) for spec in specs]
    lacks = [_lacks(way, asg.tags) for way in ways]
    if any(not lack for lack in lacks):
        return []
    if specs is not None and not any(way.keys() & wanted.keys() for way in ways):
        other = "; ".join(",".join(way) for way in ways) or "nothing"
        flag = f"--node-group-auto-discovery=asg:tag={','.join(wanted)}"
        return [
            Finding(
                "discovery-flag-wrong",
                f"the autoscaler looks for groups tagged {other}, which {asg.name} is not.",
                f"give it {flag}",
                group=subject.name,
                evidence=(f"flags of {around.settings.namespace}/{around.settings.name}",),
            )
        ]
    missing = min(lacks, key=len)
    changes = tuple(
        TagChange(asg.name, tag, value or wanted.get(tag, "true")) for tag, value in missing.items()
    )
    return [
        Finding(
            "discovery-tags-missing",
            f"{asg.name} is not tagged {', '.join(missing)}: the autoscaler does not know it.",
            tag_command(changes, around.state.region),
            group=subject.name,
            evidence=(f"{asg.name} has {len(asg.tags)} tags",),
            tags=changes,
        )
    ]


def _lacks(way: Mapping[str, str], tags: Mapping[str, str]) -> dict[str, str]:
    # A value counts only where the flag names one.
    return {tag: value for tag, value in way.items() if tag not in tags or (value and tags[tag] != value)}


def _overruled(subject: Subject) -> dict[str, Finding]:
    """By the tag concerned: where EKS says something else, which is what nodes will have."""
    if subject.nodegroup is None or subject.asg is None:
        return {}
    name = subject.nodegroup.name
    change = subject.update_nodegroup
    found = {}
    for key, value in subject.group.labels.items():
        theirs = subject.nodegroup.labels.get(key)
        if theirs is not None and theirs != value:
            tagged = subject.asg.tags.get(LABEL + key)
            found[LABEL + key] = Finding(
                "overridden-by-eks",
                f"EKS node group {name} has the label {key}={theirs} where the file"
                f"{' and the tag have' if tagged == value else ' has'} {key}={value}; EKS wins.",
                f"{change} --labels " + word(f"addOrUpdateLabels={{{key}={value}}}"),
                group=subject.name,
                evidence=(f"the tag on {subject.asg.name} says {key}={tagged or '(nothing)'}",),
                seen=any(each.rule == "NodeAffinity" for each in subject.refusals),
            )
    for taint in subject.group.taints:
        theirs_all = subject.eks_taints(TAINT + taint.key)
        if theirs_all and taint not in theirs_all:
            other = ", ".join(map(str, theirs_all))
            spelt = f"key={taint.key},value={taint.value},effect={eks_effect(taint.effect)}"
            tagged = subject.asg.tags.get(TAINT + taint.key, "(nothing)")
            found[TAINT + taint.key] = Finding(
                "overridden-by-eks",
                f"EKS node group {name} has the taint {other} where the file has {taint}; nodes get EKS'.",
                f"{change} --taints " + word(f"addOrUpdateTaints=[{{{spelt}}}]"),
                group=subject.name,
                evidence=(f"the tag on {subject.asg.name} says {tagged}",),
                seen=any(each.rule == "TaintToleration" for each in subject.refusals),
            )
    return found


def _harmless(subject: Subject, causes: Mapping[str, str]) -> list[Finding]:
    """Tags that say nothing where nothing is lacking: today they do no harm."""
    assert subject.asg is not None
    blamed = {wrong for tag in causes for wrong in (tag, *_stray(subject, tag))}
    return [
        Finding(
            _kind_of_wrong(subject, tag),
            f"the autoscaler passes over the tag {tag} of {subject.asg.name}: {why}.",
            "aws autoscaling delete-tags --tags "
            + word(f"ResourceId={subject.asg.name},ResourceType=auto-scaling-group,Key={tag}"),
            group=subject.name,
            evidence=(f"its value is {subject.asg.tags[tag]!r}",),
            severity="risk",
        )
        for tag, why in subject.wrong_tags.items()
        if tag not in blamed
    ]


def _promised(subject: Subject) -> list[Finding]:
    """What the file promises and EKS does not put on nodes; a launch template may."""
    if subject.nodegroup is None:
        return []
    name = subject.nodegroup.name
    change = subject.update_nodegroup
    labels = {
        key: value for key, value in subject.group.labels.items() if key not in subject.nodegroup.labels
    }
    taints = [taint for taint in subject.group.taints if not subject.eks_taints(TAINT + taint.key)]
    found = []
    if labels:
        shown = ",".join(f"{key}={value}" for key, value in labels.items())
        found.append(
            Finding(
                "nodegroup-lacks-label",
                f"EKS node group {name} does not put {shown} on its nodes.",
                f"{change} --labels " + word(f"addOrUpdateLabels={{{shown}}}"),
                group=subject.name,
                evidence=("unless its launch template does, scale-up goes on in vain",),
                severity="risk",
                certain=False,
            )
        )
    if taints:
        spelt = ",".join(
            f"{{key={each.key},value={each.value},effect={eks_effect(each.effect)}}}" for each in taints
        )
        found.append(
            Finding(
                "nodegroup-lacks-taint",
                f"EKS node group {name} does not put {', '.join(map(str, taints))} on its nodes.",
                f"{change} --taints " + word(f"addOrUpdateTaints=[{spelt}]"),
                group=subject.name,
                evidence=("unless its launch template does, any pod may come there",),
                severity="risk",
                certain=False,
            )
        )
    return found
