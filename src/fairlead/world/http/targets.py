"""From a request path to what it names."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.world.answers import PlainNotFound, no_such_path
from fairlead.world.schema.resources import Registry, Served

__all__ = ["Target", "target_of"]


@dataclass(frozen=True, slots=True)
class Target:
    """A collection, an object or a subresource, in one version."""

    served: Served
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(registry: Registry, segments: list[str]) -> Target:
    """What ``/api/v1/…`` or ``/apis/GROUP/VERSION/…`` names; 404 when nothing is served there."""
    if segments[0] == "api":
        group, version, rest = "", segments[1], segments[2:]
    else:
        group, version, rest = segments[1], segments[2], segments[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_of_namespace(group, rest):
        namespace, rest = rest[1], rest[2:]
    served = registry.at(group, version, rest[0])
    if served is None and not registry.has_version(group, version):
        raise PlainNotFound
    if served is None or len(rest) > 3:
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if served.resource.namespaced:
        # Across namespaces one can only list, and create what is not stored.
        if not namespace and name:
            raise no_such_path()
    elif namespace:
        raise no_such_path()
    if subresource and subresource not in served.subresources:
        raise no_such_path()
    return Target(served, version, namespace, name, subresource)


def _is_of_namespace(group: str, rest: list[str]) -> bool:
    # /api/v1/namespaces/NAME/status is the namespace's own; /api/v1/namespaces/NAME/pods is not.
    return not group and len(rest) == 3 and rest[2] in ("status", "finalize")
