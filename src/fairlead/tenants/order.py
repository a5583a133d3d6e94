"""In which order objects are applied: what another refers to comes first; removal is the reverse.

Kinds have a rank that follows from what may refer to what; declared dependencies come on top. They are
kept on the objects as an annotation, so that the order of removal needs no type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.errors import BadObject
from fairlead.tenants.names import DEPENDS_ANNOTATION, noted

Object = dict[str, Any]

_RANKS = (
    "Namespace",
    "PriorityClass",
    "ServiceAccount",
    "ConfigMap",
    "Secret",
    "ResourceQuota",
    "LimitRange",
    "NetworkPolicy",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "PodDisruptionBudget",
    "Service",
    "Pod",
    "StatefulSet",
    "DaemonSet",
    "Deployment",
    "Job",
    "CronJob",
)
_RANK = {kind: rank for rank, kind in enumerate(_RANKS)}


def ref_of(item: Mapping[str, Any]) -> str:
    """How one object of a tenant names another: ``Kind/name``."""
    return f"{item['kind']}/{item['metadata']['name']}"


def dependencies(item: Mapping[str, Any]) -> tuple[str, ...]:
    """What an object declares to depend on."""
    return tuple(noted(item, DEPENDS_ANNOTATION))


def declare(objects: Sequence[Object], declared: Mapping[str, Iterable[str]], called: str) -> None:
    """Note the declared dependencies on the objects (in place); what names no object is BadObject."""
    known = {ref_of(item): item for item in objects}
    for ref, needs in declared.items():
        for one in (ref, *needs):
            if one not in known:
                there = ", ".join(known)
                raise BadObject(called, f"dependsOn.{ref}", f"there is no {one} among the objects: {there}")
        if needs := tuple(needs):
            annotations = known[ref]["metadata"].setdefault("annotations", {})
            annotations[DEPENDS_ANNOTATION] = ", ".join(needs)


def in_order(objects: Iterable[Object], called: str) -> list[Object]:
    """The objects, what others need first; else by rank, then by name, so that every run has one order.

    What an object depends on and is not among them (removed already) is passed over.
    """
    waiting = sorted(objects, key=lambda item: (_RANK.get(item["kind"], len(_RANK)), ref_of(item)))
    found: list[Object] = []
    while waiting:
        left = {ref_of(item) for item in waiting}
        ready = next((item for item in waiting if not left.intersection(dependencies(item))), None)
        if ready is None:
            raise BadObject(called, "dependsOn", f"go round in a circle: {', '.join(sorted(left))}")
        waiting.remove(ready)
        found.append(ready)
    return found
