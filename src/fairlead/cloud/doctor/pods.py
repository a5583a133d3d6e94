"""Pods that wait: whether a group would bring them a node from zero, and what it is if not.

Each is tried, by the engine's rules, on the node that the autoscaler imagines and on the one that the file
describes. Refused by the former only, it is the group that needs mending; by both, it is the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from fairlead.cloud.doctor.autoscaler import BACKOFF, FULL, Refusal
from fairlead.cloud.doctor.findings import Finding, TagChange, Verdict
from fairlead.cloud.doctor.groups import cached_empty
from fairlead.cloud.doctor.subjects import DISK, Context, Subject, activities_of, tag_command
from fairlead.engine import rules
from fairlead.engine.ask.cluster import Cluster
from fairlead.engine.ask.daemons import daemon_pod
from fairlead.engine.ask.sandbox import sandbox
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.rules.reasons import Insufficient
from fairlead.engine.snapshot.requests import allocatable, requests_of
from fairlead.errors import BadObject
from fairlead.kube.decode import call_it
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod, PodSpec
from fairlead.kube.quantity import format_bytes, format_milli
from fairlead.kube.tolerations import Taint, Toleration, tolerated
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.aws.tags import LABEL, PREFIX, RESOURCES

# With one of these no pod helps a group to grow.
BLOCKING = (
    "group-missing",
    "discovery-tags-missing",
    "discovery-flag-wrong",
    "max-reached",
    "launch-suspended",
)
# Rules that ask only what a node is like.
_OF_NODES = ("NodeAffinity", "NodeResourcesFit", "TaintToleration")
_ZONES = ("topology.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone")

Blamed = Mapping[str, Sequence[Finding]]
"""By group: what is wrong with it."""


@dataclass(frozen=True, slots=True)
class _Try:
    subject: Subject
    imagined: Refused | None
    """Why the autoscaler's template refuses it."""
    described: Refused | None
    """Why every node that the file describes refuses it."""


def check_pod(
    pod: Pod, subjects: Sequence[Subject], blamed: Blamed, trial: Trial, context: Context
) -> tuple[Verdict, list[Finding]]:
    """Whether a pod gets its node from zero, and what it is if not."""
    key = pod.metadata.key
    if home := trial.at_home(pod):
        return Verdict(key, True, home, "fits on a node that is there"), []
    tries = [_try(pod, subject, trial) for subject in subjects]
    # A group that cannot grow is no help, and one whose nodes would refuse the pod after all is none either.
    helped = [
        each.subject
        for each in tries
        if each.imagined is None
        and each.described is None
        and not any(found.cause in BLOCKING for found in blamed.get(each.subject.name, ()))
    ]
    if helped:
        found = [each for subject in helped for each in _contradicted(pod, subject, blamed, context)]
        why = "the autoscaler says otherwise" if found else ""
        certain = not found or any(each.certain for each in found)
        return Verdict(key, not found, helped[0].name, why, certain), found
    home_groups = [each for each in tries if each.described is None]
    if not home_groups:
        return _fits_nowhere(pod, tries, context)
    found = [finding for each in home_groups for finding in _unhelped(pod, each, blamed, trial)]
    names = ", ".join(dict.fromkeys(each.subject.name for each in home_groups))
    causes = ", ".join(
        dict.fromkeys(
            finding.cause for each in home_groups for finding in (*blamed.get(each.subject.name, ()), *found)
        )
    )
    return Verdict(key, False, names, causes), found


def check_by_file(
    pod: Pod, subjects: Sequence[Subject], trial: Trial, context: Context
) -> tuple[Verdict, list[Finding]]:
    """The same where nothing is known of the account: whether any group of the file has nodes for it."""
    key = pod.metadata.key
    if home := trial.at_home(pod):
        return Verdict(key, True, home, "fits on a node that is there"), []
    tries = [_try(pod, subject, trial) for subject in subjects]
    fits = [each.subject.name for each in tries if each.described is None]
    if fits:
        return Verdict(key, True, fits[0], "by the file; --aws tells whether the account agrees"), []
    return _fits_nowhere(pod, tries, context)


def check_group(subject: Subject, blamed: Blamed, trial: Trial) -> Iterator[Finding]:
    """What keeps the very pod that a group is for from bringing it up, where nothing else does."""
    template = subject.template
    if template is None or blamed.get(subject.name):
        return
    pod = made_for(subject.group)
    if refused := trial.refused(pod, template.node):
        found = pod_finding(pod, template.node, refused, group=subject.name, called="a pod that it is for")
        yield replace(found, pod="")


