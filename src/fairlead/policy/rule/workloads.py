"""Whose pod is it: the workload behind a pod, its revision, its desired number, and whether it is recreated.

A Deployment's pods are owned by ReplicaSets, and at admission a new ReplicaSet may not have reached our
cache yet. Then the Deployment is known from the ReplicaSet's name, which ends in the pod template's hash:
`Workload.guessed` says so, and the Deployment's UID may be missing. Groups therefore go by names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Protocol

from fairlead.kube.meta import ObjectMeta, OwnerReference
from fairlead.kube.workloads import Job, PodDisruptionBudget, Scale
from fairlead.kube.workloads import Workload as Owner
from fairlead.policy.names import REPLICAS_LABEL
from fairlead.policy.rule.split import FARTHEST, Demand

TEMPLATE_HASH = "pod-template-hash"
# What tells revisions apart, by controller. Argo Rollouts makes ReplicaSets as Deployments do.
_ROLLOUT_HASH = "rollouts-pod-template-hash"
REVISIONS = (TEMPLATE_HASH, _ROLLOUT_HASH, "controller-revision-hash")
_MAKERS = {TEMPLATE_HASH: ("Deployment", "apps/v1"), _ROLLOUT_HASH: ("Rollout", "argoproj.io/v1alpha1")}
_RECREATING = (
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("", "ReplicationController"),
    ("batch", "Job"),
)
_LABELLED = (*_RECREATING, ("apps", "Deployment"))  # whose own labels are known; of others only scales are
_POD_INDEX = "apps.kubernetes.io/pod-index"
PER_POD = ("statefulset.kubernetes.io/pod-name", _POD_INDEX, "batch.kubernetes.io/job-completion-index")
"""Labels that are different on each pod of one workload."""
MIRROR = "kubernetes.io/config.mirror"
# Their kinds are unambiguous without the API group; every other kind is named with it.
_PLAIN = ("", "apps", "batch")

_ORDINAL = re.compile(r".*-(\d{1,9})", re.ASCII)
_PERCENT = re.compile(r"(\d{1,9})%", re.ASCII)


class Owners(Protocol):
    """What is known of owners, from reflectors or a state file."""

    def owner(self, reference: OwnerReference, namespace: str) -> Owner | Job | Scale | None:
        """The owner that a pod or ReplicaSet names; a `Scale` of custom resources; None when not known.

        Whether its UID is the one in the reference is checked by the caller.
        """
        ...


@dataclass(frozen=True, slots=True)
class Workload:
    """What a pod is one of."""

    kind: str
    """The workload's kind: Deployment, not ReplicaSet; Pod when the pod has no controller."""
    api_version: str
    namespace: str
    name: str
    """A bare pod's is its generateName where it has no name yet."""
    uid: str = ""
    """Empty when not known: of guessed workloads, and of bare pods at admission."""
    revision: str = ""
    """Hash of the template that the pod was made from; empty where there are no revisions."""
    ordinal: int | None = None
    """A StatefulSet pod's number, from 0: ``spec.ordinals.start`` is already taken off. None where that
    is not known: then the pod takes any slot."""
    replicas: int | None = None
    """How many are wanted, as far as known; stale while it jumps."""
    single: bool | None = None
    """What the label ``fairlead.dev/replicas`` on the workload says, or, where that is a custom one, on the
    pod; None where it does not say."""
    recreated: bool = True
    """Whether its controller is known to make a new pod for a deleted one: many (a TaskRun, a workflow) do
    not, so an unknown controller counts as one that does not until its scale is known."""
    bare: bool = False
    """Whether the pod has no controller: it is a workload of its own."""
    job: bool = False
    """Whether a deleted pod counts against its owner: Job pods move only by opt-in."""
    skip: str = ""
    """Why policies do not govern the pod (``mirror pod``, ``DaemonSet pod``); empty: they do."""
    guessed: bool = False
    """Whether the Deployment is only known from its ReplicaSet's name."""

    def is_single(self, slot: int | None = None) -> bool:
        """Whether this is a workload of one replica: by its label, else by the number that is wanted.

        `slot` is the pod's in a group of just this workload: a pod that holds a second one is not alone,
        whatever a stale number says.
        """
        if self.single is not None:
            return self.single
        return self.replicas == 1 and (slot is None or slot == 1)


