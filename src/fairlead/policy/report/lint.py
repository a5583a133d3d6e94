"""What is likely to be a mistake in policies: by themselves, and for the nodes and workloads of a state.

A warning says that something asked for will not come true; a note, that something may surprise. What
makes a policy unusable is not here: reading it is an error already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fairlead.kube.node import Node
from fairlead.kube.selectors import matches
from fairlead.kube.tolerations import tolerated
from fairlead.kube.workloads import PodDisruptionBudget
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.names import CAPACITY_ANNOTATION, EXEMPT
from fairlead.policy.report.preview import Preview, State, preview
from fairlead.policy.rule.demands import asks_budgets, demand_of_group
from fairlead.policy.rule.matching import Policies, specificity
from fairlead.policy.rule.model import PlacementPolicy, Tier
from fairlead.policy.rule.split import Demand, Tiers
from fairlead.policy.rule.workloads import demand_of
from fairlead.policy.slots.ledger import MOST_SLOTS
from fairlead.policy.tiers.nodes import nowhere, terms_of_tier, tier_of_node

_UP_TO = 200  # the largest group that is looked at, in pods; percentages repeat after a hundred
# Set and taken away as nodes come, go and are cordoned: they say nothing about the tier.
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing to look at; `about` is a tier or a workload, "" for the policy itself."""

    policy: str
    severity: Literal["warning", "note"]
    code: str
    about: str
    message: str


def lint(policies: Sequence[PlacementPolicy], state: State | None = None) -> list[Finding]:
    """All findings, policy by policy; without a state, only what policies say by themselves."""
    every = Policies(policies, exempt=EXEMPT)
    named = {policy.name: policy for policy in policies}
    overlaps = every.overlaps()
    previews = preview(every, state) if state is not None else []
    alone = list(_alone(previews, state.nodes)) if state is not None and state.nodes else []
    found: list[Finding] = []
    for policy in sorted(policies, key=lambda one: one.name):
        found += _itself(policy)
        for other in overlaps.get(policy.name, ()):
            tied = specificity(named[other].spec.match) == specificity(policy.spec.match)
            why = "both say as much, and its name comes first" if tied else "it says more"
            said = f"where both match, {other} wins: {why}"
            found.append(Finding(policy.name, "note", "overlap", "", said))
        if state is not None:
            # A state without any node is one whose nodes were not queried.
            found += _nodes(policy, state.nodes) if state.nodes else ()
            ours = [one for one in previews if one.policy is policy]
            found += _ledgers(policy, ours)
            if not ours:
                found.append(
                    Finding(policy.name, "note", "no-workload", "", "governs no workload of this state")
                )
            found += _budgets(policy, ours, state.budgets)
            found += _kept_apart(policy, ours, state)
            found += _rollouts(policy, alone)
    return found


def _itself(policy: PlacementPolicy) -> Iterator[Finding]:
    spec = policy.spec
    tiers = Tiers(spec.tiers)
    splits = [tiers.split(pods) for pods in range(_UP_TO + 1)]
    yield from _nested(policy, splits)
    for index, tier in enumerate(spec.tiers):
        if terms_of_tier(policy, index) == nowhere():
            said = "tiers before it claim every node that it could have: it is unreachable"
            yield Finding(policy.name, "warning", "unreachable", tier.name, said)
        elif not any(split[index] for split in splits):
            said = "the rule gives it no pods: it gets some only when another tier is unavailable"
            yield Finding(policy.name, "note", "fallback-only", tier.name, said)
    most = sum(splits[-1])
    if most < _UP_TO:
        said = f"every tier has a max: of a group of more than {most} pods, the rest wait"
        yield Finding(policy.name, "note", "bounded", "", said)
    for tier in spec.tiers:
        if tier.spread:
            keys = ", ".join(tier.spread)
            said = (
                f"pods that are spread over {keys} get none of kube-scheduler's default spreading over nodes"
            )
            yield Finding(policy.name, "note", "spread-defaults", tier.name, said)
    volatile = [tier.name for tier in spec.tiers if tier.volatile]
    if volatile and not any(
        number for number, tier in zip(splits[-1], spec.tiers, strict=True) if not tier.volatile
    ):
        said = f"no min keeps pods off {', '.join(volatile)}: losing its nodes interrupts whole workloads"
        yield Finding(policy.name, "note", "all-volatile", "", said)
    if spec.rebalance.probe == "always":
        said = (
            "probe: always evicts a pod after each cool-down even where nothing can bring nodes to the tier"
        )
        yield Finding(policy.name, "note", "probe-always", "", said)
    if spec.single is not None and spec.single.tier in volatile:
        said = "single replicas go to a tier whose nodes can all be taken away at once"
        yield Finding(policy.name, "note", "single-volatile", spec.single.tier, said)


