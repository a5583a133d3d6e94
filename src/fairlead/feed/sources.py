"""Which of an API server's resources the engine reads, and how their objects come to it.

PodGroups come in flavours of several projects, and DeviceClasses in whatever version is served; everything
else is where Kubernetes has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from fairlead.engine.core.kinds import KINDS
from fairlead.kube.meta import Object
from fairlead.kube.resources import Resource, known
from fairlead.kube.workloads import PodGroup

POD_GROUP_GROUPS = ("scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh")
"""The flavours of PodGroup that we read, by API group; which are served, discovery tells."""


def watched() -> list[Resource]:
    """Resources whose version is not the server's choice."""
    return [known(kind) for kind in KINDS if kind not in ("PodGroup", "DeviceClass")]


def sources(served: Iterable[Resource]) -> list[Resource]:
    """What to watch on a server that serves these resources; kinds it does not have are left out."""
    served = list(served)
    offered = {(resource.group, resource.plural) for resource in served}
    found = [resource for resource in watched() if (resource.group, resource.plural) in offered]
    classes = [one for one in served if (one.group, one.kind) == ("resource.k8s.io", "DeviceClass")]
    return found + classes[:1] + pod_groups(served)  # the preferred version comes first


def pod_groups(served: Iterable[Resource]) -> list[Resource]:
    """The PodGroups among the served resources, in the preferred version of each group."""
    found: dict[str, Resource] = {}
    for resource in served:
        if resource.kind == "PodGroup" and resource.group in POD_GROUP_GROUPS:
            found.setdefault(resource.group, resource)
    return list(found.values())


def as_listed(resource: Resource, thing: Any) -> Object:
    """An object as the engine takes it: items of a list need not say which version they are of."""
    if isinstance(thing, PodGroup):
        return msgspec.structs.replace(thing, api_version=resource.api_version)
    found: Object = thing
    return found
