"""What makes, groups and protects pods: controllers, gangs' objects, budgets, namespaces, leases."""

from __future__ import annotations

from typing import Literal

from fairlead.kube.meta import Condition, Int32, Int64, Object, ObjectMeta, Time
from fairlead.kube.pod import PodSpec
from fairlead.kube.selectors import LabelSelector

DEPLOYMENT_REVISION = "deployment.kubernetes.io/revision"
"""Annotation on ReplicaSets: the newest revision of a Deployment has the highest number."""

REVISION_LABEL = "controller-revision-hash"
"""Label on pods of StatefulSets and DaemonSets: the revision that they were made from."""


class PodTemplate(Object, frozen=True, gc=False):
    """The template pods are made from."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Ordinals(Object, frozen=True, gc=False):
    """Where a StatefulSet starts to count."""

    start: Int32 = 0


class RollingUpdate(Object, frozen=True, gc=False):
    """How a workload is rolled out; below `partition` a StatefulSet's pods keep their revision."""

    partition: Int32 = 0
    max_unavailable: Int32 | str | None = None


class UpdateStrategy(Object, frozen=True, gc=False):
    """How a workload replaces pods of an older revision: one by one, all (Recreate), or OnDelete."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadSpec(Object, frozen=True, gc=False):
    """What Deployment, ReplicaSet, StatefulSet and ReplicationController have in common."""

    replicas: Int32 = 1
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()
    ordinals: Ordinals | None = None
    update_strategy: UpdateStrategy | None = None
    """A StatefulSet's."""
    strategy: UpdateStrategy | None = None
    """A Deployment's."""
    pod_management_policy: str = ""


class WorkloadStatus(Object, frozen=True, gc=False):
    """How far a workload is."""

    replicas: Int32 = 0
    updated_replicas: Int32 = 0
    observed_generation: Int64 = 0
    current_revision: str = ""
    """A StatefulSet's revision that was rolled out to the end."""
    update_revision: str = ""
    """Its revision that is, or is being, rolled out."""


class Workload(Object, frozen=True, gc=False):
    """A Deployment, ReplicaSet, StatefulSet or anything else with replicas and a template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
    kind: str = ""
    api_version: str = ""

    @property
    def desired(self) -> int:
        """How many pods it wants."""
        return max(0, self.spec.replicas)


class ScaleSpec(Object, frozen=True, gc=False):
    """How many are wanted; none is what is not said."""

    replicas: Int32 = 0


class Scale(Object, frozen=True, gc=False):
    """What the ``scale`` subresource shows of any object that has a number of replicas."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()

    @property
    def desired(self) -> int:
        """How many pods it wants."""
        return max(0, self.spec.replicas)


class JobSpec(Object, frozen=True, gc=False):
    """How many pods of a Job run at once and in all."""

    parallelism: Int32 = 1
    completions: Int32 | None = None
    suspend: bool = False
    template: PodTemplate = PodTemplate()


class JobStatus(Object, frozen=True, gc=False):
    """How far a Job is."""

    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True, gc=False):
    """A Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def desired(self) -> int:
        """How many pods it wants at once now."""
        if self.spec.suspend:
            return 0
        wanted = self.spec.parallelism
        if self.spec.completions is not None:
            wanted = min(wanted, self.spec.completions - self.status.succeeded)
        return max(0, wanted)


class GangPolicy(Object, frozen=True, gc=False):
    """Kubernetes' own: how many must start together."""

    min_count: Int32 = 0


class SchedulingPolicy(Object, frozen=True, gc=False):
    """Kubernetes' own: with `gang` unset the group's pods are scheduled one by one."""

    gang: GangPolicy | None = None


class PodGroupSpec(Object, frozen=True, gc=False):
    """A gang's minimum, in whichever spelling."""

    min_member: Int32 | None = None
    schedule_timeout_seconds: Int32 | None = None
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
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None


class BudgetStatus(Object, frozen=True, gc=False):
    """How many more may go."""

    disruptions_allowed: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    observed_generation: Int64 = 0
    disrupted_pods: dict[str, Time] = {}


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
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"


class LeaseSpec(Object, frozen=True, gc=False):
    """The holder of a lease, and until when it holds it."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: Int32 = 0


class Lease(Object, frozen=True, gc=False):
    """A lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
