"""The difference between what is there and what would be, as text; no value of a Secret is ever in it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import yaml

from fairlead.kube.decode import call_it
from fairlead.tenants.planning import Change, Step

__all__ = ["HIDDEN", "diff_of", "masked"]

Object = dict[str, Any]

HIDDEN = "***"

_SECRET_FIELDS = ("data", "stringData")
_BOOKKEEPING = ("managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink")


def diff_of(step: Step) -> str:
    """A unified diff of one object's YAML; empty when nothing changes."""
    if step.change is Change.KEEP:
        return ""
    before = None if step.live is None else _shown(step.live)
    after = None if step.change is Change.DELETE else _shown(step.outcome or step.item)
    if step.item["kind"] == "Secret":
        before, after = (
            _hide(before, after, HIDDEN, f"{HIDDEN} (before)"),
            _hide(after, before, HIDDEN, f"{HIDDEN} (after)"),
        )
    called = call_it(step.item)
    lines = difflib.unified_diff(
        _lines(before),
        _lines(after),
        "(nothing)" if before is None else f"live {called}",
        "(nothing)" if after is None else f"wanted {called}",
        lineterm="",
    )
    return "\n".join(lines)


def masked(item: Mapping[str, Any]) -> Object:
    """The object as it may be shown: values of a Secret are hidden."""
    return _hide(dict(item), None, HIDDEN, HIDDEN) or {} if item["kind"] == "Secret" else dict(item)


def _hide(item: Object | None, other: Object | None, same: str, changed: str) -> Object | None:
    """A Secret whose values are hidden; that one differs from the other's shows, what it is does not."""
    if item is None:
        return None
    found = dict(item)
    for field in _SECRET_FIELDS:
        if isinstance(values := item.get(field), dict):
            others = (other or {}).get(field) or {}
            found[field] = {
                key: changed if key in others and others[key] != value else same
                for key, value in values.items()
            }
    return found


def _shown(item: Mapping[str, Any]) -> Object:
    metadata = {key: value for key, value in item["metadata"].items() if key not in _BOOKKEEPING}
    rest = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": metadata}


def _lines(item: Object | None) -> list[str]:
    # In the order of the keys: the API server's own is no order.
    return [] if item is None else yaml.safe_dump(item, sort_keys=True, allow_unicode=True).splitlines()
