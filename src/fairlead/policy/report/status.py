"""What a policy's status says: per tier what the rule wants and what is, and what keeps it from being so.

Everything is counted over pods that are there: the rule splits the number of a group's pods, so a rollout
or a scaling under way never shows as misplaced by itself. The list of groups is bounded, the totals are
not; a status is compared with the one before, and a condition's time changes only with its status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fairlead.policy.groups.member import GroupKey, Member
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Tiers
from fairlead.policy.rule.workloads import Workload
from fairlead.policy.tiers.marks import Marks

GROUPS_SHOWN = 50
"""Groups listed one by one, those that are most off first: an object has 1.5 MB at most."""


@dataclass(frozen=True, slots=True)
class GroupCount:
    """One group: pods per tier, by the tier's name, as the rule has them and as they are."""

    key: GroupKey
    pods: int
    desired: Mapping[str, int]
    actual: Mapping[str, int]
    pending: Mapping[str, int] = field(default_factory=dict)
    """Pods that were sent to a tier and have no node yet."""
    elsewhere: int = 0
    """Pods on nodes of no tier."""

    @property
    def misplaced(self) -> int:
        """Pods with a node that would have to move for the split to be the rule's."""
        return self.elsewhere + sum(
            max(0, number - self.desired.get(tier, 0)) for tier, number in self.actual.items()
        )


def count_group(
    policy: PlacementPolicy,
    key: GroupKey,
    members: Iterable[Member],
    tiers: Tiers,
    workload: Workload | None = None,
) -> GroupCount:
    """Count a group's pods; `tiers` knows the demand of its budget, `workload` whether it is single."""
    names = [tier.name for tier in policy.spec.tiers]
    actual, pending = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    pods = elsewhere = 0
    for member in members:
        if member.leaving:
            continue
        pods += 1
        if member.placed and member.tier in actual:
            actual[member.tier] += 1
        elif member.placed:
            elsewhere += 1
        elif member.tier in pending:
            pending[member.tier] += 1
    singles = _singles(policy, workload, pods)
    desired = dict.fromkeys(names, 0)
    wish = policy.spec.single
    if singles and wish is not None:
        # Where there is another tier for them, those that are there may stay.
        fallen = min(singles, actual.get(wish.otherwise, 0))
        desired[wish.tier] = singles - fallen
        if fallen:
            desired[wish.otherwise] += fallen
        for slot in range(singles + 1, pods + 1):
            if (tier := tiers.of_slot(slot)) is not None:
                desired[names[tier]] += 1
    else:
        desired = dict(zip(names, tiers.split(pods), strict=True))
    return GroupCount(key, pods, desired, actual, pending, elsewhere)


def status_of(
    policy: PlacementPolicy,
    groups: Sequence[GroupCount],
    *,
    now: float,
    before: Mapping[str, Any],
    marks: Marks | None = None,
    overlapped_by: Sequence[str] = (),
) -> dict[str, Any]:
    """The whole status of a policy that is used, without its marks: those have a writer of their own.

    `before` is the status it has, for the times of its conditions.
    """
    names = [tier.name for tier in policy.spec.tiers]
    desired = _total(names, (group.desired for group in groups))
    actual = _total(names, (group.actual for group in groups))
    pending = _total(names, (group.pending for group in groups))
    tiers = [
        {"name": name, "desired": desired[name], "actual": actual[name], "pending": pending[name]}
        for name in names
    ]
    left_alone = [tier for tier in names if marks is not None and marks.get(tier) is not None]
    shown = sorted(groups, key=lambda group: (-group.misplaced, -group.pods, group.key))[:GROUPS_SHOWN]
    return {
        "observedGeneration": policy.metadata.generation,
        "groups": len(groups),
        "pods": sum(group.pods for group in groups),
        "desired": _listed(desired),
        "actual": _listed(actual),
        "misplaced": sum(group.misplaced for group in groups),
        "unavailable": ", ".join(left_alone),
        "tiers": tiers,
        "groupCounts": [_shown(group) for group in shown],
        "conditions": _conditions(
            (
                ("Accepted", True, "Accepted", "the policy is used"),
                _overlapped(overlapped_by),
                _unavailable(left_alone, marks),
                _ready(groups),
            ),
            policy.metadata.generation,
            now,
            before,
        ),
    }


