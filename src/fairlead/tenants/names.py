"""What tenants' objects are marked with, and how a tenant may be called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fairlead.errors import BadInput
from fairlead.policy.names import GROUP

FIELD_MANAGER = "fairlead-tenant"

_MANAGED_BY = "app.kubernetes.io/managed-by"
_OURS = "fairlead"
_HELMS = "Helm"  # what Helm makes of it when it installs the chart
TENANT_LABEL = f"{GROUP}/tenant"
TYPE_LABEL = f"{GROUP}/tenant-type"

# On objects that declare dependencies: ``Kind/name, …``; the order of removal is read from it.
DEPENDS_ANNOTATION = f"{GROUP}/depends-on"
# On the ServiceAccount: kinds beyond those that every tenant may have, so that they are found again even
# when the type no longer names them.
FURTHER_ANNOTATION = f"{GROUP}/further-kinds"
# On pods: of the ConfigMap's data, so that pods are recreated when it changes.
CHECKSUM_ANNOTATION = f"{GROUP}/config-checksum"

_LONGEST = 63


def labels_of(tenant: str, type_name: str) -> dict[str, str]:
    """The labels that every object of a tenant carries."""
    return {_MANAGED_BY: _OURS, TENANT_LABEL: tenant, TYPE_LABEL: type_name}


def selector_of(tenant: str = "") -> str:
    """The label selector of a tenant's objects, however installed; without a name, of all tenants'."""
    return f"{TENANT_LABEL}={tenant}" if tenant else TENANT_LABEL


def belongs(item: Mapping[str, Any], tenant: str) -> bool:
    """Whether an object is marked as the tenant's, by us or by Helm."""
    labels = item["metadata"].get("labels") or {}
    return labels.get(_MANAGED_BY) in (_OURS, _HELMS) and labels.get(TENANT_LABEL) == tenant


def noted(item: Mapping[str, Any], annotation: str) -> list[str]:
    """What an annotation of an object lists, separated by commas."""
    said = (item["metadata"].get("annotations") or {}).get(annotation, "")
    return [one.strip() for one in said.split(",") if one.strip()]


def check_name(name: str, called: str = "tenant") -> None:
    """Refuse what is no DNS label, and say what is wrong with it.

    Services of that name must begin with a letter on most clusters, so every tenant must.
    """
    if problem := _problem(name):
        raise BadInput(
            f"{called} {name!r}: {problem}; names are of lower case letters, digits and -, begin with a "
            f"letter, end with a letter or digit and have at most {_LONGEST} characters"
        )


def _problem(name: str) -> str:
    if not name:
        return "is empty"
    if len(name) > _LONGEST:
        return f"has {len(name)} characters"
    if wrong := re.search(r"[^a-z0-9-]", name):
        shown = "upper case letter" if wrong[0].isupper() else "character"
        return f"{shown} {wrong[0]!r} at position {wrong.start() + 1}"
    if not name[0].isalpha():
        return f"begins with {name[0]!r}"
    if name[-1] == "-":
        return "ends with '-'"
    return ""