def check_refusals(
    subject: Subject, blamed: Blamed, trial: Trial, known: Mapping[str, Pod]
) -> Iterator[Finding]:
    """What the log says of a pod that we do not have; those that its taints kept off are not its own."""
    for refusal in subject.refusals:
        if refusal.pod in known or not subject.context.evidence.is_recent(refusal):
            continue
        if refusal.rule == "TaintToleration" or not _its_own(subject, refusal):
            continue
        if refusal.rule == "NodeResourcesFit":
            yield subject.finding(
                "pod-too-big",
                f"{refusal.pod} asks for more than a new node of {subject.name} has: {refusal.reasons}.",
                "ask for less, or add a group with a larger instance type",
                str(refusal),
                pod=refusal.pod,
                certain=False,
                seen=True,
            )
            return
        if not blamed.get(subject.name) and _takes_its_own(subject, trial):
            yield _stale(subject, refusal.pod, [str(refusal)], certain=False)
            return


def _its_own(subject: Subject, refusal: Refusal) -> bool:
    """Whether a pod that only the log knows is likely meant for the group.

    It is when it got past taints that the group has; without any, only if no other group took it either.
    """
    if any(taint.effect != "PreferNoSchedule" for taint in subject.group.taints):
        return True
    refused = {each.group for each in subject.context.evidence.refusals if each.pod == refusal.pod}
    return refused >= {each.name for each in subject.context.groups}


def _takes_its_own(subject: Subject, trial: Trial) -> bool:
    template = subject.template
    return template is not None and trial.refused(made_for(subject.group), template.node) is None


def _try(pod: Pod, subject: Subject, trial: Trial) -> _Try:
    no_group = Refused("", "there is no Auto Scaling group")
    imagined = trial.refused(pod, subject.template.node) if subject.template else no_group
    described = [trial.refused(pod, node) for node in subject.wished]
    return _Try(subject, imagined, None if None in described else described[0])


def _contradicted(pod: Pod, subject: Subject, blamed: Blamed, context: Context) -> Iterator[Finding]:
    """All is as it should be, yet the autoscaler says no: it remembers something else, or waits.

    What is no longer said, and what other groups say, is no contradiction. An event may have been written
    just before something was mended: what only events say is never certain.
    """
    if blamed.get(subject.name) or any(cached_empty(subject)):
        return
    key = pod.metadata.key
    refusals = [
        each for each in context.evidence.refusals if each.pod == key and context.evidence.is_recent(each)
    ]
    lines = [each for each in refusals if subject.is_called(each.group)]
    events = [each for each in refusals if not each.group]
    if lines:
        certain = any(each.rule in _OF_NODES for each in lines)
        yield _stale(subject, key, [str(each) for each in (*lines, *events)], certain=certain)
    elif any(_by_all(each, subject) for each in events):
        yield _stale(subject, key, [str(each) for each in events], certain=False)
    elif waits := [each for each in events if each.said(BACKOFF)]:
        yield subject.finding(
            "in-backoff",
            f"by its tags and by EKS {subject.name} takes {key}, but the autoscaler tried a group without "
            "success, and waits.",
            activities_of(subject.asg_name or subject.name),
            str(waits[0]),
            pod=key,
            certain=False,
            seen=True,
        )


def _by_all(event: Refusal, subject: Subject) -> bool:
    """Whether every group must have refused the pod for its nodes, so that this one did, too.

    A group that is full was passed over before its template was looked at.
    """
    others = [each for each in subject.context.groups if each != subject.asg]
    full = sum(each.desired >= each.max for each in others)
    return event.by_templates > 0 and event.by_templates + min(event.said(FULL), full) > len(others)


def _stale(subject: Subject, pod: str, evidence: list[str], *, certain: bool) -> Finding:
    settings = subject.context.settings
    version = settings.as_version
    fix = f"{settings.restart}, and give it --node-info-cache-expire-time=10m"
    if not version.can_forget_nodes:
        fix = f"{settings.restart} each time, or update: {version} has no --node-info-cache-expire-time"
    said = f"--node-info-cache-expire-time is {settings.expire}" if settings.flags else ""
    return subject.finding(
        "stale-node-info",
        f"by its tags and by EKS {subject.name} takes {pod}, but the autoscaler says no: it goes by the "
        "group's last node, which it remembers.",
        fix,
        *(each for each in (*evidence[:2], said) if each),
        pod=pod,
        certain=certain,
        seen=True,
    )


def _unhelped(pod: Pod, tried: _Try, blamed: Blamed, trial: Trial) -> Iterator[Finding]:
    """A group's nodes would take the pod, but from zero they do not come."""
    subject, template = tried.subject, tried.subject.template
    if template is None or tried.imagined is None:
        return
    zones = subject.asg.zones if subject.asg else ()
    others = (zone for zone in zones[1:] if trial.refused(pod, _in_zone(template.node, zone)) is None)
    if other := next(others, ""):
        yield subject.finding(
            "first-zone-template",
            f"{pod.metadata.key} needs zone {other}; {subject.name} has it, but the autoscaler thinks of "
            f"{zones[0]} only, the first of {', '.join(zones)}.",
            f"one group per zone: in the file, copies of {subject.name} with zones: [{other}] and so on",
            f"on its template: {tried.imagined.words}",
            pod=pod.metadata.key,
        )
    elif not blamed.get(subject.name):
        untold = _untold(pod, subject, template.node, tried.imagined)
        yield untold or pod_finding(pod, template.node, tried.imagined, group=subject.name)


