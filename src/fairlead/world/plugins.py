"""The admission plugins of the API server that users notice: they look at other objects to decide.

Priority, RuntimeClass, DefaultTolerationSeconds, DefaultStorageClass, and the addresses of Services.
(NamespaceLifecycle is in `writes`; TaintNodesByCondition and ServiceAccount's name are defaults of
their kinds.)
"""

from __future__ import annotations

from typing import Any

from fairlead.world.api_errors import forbidden
from fairlead.world.schema.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SERVICES,
    STORAGE_CLASSES,
    Resource,
)
from fairlead.world.services import allocate
from fairlead.world.store import Store

Object = dict[str, Any]

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"


def admit_create(store: Store, resource: Resource, item: Object) -> None:
    """Complete a new object in place; 403 when a plugin refuses it."""
    if resource == PODS:
        _set_priority(store, item)
        _set_runtime(store, item)
        _tolerate_briefly(item["spec"])
    elif resource == PERSISTENT_VOLUME_CLAIMS:
        _set_storage_class(store, item)
    elif resource == SERVICES:
        allocate(store, item)


def admit_update(resource: Resource, item: Object, old: Object) -> None:
    """Complete an updated object in place."""
    if resource == PODS:
        spec, before = item["spec"], old["spec"]
        # A client that leaves them out means to leave them as they are.
        for field in ("priority", "preemptionPolicy"):
            if field not in spec and field in before:
                spec[field] = before[field]
        _tolerate_briefly(spec)
    elif resource == SERVICES:
        # A client that leaves the address out means to keep it.
        for field in ("clusterIP", "clusterIPs"):
            if field not in item["spec"] and field in old["spec"]:
                item["spec"][field] = old["spec"][field]


def _set_priority(store: Store, pod: Object) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    if name:
        found = store.get(PRIORITY_CLASSES, "", name)
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden(PODS, _called(pod), why)
    else:
        defaults = [each for each in store.list(PRIORITY_CLASSES) if each.get("globalDefault")]
        found = min(defaults, key=lambda each: each["value"], default=None)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = found["value"] if found else 0
    given = spec.get("priority")
    if given is not None and given != value:
        why = (
            f"the integer value of priority ({given}) must not be provided in pod spec; priority "
            f"admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden(PODS, _called(pod), why)
    spec["priority"] = value
    policy = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    given_policy = spec.get("preemptionPolicy")
    if given_policy is not None and given_policy != policy:
        why = (
            f"the string value of PreemptionPolicy ({given_policy}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise forbidden(PODS, _called(pod), why)
    spec["preemptionPolicy"] = policy


def _set_runtime(store: Store, pod: Object) -> None:
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    if not name:
        return
    found = store.get(RUNTIME_CLASSES, "", name)
    if found is None:
        raise forbidden(PODS, _called(pod), f'pod rejected: RuntimeClass "{name}" not found')
    if found.get("overhead", {}).get("podFixed"):
        spec["overhead"] = dict(found["overhead"]["podFixed"])
    scheduling = found.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **scheduling["nodeSelector"]}
    more = [each for each in scheduling.get("tolerations") or () if each not in spec.get("tolerations", [])]
    if more:
        spec["tolerations"] = [*spec.get("tolerations", []), *more]


def _called(pod: Object) -> str:
    metadata = pod["metadata"]
    name: str = metadata.get("name") or metadata.get("generateName", "")
    return name


def _tolerate_briefly(spec: Object) -> None:
    tolerations = spec.get("tolerations") or []
    missing = [key for key in (_NOT_READY, _UNREACHABLE) if not _tolerates(tolerations, key)]
    if missing:
        brief = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        spec["tolerations"] = [*tolerations, *({"key": key, **brief} for key in missing)]


def _tolerates(tolerations: list[Object], key: str) -> bool:
    return any(
        toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")
        for toleration in tolerations
    )


def _set_storage_class(store: Store, claim: Object) -> None:
    if "storageClassName" in claim["spec"]:
        return
    annotation = "storageclass.kubernetes.io/is-default-class"
    defaults = [
        each
        for each in store.list(STORAGE_CLASSES)
        if (each["metadata"].get("annotations") or {}).get(annotation) == "true"
    ]
    if defaults:
        # The newest default wins, then the name: so does upstream.
        newest = max(each["metadata"]["creationTimestamp"] for each in defaults)
        chosen = min(
            each["metadata"]["name"] for each in defaults if each["metadata"]["creationTimestamp"] == newest
        )
        claim["spec"]["storageClassName"] = chosen
