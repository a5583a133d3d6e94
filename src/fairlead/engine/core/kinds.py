"""Every kind that the core wants to receive, and the type it comes as.

Others with replicas and a template may be passed as a `Workload` under their own kind.
"""

from __future__ import annotations

from fairlead.engine.snapshot.kinds import KINDS as SNAPSHOT_KINDS
from fairlead.kube.meta import Object
from fairlead.kube.workloads import Job, PodDisruptionBudget, PodGroup, Workload

KINDS: dict[str, type[Object]] = {
    **SNAPSHOT_KINDS,
    "PodDisruptionBudget": PodDisruptionBudget,
    "PodGroup": PodGroup,
    "Deployment": Workload,
    "Job": Job,
}
