"""Strategic merge patch: like a merge patch, but lists merge by the keys that their types declare.

Directives: ``$patch`` (replace, delete, merge), ``$retainKeys``, ``$setElementOrder/FIELD`` and
``$deleteFromPrimitiveList/FIELD``. Only built-in kinds have types, so only they take this patch.
"""

from __future__ import annotations

from typing import Any

from fairlead.errors import ApiError
from fairlead.world.answers import bad_request
from fairlead.world.schema.types import Field, table

__all__ = ["strategic_patch"]

Object = dict[str, Any]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DROP = "$deleteFromPrimitiveList/"
_UNTYPED = Field(type="any")


def strategic_patch(old: Object, patch: Any, struct: str) -> Object:
    """The object of type `struct` that `patch` makes of `old`."""
    if not isinstance(patch, dict):
        raise bad_request("strategic merge patch must be an object")
    return _merge_map(old, patch, struct)


def _merge_map(old: Object, patch: Object, struct: str) -> Object:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type found: {directive}")
    merged = dict(old)
    if _RETAIN in patch:
        kept = set(patch[_RETAIN])
        merged = {key: value for key, value in merged.items() if key in kept}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        field = _field(struct, key)
        if value is None or (isinstance(value, dict) and _DIRECTIVE in value and key not in merged):
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merge_map(merged[key], value, _inside(field))
        elif isinstance(value, list):
            merged[key] = _merge_list(merged.get(key), value, field, patch.get(_ORDER + key))
        else:
            merged[key] = _plain(value)
    _merge_by_directive_alone(merged, patch, struct)
    return merged


def _merge_by_directive_alone(merged: Object, patch: Object, struct: str) -> None:
    for key, value in patch.items():
        if key.startswith(_DROP):
            name = key.removeprefix(_DROP)
            if isinstance(merged.get(name), list):
                merged[name] = [item for item in merged[name] if item not in value]
        elif key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            if name not in patch and isinstance(merged.get(name), list):
                merged[name] = _ordered(merged[name], merged[name], value, _field(struct, name))


def _merge_list(old: Any, patch: list[Any], field: Field, order: Any) -> list[Any]:
    if "merge" not in field.patch.split(","):
        return [_plain(item) for item in patch]
    old = old if isinstance(old, list) else []
    if not field.merge_key:
        merged = list(dict.fromkeys([*old, *patch]))
        return _ordered(merged, old, patch if order is None else order, field)
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [_plain(item) for item in patch if _DIRECTIVE not in item]
    merged = list(old)
    for item in patch:
        key = _key_of(item, field)
        at = next((index for index, held in enumerate(merged) if held.get(field.merge_key) == key), None)
        if item.get(_DIRECTIVE) == "delete":
            merged = [held for held in merged if held.get(field.merge_key) != key]
        elif at is None:
            merged.append(_plain(item))
        else:
            merged[at] = _merge_map(merged[at], item, field.element)
    named = [item for item in patch if item.get(_DIRECTIVE) != "delete"]
    return _ordered(merged, old, named if order is None else order, field)


def _ordered(merged: list[Any], live: list[Any], order: list[Any], field: Field) -> list[Any]:
    """Items named in `order` in that order; the others where the live list had them, relatively.

    Without an order of its own, a patch orders what it names.
    """

    def identity(item: Any) -> Any:
        return item.get(field.merge_key) if isinstance(item, dict) else item

    wanted = [identity(item) for item in order]
    was = [identity(item) for item in live]
    named = sorted(
        (item for item in merged if identity(item) in wanted), key=lambda item: wanted.index(identity(item))
    )
    others = [item for item in merged if identity(item) not in wanted]
    result: list[Any] = []
    while named or others:
        if not others:
            result.append(named.pop(0))
        elif not named:
            result.append(others.pop(0))
        else:
            left, right = identity(others[0]), identity(named[0])
            first = left in was and right in was and was.index(left) < was.index(right)
            result.append((others if first else named).pop(0))
    return result


def _key_of(item: Any, field: Field) -> Any:
    if not isinstance(item, dict) or field.merge_key not in item:
        raise ApiError.of(
            422,
            "Invalid",
            f"map: {item} does not contain declared merge key: {field.merge_key}",
        )
    return item[field.merge_key]


def _field(struct: str, key: str) -> Field:
    return table().types.get(struct, {}).get(key, _UNTYPED)


def _inside(field: Field) -> str:
    return field.type if "." in field.type and field.type[:2] not in ("[]", "{}") else ""


def _plain(value: Any) -> Any:
    # What meets nothing to merge with is taken over as it is: its directives are not followed, only dropped.
    if isinstance(value, dict):
        return {
            key: _plain(member)
            for key, member in value.items()
            if not key.startswith("$") and member is not None
        }
    if isinstance(value, list):
        return [_plain(member) for member in value]
    return value
