"""The rows of kinds that are only passing through here: autoscalers, policies, slices, roles."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from fairlead.world.tables.columns import Printer, age_of, columns, count_in, name_of, selector

__all__ = ["RARELY"]

Object = dict[str, Any]

_SHOWN = 3  # items of a list in one cell; of the rest only the number is said


def _joined(values: Iterable[str]) -> str:
    held = list(values)
    more = f" + {len(held) - _SHOWN} more..." if len(held) > _SHOWN else ""
    return ",".join(held[:_SHOWN]) + more


def _autoscaler(item: Object, now: datetime) -> list[Any]:
    spec = item["spec"]
    target = spec["scaleTargetRef"]
    return [
        name_of(item),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(item),
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        count_in(item, "currentReplicas"),
        age_of(item, now),
    ]


def _targets(item: Object) -> str:
    current = (item.get("status") or {}).get("currentMetrics") or []
    shown = []
    for index, metric in enumerate(item["spec"].get("metrics") or ()):
        source = metric.get("resource") or {}
        wanted = (source.get("target") or {}).get("averageUtilization")
        held = (current[index].get("resource") or {}) if index < len(current) else {}
        now = (held.get("current") or {}).get("averageUtilization")
        seen = "<unknown>" if now is None else f"{now}%"
        shown.append(f"{source.get('name', '')}: {seen}/{wanted}%" if wanted is not None else "<unknown>")
    return ", ".join(shown) or "<none>"


def _ingress(item: Object, now: datetime) -> list[Any]:
    spec = item["spec"]
    hosts = _joined(rule["host"] for rule in spec.get("rules") or () if rule.get("host")) or "*"
    entries = ((item.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return [
        name_of(item),
        spec.get("ingressClassName") or "<none>",
        hosts,
        ",".join(entry.get("ip") or entry.get("hostname", "") for entry in entries),
        "80, 443" if spec.get("tls") else "80",
        age_of(item, now),
    ]


def _csi_driver(item: Object, now: datetime) -> list[Any]:
    spec = item["spec"]
    audiences = spec.get("tokenRequests")
    return [
        name_of(item),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        "<unset>" if audiences is None else ",".join(each.get("audience", "") for each in audiences),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or "<none>",
        age_of(item, now),
    ]


def _slice(item: Object, now: datetime) -> list[Any]:
    ports = [str(port.get("port", "*")) for port in item.get("ports") or ()]
    addresses = [address for each in item.get("endpoints") or () for address in each.get("addresses") or ()]
    return [
        name_of(item),
        item.get("addressType", ""),
        _joined(ports) or "<unset>",
        _joined(addresses) or "<unset>",
        age_of(item, now),
    ]


def _binding(item: Object, now: datetime) -> list[Any]:
    role = item["roleRef"]

    def subjects(kind: str) -> str:
        held = [each for each in item.get("subjects") or () if each.get("kind") == kind]
        named = [
            f"{each['namespace']}/{each['name']}" if each.get("namespace") else each["name"] for each in held
        ]
        return ", ".join(named)

    return [
        name_of(item),
        f"{role['kind']}/{role['name']}",
        age_of(item, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]


def _claim(item: Object, now: datetime) -> list[Any]:
    status = item.get("status") or {}
    words = [] if status.get("allocation") is None else ["allocated"]
    if item["metadata"].get("deletionTimestamp"):
        words.insert(0, "deleted")
    if status.get("reservedFor"):
        words.append("reserved")
    return [name_of(item), ",".join(words) or "pending", age_of(item, now)]


def _named(item: Object, now: datetime) -> list[Any]:
    return [name_of(item), age_of(item, now)]


_BINDINGS = Printer(
    columns("Name", "Role", "Age", wide=("Users", "Groups", "ServiceAccounts")),
    _binding,
)
_CREATED = Printer(
    columns("Name", "Created At:date"),
    lambda item, now: [name_of(item), item["metadata"].get("creationTimestamp")],
)

RARELY: dict[str, Printer] = {
    "horizontalpodautoscalers.autoscaling": Printer(
        columns("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"), _autoscaler
    ),
    "ingresses.networking.k8s.io": Printer(
        columns("Name", "Class", "Hosts", "Address", "Ports", "Age"), _ingress
    ),
    "networkpolicies.networking.k8s.io": Printer(
        columns("Name", "Pod-Selector", "Age"),
        lambda item, now: [name_of(item), selector(item["spec"].get("podSelector")), age_of(item, now)],
    ),
    "csidrivers.storage.k8s.io": Printer(
        columns(
            "Name",
            "AttachRequired:boolean",
            "PodInfoOnMount:boolean",
            "StorageCapacity:boolean",
            "TokenRequests",
            "RequiresRepublish:boolean",
            "Modes",
            "Age",
        ),
        _csi_driver,
    ),
    "endpointslices.discovery.k8s.io": Printer(
        columns("Name", "AddressType", "Ports", "Endpoints", "Age"), _slice
    ),
    "runtimeclasses.node.k8s.io": Printer(
        columns("Name", "Handler", "Age"),
        lambda item, now: [name_of(item), item.get("handler", ""), age_of(item, now)],
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "roles.rbac.authorization.k8s.io": _CREATED,
    "clusterroles.rbac.authorization.k8s.io": _CREATED,
    "customresourcedefinitions.apiextensions.k8s.io": _CREATED,
    "resourceclaims.resource.k8s.io": Printer(columns("Name", "State", "Age"), _claim),
    "resourceclaimtemplates.resource.k8s.io": Printer(columns("Name", "Age"), _named),
    "deviceclasses.resource.k8s.io": Printer(columns("Name", "Age"), _named),
}
