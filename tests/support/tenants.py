"""Tenant types and tenants for tests, as plain data and as they are read."""

from __future__ import annotations

from typing import Any

from fairlead.tenants.manifests import render
from fairlead.tenants.tenant import Tenant
from fairlead.tenants.types import TenantType, read_types

Obj = dict[str, Any]

__all__ = ["by_kind", "plain_types", "rendered", "tenant", "tenant_type"]


def plain_types(*types: Obj) -> Obj:
    """A document of tenant types; without any, one small type."""
    return {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "TenantTypes",
        "types": list(types or [{"name": "small", "image": "i"}]),
    }


def tenant_type(**fields: Any) -> TenantType:
    """A type as it is read from ``types.yaml``: called small, and only what is said."""
    (found,) = read_types([plain_types({"name": "small", "image": "i", **fields})], "types.yaml").values()
    return found


def tenant(name: str = "a", *, namespace: str = "shop", own: bool = False, **parameters: Any) -> Tenant:
    return Tenant(name, "small", namespace, parameters, own)


def rendered(who: Tenant | None = None, **fields: Any) -> list[Obj]:
    """The objects of a tenant of a type with these fields."""
    return render(who or tenant(), tenant_type(**fields))


def by_kind(objects: list[Obj]) -> dict[str, Obj]:
    return {one["kind"]: one for one in objects}
