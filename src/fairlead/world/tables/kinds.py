"""The rows of the built-in kinds, column by column as kubectl knows them: each heading with its cell."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from fairlead.world.objects import condition, condition_holds, parse_time
from fairlead.world.tables.columns import (
    Cell,
    Printer,
    age,
    age_of,
    at,
    containers,
    human,
    labels,
    length_of,
    printer,
    read_field,
    selector,
    spelled,
)
from fairlead.world.tables.pods import POD

Object = dict[str, Any]

_SHOWN = 3  # items of a list in one cell; of the rest only the number is said


# Nodes, services, events


def _node_status(item: Object, now: datetime) -> str:
    ready = condition(item, "Ready")
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if item["spec"].get("unschedulable") else word


def _node_roles(item: Object, now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    held = item["metadata"].get("labels") or {}
    roles = {key.removeprefix(prefix) for key in held if key.startswith(prefix) and key != prefix}
    if held.get("kubernetes.io/role"):
        roles.add(held["kubernetes.io/role"])
    return ",".join(sorted(roles)) or "<none>"


def _node_address(kind: str) -> Cell:
    def cell(item: Object, now: datetime) -> str:
        held = read_field(item, "status.addresses") or ()
        return next((each["address"] for each in held if each["type"] == kind), "<none>")

    return cell


def _node_kernel(item: Object, now: datetime) -> str:
    info = read_field(item, "status.nodeInfo") or {}
    kernel = info.get("kernelVersion") or "<unknown>"
    return f"{kernel} ({info['architecture']})" if info.get("architecture") else kernel


def _service_address(item: Object, now: datetime) -> str:
    spec = item["spec"]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec.get("type") == "LoadBalancer":
        return _load_balancer(item, now) or "<pending>"
    return ",".join(spec.get("externalIPs") or ()) or "<none>"


def _load_balancer(item: Object, now: datetime) -> str:
    entries = read_field(item, "status.loadBalancer.ingress") or ()
    return ",".join(entry.get("ip") or entry.get("hostname", "") for entry in entries)


def _service_ports(item: Object, now: datetime) -> str:
    ports = []
    for port in item["spec"].get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(ports) or "<none>"


def _event_first(item: Object, now: datetime) -> str:
    return age(item.get("firstTimestamp") or item.get("eventTime"), now)


def _event_last(item: Object, now: datetime) -> str:
    if item.get("series"):
        return age(item["series"].get("lastObservedTime"), now)
    return age(item["lastTimestamp"], now) if item.get("lastTimestamp") else _event_first(item, now)


def _event_count(item: Object, now: datetime) -> Any:
    series = item.get("series")
    return series.get("count", 0) if series else item.get("count") or 1


def _event_object(item: Object, now: datetime) -> str:
    involved = item.get("involvedObject") or {}
    kind, name = involved.get("kind", "").lower(), involved.get("name", "")
    return f"{kind}/{name}" if name else kind


def _event_source(item: Object, now: datetime) -> str:
    source = item.get("source") or {}
    who = source.get("component") or item.get("reportingComponent", "")
    where = source.get("host") or item.get("reportingInstance", "")
    return f"{who}, {where}" if where else who


# Workloads


def _ready_of_wanted(item: Object, now: datetime) -> str:
    ready = read_field(item, "status.readyReplicas") or 0
    return f"{ready}/{item['spec'].get('replicas', 0)}"


def _job_status(item: Object, now: datetime) -> str:
    for kind in ("Complete", "Failed"):
        if condition_holds(item, kind):
            return kind
    if item["metadata"].get("deletionTimestamp"):
        return "Terminating"
    later = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((kind for kind in later if condition_holds(item, kind)), "Running")


def _job_completions(item: Object, now: datetime) -> str:
    spec, done = item["spec"], read_field(item, "status.succeeded") or 0
    if "completions" in spec:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(item: Object, now: datetime) -> str:
    status = item.get("status") or {}
    if not status.get("startTime"):
        return ""
    end = parse_time(status["completionTime"]) if status.get("completionTime") else now
    return human(end - parse_time(status["startTime"]))


def _last_schedule(item: Object, now: datetime) -> str:
    last = read_field(item, "status.lastScheduleTime")
    return age(last, now) if last else "<none>"


def _controller(item: Object, now: datetime) -> str:
    owner = next(
        (each for each in item["metadata"].get("ownerReferences") or () if each.get("controller")), None
    )
    if owner is None:
        return "<none>"
    group = owner["apiVersion"].rpartition("/")[0]
    kind = owner["kind"].lower()
    return f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"


# Storage


def _modes(path: str) -> Cell:
    words = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }

    def cell(item: Object, now: datetime) -> str:
        held = read_field(item, path) or ()
        return ",".join(short for mode, short in words.items() if mode in held)

    return cell


def _phase(item: Object, now: datetime) -> Any:
    return "Terminating" if item["metadata"].get("deletionTimestamp") else at("status.phase")(item, now)


def _volume_claim(item: Object, now: datetime) -> str:
    claim = item["spec"].get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _if_bound(cell: Cell) -> Cell:
    return lambda item, now: cell(item, now) if item["spec"].get("volumeName") else ""


def _storage_class_name(item: Object, now: datetime) -> str:
    annotations = item["metadata"].get("annotations") or {}
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{item['metadata']['name']}{' (default)' if default else ''}"


def _token_requests(item: Object, now: datetime) -> str:
    audiences = item["spec"].get("tokenRequests")
    return "<unset>" if audiences is None else ",".join(each.get("audience", "") for each in audiences)


# Kinds that are only passing through here


def _joined(values: Iterable[str]) -> str:
    held = list(values)
    more = f" + {len(held) - _SHOWN} more..." if len(held) > _SHOWN else ""
    return ",".join(held[:_SHOWN]) + more


def _data_size(item: Object, now: datetime) -> int:
    return len(item.get("data") or ()) + len(item.get("binaryData") or ())


def _scale_target(item: Object, now: datetime) -> str:
    target = item["spec"]["scaleTargetRef"]
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _metrics(item: Object, now: datetime) -> str:
    current = read_field(item, "status.currentMetrics") or []
    shown = []
    for index, metric in enumerate(item["spec"].get("metrics") or ()):
        source = metric.get("resource") or {}
        wanted = (source.get("target") or {}).get("averageUtilization")
        held = (current[index].get("resource") or {}) if index < len(current) else {}
        used = (held.get("current") or {}).get("averageUtilization")
        seen = "<unknown>" if used is None else f"{used}%"
        shown.append(f"{source.get('name', '')}: {seen}/{wanted}%" if wanted is not None else "<unknown>")
    return ", ".join(shown) or "<none>"


def _hosts(item: Object, now: datetime) -> str:
    return _joined(rule["host"] for rule in item["spec"].get("rules") or () if rule.get("host")) or "*"


def _slice_ports(item: Object, now: datetime) -> str:
    return _joined(str(port.get("port", "*")) for port in item.get("ports") or ()) or "<unset>"


def _slice_addresses(item: Object, now: datetime) -> str:
    addresses = (address for each in item.get("endpoints") or () for address in each.get("addresses") or ())
    return _joined(addresses) or "<unset>"


def _subjects(kind: str) -> Cell:
    def cell(item: Object, now: datetime) -> str:
        held = [each for each in item.get("subjects") or () if each.get("kind") == kind]
        return ", ".join(
            f"{each['namespace']}/{each['name']}" if each.get("namespace") else each["name"] for each in held
        )

    return cell


def _device_claim_state(item: Object, now: datetime) -> str:
    words = [
        (item["metadata"].get("deletionTimestamp"), "deleted"),
        (read_field(item, "status.allocation") is not None, "allocated"),
        (read_field(item, "status.reservedFor"), "reserved"),
    ]
    return ",".join(word for holds, word in words if holds) or "pending"


_NAMED = printer({"Age": age_of})
_CREATED = printer({"Created At:date": at("metadata.creationTimestamp", None)})
_WEBHOOKS = printer({"Webhooks:integer": length_of("webhooks"), "Age": age_of})
_CONTAINERS: dict[str, Cell] = {"+Containers": containers("name"), "+Images": containers("image")}
_TEMPLATED = {**_CONTAINERS, "+Selector": selector("spec.selector")}
_SCALED: dict[str, Cell] = {
    "Desired:integer": at("spec.replicas", 0),
    "Current:integer": at("status.replicas", 0),
    "Ready:integer": at("status.readyReplicas", 0),
    "Age": age_of,
}
_CLASS: dict[str, Cell] = {
    "StorageClass": at("spec.storageClassName"),
    "VolumeAttributesClass": at("spec.volumeAttributesClassName", "<unset>"),
}
_MODE = {"+VolumeMode": at("spec.volumeMode", "<unset>")}
_BINDING = printer(
    {
        "Role": lambda item, now: f"{item['roleRef']['kind']}/{item['roleRef']['name']}",
        "Age": age_of,
        "+Users": _subjects("User"),
        "+Groups": _subjects("Group"),
        "+ServiceAccounts": _subjects("ServiceAccount"),
    }
)
_JOB_TEMPLATE = "spec.jobTemplate.spec.template.spec"

PRINTERS: dict[str, Printer] = {
    "": _CREATED,
    "pods": POD,
    "nodes": printer(
        {
            "Status": _node_status,
            "Roles": _node_roles,
            "Age": age_of,
            "Version": at("status.nodeInfo.kubeletVersion"),
            "+Internal-IP": _node_address("InternalIP"),
            "+External-IP": _node_address("ExternalIP"),
            "+OS-Image": at("status.nodeInfo.osImage", "<unknown>"),
            "+Kernel-Version": _node_kernel,
            "+Container-Runtime": at("status.nodeInfo.containerRuntimeVersion", "<unknown>"),
        }
    ),
    "services": printer(
        {
            "Type": at("spec.type"),
            "Cluster-IP": lambda item, now: (item["spec"].get("clusterIPs") or ["<none>"])[0],
            "External-IP": _service_address,
            "Port(s)": _service_ports,
            "Age": age_of,
            "+Selector": labels("spec.selector"),
        }
    ),
    "events": printer(
        {
            "Last Seen": _event_last,
            "Type": at("type"),
            "Reason": at("reason"),
            "Object": _event_object,
            "+Subobject": at("involvedObject.fieldPath"),
            "+Source": _event_source,
            "Message": lambda item, now: (item.get("message") or "").strip(),
            "+First Seen": _event_first,
            "+Count": _event_count,
            "+Name": at("metadata.name"),
        },
        named=False,
    ),
    "namespaces": printer({"Status": at("status.phase"), "Age": age_of}),
    "configmaps": printer({"Data": _data_size, "Age": age_of}),
    "secrets": printer({"Type": at("type"), "Data": _data_size, "Age": age_of}),
    "serviceaccounts": _NAMED,
    "deployments.apps": printer(
        {
            "Ready": _ready_of_wanted,
            "Up-to-date": at("status.updatedReplicas", 0),
            "Available": at("status.availableReplicas", 0),
            "Age": age_of,
            **_TEMPLATED,
        }
    ),
    "replicasets.apps": printer({**_SCALED, **_TEMPLATED}),
    "replicationcontrollers": printer({**_SCALED, **_CONTAINERS, "+Selector": labels("spec.selector")}),
    "statefulsets.apps": printer({"Ready": _ready_of_wanted, "Age": age_of, **_CONTAINERS}),
    "daemonsets.apps": printer(
        {
            "Desired:integer": at("status.desiredNumberScheduled", 0),
            "Current:integer": at("status.currentNumberScheduled", 0),
            "Ready:integer": at("status.numberReady", 0),
            "Up-to-date:integer": at("status.updatedNumberScheduled", 0),
            "Available:integer": at("status.numberAvailable", 0),
            "Node Selector": labels("spec.template.spec.nodeSelector"),
            "Age": age_of,
            **_TEMPLATED,
        }
    ),
    "controllerrevisions.apps": printer(
        {"Controller": _controller, "Revision": at("revision", 0), "Age": age_of}
    ),
    "jobs.batch": printer(
        {
            "Status": _job_status,
            "Completions": _job_completions,
            "Duration": _job_duration,
            "Age": age_of,
            **_TEMPLATED,
        }
    ),
    "cronjobs.batch": printer(
        {
            "Schedule": at("spec.schedule"),
            "Timezone": at("spec.timeZone", "<none>"),
            "Suspend:boolean": spelled("spec.suspend", "False"),
            "Active:integer": length_of("status.active"),
            "Last Schedule": _last_schedule,
            "Age": age_of,
            "+Containers": containers("name", _JOB_TEMPLATE),
            "+Images": containers("image", _JOB_TEMPLATE),
            "+Selector": selector("spec.jobTemplate.spec.selector"),
        }
    ),
    "poddisruptionbudgets.policy": printer(
        {
            "Min Available": spelled("spec.minAvailable", "N/A"),
            "Max Unavailable": spelled("spec.maxUnavailable", "N/A"),
            "Allowed Disruptions:integer": at("status.disruptionsAllowed", 0),
            "Age": age_of,
        }
    ),
    "priorityclasses.scheduling.k8s.io": printer(
        {
            "Value:integer": at("value"),
            "Global-Default:boolean": at("globalDefault", False),
            "Age": age_of,
            "PreemptionPolicy": at("preemptionPolicy"),
        }
    ),
    "persistentvolumes": printer(
        {
            "Capacity": at("spec.capacity.storage", "0"),
            "Access Modes": _modes("spec.accessModes"),
            "Reclaim Policy": at("spec.persistentVolumeReclaimPolicy"),
            "Status": _phase,
            "Claim": _volume_claim,
            **_CLASS,
            "Reason": at("status.reason"),
            "Age": age_of,
            **_MODE,
        }
    ),
    "persistentvolumeclaims": printer(
        {
            "Status": _phase,
            "Volume": at("spec.volumeName"),
            "Capacity": _if_bound(at("status.capacity.storage", "0")),
            "Access Modes": _if_bound(_modes("status.accessModes")),
            **_CLASS,
            "Age": age_of,
            **_MODE,
        }
    ),
    "storageclasses.storage.k8s.io": printer(
        {
            "Name": _storage_class_name,
            "Provisioner": at("provisioner"),
            "ReclaimPolicy": at("reclaimPolicy"),
            "VolumeBindingMode": at("volumeBindingMode"),
            "AllowVolumeExpansion": at("allowVolumeExpansion", False),
            "Age": age_of,
        }
    ),
    "csinodes.storage.k8s.io": printer({"Drivers:integer": length_of("spec.drivers"), "Age": age_of}),
    "csidrivers.storage.k8s.io": printer(
        {
            "AttachRequired:boolean": at("spec.attachRequired", True),
            "PodInfoOnMount:boolean": at("spec.podInfoOnMount", False),
            "StorageCapacity:boolean": at("spec.storageCapacity", False),
            "TokenRequests": _token_requests,
            "RequiresRepublish:boolean": at("spec.requiresRepublish", False),
            "Modes": lambda item, now: ",".join(item["spec"].get("volumeLifecycleModes") or ()) or "<none>",
            "Age": age_of,
        }
    ),
    "leases.coordination.k8s.io": printer({"Holder": at("spec.holderIdentity"), "Age": age_of}),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "horizontalpodautoscalers.autoscaling": printer(
        {
            "Reference": _scale_target,
            "Targets": _metrics,
            "MinPods": spelled("spec.minReplicas", "<unset>"),
            "MaxPods": at("spec.maxReplicas", 0),
            "Replicas": at("status.currentReplicas", 0),
            "Age": age_of,
        }
    ),
    "ingresses.networking.k8s.io": printer(
        {
            "Class": at("spec.ingressClassName", "<none>"),
            "Hosts": _hosts,
            "Address": _load_balancer,
            "Ports": lambda item, now: "80, 443" if item["spec"].get("tls") else "80",
            "Age": age_of,
        }
    ),
    "networkpolicies.networking.k8s.io": printer(
        {"Pod-Selector": selector("spec.podSelector"), "Age": age_of}
    ),
    "endpointslices.discovery.k8s.io": printer(
        {
            "AddressType": at("addressType"),
            "Ports": _slice_ports,
            "Endpoints": _slice_addresses,
            "Age": age_of,
        }
    ),
    "runtimeclasses.node.k8s.io": printer({"Handler": at("handler"), "Age": age_of}),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "resourceclaims.resource.k8s.io": printer({"State": _device_claim_state, "Age": age_of}),
    "resourceclaimtemplates.resource.k8s.io": _NAMED,
    "deviceclasses.resource.k8s.io": _NAMED,
}
