"""A tenant's objects: pure, from its type's template and its parameters, in the order to apply them.

The pods say where they may go in terms that Fairlead, kube-scheduler and autoscalers share: node selector,
tolerations, requests, and, where a tenant has nodes to itself, anti-affinity that all of them honour beside
the annotation that only we do.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.kube.resources import BUILT_IN as RESOURCES
from fairlead.kube.tolerations import Toleration
from fairlead.nodegroups.group import EFFECTS
from fairlead.policy.decide.admission import have_alone
from fairlead.policy.names import CAPACITY_ANNOTATION
from fairlead.tenants.names import (
    CHECKSUM_ANNOTATION,
    DEPENDS_ANNOTATION,
    FURTHER_ANNOTATION,
    TENANT_LABEL,
    labels_of,
)
from fairlead.tenants.order import declare, in_order
from fairlead.tenants.placeholders import BadPlaceholder, fill, text_of
from fairlead.tenants.tenant import Tenant, merged, values_of
from fairlead.tenants.types import Shape, TenantType, read_shape

Object = dict[str, Any]

# The kinds that every tenant may have; the rest are further objects, noted on the ServiceAccount.
KINDS = (
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ResourceQuota"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("v1", "Service"),
    ("apps/v1", "Deployment"),
)

CONTAINER = "main"

_CLUSTER_WIDE = {(one.api_version, one.kind) for one in RESOURCES if not one.namespaced}
# What pods and containers have from fields of the type's own, and from nowhere else.
_POD_FIELDS = {
    "containers": "container",
    "nodeSelector": "nodeLabels",
    "tolerations": "tolerations",
    "schedulerName": "schedulerName",
    "serviceAccountName": "",
}
_CONTAINER_FIELDS = {
    "name": "",
    "image": "image",
    "resources": "resources",
    "ports": "ports",
    "envFrom": "config",
}


def render(tenant: Tenant, kind: TenantType) -> list[Object]:
    """All objects of a tenant, those that others refer to first.

    BadInput where the tenant's parameters will not do, BadObject where the type will not.
    """
    values = values_of(tenant, kind)
    called = f"{kind.called}, tenant {tenant.name}"
    try:
        shape = read_shape(fill(dict(kind.template), values), called)
    except BadPlaceholder as error:
        raise BadObject(called, error.path, error.problem) from error
    labels = labels_of(tenant.name, kind.name)
    objects = list(_own(tenant, shape, labels, called))
    objects += [_further(one, index, tenant, labels, called) for index, one in enumerate(shape.objects)]
    seen: set[tuple[str, str]] = set()
    for item in objects:
        key = (item["kind"], item["metadata"]["name"])
        if key in seen:
            raise BadObject(called, "objects", f"there are two of {'/'.join(key)}")
        seen.add(key)
    declare(objects, shape.depends_on, called)
    if further := further_kinds(objects):
        account = next(item for item in objects if item["kind"] == "ServiceAccount")
        account["metadata"].setdefault("annotations", {})[FURTHER_ANNOTATION] = ", ".join(further)
    return in_order(objects, called)


def further_kinds(objects: list[Object]) -> list[str]:
    """The kinds beyond those that every tenant may have, as ``apiVersion/Kind``, sorted."""
    return sorted(
        {
            f"{item['apiVersion']}/{item['kind']}"
            for item in objects
            if (item["apiVersion"], item["kind"]) not in KINDS
        }
    )


def _own(tenant: Tenant, shape: Shape, labels: dict[str, str], called: str) -> Iterator[Object]:
    """The objects that every tenant has, those that the type leaves out excepted."""
    config = _texts(shape.config, called, "config")
    secret = _texts(shape.secret, called, "secret")
    selected = {"matchLabels": {TENANT_LABEL: tenant.name}}

    def made(kind: str, **rest: Any) -> Object:
        version = next(version for version, known in KINDS if known == kind)
        metadata: Object = {"name": tenant.name, "namespace": tenant.namespace, "labels": dict(labels)}
        if kind == "Namespace":
            metadata = {"name": tenant.namespace, "labels": dict(labels)}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}

    if tenant.own_namespace:
        yield made("Namespace")
    yield made("ServiceAccount", automountServiceAccountToken=False)
    yield made("ConfigMap", data=config)
    # Not stringData: a member that is no longer applied would stay in data for good.
    data = {key: base64.b64encode(value.encode()).decode() for key, value in secret.items()}
    yield made("Secret", type="Opaque", data=data)
    if shape.quota and tenant.own_namespace:
        yield made("ResourceQuota", spec={"hard": _texts(shape.quota, called, "quota")})
    if shape.network:
        yield made("NetworkPolicy", spec={"podSelector": selected, **shape.network})
    if shape.disruption:
        yield made("PodDisruptionBudget", spec={"selector": selected, **shape.disruption})
    if shape.ports:
        # By name, so that the Service goes on working while pods change their port.
        ports = [{**one, "targetPort": one["name"]} for one in _ports(shape)]
        yield made("Service", spec={"selector": selected["matchLabels"], "ports": ports})
    spec = {
        **({"replicas": shape.replicas} if shape.replicas is not None else {}),
        "selector": selected,
        **({"strategy": shape.strategy} if shape.strategy else {}),
        "template": _pods(tenant, shape, labels, config, called),
    }
    yield made("Deployment", spec=spec)


def _pods(
    tenant: Tenant, shape: Shape, labels: dict[str, str], config: Mapping[str, str], called: str
) -> Object:
    for field, given, fixed in (
        ("pod", shape.pod, _POD_FIELDS),
        ("container", shape.container, _CONTAINER_FIELDS),
    ):
        for name in given:
            if name in fixed:
                instead = (
                    f"it has a field of its own, {fixed[name]}"
                    if fixed[name]
                    else "it is always the tenant's"
                )
                raise BadObject(called, f"{field}.{name}", f"may not be said here: {instead}")
    container: Object = {"name": CONTAINER, "image": shape.image}
    if shape.resources:
        container["resources"] = shape.resources
    if shape.ports:
        container["ports"] = [
            {"name": one["name"], "containerPort": one["targetPort"], "protocol": one["protocol"]}
            for one in _ports(shape)
        ]
    container["envFrom"] = [{"configMapRef": {"name": tenant.name}}, {"secretRef": {"name": tenant.name}}]
    spec: Object = {"serviceAccountName": tenant.name}
    if shape.scheduler_name:
        spec["schedulerName"] = shape.scheduler_name
    if shape.node_labels:
        spec["nodeSelector"] = _texts(shape.node_labels, called, "nodeLabels")
    if shape.tolerations:
        spec["tolerations"] = [
            _toleration(one, called, f"tolerations[{index}]") for index, one in enumerate(shape.tolerations)
        ]
    spec["containers"] = [merged(container, shape.container)]
    spec = merged(spec, shape.pod)
    metadata: Object = {"labels": dict(labels), "annotations": {CHECKSUM_ANNOTATION: _checksum(config)}}
    if shape.exclusive:
        metadata["annotations"][CAPACITY_ANNOTATION] = "exclusive"
        have_alone(spec, metadata, called)
    return {"metadata": metadata, "spec": spec}


def _further(item: Object, index: int, tenant: Tenant, labels: dict[str, str], called: str) -> Object:
    where = f"objects[{index}]"
    for field in ("apiVersion", "kind"):
        if not isinstance(item.get(field), str) or not item[field]:
            raise BadObject(called, f"{where}.{field}", "is missing")
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise BadObject(called, f"{where}.metadata.name", "is missing")
    if metadata.setdefault("namespace", tenant.namespace) != tenant.namespace:
        raise BadObject(called, f"{where}.metadata.namespace", f"is not the tenant's, {tenant.namespace}")
    if (item["apiVersion"], item["kind"]) in _CLUSTER_WIDE:
        raise BadObject(
            called, f"{where}.kind", f"{item['kind']} belongs to no namespace, so to no tenant either"
        )
    texts = {}
    for field in ("labels", "annotations"):
        own = metadata.get(field) or {}
        if not isinstance(own, dict):
            raise BadObject(called, f"{where}.metadata.{field}", "is not an object")
        texts[field] = _texts(own, called, f"{where}.metadata.{field}")
    for note in (DEPENDS_ANNOTATION, FURTHER_ANNOTATION):
        if note in texts["annotations"]:
            raise BadObject(
                called, f"{where}.metadata.annotations.{note}", "may not be said here: see dependsOn"
            )
    kept = {key: value for key, value in metadata.items() if key not in texts}
    noted = {"annotations": texts["annotations"]} if texts["annotations"] else {}
    return {**item, "metadata": {**kept, "labels": {**texts["labels"], **labels}, **noted}}


def _ports(shape: Shape) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name or f"port-{one.port}",
            "port": one.port,
            "targetPort": one.target_port or one.port,
            "protocol": one.protocol,
        }
        for one in shape.ports
    ]


def _toleration(said: str | dict[str, Any], called: str, where: str) -> dict[str, Any]:
    """A toleration as an object, or as the taint that is tolerated: ``key=value:Effect``, ``key:Effect``."""
    if isinstance(said, dict):
        return _toleration_object(said, called, where)
    taint, _, effect = said.rpartition(":")
    key, equals, value = taint.partition("=")
    if not key or effect not in EFFECTS:
        spelt = f"; the EKS API's {effect} is spelt otherwise here" if effect.isupper() else ""
        raise BadObject(
            called,
            where,
            f"{said!r} is not a taint like key=value:Effect, with one of {', '.join(EFFECTS)}{spelt}",
        )
    if equals:
        return {"key": key, "operator": "Equal", "value": value, "effect": effect}
    return {"key": key, "operator": "Exists", "effect": effect}


def _toleration_object(said: dict[str, Any], called: str, where: str) -> dict[str, Any]:
    # Strictly: a misspelt field would tolerate more than is meant.
    known = {field.encode_name for field in msgspec.structs.fields(Toleration)}
    for name in said:
        if name not in known:
            raise BadObject(
                called, f"{where}.{name}", f"there is no such field; there are: {', '.join(known)}"
            )
    found = convert(said, Toleration, called, where)
    if found.effect and found.effect not in EFFECTS:
        raise BadObject(
            called,
            f"{where}.effect",
            f"{found.effect!r} is none of {', '.join(EFFECTS)}; leave it out for all",
        )
    if found.operator not in ("", "Equal", "Exists"):
        raise BadObject(called, f"{where}.operator", f"{found.operator!r} is neither Equal nor Exists")
    return found.to_plain()


def _texts(values: Mapping[str, Any], called: str, where: str) -> dict[str, str]:
    """Numbers and booleans written out, where Kubernetes takes only texts."""
    found = {}
    for key, value in values.items():
        written = text_of(value)
        if written is None:
            raise BadObject(called, f"{where}.{key}", "is not a text")
        found[key] = written
    return found


def _checksum(config: Mapping[str, str]) -> str:
    """Of ``key=value`` lines in the order of the keys: simple enough for a chart to say the same."""
    lines = "".join(f"{key}={config[key]}\n" for key in sorted(config))
    return hashlib.sha256(lines.encode()).hexdigest()