def refused_status(why: str, *, generation: int, now: float, before: Mapping[str, Any]) -> dict[str, Any]:
    """The status of a policy that cannot be used: what is wrong, and no counts, since none are kept."""
    said = f"the policy is left out: {why}"
    conditions = (("Accepted", False, "Invalid", said), ("Ready", False, "Invalid", said))
    return {
        "observedGeneration": generation,
        "conditions": _conditions(conditions, generation, now, before),
    }


def _singles(policy: PlacementPolicy, workload: Workload | None, pods: int) -> int:
    """How many of a group's pods go where single replicas go."""
    if policy.spec.single is None or workload is None:
        return 0
    if policy.spec.group_by != "workload" and pods != 1:
        return 0  # several workloads: whose pod this is says nothing about the others
    return pods if workload.single else min(pods, int(workload.is_single()))


_Said = tuple[str, bool, str, str]
_OURS = ("Accepted", "Overlapped", "TierUnavailable", "Ready")


def _ready(groups: Sequence[GroupCount]) -> _Said:
    """What tools that wait for any object look at: whether everything is as the rule has it."""
    misplaced = sum(group.misplaced for group in groups)
    waiting = sum(group.pods - sum(group.actual.values()) - group.elsewhere for group in groups)
    if misplaced:
        return "Ready", False, "PodsMisplaced", "pods are not in the tier that the rule has them in"
    if waiting:
        return "Ready", False, "PodsPending", "pods have no node yet"
    return "Ready", True, "Settled", "every pod has a node, in the tier that the rule has it in"


def _overlapped(by: Sequence[str]) -> _Said:
    if not by:
        return "Overlapped", False, "Alone", "no other policy matches the same pods"
    said = f"where both match, {', '.join(by)} {'wins' if len(by) == 1 else 'win'}"
    return "Overlapped", True, "MoreSpecific", said


def _unavailable(tiers: Sequence[str], marks: Marks | None) -> _Said:
    if not tiers or marks is None:
        return "TierUnavailable", False, "AllAvailable", "every tier takes pods"
    said = []
    interrupted = False
    for tier in tiers:
        mark = marks.get(tier)
        assert mark is not None  # that is why it is listed
        interrupted = interrupted or mark.interrupted
        until = mark.until.astimezone(UTC).strftime("%H:%M:%SZ")
        said.append(f"{tier} is passed over until {until}" + (f": {mark.reason}" if mark.reason else ""))
    return "TierUnavailable", True, "Interrupted" if interrupted else "NoRoom", "; ".join(said)


def _conditions(
    said: Iterable[_Said], generation: int, now: float, before: Mapping[str, Any]
) -> list[dict[str, Any]]:
    known = {
        one["type"]: one for one in before.get("conditions") or () if isinstance(one, dict) and "type" in one
    }
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = []
    for name, holds, reason, message in said:
        status = "True" if holds else "False"
        last = known.get(name, {})
        since = last.get("lastTransitionTime") if last.get("status") == status else None
        found.append(
            {
                "type": name,
                "status": status,
                "reason": reason,
                "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": since or stamp,
            }
        )
    ours = {one["type"] for one in found}
    # Others have conditions here too: the extender says whether a scheduler ever calls it.
    return found + [one for name, one in known.items() if name not in ours]


def _shown(group: GroupCount) -> dict[str, Any]:
    found: dict[str, Any] = {"namespace": group.key.namespace, "name": group.key.name}
    if group.key.revision:
        found["revision"] = group.key.revision
    return found | {
        "pods": group.pods,
        "misplaced": group.misplaced,
        "desired": dict(group.desired),
        "actual": dict(group.actual),
    }


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _total(names: Iterable[str], counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found = dict.fromkeys(names, 0)
    for each in counts:
        for name, number in each.items():
            found[name] = found.get(name, 0) + number
    return found