def workload_of(meta: ObjectMeta, owners: Owners, namespace: str = "") -> Workload:
    """The workload of a pod, by its metadata; where that does not say the namespace, at admission, it is
    `namespace`.
    """
    namespace = meta.namespace or namespace
    reference = meta.controller
    if MIRROR in meta.annotations or (reference is not None and reference.kind == "Node"):
        return Workload("Pod", "v1", namespace, meta.name, meta.uid, recreated=False, skip="mirror pod")
    if reference is None:
        name = meta.name or meta.generate_name
        single = _said_single(meta)
        return Workload(
            "Pod", "v1", namespace, name, meta.uid, replicas=1, single=single, recreated=False, bare=True
        )
    if reference.kind == "DaemonSet":
        return Workload(
            reference.kind, reference.api_version, namespace, reference.name, reference.uid,
            skip="DaemonSet pod",
        )  # fmt: skip
    found = _known(owners, reference, namespace)
    revision = next((meta.labels[label] for label in REVISIONS if meta.labels.get(label)), "")
    # It is the pod's own controller that recreates it, whatever owner is above that.
    recreated = (_group(reference), reference.kind) in _RECREATING or isinstance(found, Scale)
    if reference.kind == "ReplicaSet":
        above = found.metadata.controller if found is not None else _guess(meta, reference)
        if above is not None:
            top = _known(owners, above, namespace)
            return _of(above, top, meta, namespace, revision, recreated=recreated, guessed=found is None)
    workload = _of(reference, found, meta, namespace, revision, recreated=recreated)
    if reference.kind == "StatefulSet":
        return _numbered(workload, meta, found)
    return workload


def demand_of(budget: PodDisruptionBudget) -> Demand | None:
    """What a budget says; None where it says nothing that can be read."""
    least, most = budget.spec.min_available, budget.spec.max_unavailable
    if isinstance(least, int):
        return Demand(min_available=least)
    if isinstance(least, str) and (found := _PERCENT.fullmatch(least)):
        return Demand(min_percent=int(found[1]))
    if isinstance(most, int):
        return Demand(max_unavailable=most)
    if isinstance(most, str) and (found := _PERCENT.fullmatch(most)):
        return Demand(max_unavailable_percent=int(found[1]))
    return None


def name_of(workload: Workload) -> str:
    """What the groups of a workload's revisions are called; no label or policy group is called like that."""
    return called(workload.kind, workload.api_version, workload.name)


def called(kind: str, api_version: str, name: str) -> str:
    """A workload's name among all kinds.

    >>> called("Deployment", "apps/v1", "web"), called("Rollout", "argoproj.io/v1alpha1", "web")
    ('Deployment/web', 'Rollout.argoproj.io/web')
    """
    group = api_version.rpartition("/")[0]
    return f"{kind if group in _PLAIN else f'{kind}.{group}'}/{name}"


def _known(owners: Owners, reference: OwnerReference, namespace: str) -> Owner | Job | Scale | None:
    found = owners.owner(reference, namespace)
    if found is None or (reference.uid and found.metadata.uid and found.metadata.uid != reference.uid):
        # Another object of the same name: the cache is behind, or ahead.
        return None
    return found


def _guess(pod: ObjectMeta, replica_set: OwnerReference) -> OwnerReference | None:
    for label, (kind, api_version) in _MAKERS.items():
        name = replica_set.name.removesuffix(f"-{pod.labels.get(label, '')}")
        if label in pod.labels and name and name != replica_set.name:
            return OwnerReference(kind, name, "", api_version, controller=True)
    return None


def _group(reference: OwnerReference) -> str:
    return reference.api_version.rpartition("/")[0]


def _of(
    reference: OwnerReference,
    found: Owner | Job | Scale | None,
    pod: ObjectMeta,
    namespace: str,
    revision: str,
    *,
    recreated: bool,
    guessed: bool = False,
) -> Workload:
    job = reference.kind == "Job" and _group(reference) == "batch"
    # A scale has no labels, and to read any object's one would have to be allowed to read every object.
    labelled = found.metadata if found is not None else ObjectMeta()
    if (_group(reference), reference.kind) not in _LABELLED:
        labelled = pod
    return Workload(
        kind=reference.kind,
        api_version=reference.api_version,
        namespace=namespace,
        name=reference.name,
        uid=reference.uid,  # not the cache's, which may have another of the same name
        revision=revision,
        replicas=found.desired if found is not None else None,
        single=_said_single(labelled),
        recreated=recreated,
        job=job,
        guessed=guessed,
    )


def _numbered(workload: Workload, pod: ObjectMeta, found: Owner | Job | Scale | None) -> Workload:
    """A StatefulSet's pod with its ordinal, where that is known."""
    named = _ORDINAL.fullmatch(pod.name)
    said = pod.labels.get(_POD_INDEX, "") if named is None else named[1]
    if not (said.isascii() and said.isdigit()):
        return workload
    if not isinstance(found, Owner):
        return workload  # it is unknown from where it counts
    ordinals = found.spec.ordinals
    ordinal = int(said) - (ordinals.start if ordinals is not None else 0)
    # A pod below a start that was raised since is on its way out; its number is no ordinal. Nor is one that
    # no set reaches: any user can make a pod of any name.
    return replace(workload, ordinal=ordinal) if 0 <= ordinal < FARTHEST else workload


def _said_single(meta: ObjectMeta) -> bool | None:
    return {"single": True, "multiple": False}.get(meta.labels.get(REPLICAS_LABEL, ""))
