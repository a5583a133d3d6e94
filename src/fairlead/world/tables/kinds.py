"""The rows of the built-in kinds, column by column as kubectl knows them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from fairlead.world.conditions import condition_of
from fairlead.world.tables.columns import Printer, age, columns, containers, human, labels, selector
from fairlead.world.tables.pods import POD
from fairlead.world.timestamps import parse

__all__ = ["PRINTERS"]

Object = dict[str, Any]
Cells = Callable[[Object, datetime], list[Any]]


def _age(item: Object, now: datetime) -> str:
    return age(item["metadata"].get("creationTimestamp"), now)


def _name(item: Object) -> str:
    name: str = item["metadata"]["name"]
    return name


def _status(item: Object, field: str) -> Any:
    return (item.get("status") or {}).get(field) or 0


def _template(item: Object) -> Object:
    template: Object = item["spec"].get("template", {}).get("spec", {})
    return template


def _deployment(item: Object, now: datetime) -> list[Any]:
    return [
        _name(item),
        f"{_status(item, 'readyReplicas')}/{item['spec'].get('replicas', 0)}",
        _status(item, "updatedReplicas"),
        _status(item, "availableReplicas"),
        _age(item, now),
        *containers(_template(item)),
        selector(item["spec"].get("selector")),
    ]


def _replica_set(item: Object, now: datetime) -> list[Any]:
    chosen = item["spec"].get("selector")
    return [
        _name(item),
        item["spec"].get("replicas", 0),
        _status(item, "replicas"),
        _status(item, "readyReplicas"),
        _age(item, now),
        *containers(_template(item)),
        labels(chosen) if item["kind"] == "ReplicationController" else selector(chosen),
    ]


def _stateful_set(item: Object, now: datetime) -> list[Any]:
    ready = f"{_status(item, 'readyReplicas')}/{item['spec'].get('replicas', 0)}"
    return [_name(item), ready, _age(item, now), *containers(_template(item))]


def _daemon_set(item: Object, now: datetime) -> list[Any]:
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        _name(item),
        *(_status(item, field) for field in counts),
        labels(_template(item).get("nodeSelector")),
        _age(item, now),
        *containers(_template(item)),
        selector(item["spec"].get("selector")),
    ]


_JOB_STATES = (("Complete", "Complete"), ("Failed", "Failed"))
_JOB_LATER = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job_state(item: Object) -> str:
    def holds(kind: str) -> bool:
        condition = condition_of(item, kind)
        return condition is not None and condition.get("status") == "True"

    for kind, word in _JOB_STATES:
        if holds(kind):
            return word
    if item["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in _JOB_LATER if holds(kind)), "Running")


def _job(item: Object, now: datetime) -> list[Any]:
    spec, status = item["spec"], item.get("status") or {}
    done = status.get("succeeded", 0)
    parallelism = spec.get("parallelism", 0)
    if "completions" in spec:
        completions = f"{done}/{spec['completions']}"
    else:
        completions = f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"
    took = ""
    if status.get("startTime"):
        end = parse(status["completionTime"]) if status.get("completionTime") else now
        took = human(end - parse(status["startTime"]))
    return [
        _name(item),
        _job_state(item),
        completions,
        took,
        _age(item, now),
        *containers(_template(item)),
        selector(spec.get("selector")),
    ]


def _cron_job(item: Object, now: datetime) -> list[Any]:
    spec, status = item["spec"], item.get("status") or {}
    last = status.get("lastScheduleTime")
    return [
        _name(item),
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        str(spec.get("suspend", False)),
        len(status.get("active") or ()),
        age(last, now) if last else "<none>",
        _age(item, now),
        *containers(_template(spec.get("jobTemplate", {"spec": {}}))),
        selector(spec.get("jobTemplate", {}).get("spec", {}).get("selector")),
    ]


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
        _name(item),
        ",".join(words),
        ",".join(sorted(roles)) or "<none>",
        _age(item, now),
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
        _name(item),
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
        _name(item),
        spec.get("type", ""),
        (spec.get("clusterIPs") or ["<none>"])[0],
        external,
        ",".join(ports) or "<none>",
        _age(item, now),
        labels(spec.get("selector")),
    ]


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _volume(item: Object, now: datetime) -> list[Any]:
    spec, status = item["spec"], item.get("status") or {}
    claim = spec.get("claimRef")
    leaving = item["metadata"].get("deletionTimestamp")
    return [
        _name(item),
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if leaving else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        _age(item, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _claim(item: Object, now: datetime) -> list[Any]:
    spec, status = item["spec"], item.get("status") or {}
    bound = bool(spec.get("volumeName"))
    leaving = item["metadata"].get("deletionTimestamp")
    return [
        _name(item),
        "Terminating" if leaving else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "0") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        _age(item, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _budget(item: Object, now: datetime) -> list[Any]:
    spec = item["spec"]
    return [
        _name(item),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        _status(item, "disruptionsAllowed"),
        _age(item, now),
    ]


def _storage_class(item: Object, now: datetime) -> list[Any]:
    annotations = item["metadata"].get("annotations") or {}
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        f"{_name(item)} (default)" if default else _name(item),
        item.get("provisioner", ""),
        item.get("reclaimPolicy", ""),
        item.get("volumeBindingMode", ""),
        bool(item.get("allowVolumeExpansion", False)),
        _age(item, now),
    ]


def _size(item: Object) -> int:
    return len(item.get("data") or ()) + len(item.get("binaryData") or ())


def _revision(item: Object, now: datetime) -> list[Any]:
    owner = next(
        (each for each in item["metadata"].get("ownerReferences") or () if each.get("controller")), None
    )
    shown = f"{_resource_of(owner)}/{owner['name']}" if owner else "<none>"
    return [_name(item), shown, item.get("revision", 0), _age(item, now)]


def _resource_of(owner: Object) -> str:
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind'].lower()}.{group}" if group else str(owner["kind"].lower())


def _simple(*fields: str) -> Cells:
    """Name, the fields, age."""

    def cells(item: Object, now: datetime) -> list[Any]:
        return [_name(item), *(_dig(item, field) for field in fields), _age(item, now)]

    return cells


def _dig(item: Any, path: str) -> Any:
    for step in path.split("."):
        item = item.get(step) if isinstance(item, dict) else None
    return "" if item is None else item


_TEMPLATED = ("Containers", "Images", "Selector")

PRINTERS: dict[str, Printer] = {
    "": Printer(
        columns("Name", "Created At:date"),
        lambda item, now: [_name(item), item["metadata"].get("creationTimestamp")],
    ),
    "pods": POD,
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
    "deployments.apps": Printer(
        columns("Name", "Ready", "Up-to-date", "Available", "Age", wide=_TEMPLATED), _deployment
    ),
    "replicasets.apps": Printer(
        columns("Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", wide=_TEMPLATED),
        _replica_set,
    ),
    "replicationcontrollers": Printer(
        columns("Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", wide=_TEMPLATED),
        _replica_set,
    ),
    "statefulsets.apps": Printer(
        columns("Name", "Ready", "Age", wide=("Containers", "Images")), _stateful_set
    ),
    "daemonsets.apps": Printer(
        columns(
            "Name",
            "Desired:integer",
            "Current:integer",
            "Ready:integer",
            "Up-to-date:integer",
            "Available:integer",
            "Node Selector",
            "Age",
            wide=_TEMPLATED,
        ),
        _daemon_set,
    ),
    "controllerrevisions.apps": Printer(columns("Name", "Controller", "Revision", "Age"), _revision),
    "jobs.batch": Printer(columns("Name", "Status", "Completions", "Duration", "Age", wide=_TEMPLATED), _job),
    "cronjobs.batch": Printer(
        columns(
            "Name",
            "Schedule",
            "Timezone",
            "Suspend:boolean",
            "Active:integer",
            "Last Schedule",
            "Age",
            wide=_TEMPLATED,
        ),
        _cron_job,
    ),
    "services": Printer(
        columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)), _service
    ),
    "namespaces": Printer(columns("Name", "Status", "Age"), _simple("status.phase")),
    "configmaps": Printer(
        columns("Name", "Data", "Age"), lambda item, now: [_name(item), _size(item), _age(item, now)]
    ),
    "secrets": Printer(
        columns("Name", "Type", "Data", "Age"),
        lambda item, now: [_name(item), item.get("type", ""), _size(item), _age(item, now)],
    ),
    "serviceaccounts": Printer(columns("Name", "Age"), _simple()),
    "persistentvolumes": Printer(
        columns(
            "Name",
            "Capacity",
            "Access Modes",
            "Reclaim Policy",
            "Status",
            "Claim",
            "StorageClass",
            "VolumeAttributesClass",
            "Reason",
            "Age",
            wide=("VolumeMode",),
        ),
        _volume,
    ),
    "persistentvolumeclaims": Printer(
        columns(
            "Name",
            "Status",
            "Volume",
            "Capacity",
            "Access Modes",
            "StorageClass",
            "VolumeAttributesClass",
            "Age",
            wide=("VolumeMode",),
        ),
        _claim,
    ),
    "poddisruptionbudgets.policy": Printer(
        columns("Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"), _budget
    ),
    "priorityclasses.scheduling.k8s.io": Printer(
        columns("Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"),
        lambda item, now: [
            _name(item),
            item["value"],
            item.get("globalDefault", False),
            _age(item, now),
            item.get("preemptionPolicy", ""),
        ],
    ),
    "storageclasses.storage.k8s.io": Printer(
        columns("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"),
        _storage_class,
    ),
    "csinodes.storage.k8s.io": Printer(
        columns("Name", "Drivers:integer", "Age"),
        lambda item, now: [_name(item), len(item["spec"].get("drivers") or ()), _age(item, now)],
    ),
    "leases.coordination.k8s.io": Printer(columns("Name", "Holder", "Age"), _simple("spec.holderIdentity")),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": Printer(
        columns("Name", "Webhooks:integer", "Age"),
        lambda item, now: [_name(item), len(item.get("webhooks") or ()), _age(item, now)],
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": Printer(
        columns("Name", "Webhooks:integer", "Age"),
        lambda item, now: [_name(item), len(item.get("webhooks") or ()), _age(item, now)],
    ),
    "customresourcedefinitions.apiextensions.k8s.io": Printer(
        columns("Name", "Created At"),
        lambda item, now: [_name(item), item["metadata"].get("creationTimestamp")],
    ),
    "clusterroles.rbac.authorization.k8s.io": Printer(
        columns("Name", "Created At"),
        lambda item, now: [_name(item), item["metadata"].get("creationTimestamp")],
    ),
    "roles.rbac.authorization.k8s.io": Printer(
        columns("Name", "Created At"),
        lambda item, now: [_name(item), item["metadata"].get("creationTimestamp")],
    ),
}

# The one table whose wide columns stand between the others.
_EVENT_COLUMNS = columns("Last Seen", "Type", "Reason", "Object", wide=("Subobject", "Source")) + columns(
    "Message", wide=("First Seen", "Count", "Name")
)
PRINTERS["events"] = Printer(_EVENT_COLUMNS, _event)
