"""Puts it together: groups of a file, what an account and a cluster say, in; what is wrong, out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from fairlead.cloud.doctor import groups as checks
from fairlead.cloud.doctor import pods, pools
from fairlead.cloud.doctor.autoscaler import (
    CaSettings,
    Evidence,
    find_autoscaler,
    read_events,
    without_suffix,
)
from fairlead.cloud.doctor.findings import Finding, Report, TagChange, Verdict, ordered
from fairlead.cloud.doctor.pods import Trial
from fairlead.cloud.doctor.subjects import Context, Subject, subjects_of, tag_command
from fairlead.engine.ask.cluster import Cluster
from fairlead.errors import BadInput
from fairlead.kube.pod import Pod
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.aws import CloudState, demanded_tags
from fairlead.nodegroups.aws.tags import LABEL, PREFIX, TAINT


def diagnose(
    groups: Sequence[NodeGroup],
    state: CloudState | None,
    objects: Iterable[Mapping[str, Any]] = (),
    *,
    evidence: Evidence | None = None,
    settings: CaSettings | None = None,
    pod: str = "",
    now: datetime | None = None,
    cluster: Cluster | None = None,
) -> Report:
    """What keeps the groups, and the pods that wait, from coming up from zero.

    `objects` is what a cluster has, as ``kubectl get -o json`` gives it; nothing of it is needed, but pods,
    events, DaemonSets, the autoscaler's Deployment and NodePools each tell more. `state` None: nothing is
    known of the account, only the log and the cluster speak. `pod` restricts it to one pod. `now` is when
    the cluster was looked at, None for files of some day. `cluster` is one that was made already; `objects`
    need then be only what the engine does not read.
    """
    listed = list(objects)
    trial = Trial(listed, cluster)
    evidence = read_events(listed, evidence or Evidence(), now)
    settings = settings_of(listed, evidence, settings)
    waiting = _waiting(trial, pod)
    found_pools = pools.check_pools(listed, waiting, trial)
    context = Context(state or CloudState(), settings, evidence)
    subjects = subjects_of(groups, context)
    if state is None:
        return _without_account(subjects, context, found_pools, waiting, trial)
    findings = _of_groups(subjects, context, trial, waiting if listed or cluster is not None else None)
    blamed = _blamed(findings)
    for subject in subjects:
        findings += pods.check_group(subject, blamed, trial)
    blamed = _blamed(findings)
    verdicts = []
    for each in waiting:
        verdict, found = pods.check_pod(each, subjects, blamed, trial, context)
        helped = next((one for one in found_pools.pods if one.name == verdict.name and one.works), None)
        verdicts.append(helped or verdict)
        findings += [] if helped else found
    for subject in subjects:
        findings += pods.check_refusals(subject, blamed, trial, trial.cluster.pods)
    shown = {verdict.name for verdict in verdicts if not verdict.works}
    findings += [each for each in found_pools.findings if not each.pod or each.pod in shown]
    return Report(
        ordered(findings),
        groups=tuple(_verdict(subject, _blamed(findings)) for subject in subjects),
        pods=tuple(verdicts),
        pools=found_pools.verdicts,
    )


def _without_account(
    subjects: Sequence[Subject],
    context: Context,
    found_pools: pools.PoolsFound,
    waiting: Sequence[Pod],
    trial: Trial,
) -> Report:
    """Only the log, the cluster and the file speak."""
    groups = [subject.group for subject in subjects]
    found = [*found_pools.findings, *_from_log(groups, context.evidence)]
    verdicts = list(found_pools.pods)
    # With NodePools, those bring nodes: the file's groups are not what pods wait for.
    for each in [] if found_pools.verdicts else waiting:
        verdict, more = pods.check_by_file(each, subjects, trial, context)
        verdicts.append(verdict)
        found += more
    return Report(ordered(found), pods=tuple(verdicts), pools=found_pools.verdicts)


def settings_of(
    objects: Sequence[Mapping[str, Any]], evidence: Evidence, given: CaSettings | None = None
) -> CaSettings:
    """What is known of the autoscaler: as given, else by its Deployment, else by its log."""
    found = find_autoscaler(objects) or CaSettings()
    flags = {name: (value,) for name, value in evidence.flags.items()} | found.flags
    given = given or CaSettings()
    return replace(
        found,
        version=given.version or found.version or evidence.version,
        flags=flags | given.flags,
        role=given.role or found.role,
    )


def _waiting(trial: Trial, pod: str) -> list[Pod]:
    if not pod:
        # Pods of one owner are alike: one stands for all.
        owners: dict[str, Pod] = {}
        for each in trial.pending():
            owner = each.metadata.controller
            owners.setdefault(owner.uid or owner.name if owner else each.metadata.key, each)
        return list(owners.values())
    found, _ = trial.cluster.find(pod)
    if found.spec.node_name:
        raise BadInput(f"pod {found.metadata.key} is on node {found.spec.node_name} already")
    return [found]


def _of_groups(
    subjects: Sequence[Subject], context: Context, trial: Trial, waiting: Sequence[Pod] | None
) -> list[Finding]:
    findings = [*checks.check_flags(context), *checks.check_access(subjects, context)]
    homeless = None if waiting is None else [pod for pod in waiting if not trial.at_home(pod)]
    for subject in subjects:
        findings += checks.check_tags(subject)
        wanted = None
        if homeless is not None:
            wanted = any(trial.refused(pod, node) is None for pod in homeless for node in subject.wished)
        findings += checks.check_size(subject, wanted)
    return findings


def _blamed(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for each in findings:
        if each.group and each.severity == "wrong":
            found.setdefault(each.group, []).append(each)
    return found


def _verdict(subject: Subject, blamed: Mapping[str, Sequence[Finding]]) -> Verdict:
    mine = [
        each
        for each in blamed.get(subject.name, ())
        if not each.pod or each.cause in ("stale-node-info", "pod-too-big")
    ]
    causes = ", ".join(dict.fromkeys(each.cause for each in mine))
    certain = not mine or any(each.certain for each in mine)
    return Verdict(subject.name, not mine, subject.asg.name if subject.asg else "", causes, certain)


def _from_log(groups: Sequence[NodeGroup], evidence: Evidence) -> Iterator[Finding]:
    """Without a word from the account: what a refusal in the log most likely means."""
    named = {group.name: group for group in groups}
    for refusal in evidence.refusals:
        group = named.get(without_suffix(refusal.group)) or named.get(refusal.group)
        prefix = {"NodeAffinity": LABEL, "TaintToleration": TAINT}.get(refusal.rule)
        if group is None or prefix is None:
            continue
        tags = {key: value for key, value in demanded_tags(group, "").items() if key.startswith(prefix)}
        if not tags or (prefix == TAINT and not refusal.debug):
            continue
        changes = [TagChange(refusal.group, key, value) for key, value in tags.items()]
        short = ", ".join(f"{key.removeprefix(PREFIX)}={value}" for key, value in tags.items())
        yield Finding(
            "label-tag-missing" if prefix == LABEL else "taint-tag-wrong",
            f"the autoscaler's template of {refusal.group} lacks {short}: no tag says it, or EKS' answer "
            "did not come; --aws tells which.",
            tag_command(changes, ""),
            group=group.name,
            evidence=(str(refusal),),
            certain=False,
            seen=True,
        )
    for each in evidence.asked[-1:]:
        mended = f"add to its role's policy: {checks.STATEMENT}"
        yield Finding(
            "describe-nodegroup-denied" if each.denied else "describe-nodegroup-unreachable",
            f"the autoscaler's call of eks:DescribeNodegroup for {each.nodegroup} failed.",
            mended if each.denied else "let it reach the EKS API: a VPC endpoint for eks",
            evidence=(f"log: {each.why}",),
            seen=True,
        )
