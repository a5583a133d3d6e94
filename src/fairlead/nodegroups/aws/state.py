"""What an AWS account says about node groups, as data; the dump of the doctor is this as JSON.

Read from our own form or from raw answers of the AWS CLI; several documents are one state. Whether the
*autoscaler* may call ``eks:DescribeNodegroup`` is another question than whether the dump's user may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from fairlead.errors import BadInput
from fairlead.kube.decode import convert
from fairlead.kube.meta import Object
from fairlead.kube.pod import Quantities
from fairlead.nodegroups.aws.tags import MANAGED_CLUSTER, MANAGED_NAME, cluster_tags
from fairlead.nodegroups.catalog import GPU, architecture
from fairlead.nodegroups.group import InstanceType

API_VERSION = "fairlead.dev/v1alpha1"
KIND = "CloudState"
NAME_LABEL = "eks.amazonaws.com/nodegroup"
CAPACITY_LABEL = "eks.amazonaws.com/capacityType"

Access = Literal["allowed", "denied", "unreachable", "unknown"]


class AutoScalingGroup(Object, frozen=True, gc=False):
    """An EC2 Auto Scaling group. `tags` are those on itself; the first type and zone stand for it."""

    name: str
    tags: dict[str, str] = {}
    min: int = 0
    desired: int = 0
    max: int = 0
    zones: tuple[str, ...] = ()
    instance_types: tuple[InstanceType, ...] = ()
    instances: int = 0
    suspended: tuple[str, ...] = ()
    """Its suspended processes: with Launch among them no node ever comes."""

    @property
    def nodegroup(self) -> str:
        """The EKS managed node group that it belongs to, "" when to none."""
        return self.tags.get(MANAGED_NAME, "")

    @property
    def cluster(self) -> str:
        """The EKS cluster that its managed node group belongs to."""
        return self.tags.get(MANAGED_CLUSTER, "")


class EksTaint(Object, frozen=True, gc=False):
    """A taint as the EKS API has it: NO_SCHEDULE, and perhaps no value."""

    key: str
    effect: str
    value: str | None = None


class EksNodegroup(Object, frozen=True, gc=False):
    """A managed node group as ``eks:DescribeNodegroup`` describes it."""

    name: str
    cluster: str = ""
    status: str = "ACTIVE"
    labels: dict[str, str] = {}
    taints: tuple[EksTaint, ...] = ()
    tags: dict[str, str] = {}
    auto_scaling_groups: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    ami_type: str = ""
    capacity_type: str = ""
    disk_size: int | None = None
    version: str = ""
    issues: tuple[str, ...] = ()
    """What EKS says is wrong with it, in its words."""

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels that EKS puts on its nodes, those of its own making among them."""
        own = {NAME_LABEL: self.name, CAPACITY_LABEL: self.capacity_type}
        return {**{key: value for key, value in own.items() if value}, **self.labels}


class NoAnswer(Object, frozen=True, gc=False):
    """``eks:DescribeNodegroup`` did not answer the autoscaler."""

    why: str


