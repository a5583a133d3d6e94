"""What makes, groups and protects pods: controllers, gangs' objects, budgets, namespaces, leases."""

from __future__ import annotations

from datetime import datetime

from fairlead.kube.meta import Condition, Object, ObjectMeta
from fairlead.kube.pod import PodSpec
from fairlead.kube.selectors import LabelSelector

__all__ = [
    "DeviceClass",
    "Job",
    "JobSpec",
    "JobStatus",
    "Lease",
    "LeaseSpec",
    "Namespace",
    "PodDisruptionBudget",
    "PodGroup",
    "PodTemplate",
    "PriorityClass",
    "Service",
    "Workload",
    "WorkloadSpec",
]


class PodTemplate(Object, frozen=True, gc=False):
    """The template pods are made from."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Ordinals(Object, frozen=True, gc=False):
    """Where a StatefulSet starts to count."""

    start: int = 0


class WorkloadSpec(Object, frozen=True, gc=False):
    """What Deployment, ReplicaSet, StatefulSet and ReplicationController have in common."""

    replicas: int = 1
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()
    ordinals: Ordinals | None = None


class WorkloadStatus(Object, frozen=True, gc=False):
    """How far a workload is."""

    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    observed_generation: int = 0


class Workload(Object, frozen=True, gc=False):
    """A Deployment, ReplicaSet, StatefulSet or anything else with replicas and a template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
    kind: str = ""
    api_version: str = ""


class JobSpec(Object, frozen=True, gc=False):
    """How many pods of a Job run at once and in all."""

    parallelism: int = 1
    completions: int | None = None
    suspend: bool = False
    template: PodTemplate = PodTemplate()


class JobStatus(Object, frozen=True, gc=False):
    """How far a Job is."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True, gc=False):
    """A Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class GangPolicy(Object, frozen=True, gc=False):
    """Kubernetes' own: how many must start together."""

    min_count: int = 0


class SchedulingPolicy(Object, frozen=True, gc=False):
    """Kubernetes' own: with `gang` unset the group's pods are scheduled one by one."""

    gang: GangPolicy | None = None


class PodGroupSpec(Object, frozen=True, gc=False):
    """A gang's minimum, in whichever spelling."""

    min_member: int | None = None
    schedule_timeout_seconds: int | None = None
    scheduling_policy: SchedulingPolicy | None = None
    priority_class_name: str = ""


class PodGroup(Object, frozen=True, gc=False):
    """A gang's object: coscheduling's, Volcano's or Kubernetes' own (`api_version` tells)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    api_version: str = ""


class BudgetSpec(Object, frozen=True, gc=False):
    """Which pods, and how many must stay."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str = ""


class BudgetStatus(Object, frozen=True, gc=False):
    """How many more may go."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, datetime] = {}


class PodDisruptionBudget(Object, frozen=True, gc=False):
    """A limit on voluntary disruption."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class Namespace(Object, frozen=True, gc=False):
    """A namespace; affinity terms select by its labels."""

    metadata: ObjectMeta = ObjectMeta()


class ServiceSpec(Object, frozen=True, gc=False):
    """Which pods a service speaks for; no selector is none."""

    selector: dict[str, str] | None = None


class Service(Object, frozen=True, gc=False):
    """A service; ranking spreads its pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class DeviceClassSpec(Object, frozen=True, gc=False):
    """The extended resource that a class of devices stands in for, if any."""

    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True, gc=False):
    """A class of devices that dynamic resource allocation hands out."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class PriorityClass(Object, frozen=True, gc=False):
    """A named priority."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class LeaseSpec(Object, frozen=True, gc=False):
    """Who holds a lease and until when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int = 0


class Lease(Object, frozen=True, gc=False):
    """A lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
