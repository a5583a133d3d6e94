"""Owners that tests know by heart, and pods as workloads make them."""

from __future__ import annotations

from typing import Any

from fairlead.kube.decode import convert
from fairlead.kube.meta import OwnerReference
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Job, Scale
from fairlead.kube.workloads import Workload as Owner
from fairlead.policy.groups.member import GroupKey, Member
from fairlead.policy.rule.workloads import Workload
from support.units import pod, workload

__all__ = ["KEY", "Known", "a_deployment", "deployment_of", "made_by", "member", "owner_reference"]

KEY = GroupKey("web", "default", "Deployment/web", "r1")


class Known:
    """`fairlead.policy.rule.workloads.Owners` over a fixed set of objects."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        kinds = {"Job": Job, "Scale": Scale}
        self._objects = {
            (one["kind"], one["metadata"]["name"]): convert(one, kinds.get(one["kind"], Owner))
            for one in objects
        }

    def scaled(self, kind: str, name: str, replicas: int) -> Known:
        """Also know the scale of a custom resource."""
        scale = {"metadata": {"name": name, "uid": f"uid-{kind}-{name}"}, "spec": {"replicas": replicas}}
        self._objects[kind, name] = convert(scale, Scale)
        return self

    def owner(self, reference: OwnerReference, namespace: str) -> Owner | Job | Scale | None:
        return self._objects.get((reference.kind, reference.name))


def owner_reference(kind: str, name: str, api: str = "apps/v1") -> dict[str, Any]:
    """How a controlled object names its controller, of which `support.units.workload` makes the like."""
    return {"apiVersion": api, "kind": kind, "name": name, "uid": f"uid-{kind}-{name}", "controller": True}


def made_by(kind: str, owner: str, name: str = "", *, api: str = "apps/v1", **more: Any) -> Pod:
    """A pod that a controller made."""
    return convert(pod(name or f"{owner}-x", owner=owner_reference(kind, owner, api), **more), Pod)


def deployment_of(replicas: int, name: str = "web", hash_: str = "r1") -> Known:
    """A Deployment and its one ReplicaSet."""
    return Known(
        workload("Deployment", name, replicas=replicas),
        workload(
            "ReplicaSet", f"{name}-{hash_}", replicas=replicas, owner=owner_reference("Deployment", name)
        ),
    )


def member(name: str, token: str = "", **more: Any) -> Member:
    """A live pod of a group; on a node when `tier` is given."""
    placed = more.pop("placed", "tier" in more)
    return Member(name, more.pop("uid", f"uid-{name}"), token, placed=placed, **more)


def a_deployment(replicas: int | None = 10, **more: Any) -> Workload:
    """The workload that `KEY` is the group of."""
    return Workload("Deployment", "apps/v1", "default", "web", "uid-web", "r1", replicas=replicas, **more)