def _nested(policy: PlacementPolicy, splits: Sequence[tuple[int, ...]]) -> Iterator[Finding]:
    """Where one pod more means one tier less, no order of slots is right for both numbers."""
    for pods in range(1, len(splits)):
        before, now = splits[pods - 1], splits[pods]
        fewer = [
            tier.name
            for tier, was, is_now in zip(policy.spec.tiers, before, now, strict=True)
            if is_now < was
        ]
        if fewer:
            said = (
                f"going from {pods - 1} to {pods} pods leaves {', '.join(fewer)} with less: the split is off "
                "after such a step until the rebalancer has mended it"
            )
            yield Finding(policy.name, "warning", "not-nested", "", said)
            return


def _nodes(policy: PlacementPolicy, nodes: Sequence[Node]) -> Iterator[Finding]:
    by_tier: dict[int | None, list[Node]] = {}
    for node in nodes:
        index = tier_of_node(policy, node.metadata.name, node.metadata.labels)
        by_tier.setdefault(index, []).append(node)
    for index, tier in enumerate(policy.spec.tiers):
        ours = by_tier.get(index, [])
        if not ours:
            yield Finding(policy.name, "warning", "no-node", tier.name, f"matches no node{_asked(tier)}")
            continue
        if all(node.spec.unschedulable for node in ours):
            said = f"all of its nodes are cordoned: {_names(ours)}"
            yield Finding(policy.name, "warning", "cordoned", tier.name, said)
        closed = [node for node in ours if _untolerated(tier, node)]
        if closed:
            taint = _untolerated(tier, closed[0])[0]
            severity: Literal["warning", "note"] = "warning" if len(closed) == len(ours) else "note"
            said = (
                f"{len(closed)} of its {len(ours)} nodes are tainted {taint}, which it does not tolerate: "
                f"{_names(closed)}"
            )
            yield Finding(policy.name, severity, "tainted", tier.name, said)


def _untolerated(tier: Tier, node: Node) -> list[str]:
    return [
        str(taint)
        for taint in node.spec.taints
        if taint.effect in ("NoSchedule", "NoExecute")
        and not taint.key.startswith(_PASSING)
        and not tolerated(taint, tier.tolerations)
    ]


def _ledgers(policy: PlacementPolicy, previews: Sequence[Preview]) -> Iterator[Finding]:
    """Which groups are more than one ledger holds."""
    pods: dict[GroupKey, int] = {}
    for one in previews:
        if one.key is not None:
            pods[one.key] = pods.get(one.key, 0) + one.subject.pods
    for key, number in pods.items():
        if number > MOST_SLOTS:
            said = (
                f"{number} pods are one group, and a ledger holds about {MOST_SLOTS}: beyond that no pod is "
                "given a slot; make smaller groups"
            )
            yield Finding(policy.name, "warning", "ledger-full", f"{key.namespace} {key.name}", said)


def _budgets(
    policy: PlacementPolicy, previews: Sequence[Preview], budgets: Iterable[PodDisruptionBudget]
) -> Iterator[Finding]:
    """Where losing every volatile node would leave less than a budget demands."""
    if policy.spec.group_by == "workload":
        for one in previews:
            if one.demand != Demand():
                yield from _kept(policy, [one], one.demand, _called(one))
        return
    # Which workload of a group stays is chance: a budget over several of them counts what stays of all.
    for budget in budgets:
        meta, demand = budget.metadata, demand_of(budget)
        if demand is None:
            continue
        under: dict[GroupKey | None, list[Preview]] = {}
        for one in previews:
            near = one.subject.workload.namespace == meta.namespace
            if near and matches(budget.spec.selector, one.subject.labels):
                under.setdefault(one.key, []).append(one)
        for part in under.values():
            several = f"PodDisruptionBudget {meta.namespace}/{meta.name}"
            yield from _kept(policy, part, demand, several if len(part) > 1 else _called(part[0]))


def _kept(policy: PlacementPolicy, under: Sequence[Preview], demand: Demand, about: str) -> Iterator[Finding]:
    lasting = {tier.name for tier in policy.spec.tiers if not tier.volatile}
    volatile = ", ".join(tier.name for tier in policy.spec.tiers if tier.volatile)
    pods = sum(one.subject.pods for one in under)
    safe = sum(number for one in under for name, number in one.counts.items() if name in lasting)
    wanted = demand.of(pods)
    if volatile and safe < wanted:
        whose = "it" if len(under) > 1 else "its PodDisruptionBudget"
        said = (
            f"{whose} demands {wanted} of {pods} pods, but only {safe} stay when {volatile} is lost: "
            "say min: pdb, or more"
        )
        yield Finding(policy.name, "warning", "min-below-budget", about, said)