def _untold(pod: Pod, subject: Subject, imagined: Node, refused: Refused) -> Finding | None:
    """What the pod wants is on the group's nodes, but nothing says so to the autoscaler."""
    asg, real = subject.asg, subject.wished[0]
    has, shows = real.metadata.labels, imagined.metadata.labels
    if refused.rule == "NodeAffinity":
        cause = "label-tag-missing"
        tags = {LABEL + key: has[key] for key in asked_labels(pod) if key in has and key not in shows}
    elif refused.rule == "NodeResourcesFit":
        cause = "resource-tag-missing"
        amounts = real.status.allocatable
        lacking = [
            name for name in refused.short if name in amounts and name not in imagined.status.allocatable
        ]
        tags = {RESOURCES + name: str(amounts[name]) for name in lacking}
    else:
        return None
    if not tags or asg is None:
        return None
    changes = tuple(TagChange(asg.name, key, value) for key, value in tags.items())
    fix = tag_command(changes, subject.context.state.region)
    if RESOURCES + DISK in tags and subject.disk is None and DISK not in subject.group.instance_type.capacity:
        # How much there is cannot be known here.
        changes = ()
        fix = f"say in the file what disk nodes have, resources: {{{DISK}: 20Gi}}; --fix then tags it"
    short = ", ".join(f"{key.removeprefix(PREFIX)}={value}" for key, value in tags.items())
    return subject.finding(
        cause,
        f"nodes of {subject.name} have what {pod.metadata.key} wants, but no tag on {asg.name} says {short}.",
        fix,
        f"on its template: {refused.words}",
        pod=pod.metadata.key,
        tags=changes,
    )


def _fits_nowhere(pod: Pod, tries: Sequence[_Try], context: Context) -> tuple[Verdict, list[Finding]]:
    """No group has nodes for it: the pod, or the file, must change. The group that nearly does is named."""
    refused = [(each, each.described) for each in tries if each.described is not None]
    nearest, why = max(refused, key=lambda each: each[1].far)
    said = "; ".join(f"{each.subject.name}: {no.words}" for each, no in refused)
    finding = pod_finding(pod, nearest.subject.wished[0], why, where=f"group {nearest.subject.name}")
    refusals = [str(each) for each in context.evidence.refusals if each.pod == pod.metadata.key]
    finding = replace(finding, evidence=(said, *refusals[:1]), seen=bool(refusals))
    return Verdict(pod.metadata.key, False, "", said), [finding]


def pod_finding(
    pod: Pod, node: Node, refused: Refused, *, group: str = "", where: str = "", called: str = ""
) -> Finding:
    """A rule's no as a cause, with what would help; `called` is how the pod is called."""
    key, where = called or pod.metadata.key, where or f"group {group}"
    match refused.rule:
        case "NodeResourcesFit":
            short = too_little(pod, node, refused.short) or refused.words
            cause, says = "pod-too-big", f"{key} asks for {short} (the largest that comes near is {where})."
            larger = "nodes with a larger disk" if refused.short == (DISK,) else "a larger instance type"
            fix = f"ask for less, or add a group with {larger}"
        case "TaintToleration":
            taints = [each for each in node.spec.taints if _keeps_away(each, pod)]
            cause = "taint-not-tolerated"
            says = f"{key} does not tolerate {', '.join(map(str, taints))} of {where}."
            fix = f"add to the pod: tolerations: [{', '.join(_toleration(each) for each in taints)}]"
        case "NodeAffinity":
            asked = ", ".join(f"{name}={'|'.join(values)}" for name, values in asked_labels(pod).items())
            cause = "affinity-unmet"
            says = f"{key} wants nodes with {asked or 'what its affinity says'}, which {where} has not."
            fix = "give a group these labels, or let the pod select what a group has"
        case _:
            cause, says = "refused-by-rule", f"{refused.rule} keeps {key} off new nodes of {where}."
            fix = f"see what {refused.rule} asks of the pod"
    return Finding(cause, says, fix, group=group, pod=pod.metadata.key, evidence=(refused.words,))


def asked_labels(pod: Pod) -> dict[str, tuple[str, ...]]:
    """The labels of nodes that a pod names, with the values that it would take."""
    found: dict[str, tuple[str, ...]] = {key: (value,) for key, value in pod.spec.node_selector.items()}
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    for term in affinity.required.node_selector_terms if affinity and affinity.required else ():
        for each in term.match_expressions:
            if each.operator == "In":
                found[each.key] = (*found.get(each.key, ()), *each.values)
    return found


