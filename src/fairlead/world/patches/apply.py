"""Server-side apply: a manager states the fields it wants; what it stops stating, it gives up.

Ownership is recorded in ``metadata.managedFields``, for appliers only: what plain writes set is not
tracked, except that a plain write takes a field away from the applier whose value it changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from fairlead.errors import ApiError
from fairlead.world.answers import bad_request, invalid_options, required
from fairlead.world.patches.fields import (
    KEY_DEFAULTS,
    Tree,
    drop_changed,
    fields_of,
    inside,
    is_atomic,
    items_by_key,
    leaves,
    subtract,
)
from fairlead.world.schema.types import Field
from fairlead.world.timestamps import stamp

__all__ = ["apply_configuration", "release_changed"]

Object = dict[str, Any]

# Identity and bookkeeping are nobody's fields.
_NOT_OWNED = frozenset({"apiVersion", "kind"})
_NOT_OWNED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)


def apply_configuration(
    old: Object | None, applied: Any, struct: str, *, manager: str, force: bool, now: datetime
) -> Object:
    """The object after `manager` applied its configuration; 409 when another applier disagrees."""
    if not manager:
        raise invalid_options("PatchOptions", required("fieldManager", "is required for apply patch"))
    if not isinstance(applied, dict):
        raise bad_request("apply patch must be an object")
    if not applied.get("apiVersion") or not applied.get("kind"):
        said = applied.get("apiVersion") or "/"
        raise bad_request(f"invalid object type: {said}, Kind={applied.get('kind', '')}")
    metadata = applied.get("metadata") or {}
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    owned = fields_of(_ownable(applied), struct)
    live = old or {"metadata": {}}
    entries = list(live["metadata"].get("managedFields") or ())
    mine = next((entry for entry in entries if _is(entry, manager)), None)
    others = [entry for entry in entries if entry is not mine and entry.get("operation") == "Apply"]
    _check_conflicts(others, owned, live, applied, force=force)
    whole = Field(type=struct or "any")
    merged: Object = _merge(live, _without_bookkeeping(applied), whole)
    if mine is not None:
        given_up = subtract(mine["fieldsV1"], owned, whole)
        for entry in others:
            given_up = subtract(given_up, entry["fieldsV1"], whole)
        merged = _remove(merged, given_up, whole)
    if force:
        others = [{**entry, "fieldsV1": subtract(entry["fieldsV1"], owned, whole)} for entry in others]
    entry = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": applied.get("apiVersion", ""),
        "time": stamp(now),
        "fieldsType": "FieldsV1",
        "fieldsV1": owned,
    }
    if mine is not None and mine["fieldsV1"] == owned:
        entry["time"] = mine["time"]  # applying the same again changes nothing
    rest = [held for held in entries if held is not mine and held.get("operation") != "Apply"]
    kept = [held for held in others if held["fieldsV1"]]
    merged["metadata"] = {**merged["metadata"], "managedFields": _sorted([*kept, entry]) + rest}
    return merged


def release_changed(new: Object, old: Object, struct: str) -> None:
    """Take from appliers (in place, in `new`) the fields that a plain write changed."""
    entries = old["metadata"].get("managedFields")
    if not entries:
        return
    left = []
    for entry in entries:
        tree = drop_changed(entry.get("fieldsV1") or {}, old, new, Field(type=struct or "any"))
        if tree:
            left.append(entry if tree == entry.get("fieldsV1") else {**entry, "fieldsV1": tree})
    if left:
        new["metadata"]["managedFields"] = left
    else:
        new["metadata"].pop("managedFields", None)


def _is(entry: Object, manager: str) -> bool:
    return (
        entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource")
    )


def _ownable(applied: Object) -> Object:
    item = {key: value for key, value in applied.items() if key not in _NOT_OWNED}
    metadata = {
        key: value
        for key, value in (item.pop("metadata", None) or {}).items()
        if key not in _NOT_OWNED_METADATA
    }
    return {"metadata": metadata, **item} if metadata else item


def _without_bookkeeping(applied: Object) -> Object:
    metadata = dict(applied.get("metadata") or {})
    for field in ("managedFields", "creationTimestamp", "generation", "selfLink"):
        metadata.pop(field, None)
    return {**applied, "metadata": metadata}


def _check_conflicts(
    others: Iterable[Object], owned: Tree, live: Object, applied: Object, *, force: bool
) -> None:
    if force:
        return
    conflicts = []
    for entry in others:
        for path in leaves(entry["fieldsV1"]):
            shared = _holds(owned, path)
            if shared and path[-1] != "." and _read(live, path) != _read(applied, path):
                conflicts.append((entry["manager"], path))
    if not conflicts:
        return
    causes: list[dict[str, object]] = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{manager}"',
            "field": _dotted(path),
        }
        for manager, path in conflicts
    ]
    plural = "s" if len(conflicts) > 1 else ""
    managers = sorted({manager for manager, _ in conflicts})
    said = "; ".join(
        f'conflict with "{name}": ' + ", ".join(_dotted(path) for who, path in conflicts if who == name)
        if sum(1 for who, _ in conflicts if who == name) == 1
        else f'conflicts with "{name}":\n- '
        + "\n- ".join(_dotted(path) for who, path in conflicts if who == name)
        for name in managers
    )
    raise ApiError.of(
        409,
        "Conflict",
        f"Apply failed with {len(conflicts)} conflict{plural}: {said}",
        details={"causes": causes},
    )


def _merge(live: Any, applied: Any, field: Field) -> Any:
    if applied is None:
        return live
    if is_atomic(field, applied) or type(live) is not type(applied):
        return applied
    if isinstance(applied, dict):
        merged = dict(live)
        for key, value in applied.items():
            merged[key] = _merge(merged.get(key), value, inside(field, f"f:{key}"))
        return merged
    held, wanted = items_by_key(live, field), items_by_key(applied, field)
    below = inside(field, "k:")
    return [
        _merge(held[key], wanted[key], below)
        if key in held and key in wanted
        else (wanted.get(key) or held[key])
        for key in _woven(list(held), list(wanted))
    ]


def _woven(held: list[str], wanted: list[str]) -> list[str]:
    """Both lists in one: the applied order rules, and what only the live list has stays where it was.

    That is: after the items it followed there, as far as those are still to come in that order.
    """
    shared = [key for key in wanted if key in held]
    order: list[str] = []
    at = 0
    for key in wanted:
        # What the live list has before the next shared item comes before it here as well.
        while at < len(held) and held[at] != key:
            if held[at] in wanted:
                if not shared or held[at] == shared[0] or key not in shared:
                    break
            else:
                order.append(held[at])
            at += 1
        order.append(key)
        if shared and shared[0] == key:
            shared.pop(0)
        if at < len(held) and held[at] == key:
            at += 1
    return order + [key for key in held[at:] if key not in wanted]


def _remove(value: Any, tree: Tree, field: Field) -> Any:
    if isinstance(value, dict):
        left = dict(value)
        for key, inner in tree.items():
            name = key[2:]
            if not key.startswith("f:") or name not in left:
                continue
            if not inner:
                del left[name]
            else:
                left[name] = _remove(left[name], inner, inside(field, key))
        return left
    if isinstance(value, list):
        below = inside(field, "k:")
        items = []
        for key, item in items_by_key(value, field).items():
            if key not in tree:
                items.append(item)
            elif tree[key] and "." not in tree[key]:
                items.append(_remove(item, tree[key], below))
        return items
    return value


def _holds(tree: Tree, path: tuple[str, ...]) -> bool:
    for key in path:
        if key not in tree:
            return False
        tree = tree[key]
    return True


def _read(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        kind, name = key[:2], key[2:]
        if kind == "f:":
            value = value.get(name) if isinstance(value, dict) else None
        elif isinstance(value, list):
            value = next((item for item in value if _matches(item, kind, name)), None)
        else:
            return None
    return value


def _matches(item: Any, kind: str, name: str) -> bool:
    wanted = json.loads(name)
    if kind == "v:":
        return bool(item == wanted)
    return isinstance(item, dict) and all(
        item.get(key, KEY_DEFAULTS.get(key)) == value for key, value in wanted.items()
    )


def _dotted(path: tuple[str, ...]) -> str:
    text = ""
    for key in path:
        if key.startswith("f:"):
            text += f".{key[2:]}"
        elif key.startswith("k:"):
            pairs = json.loads(key[2:]).items()
            text += "[" + ",".join(f"{name}={json.dumps(value)}" for name, value in pairs) + "]"
        else:
            text += f"[={key[2:]}]"
    return text


def _sorted(entries: list[Object]) -> list[Object]:
    return sorted(entries, key=lambda entry: (entry.get("time", ""), entry["manager"]))
