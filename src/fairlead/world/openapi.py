"""A trimmed ``/openapi/v3``: enough for kubectl to apply, patch and let the server validate.

Schemas of built-in kinds come from the same type table as everything else, with their merge keys;
custom ones are open. Each document is the whole of one group version.
"""

from __future__ import annotations

from typing import Any

from fairlead.world.discovery import groups_of
from fairlead.world.schema.resources import Registry, Served
from fairlead.world.schema.types import Field, struct_of, table

__all__ = ["document", "index"]

Object = dict[str, Any]

_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
]
_SCALARS: dict[str, Object] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intstr": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


def index(registry: Registry) -> Object:
    """``/openapi/v3``: where the document of each group version is."""
    paths = {}
    for group, versions in groups_of(registry).items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={registry.generation}"}
    return {"paths": paths}


def document(registry: Registry, group: str, version: str) -> Object | None:
    """The document of one group version; None when it is not served."""
    served = groups_of(registry).get(group, {}).get(version)
    if served is None:
        return None
    schemas: dict[str, Object] = {}
    paths: dict[str, Object] = {}
    for each in served:
        gvk = {"group": group, "version": version, "kind": each.resource.kind}
        struct = None if each.custom else struct_of(each.resource, version)
        if each.api_group == "events.k8s.io":
            struct = "events/v1.Event"
        if struct is None:
            name = f"{'.'.join(reversed(group.split('.')))}.{version}.{each.resource.kind}"
            schemas[name] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        else:
            name = _schema_name(struct)
            _add(schemas, struct)
        schemas[name] = {**schemas[name], "x-kubernetes-group-version-kind": [gvk]}
        paths |= _paths_of(each, group, version, gvk, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _paths_of(served: Served, group: str, version: str, gvk: Object, schema: str) -> dict[str, Object]:
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    if served.resource.namespaced:
        root += "/namespaces/{namespace}"
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}

    def operation(action: str) -> Object:
        return {
            "parameters": _PARAMETERS,
            "responses": {"200": {"description": "OK", "content": body}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
        }

    collection: Object = {"post": operation("post")}
    single: Object = {}
    if "get" in served.verbs:
        collection["get"] = operation("list")
        single = {
            "get": operation("get"),
            "put": operation("put"),
            "patch": operation("patch"),
            "delete": operation("delete"),
        }
    paths = {f"{root}/{served.resource.plural}": collection}
    if single:
        paths[f"{root}/{served.resource.plural}/{{name}}"] = single
    return paths


def _schema_name(struct: str) -> str:
    package, _, name = struct.rpartition(".")
    group, _, version = package.partition("/")
    if group == "meta":
        return f"io.k8s.apimachinery.pkg.apis.meta.{version}.{name}"
    if group == "apiextensions":
        return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{name}"
    return f"io.k8s.api.{group}.{version}.{name}"


def _add(schemas: dict[str, Object], struct: str) -> None:
    name = _schema_name(struct)
    if name in schemas:
        return
    fields = table().types[struct]
    schema: Object = {"type": "object"}
    schemas[name] = schema
    properties = {key: _property(schemas, field) for key, field in fields.items()}
    if properties:
        schema["properties"] = properties


def _property(schemas: dict[str, Object], field: Field) -> Object:
    made = _typed(schemas, field.type)
    if field.patch:
        made["x-kubernetes-patch-strategy"] = field.patch
    if field.merge_key:
        made["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.list:
        made["x-kubernetes-list-type"] = field.list
    if field.keys:
        made["x-kubernetes-list-map-keys"] = list(field.keys)
    if field.atomic:
        made["x-kubernetes-map-type"] = "atomic"
    return made


def _typed(schemas: dict[str, Object], spelled: str) -> Object:
    if spelled.startswith("[]"):
        return {"type": "array", "items": _typed(schemas, spelled[2:])}
    if spelled.startswith("{}"):
        return {"type": "object", "additionalProperties": _typed(schemas, spelled[2:])}
    if "." in spelled:
        _add(schemas, spelled)
        return {"allOf": [{"$ref": f"#/components/schemas/{_schema_name(spelled)}"}]}
    return dict(_SCALARS[spelled])
