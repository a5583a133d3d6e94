"""What is known of pods' owners, cut down to what tells whose a pod is and how many pods are wanted.

Templates would be most of the memory, and statuses change all the time: neither is kept unless asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.kube.meta import ObjectMeta, OwnerReference
from fairlead.kube.workloads import Job, JobSpec, JobStatus, Scale, Workload, WorkloadSpec
from fairlead.policy.names import REPLICAS_LABEL
from fairlead.policy.rule.demands import Sharing
from fairlead.policy.rule.workloads import Owners

Owner = Workload | Job | Scale


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """What an owner's change may change for others."""

    workload: bool = False
    """What is known of its pods' workload."""
    sharing: bool = False
    """Which workloads share what a budget lets be unavailable."""


class KnownOwners:
    """Owners by kind and name; the `Owners` that `fairlead.policy.rule.workloads` queries.

    `beyond` is queried for owners that no watch shows, such as custom resources. With `whole`, owners are
    kept with their templates and statuses.
    """

    __slots__ = ("_beyond", "_known", "_whole", "sharing")

    def __init__(self, beyond: Owners | None = None, *, whole: bool = False) -> None:
        self._known: dict[tuple[str, str, str], Owner] = {}
        self._beyond = beyond
        self._whole = whole
        self.sharing = Sharing()
        """Which workloads share a budget."""

    def owner(self, reference: OwnerReference, namespace: str) -> Owner | None:
        """The owner that a pod or ReplicaSet names, None when it is not known."""
        found = self._known.get((reference.kind, namespace, reference.name))
        if found is not None and (not reference.uid or found.metadata.uid in ("", reference.uid)):
            return found
        return self._beyond.owner(reference, namespace) if self._beyond is not None else found

    def get(self, kind: str, namespace: str, name: str) -> Owner | None:
        """An owner by its name."""
        return self._known.get((kind, namespace, name))

    def put(self, kind: str, owner: Owner) -> OwnerChange:
        """An owner as it now is."""
        key = kind, owner.metadata.namespace, owner.metadata.name
        before, after = self._known.get(key), trimmed(owner)
        sharing = isinstance(owner, Workload) and self.sharing.seen(kind, owner)
        self._known[key] = owner if self._whole else after
        same = before is not None and (trimmed(before) if self._whole else before) == after
        return OwnerChange(not same, sharing)

    def drop(self, kind: str, namespace: str, name: str) -> OwnerChange:
        """An owner is gone."""
        known = self._known.pop((kind, namespace, name), None)
        return OwnerChange(known is not None, self.sharing.gone(kind, namespace, name))


def trimmed(owner: Owner) -> Owner:
    """What `fairlead.policy.rule.workloads` reads of an owner."""
    if isinstance(owner, Scale):
        return owner
    metadata = owner.metadata
    kept = ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        labels={key: value for key, value in metadata.labels.items() if key == REPLICAS_LABEL},
        owner_references=metadata.owner_references,
    )
    if isinstance(owner, Job):
        spec = JobSpec(owner.spec.parallelism, owner.spec.completions, owner.spec.suspend)
        return Job(kept, spec, JobStatus(succeeded=owner.status.succeeded))
    return Workload(kept, WorkloadSpec(replicas=owner.spec.replicas, ordinals=owner.spec.ordinals))