class CloudState(Object, frozen=True, gc=False):
    """All that was read of one cluster's groups in one account and region.

    `describe_nodegroup`: whether the autoscaler's calls of ``eks:DescribeNodegroup`` are answered, and
    `permissions` the same for its other calls, as far as IAM would tell (action → decision).
    """

    cluster: str = ""
    region: str = ""
    account: str = ""
    auto_scaling_groups: tuple[AutoScalingGroup, ...] = ()
    nodegroups: tuple[EksNodegroup, ...] = ()
    describe_nodegroup: Access = "unknown"
    permissions: dict[str, Access] = {}
    autoscaler_role: str = ""
    unread: dict[str, str] = {}
    """What could not be read when it was taken (action → reason)."""

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it; `read_state` reads it back."""
        return {"apiVersion": API_VERSION, "kind": KIND, **msgspec.to_builtins(self)}

    def nodegroup(self, name: str) -> EksNodegroup | None:
        """The managed node group of that name."""
        return next((each for each in self.nodegroups if each.name == name), None)

    def owns(self, asg: AutoScalingGroup) -> bool:
        """Whether an Auto Scaling group is the cluster's, by its tags or by EKS' word; never by its name.

        An account has other groups, too, called as anything is: changing one of those does damage.
        """
        if asg.cluster:
            return asg.cluster == self.cluster or not self.cluster
        if any(tag in asg.tags for tag in cluster_tags(self.cluster)):
            return True
        mine = (each for each in self.nodegroups if each.cluster in ("", self.cluster))
        return any(asg.name in each.auto_scaling_groups for each in mine)

    def nodegroup_of(self, asg: AutoScalingGroup) -> EksNodegroup | None:
        """The managed node group behind an Auto Scaling group, whichever of the two says so."""
        said = self.nodegroup(asg.nodegroup) if asg.nodegroup else None
        return said or next((each for each in self.nodegroups if asg.name in each.auto_scaling_groups), None)

    def answer_for(self, asg: AutoScalingGroup) -> EksNodegroup | NoAnswer | None:
        """What ``eks:DescribeNodegroup`` tells an autoscaler that asks now; None: it would not ask.

        It knows a managed group by the tags that EKS puts on the Auto Scaling group. Where no user could
        tell whether it may call, it is taken to be allowed.
        """
        if not (asg.nodegroup and asg.cluster):
            return None
        if self.describe_nodegroup == "denied":
            return NoAnswer("AccessDeniedException: not authorized to perform: eks:DescribeNodegroup")
        if self.describe_nodegroup == "unreachable":
            return NoAnswer("the EKS endpoint did not answer")
        found = self.nodegroup(asg.nodegroup)
        return found or NoAnswer(f"ResourceNotFoundException: no node group {asg.nodegroup}")


def read_state(documents: Iterable[object], source: str = "the dump") -> CloudState:
    """A state from its own form or from the AWS CLI's answers, in any number and order.

    Understood of the latter: ``autoscaling describe-auto-scaling-groups``, ``eks describe-nodegroup``,
    and ``ec2 describe-instance-types`` for the sizes of types.
    """
    from fairlead.nodegroups.aws.state import group_from, nodegroup_from, type_from

    state = CloudState()
    types: dict[str, InstanceType] = {}
    for document in documents:
        if not isinstance(document, dict):
            raise BadInput(f"{source}: holds {type(document).__name__} where an object should be")
        if document.get("kind") == KIND or "autoScalingGroups" in document:
            read = convert(document, CloudState)
            state = _merged(state, read)
        elif isinstance(groups := document.get("AutoScalingGroups"), list):
            state = _merged(state, CloudState(auto_scaling_groups=tuple(map(group_from, groups))))
        elif isinstance(described := document.get("nodegroup"), dict):
            state = _merged(state, CloudState(nodegroups=(nodegroup_from(described),)))
        elif isinstance(kinds := document.get("InstanceTypes"), list):
            types.update((kind.name, kind) for kind in map(type_from, kinds))
        else:
            raise BadInput(
                f"{source}: is neither a dump of `fairlead nodegroups doctor --save` nor an answer of "
                "`aws autoscaling describe-auto-scaling-groups` or `aws eks describe-nodegroup`"
            )
    sized = tuple(
        msgspec.structs.replace(
            each, instance_types=tuple(types.get(kind.name, kind) for kind in each.instance_types)
        )
        for each in state.auto_scaling_groups
    )
    named = {*(each.cluster for each in state.nodegroups), *(each.cluster for each in sized)} - {""}
    # Several are spoken of, or none: then it is unknown whose it is.
    cluster = state.cluster or (named.pop() if len(named) == 1 else "")
    return msgspec.structs.replace(state, auto_scaling_groups=sized, cluster=cluster)


def _merged(one: CloudState, other: CloudState) -> CloudState:
    return msgspec.structs.replace(
        other,
        cluster=other.cluster or one.cluster,
        region=other.region or one.region,
        account=other.account or one.account,
        auto_scaling_groups=(*one.auto_scaling_groups, *other.auto_scaling_groups),
        nodegroups=(*one.nodegroups, *other.nodegroups),
        describe_nodegroup=(
            other.describe_nodegroup if other.describe_nodegroup != "unknown" else one.describe_nodegroup
        ),
        permissions={**one.permissions, **other.permissions},
        autoscaler_role=other.autoscaler_role or one.autoscaler_role,
        unread={**one.unread, **other.unread},
    )


class _Pascal(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """Auto Scaling and EC2 spell their fields so; EKS spells them like Kubernetes."""


class _Tag(_Pascal, frozen=True, gc=False):
    key: str
    value: str = ""


class _WithType(_Pascal, frozen=True, gc=False):
    instance_type: str = ""


class _Overridden(_Pascal, frozen=True, gc=False):
    overrides: tuple[_WithType, ...] = ()


class _Policy(_Pascal, frozen=True, gc=False):
    launch_template: _Overridden = _Overridden()


class _Process(_Pascal, frozen=True, gc=False):
    process_name: str = ""


class _Group(_Pascal, frozen=True, gc=False):
    auto_scaling_group_name: str
    min_size: int = 0
    max_size: int = 0
    desired_capacity: int = 0
    availability_zones: tuple[str, ...] = ()
    tags: tuple[_Tag, ...] = ()
    mixed_instances_policy: _Policy = _Policy()
    instances: tuple[_WithType, ...] = ()
    suspended_processes: tuple[_Process, ...] = ()


class _Named(Object, frozen=True, gc=False):
    name: str = ""


class _Resources(Object, frozen=True, gc=False):
    auto_scaling_groups: tuple[_Named, ...] = ()


class _Issue(Object, frozen=True, gc=False):
    code: str = ""
    message: str = ""


class _Health(Object, frozen=True, gc=False):
    issues: tuple[_Issue, ...] = ()


class _Nodegroup(Object, frozen=True, gc=False):
    """What EKS spells otherwise than `EksNodegroup`."""

    nodegroup_name: str
    cluster_name: str = ""
    resources: _Resources = _Resources()
    health: _Health = _Health()


class _Cpus(_Pascal, frozen=True, gc=False):
    default_vcpus: int | None = msgspec.field(default=None, name="DefaultVCpus")


class _Memory(_Pascal, frozen=True, gc=False):
    size: int | None = msgspec.field(default=None, name="SizeInMiB")


class _Gpu(_Pascal, frozen=True, gc=False):
    count: int = 0


class _Gpus(_Pascal, frozen=True, gc=False):
    gpus: tuple[_Gpu, ...] = ()


class _Type(_Pascal, frozen=True, gc=False):
    instance_type: str
    cpus: _Cpus = msgspec.field(default=_Cpus(), name="VCpuInfo")
    memory: _Memory = msgspec.field(default=_Memory(), name="MemoryInfo")
    gpu_info: _Gpus = _Gpus()


def group_from(data: object) -> AutoScalingGroup:
    """One of ``describe-auto-scaling-groups``; overrides come before the types of instances.

    >>> group_from({"AutoScalingGroupName": "a", "MaxSize": 3, "AvailabilityZones": ["eu-west-1b"]}).max
    3
    """
    said = convert(data, _Group)
    overrides = said.mixed_instances_policy.launch_template.overrides
    types = dict.fromkeys(each.instance_type for each in (*overrides, *said.instances))
    return AutoScalingGroup(
        said.auto_scaling_group_name,
        tags={tag.key: tag.value for tag in said.tags},
        min=said.min_size,
        desired=said.desired_capacity,
        max=said.max_size,
        zones=said.availability_zones,
        instance_types=tuple(InstanceType(name=name) for name in types if name),
        instances=len(said.instances),
        suspended=tuple(each.process_name for each in said.suspended_processes),
    )


def nodegroup_from(data: Mapping[str, Any]) -> EksNodegroup:
    """The ``nodegroup`` of ``eks describe-nodegroup``."""
    said = convert(data, _Nodegroup)
    ours = {
        "name": said.nodegroup_name,
        "cluster": said.cluster_name,
        "autoScalingGroups": [each.name for each in said.resources.auto_scaling_groups],
        "issues": [f"{each.code}: {each.message}" for each in said.health.issues],
    }
    return convert({**data, **ours}, EksNodegroup)


def type_from(data: object) -> InstanceType:
    """One of ``ec2 describe-instance-types``: what Cluster Autoscaler takes from it.

    >>> type_from({"InstanceType": "t3a.medium", "VCpuInfo": {"DefaultVCpus": 2},
    ...            "MemoryInfo": {"SizeInMiB": 4096}}).capacity
    {'cpu': '2', 'memory': '4096Mi'}
    """
    said = convert(data, _Type)
    gpus = sum(each.count for each in said.gpu_info.gpus)
    capacity: Quantities = {
        **({} if said.cpus.default_vcpus is None else {"cpu": str(said.cpus.default_vcpus)}),
        **({} if said.memory.size is None else {"memory": f"{said.memory.size}Mi"}),
        **({GPU: str(gpus)} if gpus else {}),
    }
    name = said.instance_type
    return InstanceType(name=name, capacity=capacity, architecture=architecture(name))
