"""Which objects a list or watch asks for: label and field selectors, compiled once per request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairlead.errors import BadInput
from fairlead.kube.selectors import (
    FieldSelector,
    LabelSelector,
    matches,
    parse_field_selector,
    parse_label_selector,
)
from fairlead.world.answers import bad_request
from fairlead.world.schema.resources import Resource
from fairlead.world.store import Object

__all__ = ["EVERYTHING", "Selection", "select"]

_ALWAYS = frozenset({"metadata.name", "metadata.namespace"})
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

# What the API server can select on, beyond the name and namespace.
_FIELDS: dict[str, frozenset[str]] = {
    "pods": frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        }
    ),
    "nodes": frozenset({"spec.unschedulable"}),
    "namespaces": frozenset({"status.phase", "name"}),
    "secrets": frozenset({"type"}),
    "services": frozenset({"spec.clusterIP", "spec.type"}),
    "events": frozenset(
        {
            *(f"involvedObject.{name}" for name in _INVOLVED),
            *(f"regarding.{name}" for name in _INVOLVED),
            "reason",
            "reportingComponent",
            "reportingController",
            "source",
            "type",
        }
    ),
    "replicationcontrollers": frozenset({"status.replicas"}),
    "replicasets.apps": frozenset({"status.replicas"}),
    "jobs.batch": frozenset({"status.successful"}),
}


@dataclass(frozen=True, slots=True)
class Selection:
    """A compiled pair of selectors. `node` is set when the pods of one node are asked for."""

    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    node: str | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing is filtered."""
        return self.labels is None and self.fields is None

    def admits(self, item: Object) -> bool:
        """Whether an object is asked for."""
        if self.labels is not None and not matches(self.labels, item["metadata"].get("labels") or {}):
            return False
        return self.fields is None or self.fields.admits(lambda path: _field(item, path))


EVERYTHING = Selection()


def select(resource: Resource, labels: str = "", fields: str = "") -> Selection:
    """Compile the selectors of a request; 400 for one that cannot be read or is not supported."""
    if not labels and not fields:
        return EVERYTHING
    try:
        by_label = parse_label_selector(labels) if labels else None
        by_field = parse_field_selector(fields) if fields else None
    except BadInput as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
    node = None
    for path, equal, wanted in by_field.terms if by_field else ():
        if path not in _ALWAYS and path not in _FIELDS.get(resource.qualified, ()):
            if resource.qualified in _FIELDS:
                raise bad_request(f"field label not supported: {path}")
            known = (
                'only "metadata.name", "metadata.namespace"'
                if resource.namespaced
                else 'only "metadata.name"'
            )
            raise bad_request(f'"{path}" is not a known field selector: {known}')
        if path == "spec.nodeName" and equal and resource.plural == "pods":
            node = wanted
    return Selection(by_label, by_field, node)


def _field(item: Object, path: str) -> str:
    if path == "name":
        path = "metadata.name"
    elif path.startswith("regarding."):
        path = "involvedObject." + path.removeprefix("regarding.")
    elif path in ("reportingComponent", "reportingController"):
        return str(item.get("reportingComponent") or item.get("source", {}).get("component", ""))
    elif path == "source":
        return str(item.get("source", {}).get("component") or item.get("reportingComponent", ""))
    elif path == "status.successful":
        path = "status.succeeded"
    value: Any = item
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return _ABSENT.get(path, "")
    return str(value)


# A Go field that is absent in JSON still has its zero value when it is selected on.
_ABSENT = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.replicas": "0",
    "status.succeeded": "0",
}
