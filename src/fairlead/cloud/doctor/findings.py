"""What the doctor finds: named causes, each with evidence and the exact way out.

A finding is *wrong* when a pod made for the group would not get its node, or would get one that it cannot
use; it is a *risk* when all is well only as long as something else stays as it is. Causes are listed most
likely first; what a log or an event speaks of goes before what was only reckoned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

# Name → what it means; the order is how often each turns out to be it.
CAUSES = {
    "group-missing": "the account has no Auto Scaling group for it",
    "discovery-tags-missing": "the autoscaler does not find the Auto Scaling group",
    "discovery-flag-wrong": "the autoscaler looks for other groups",
    "auto-scaling-denied": "the autoscaler may not look at Auto Scaling groups",
    "scale-from-zero-forbidden": "a flag keeps the autoscaler from acting without ready nodes",
    "tags-not-propagated": "tags are on the EKS node group, not on its Auto Scaling group",
    "effect-misspelt": "a tag spells a taint's effect as the EKS API does, or wrongly",
    "tag-malformed": "a tag is not in the form that the autoscaler reads",
    "label-tag-missing": "no tag says a label that new nodes have",
    "label-tag-wrong": "a tag says another value of a label",
    "taint-without-value": "the EKS API's taint has no value and is skipped",
    "affected-version": "this version of the autoscaler does not read what EKS says, or reads it wrongly",
    "taint-tag-missing": "no tag says a taint that new nodes have",
    "taint-tag-wrong": "a tag says another taint",
    "resource-tag-missing": "no tag says a resource that new nodes have",
    "resource-tag-wrong": "a tag says another amount of a resource",
    "overridden-by-eks": "what the EKS API says wins over tags, and is something else",
    "describe-nodegroup-denied": "the autoscaler may not ask EKS what nodes are like",
    "describe-nodegroup-unreachable": "the autoscaler does not reach EKS to ask what nodes are like",
    "empty-answer-cached": "a failed question to EKS is remembered as a group without labels",
    "stale-node-info": "the autoscaler remembers the group's last node, which was different",
    "first-zone-template": "the autoscaler thinks of the group's first zone only",
    "max-reached": "the group may not grow",
    "launch-suspended": "the Auto Scaling group launches nothing",
    "in-backoff": "the autoscaler tried to bring nodes, failed, and waits before it tries again",
    "type-unknown": "the autoscaler does not know the group's instance type",
    "nodegroup-unhealthy": "EKS says that the node group is not well",
    "nodepool-without-types": "the NodePool's requirements leave no instance type",
    "nodepool-limit-reached": "the NodePool may not grow",
    "node-class-not-ready": "the NodePool's node class is not ready",
    "pod-too-big": "the pod asks for more than a new node has",
    "taint-not-tolerated": "the pod does not tolerate the taints of new nodes",
    "affinity-unmet": "no new node has the labels that the pod wants",
    "refused-by-rule": "a scheduling rule keeps the pod off new nodes",
    "nodegroup-lacks-label": "nodes may come up without a label that the file and tags promise",
    "nodegroup-lacks-taint": "nodes may come up without a taint that the file and tags promise",
}
_RANK = {name: number for number, name in enumerate(CAUSES)}


@dataclass(frozen=True, slots=True)
class TagChange:
    """A tag to be set on an Auto Scaling group: what ``--fix`` does."""

    asg: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosis. `tags` is what ``--fix`` would set; `fix` is how it is done by hand, in one line."""

    cause: str
    says: str
    fix: str
    group: str = ""
    pod: str = ""
    evidence: tuple[str, ...] = ()
    tags: tuple[TagChange, ...] = ()
    severity: Literal["wrong", "risk"] = "wrong"
    certain: bool = True
    seen: bool = False
    """Whether a log line or an event speaks of it."""

    def __post_init__(self) -> None:
        assert self.cause in CAUSES, self.cause

    @property
    def subject(self) -> str:
        """What it is about."""
        return self.group or (f"pod {self.pod}" if self.pod else "autoscaler")

    def __str__(self) -> str:
        """All of it in one line."""
        perhaps = "" if self.certain else "perhaps "
        risk = "risk, " if self.severity == "risk" else ""
        seen = f" [{'; '.join(self.evidence)}]" if self.evidence else ""
        by_us = " (--fix does it)" if self.tags else ""
        return f"{self.subject}: {risk}{perhaps}{self.cause}: {self.says}{seen} Fix{by_us}: {self.fix}"

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "cause": self.cause,
            "meaning": CAUSES[self.cause],
            "group": self.group,
            "pod": self.pod,
            "severity": self.severity,
            "certain": self.certain,
            "says": self.says,
            "evidence": list(self.evidence),
            "fix": self.fix,
            "fixable": bool(self.tags),
            "tags": [asdict(tag) for tag in self.tags],
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether scale-up from zero would work for a group or a pod, in a word and with the reason."""

    name: str
    works: bool
    where: str = ""
    why: str = ""
    certain: bool = True

    def __str__(self) -> str:
        if self.works:
            return "yes" if self.certain else "cannot say"
        return "no" if self.certain else "perhaps not"


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found."""

    findings: tuple[Finding, ...]
    groups: tuple[Verdict, ...] = ()
    pods: tuple[Verdict, ...] = ()
    pools: tuple[Verdict, ...] = field(default=())
    unread: Mapping[str, str] = field(default_factory=dict)
    """What could not be read, and why: of that nothing is known."""
    blind: bool = False
    """Whether so much is unread that nothing can be called well."""

    @property
    def wrong(self) -> bool:
        """Whether there is more than risks."""
        return any(finding.severity == "wrong" for finding in self.findings)

    @property
    def tags(self) -> tuple[TagChange, ...]:
        """What ``--fix`` would set, once each."""
        return tuple(dict.fromkeys(tag for finding in self.findings for tag in finding.tags))

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""

        def plain(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
            return [
                {
                    "name": each.name,
                    "fromZero": each.works,
                    "certain": each.certain,
                    "where": each.where,
                    "why": each.why,
                }
                for each in verdicts
            ]

        return {
            "groups": plain(self.groups),
            "nodePools": plain(self.pools),
            "pods": plain(self.pods),
            "findings": [finding.to_plain() for finding in self.findings],
            "unread": dict(self.unread),
        }


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Most likely first: wrong before risk, certain before perhaps, seen before reckoned, then by cause."""
    return tuple(
        sorted(
            dict.fromkeys(findings),
            key=lambda each: (
                each.severity == "risk",
                not each.certain,
                not each.seen,
                _RANK[each.cause],
                each.group,
                each.pod,
            ),
        )
    )
