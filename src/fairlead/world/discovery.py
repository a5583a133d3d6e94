"""What the server serves, as documents for clients: discovery, legacy per group and aggregated, and OpenAPI.

OpenAPI is trimmed: enough for kubectl to apply, patch and let the server validate. Schemas of built-in kinds
come from the table of field types, with their merge keys; custom ones are open.
"""

from __future__ import annotations

from typing import Any

from fairlead.world.schema.resources import Registry, Served
from fairlead.world.schema.types import Field, struct_of, table

Object = dict[str, Any]

_SUB_VERBS = {
    "binding": ["create"],
    "eviction": ["create"],
    "token": ["create"],
    "log": ["get"],
    "finalize": ["update"],
}
_READ_AND_WRITE = ["get", "patch", "update"]
SUB_KINDS = {
    "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
    "binding": {"group": "", "version": "v1", "kind": "Binding"},
    "token": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
}


def groups_of(registry: Registry) -> dict[str, dict[str, list[Served]]]:
    """Group → version → what is served there, the core group first."""
    groups: dict[str, dict[str, list[Served]]] = {}
    for served in registry:
        for version in served.versions:
            groups.setdefault(served.api_group, {}).setdefault(version, []).append(served)
    return groups


def api_versions(address: str) -> Object:
    """``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group(name: str, versions: list[str]) -> Object:
    """``/apis/GROUP``."""
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": entries,
        "preferredVersion": entries[0],
    }


def api_group_list(registry: Registry) -> Object:
    """``/apis``."""
    groups = []
    for name, versions in groups_of(registry).items():
        if name:
            group = api_group(name, list(versions))
            groups.append({key: group[key] for key in ("name", "versions", "preferredVersion")})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def resource_list(group: str, version: str, served: list[Served]) -> Object:
    """``/api/v1`` or ``/apis/GROUP/VERSION``."""
    resources: list[Object] = []
    for each in served:
        resource = each.resource
        resources.append(
            {
                "name": resource.plural,
                "singularName": _singular(each),
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": list(each.verbs),
                **_other_names(each),
            }
        )
        for name in each.subresources:
            sub: Object = {
                "name": f"{resource.plural}/{name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": _SUB_VERBS.get(name, _READ_AND_WRITE),
            }
            if name in SUB_KINDS:
                # The core group needs no mention.
                sub |= SUB_KINDS[name] if SUB_KINDS[name]["group"] else {"kind": SUB_KINDS[name]["kind"]}
            resources.append(sub)
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def aggregated(registry: Registry, *, core: bool) -> Object:
    """``/api`` or ``/apis`` as one ``apidiscovery.k8s.io/v2`` document."""
    items = []
    for name, versions in groups_of(registry).items():
        if bool(name) == core:
            continue
        entries = [
            {
                "version": version,
                "resources": [_aggregated_resource(each, version) for each in served],
                "freshness": "Current",
            }
            for version, served in versions.items()
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": entries})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(served: Served, version: str) -> Object:
    resource = served.resource
    kind = {"group": served.api_group, "version": version, "kind": resource.kind}
    entry: Object = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": _singular(served),
        "verbs": list(served.verbs),
        **_other_names(served),
    }
    if served.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": SUB_KINDS.get(name, kind),
                "verbs": _SUB_VERBS.get(name, _READ_AND_WRITE),
            }
            for name in served.subresources
        ]
    return entry


def _singular(served: Served) -> str:
    return served.singular or served.resource.kind.lower()


def _other_names(served: Served) -> Object:
    names = {"shortNames": list(served.short), "categories": list(served.categories)}
    return {field: held for field, held in names.items() if held}


# OpenAPI

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


def openapi_index(registry: Registry) -> Object:
    """``/openapi/v3``: where the document of each group version is."""
    paths = {}
    for group, versions in groups_of(registry).items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={registry.generation}"}
    return {"paths": paths}


def openapi_document(registry: Registry, group: str, version: str) -> Object | None:
    """The document of one group version; None when it is not served."""
    served = groups_of(registry).get(group, {}).get(version)
    if served is None:
        return None
    schemas: dict[str, Object] = {}
    paths: dict[str, Object] = {}
    for each in served:
        gvk = {"group": group, "version": version, "kind": each.resource.kind}
        struct = struct_of(each, version)
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
    paths = {f"{root}/{served.resource.plural}": collection}
    if "get" in served.verbs:
        collection["get"] = operation("list")
        actions = ("get", "put", "patch", "delete")
        paths[f"{root}/{served.resource.plural}/{{name}}"] = {action: operation(action) for action in actions}
    return paths


def _schema_name(struct: str) -> str:
    package, _, name = struct.rpartition(".")
    group, _, version = package.partition("/")
    home = {
        "meta": "io.k8s.apimachinery.pkg.apis.meta",
        "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    }.get(group, f"io.k8s.api.{group}")
    return f"{home}.{version}.{name}"


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
    said = {
        "patch-strategy": field.patch,
        "patch-merge-key": field.merge_key,
        "list-type": field.list,
        "list-map-keys": list(field.keys),
        "map-type": "atomic" if field.atomic else "",
    }
    notes = {f"x-kubernetes-{name}": value for name, value in said.items() if value}
    return _typed(schemas, field.type) | notes


def _typed(schemas: dict[str, Object], spelled: str) -> Object:
    if spelled.startswith("[]"):
        return {"type": "array", "items": _typed(schemas, spelled[2:])}
    if spelled.startswith("{}"):
        return {"type": "object", "additionalProperties": _typed(schemas, spelled[2:])}
    if "." in spelled:
        _add(schemas, spelled)
        return {"allOf": [{"$ref": f"#/components/schemas/{_schema_name(spelled)}"}]}
    return dict(_SCALARS[spelled])
