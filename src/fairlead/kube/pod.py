"""Pods: only the fields that a rule, a door or a message reads."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from fairlead.kube.meta import Condition, Int32, Int64, Natural32, Object, ObjectMeta, Time
from fairlead.kube.selectors import LabelSelector, Requirement
from fairlead.kube.tolerations import Toleration

# As they came; fairlead.kube.quantity gives them meaning. Numbers occur in hand-written YAML.
Quantities = dict[str, str | Int64 | float]

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Weight = Annotated[int, msgspec.Meta(ge=0, le=100)]
Positive32 = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
NodePolicy = Literal["Honor", "Ignore"]


class ResourceClaimUse(Object, frozen=True, gc=False):
    """A container's use of one of the pod's resource claims."""

    name: str
    request: str = ""


class Resources(Object, frozen=True, gc=False):
    """Requests and limits of a container or of a whole pod."""

    requests: Quantities = {}
    limits: Quantities = {}
    claims: tuple[ResourceClaimUse, ...] = ()


class ContainerPort(Object, frozen=True, gc=False):
    """A port; only `host_port` is scarce."""

    container_port: Port = 0
    host_port: Port = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = "TCP"


class RestartRule(Object, frozen=True, gc=False):
    """What to do when a container exits; restarting all of them is something the node must know."""

    action: str = ""


class Container(Object, frozen=True, gc=False):
    """A container; an init container with ``restartPolicy: Always`` is a sidecar."""

    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()


class NodeSelectorTerm(Object, frozen=True, gc=False):
    """Expressions over labels and over fields, all of which must hold."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Object, frozen=True, gc=False):
    """Terms, one of which must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNodeTerm(Object, frozen=True, gc=False):
    """A term worth `weight`."""

    weight: Weight
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Object, frozen=True, gc=False):
    """Which nodes a pod must or would rather be on."""

    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: tuple[PreferredNodeTerm, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class PodAffinityTerm(Object, frozen=True, gc=False):
    """Which pods, seen over which topology."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Object, frozen=True, gc=False):
    """A term worth `weight`."""

    weight: Weight
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Object, frozen=True, gc=False):
    """Affinity or anti-affinity to other pods."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(Object, frozen=True, gc=False):
    """All that a pod says about where it belongs, but selectors and tolerations."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Object, frozen=True, gc=False):
    """How evenly pods like this one must lie over a topology."""

    max_skew: Positive32
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Positive32 | None = None
    node_affinity_policy: NodePolicy = "Honor"
    node_taints_policy: NodePolicy = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class ClaimSource(Object, frozen=True, gc=False):
    """A volume's claim."""

    claim_name: str
    read_only: bool = False


class EphemeralSource(Object, frozen=True, gc=False):
    """A claim made from a template and named after the pod and volume."""


class Disk(Object, frozen=True, gc=False):
    """An inline disk of a cloud; which name field is set tells which cloud."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    pd_name: str = ""
    disk_uri: str = msgspec.field(name="diskURI", default="")
    image: str = ""
    monitors: tuple[str, ...] = ()
    pool: str = ""
    iqn: str = ""
    read_only: bool = False


class CSISource(Object, frozen=True, gc=False):
    """A CSI volume: inline in a pod, or what a persistent volume is (then with its handle)."""

    driver: str
    volume_handle: str = ""
    read_only: bool | None = None


class Volume(Object, frozen=True, gc=False):
    """A volume; kinds that no rule reads are all alike to us."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    csi: CSISource | None = None
    aws_elastic_block_store: Disk | None = None
    gce_persistent_disk: Disk | None = None
    azure_disk: Disk | None = None
    cinder: Disk | None = None
    portworx_volume: Disk | None = None
    rbd: Disk | None = None
    iscsi: Disk | None = None


class SchedulingGate(Object, frozen=True, gc=False):
    """A reason, set by another controller, not to schedule yet."""

    name: str


class PodResourceClaim(Object, frozen=True, gc=False):
    """A dynamic resource claim of the pod."""

    name: str


class SchedulingGroup(Object, frozen=True, gc=False):
    """Kubernetes' own way to name a pod's gang."""

    pod_group_name: str = ""


class WorkloadRef(Object, frozen=True, gc=False):
    """How Kubernetes 1.35, and no other version, has a pod name its gang: a pod group within a Workload."""

    name: str = ""
    pod_group: str = ""


class PodOS(Object, frozen=True, gc=False):
    """The operating system the pod is for."""

    name: str = ""


class PodSpec(Object, frozen=True, gc=False):
    """What a pod asks for. A cache of many pods shares equal specs of one template."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    overhead: Quantities = {}
    resources: Resources | None = None
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None
    os: PodOS | None = None
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = "Always"
    active_deadline_seconds: Natural32 | None = None


class ContainerStatus(Object, frozen=True, gc=False):
    """What a container actually has, which in-place resize makes differ from its spec."""

    name: str = ""
    ready: bool = False
    allocated_resources: Quantities = {}
    resources: Resources | None = None


class PodStatus(Object, frozen=True, gc=False):
    """What the cluster says of a pod."""

    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    start_time: Time | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Quantities = {}
    resources: Resources | None = None
    resize: str = ""


class Pod(Object, frozen=True, gc=False):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def terminal(self) -> bool:
        """Whether it has finished: such a pod does not exist for scheduling."""
        return self.status.phase in ("Succeeded", "Failed")
