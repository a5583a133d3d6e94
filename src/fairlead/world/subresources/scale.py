"""The ``scale`` subresource: one shape for everything that has a number of replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead.world.admission import Staged
from fairlead.world.answers import conflict, invalid, invalid_value, not_found
from fairlead.world.schema.resources import Resource, Served
from fairlead.world.store import Object

if TYPE_CHECKING:
    from fairlead.world.api import Api, Options

__all__ = ["scale_of", "stage_scale"]

_SCALE = Resource("autoscaling", "scales", "Scale", True)


def scale_of(served: Served, item: Object) -> Object:
    """The ``autoscaling/v1`` Scale that an object shows; 404 when its kind has none."""
    metadata = item["metadata"]
    if "scale" not in served.subresources:
        raise not_found(served.resource, metadata["name"])
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {},
        "status": {"replicas": _number(item, _paths(served)["statusReplicasPath"])},
    }
    if replicas := _number(item, _paths(served)["specReplicasPath"]):
        scale["spec"]["replicas"] = replicas
    if selector := _selector(served, item):
        scale["status"]["selector"] = selector
    return scale


def stage_scale(
    api: Api, resource: Resource, name: str, scale: Object, namespace: str, *, options: Options
) -> Staged[Object]:
    """Write the desired replicas of `scale` into the object; its resourceVersion is a precondition."""
    served = api.serving(resource)
    old = api.get(resource, name, namespace)
    if "scale" not in served.subresources:
        raise not_found(resource, name)
    metadata = scale.get("metadata") or {}
    if metadata.get("resourceVersion") not in (None, "", old["metadata"]["resourceVersion"]):
        raise conflict(resource, name)
    wanted = (scale.get("spec") or {}).get("replicas") or 0
    if not isinstance(wanted, int) or wanted < 0:
        why = "must be greater than or equal to 0"
        raise invalid(_SCALE, name, [invalid_value("spec.replicas", wanted, why)])
    path = _paths(served)["specReplicasPath"].lstrip(".").split(".")
    patch: Any = wanted
    for step in reversed(path):
        patch = {step: patch}
    staged = api.stage_patch(resource, name, patch, namespace, options)

    def commit(admitted: Object | None) -> Object:
        return scale_of(served, staged.commit(admitted))

    def again() -> Staged[Object]:
        return stage_scale(api, resource, name, scale, namespace, options=options)

    return Staged(staged.request, commit, None if metadata.get("resourceVersion") else again)


def _paths(served: Served) -> dict[str, str]:
    if served.custom:
        return served.scale_paths
    return {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def _read(item: Object, path: str) -> Any:
    value: Any = item
    for step in path.lstrip(".").split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _number(item: Object, path: str) -> int:
    value = _read(item, path)
    return value if isinstance(value, int) else 0


def _selector(served: Served, item: Object) -> str:
    if served.custom:
        path = served.scale_paths.get("labelSelectorPath")
        return str(_read(item, path) or "") if path else ""
    selector = item["spec"].get("selector") or {}
    if served.resource.plural == "replicationcontrollers":
        selector = {"matchLabels": selector}
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or ():
        values = ",".join(sorted(term.get("values") or ()))
        match term["operator"]:
            case "In":
                parts.append(f"{term['key']} in ({values})")
            case "NotIn":
                parts.append(f"{term['key']} notin ({values})")
            case "Exists":
                parts.append(term["key"])
            case "DoesNotExist":
                parts.append(f"!{term['key']}")
    return ",".join(sorted(parts))
