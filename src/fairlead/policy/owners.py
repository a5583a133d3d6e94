"""Owners of pods cut down to what policies read of them: templates would be most of the memory."""

from __future__ import annotations

from fairlead.kube.meta import ObjectMeta
from fairlead.kube.workloads import Job, JobSpec, JobStatus, Workload, WorkloadSpec
from fairlead.policy.names import REPLICAS_LABEL

__all__ = ["trimmed"]


def trimmed(owner: Workload | Job) -> Workload | Job:
    """What `fairlead.policy.workloads` reads of an owner."""
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
