"""Discovery: what the server serves, as documents for clients; legacy per group and aggregated.

Documents are made anew only when the registry changed (its `generation` says so).
"""

from __future__ import annotations

from typing import Any

from fairlead.world.schema.resources import Registry, Served

__all__ = ["aggregated", "api_group", "api_group_list", "api_versions", "groups_of", "resource_list"]

Object = dict[str, Any]

_SUB_VERBS = {
    "binding": ["create"],
    "eviction": ["create"],
    "token": ["create"],
    "log": ["get"],
    "finalize": ["update"],
}
_SUB_KINDS: dict[str, tuple[str, str, str]] = {
    "scale": ("autoscaling", "v1", "Scale"),
    "eviction": ("policy", "v1", "Eviction"),
    "binding": ("", "v1", "Binding"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
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
        entry: Object = {
            "name": resource.plural,
            "singularName": each.singular or resource.kind.lower(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(each.verbs),
        }
        if each.short:
            entry["shortNames"] = list(each.short)
        if each.categories:
            entry["categories"] = list(each.categories)
        resources.append(entry)
        for name in each.subresources:
            sub_group, sub_version, kind = _SUB_KINDS.get(name, ("", "", resource.kind))
            sub: Object = {
                "name": f"{resource.plural}/{name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": kind,
                "verbs": _SUB_VERBS.get(name, ["get", "patch", "update"]),
            }
            if sub_version and sub_group:
                sub["group"], sub["version"] = sub_group, sub_version
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
    resource, group = served.resource, served.api_group
    entry: Object = {
        "resource": resource.plural,
        "responseKind": {"group": group, "version": version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": served.singular or resource.kind.lower(),
        "verbs": list(served.verbs),
    }
    if served.short:
        entry["shortNames"] = list(served.short)
    if served.categories:
        entry["categories"] = list(served.categories)
    if served.subresources:
        entry["subresources"] = []
        for name in served.subresources:
            sub_group, sub_version, kind = _SUB_KINDS.get(name, (group, version, resource.kind))
            entry["subresources"].append(
                {
                    "subresource": name,
                    "responseKind": {"group": sub_group, "version": sub_version, "kind": kind},
                    "verbs": _SUB_VERBS.get(name, ["get", "patch", "update"]),
                }
            )
    return entry
