"""AWS' own answers as our data: the same shapes come from boto3 and from the AWS CLI."""

from __future__ import annotations

import msgspec

from fairlead.kube.decode import convert
from fairlead.kube.meta import Object
from fairlead.kube.pod import Quantities
from fairlead.nodegroups.aws.state import AutoScalingGroup, EksNodegroup, EksTaint
from fairlead.nodegroups.catalog import GPU, architecture
from fairlead.nodegroups.group import InstanceType

__all__ = ["group_from", "nodegroup_from", "type_from"]


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
    nodegroup_name: str
    cluster_name: str = ""
    status: str = ""
    labels: dict[str, str] = {}
    taints: tuple[EksTaint, ...] = ()
    tags: dict[str, str] = {}
    resources: _Resources = _Resources()
    instance_types: tuple[str, ...] = ()
    ami_type: str = ""
    capacity_type: str = ""
    disk_size: int | None = None
    version: str = ""
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


def nodegroup_from(data: object) -> EksNodegroup:
    """The ``nodegroup`` of ``eks describe-nodegroup``."""
    said = convert(data, _Nodegroup)
    return EksNodegroup(
        said.nodegroup_name,
        cluster=said.cluster_name,
        status=said.status,
        labels=said.labels,
        taints=said.taints,
        tags=said.tags,
        auto_scaling_groups=tuple(each.name for each in said.resources.auto_scaling_groups),
        instance_types=said.instance_types,
        ami_type=said.ami_type,
        capacity_type=said.capacity_type,
        disk_size=said.disk_size,
        version=said.version,
        issues=tuple(f"{each.code}: {each.message}" for each in said.health.issues),
    )


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
