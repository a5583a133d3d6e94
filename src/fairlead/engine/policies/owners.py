"""What is known of pods' owners, cut down to what tells whose pod it is and how many are wanted."""

from __future__ import annotations

from fairlead.kube.meta import ObjectMeta, OwnerReference
from fairlead.kube.workloads import Job, JobSpec, JobStatus, Workload, WorkloadSpec
from fairlead.policy.names import REPLICAS_LABEL

__all__ = ["KnownOwners"]


class KnownOwners:
    """Owners by kind and name; it is the `Owners` that `fairlead.policy.workloads` asks.

    Kept also while there is no policy: one may come, and its pods' owners are not told again then.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Workload | Job] = {}

    def owner(self, reference: OwnerReference, namespace: str) -> Workload | Job | None:
        """The owner that a pod or ReplicaSet names, None when it is not known."""
        return self._known.get((reference.kind, namespace, reference.name))

    def seen(self, kind: str, owner: Workload | Job) -> tuple[bool, bool]:
        """Take note of an owner: whether whose its pods are may have changed, and whether anything has."""
        key = kind, owner.metadata.namespace, owner.metadata.name
        before, after = self._known.get(key), _trimmed(owner)
        if before == after:
            return False, False
        self._known[key] = after
        return before is None or _identity(before) != _identity(after), True

    def gone(self, kind: str, namespace: str, name: str) -> None:
        """Forget an owner."""
        self._known.pop((kind, namespace, name), None)


def _trimmed(owner: Workload | Job) -> Workload | Job:
    metadata = owner.metadata
    kept = ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        labels={key: value for key, value in metadata.labels.items() if key == REPLICAS_LABEL},
        owner_references=metadata.owner_references,
    )
    if isinstance(owner, Job):
        spec = JobSpec(parallelism=owner.spec.parallelism, completions=owner.spec.completions)
        return Job(kept, spec, JobStatus(succeeded=owner.status.succeeded))
    return Workload(kept, WorkloadSpec(replicas=owner.spec.replicas, ordinals=owner.spec.ordinals))


def _identity(owner: Workload | Job) -> object:
    ordinals = owner.spec.ordinals if isinstance(owner, Workload) else None
    return owner.metadata.uid, owner.metadata.owner_references, ordinals