def _kept_apart(policy: PlacementPolicy, previews: Sequence[Preview], state: State) -> Iterator[Finding]:
    """Where more pods stay off volatile tiers than would if each workload were a group of its own."""
    if policy.spec.group_by == "workload" or not asks_budgets(policy):
        return
    groups: dict[GroupKey, list[Preview]] = {}
    for one in previews:
        if one.key is not None and one.subject.pods:
            groups.setdefault(one.key, []).append(one)
    for key, group in groups.items():
        like = [one.subject.alike for one in group]
        pods = sum(one.pods for one in like)
        kept = demand_of_group(policy, key.namespace, like, state.budgets, state.sharing).of(pods)
        alone = sum(one.demand.of(one.subject.pods) for one in group)
        if kept > alone:
            said = (
                f"keeps {kept} of {pods} pods, so that every budget holds whichever pods those are: say "
                f"groupBy: workload to keep {alone}"
            )
            yield Finding(policy.name, "note", "budgets-in-one-group", f"{key.namespace} {key.name}", said)


class _Alone(NamedTuple):
    """Pods of a workload that want a node of a tier each, to themselves."""

    one: Preview
    tier: str
    pods: int
    room: frozenset[str]
    """The tier's nodes that take pods."""


def _alone(previews: Iterable[Preview], nodes: Sequence[Node]) -> Iterator[_Alone]:
    rooms: dict[str, list[frozenset[str]]] = {}
    for one in previews:
        policy = one.policy
        if policy is None:
            continue
        if policy.name not in rooms:
            rooms[policy.name] = _rooms(policy, nodes)
        annotated = one.subject.annotations.get(CAPACITY_ANNOTATION) == "exclusive"
        counts = one.counts
        for tier, room in zip(policy.spec.tiers, rooms[policy.name], strict=True):
            if counts.get(tier.name) and (tier.exclusive or annotated):
                yield _Alone(one, tier.name, counts[tier.name], room)


def _rooms(policy: PlacementPolicy, nodes: Sequence[Node]) -> list[frozenset[str]]:
    found: list[set[str]] = [set() for _ in policy.spec.tiers]
    for node in nodes:
        index = tier_of_node(policy, node.metadata.name, node.metadata.labels)
        if index is not None and not node.spec.unschedulable:
            found[index].add(node.metadata.name)
    return [frozenset(names) for names in found]


def _rollouts(policy: PlacementPolicy, alone: Sequence[_Alone]) -> Iterator[Finding]:
    """Where a new pod must be there before an old one goes, and every node has its pod already."""
    wanted: dict[frozenset[str], int] = {}  # exclusive pods keep each other off, whatever their policies
    for _, _, pods, room in alone:
        wanted[room] = wanted.get(room, 0) + pods
    for one, tier, pods, room in alone:
        if one.policy is not policy or one.subject.workload.kind != "Deployment":
            continue
        if _unavailable_ok(one.subject.spec, one.subject.pods) > 0:
            continue
        # Pods that may be elsewhere, too, take of these nodes only what they do not find there.
        taken = sum(
            max(0, min(number - len(theirs - room), len(theirs & room))) for theirs, number in wanted.items()
        )
        if taken >= len(room):
            others = f" (others take {taken - pods})" if taken > pods else ""
            said = (
                f"takes {pods} of the {len(room)} nodes of {tier}, one each{others}, and its rollout needs "
                "one more before an old pod goes: allow maxUnavailable, or keep a spare node"
            )
            yield Finding(policy.name, "warning", "no-spare-node", _called(one), said)


def _unavailable_ok(spec: Mapping[str, object], pods: int) -> int:
    """How many pods a Deployment's rollout may take away before others are there."""
    strategy = spec.get("strategy")
    strategy = strategy if isinstance(strategy, Mapping) else {}
    if strategy.get("type") == "Recreate":
        return pods
    rolling = strategy.get("rollingUpdate")
    said = rolling.get("maxUnavailable", "25%") if isinstance(rolling, Mapping) else "25%"
    surge = rolling.get("maxSurge", "25%") if isinstance(rolling, Mapping) else "25%"
    number = _of(said, pods, up=False)
    # Both rounding to nothing, the Deployment controller lets one go.
    return number or (1 if _of(surge, pods, up=True) == 0 else 0)


def _of(amount: object, pods: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return amount
    text = str(amount).rstrip("%")
    if not text.isdecimal():
        return 0
    return -(-int(text) * pods // 100) if up else int(text) * pods // 100


def _called(one: Preview) -> str:
    workload = one.subject.workload
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def _asked(tier: Tier) -> str:
    if tier.rest:
        return ": other tiers claim all of them"
    labels = ", ".join(f"{key}={value}" for key, value in sorted(tier.nodes.items()))
    return f" ({', '.join((*tier.names, labels) if labels else tier.names)})"


def _names(nodes: Iterable[Node], most: int = 3) -> str:
    names = sorted(node.metadata.name for node in nodes)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