def _in_zone(node: Node, zone: str) -> Node:
    labels = {**node.metadata.labels, **dict.fromkeys(_ZONES, zone)}
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))


def _keeps_away(taint: Taint, pod: Pod) -> bool:
    return taint.effect in ("NoSchedule", "NoExecute") and not tolerated(taint, pod.spec.tolerations)


def _toleration(taint: Taint) -> str:
    value = f"operator: Equal, value: {taint.value}" if taint.value else "operator: Exists"
    return f"{{key: {taint.key}, {value}, effect: {taint.effect}}}"


# How far along a pod came before it was refused: the rules in the order they are asked.
_FAR = ("TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit")


@dataclass(frozen=True, slots=True)
class Refused:
    """A rule's no, in the scheduler's words. `short`: the resources there is too little of."""

    rule: str
    words: str
    short: tuple[str, ...] = ()

    @property
    def far(self) -> int:
        """How many rules it passed, roughly: a pod that is refused late nearly fits."""
        return _FAR.index(self.rule) if self.rule in _FAR else len(_FAR)


class Trial:
    """A cluster on which nodes are imagined; it is left as it was after each try."""

    def __init__(self, objects: Iterable[Mapping[str, Any]] = (), cluster: Cluster | None = None) -> None:
        """`cluster` is that of the objects, where it was made already."""
        kept = list(objects)
        self.cluster = cluster if cluster is not None else Cluster.from_objects(kept)
        self._ranking = Ranking(self.cluster.snapshot)
        self._daemons = [_daemon_set(each) for each in kept if each.get("kind") == "DaemonSet"]

    def pending(self) -> list[Pod]:
        """The pods that wait for a node and may have one; a DaemonSet's are no reason to scale."""
        return [pod for pod in self.cluster.pods.values() if _waits(pod)]

    def at_home(self, pod: Pod) -> str:
        """A node that is there and takes the pod, "" if none does."""
        snapshot = self.cluster.snapshot
        slot = self._ranking.choose(snapshot.class_of(pod))
        return snapshot.nodes.name(slot) if slot >= 0 else ""

    def refused(self, pod: Pod, node: Node) -> Refused | None:
        """Why a pod may not go on a node that is not there yet; None when it may."""
        with sandbox(self._ranking) as box:
            slot = box.open_node(node)
            for owner in self._daemons:
                daemon = daemon_pod(owner, node)
                if daemon is not None and rules.fits(box.snapshot, box.snapshot.class_of(daemon), slot):
                    box.place(daemon, slot)
            verdicts = rules.verdicts(box.snapshot, box.snapshot.class_of(pod))
            reasons = verdicts.reasons(slot)
            if not reasons:
                return None
            short = tuple(each.resource for each in reasons if isinstance(each, Insufficient))
            return Refused(verdicts.rule(slot), "; ".join(map(str, reasons)), short)


def made_for(group: NodeGroup) -> Pod:
    """The pod that a group is for: selects its labels, tolerates its taints, asks for nothing else."""
    tolerations = tuple(
        Toleration(each.key, operator="Equal", value=each.value, effect=each.effect) for each in group.taints
    )
    spec = PodSpec(node_selector=group.labels, tolerations=tolerations)
    return Pod(metadata=ObjectMeta(name=f"made-for-{group.name}", namespace="default"), spec=spec)


def too_little(pod: Pod, node: Node, resources: Iterable[str]) -> str:
    """What a pod asks for and a node has, of some resources."""
    asks = dict(requests_of(pod).amounts)
    has = allocatable(node.metadata.name, node.status.allocatable)
    return ", ".join(
        f"{_amount(each, asks.get(each, 0))} {each} where the node has {_amount(each, has.get(each, 0))}"
        for each in resources
    )


def _amount(resource: str, amount: int) -> str:
    if resource == "cpu":
        return format_milli(amount)
    return format_bytes(amount) if resource in ("memory", "ephemeral-storage") else str(amount)


def _waits(pod: Pod) -> bool:
    if pod.spec.node_name or pod.terminal or pod.metadata.deletion_timestamp or pod.spec.scheduling_gates:
        return False
    controller = pod.metadata.controller
    return controller is None or controller.kind != "DaemonSet"


def _daemon_set(given: Mapping[str, Any]) -> dict[str, Any]:
    """A DaemonSet with all that its controller expects of one; a file may leave out what the API adds."""
    template = (given.get("spec") or {}).get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise BadObject(call_it(given), "spec.template.spec", "is missing")
    metadata = {"uid": "", "namespace": "default", "name": "", **(given.get("metadata") or {})}
    return {"apiVersion": "apps/v1", **given, "metadata": metadata}
