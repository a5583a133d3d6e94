"""The rows of the built-in kinds, column by column as kubectl knows them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from fairlead.world.conditions import condition_of
from fairlead.world.tables.columns import Printer, age, age_of, columns, count_in, labels, name_of
from fairlead.world.tables.pods import POD
from fairlead.world.tables.rarely import RARELY
from fairlead.world.tables.storage import STORAGE
from fairlead.world.tables.workloads import WORKLOADS

__all__ = ["PRINTERS"]

Object = dict[str, Any]
Cells = Callable[[Object, datetime], list[Any]]


def _node(item: Object, now: datetime) -> list[Any]:
    ready = condition_of(item, "Ready")
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if item["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    held = item["metadata"].get("labels") or {}
    roles = {key.removeprefix(prefix) for key in held if key.startswith(prefix) and key != prefix}
    if held.get("kubernetes.io/role"):
        roles.add(held["kubernetes.io/role"])
    status = item.get("status") or {}
    info = status.get("nodeInfo") or {}
    addresses = {held["type"]: held["address"] for held in reversed(status.get("addresses") or [])}
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(item),
        ",".join(words),
        ",".join(sorted(roles)) or "<none>",
        age_of(item, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _event(item: Object, now: datetime) -> list[Any]:
    series, involved = item.get("series") or {}, item.get("involvedObject") or {}
    source = item.get("source") or {}
    first = age(item.get("firstTimestamp") or item.get("eventTime"), now)
    last = age(item["lastTimestamp"], now) if item.get("lastTimestamp") else first
    count = item.get("count") or 1
    if series:
        last, count = age(series.get("lastObservedTime"), now), series.get("count", 0)
    kind, name = involved.get("kind", "").lower(), involved.get("name", "")
    who = source.get("component") or item.get("reportingComponent", "")
    where = source.get("host") or item.get("reportingInstance", "")
    return [
        last,
        item.get("type", ""),
        item.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        involved.get("fieldPath", ""),
        f"{who}, {where}" if where else who,
        (item.get("message") or "").strip(),
        first,
        count,
        name_of(item),
    ]


def _service(item: Object, now: datetime) -> list[Any]:
    spec = item["spec"]
    ports = []
    for port in spec.get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    external = ",".join(spec.get("externalIPs") or ()) or "<none>"
    if spec.get("type") == "ExternalName":
        external = spec.get("externalName", "")
    elif spec.get("type") == "LoadBalancer":
        entries = ((item.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        external = ",".join(entry.get("ip") or entry.get("hostname", "") for entry in entries) or "<pending>"
    return [
        name_of(item),
        spec.get("type", ""),
        (spec.get("clusterIPs") or ["<none>"])[0],
        external,
        ",".join(ports) or "<none>",
        age_of(item, now),
        labels(spec.get("selector")),
    ]


def _budget(item: Object, now: datetime) -> list[Any]:
    spec = item["spec"]
    return [
        name_of(item),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        count_in(item, "disruptionsAllowed"),
        age_of(item, now),
    ]


def _size(item: Object) -> int:
    return len(item.get("data") or ()) + len(item.get("binaryData") or ())


def _simple(*fields: str) -> Cells:
    """Name, the fields, age."""

    def cells(item: Object, now: datetime) -> list[Any]:
        return [name_of(item), *(_dig(item, field) for field in fields), age_of(item, now)]

    return cells


def _dig(item: Any, path: str) -> Any:
    for step in path.split("."):
        item = item.get(step) if isinstance(item, dict) else None
    return "" if item is None else item


PRINTERS: dict[str, Printer] = {
    "": Printer(
        columns("Name", "Created At:date"),
        lambda item, now: [name_of(item), item["metadata"].get("creationTimestamp")],
    ),
    "pods": POD,
    **WORKLOADS,
    **STORAGE,
    **RARELY,
    "nodes": Printer(
        columns(
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    "services": Printer(
        columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)), _service
    ),
    "namespaces": Printer(columns("Name", "Status", "Age"), _simple("status.phase")),
    "configmaps": Printer(
        columns("Name", "Data", "Age"), lambda item, now: [name_of(item), _size(item), age_of(item, now)]
    ),
    "secrets": Printer(
        columns("Name", "Type", "Data", "Age"),
        lambda item, now: [name_of(item), item.get("type", ""), _size(item), age_of(item, now)],
    ),
    "serviceaccounts": Printer(columns("Name", "Age"), _simple()),
    "poddisruptionbudgets.policy": Printer(
        columns("Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"), _budget
    ),
    "priorityclasses.scheduling.k8s.io": Printer(
        columns("Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"),
        lambda item, now: [
            name_of(item),
            item["value"],
            item.get("globalDefault", False),
            age_of(item, now),
            item.get("preemptionPolicy", ""),
        ],
    ),
    "leases.coordination.k8s.io": Printer(columns("Name", "Holder", "Age"), _simple("spec.holderIdentity")),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": Printer(
        columns("Name", "Webhooks:integer", "Age"),
        lambda item, now: [name_of(item), len(item.get("webhooks") or ()), age_of(item, now)],
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": Printer(
        columns("Name", "Webhooks:integer", "Age"),
        lambda item, now: [name_of(item), len(item.get("webhooks") or ()), age_of(item, now)],
    ),
}

# The one table whose wide columns stand between the others.
_EVENT_COLUMNS = columns("Last Seen", "Type", "Reason", "Object", wide=("Subobject", "Source")) + columns(
    "Message", wide=("First Seen", "Count", "Name")
)
PRINTERS["events"] = Printer(_EVENT_COLUMNS, _event)
