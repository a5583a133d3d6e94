"""Custom resources held to their schemas: unknown fields dropped, defaults filled, values checked.

Structural schemas only, as v1 definitions must be, and value checks in the API server's words. Logical
junctors (anyOf and its kin) and CEL rules are taken as holding: the embedded cluster lets such mistakes
through, and the doors find them again when they read the object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fairlead.world import api_errors
from fairlead.world.api_errors import FieldError
from fairlead.world.schema.shape import copy_json

Object = dict[str, Any]
Schema = Mapping[str, Any]

# The API server knows these on every object, whatever the schema says.
_ROOT = ("apiVersion", "kind", "metadata")

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def prune(schema: Schema, item: Object) -> None:
    """Drop, in place, what the schema does not know."""
    for path in list(_unknown(schema, item, (), root=True)):
        holder: Any = item
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]


def unknown_to(schema: Schema, item: Object) -> list[str]:
    """The paths of fields that the schema does not know, as strict decoding names them."""
    return [_spelt(path) for path in _unknown(schema, item, (), root=True)]


def fill(schema: Schema, item: Any) -> None:
    """Set, in place, the defaults of fields that are not there."""
    if isinstance(item, dict):
        for name, field in (schema.get("properties") or {}).items():
            if name not in item and "default" in field:
                item[name] = copy_json(field["default"])
            if name in item:
                fill(field, item[name])
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping):
            for name, value in item.items():
                if name not in (schema.get("properties") or {}):
                    fill(extra, value)
    elif isinstance(item, list) and isinstance(schema.get("items"), Mapping):
        for value in item:
            fill(schema["items"], value)


def check(schema: Schema, item: Any, path: str = "") -> list[FieldError]:
    """What is wrong with an object, or with the part of it at `path`."""
    return list(_check(schema, item, path))


def _unknown(
    schema: Schema, item: Any, path: tuple[str | int, ...], *, root: bool = False
) -> Iterator[tuple[str | int, ...]]:
    if isinstance(item, dict):
        fields = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        for name, value in item.items():
            if root and name in _ROOT:
                continue
            if name in fields:
                yield from _unknown(fields[name], value, (*path, name))
            elif isinstance(extra, Mapping):
                yield from _unknown(extra, value, (*path, name))
            elif not extra and not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield (*path, name)
    elif isinstance(item, list) and isinstance(schema.get("items"), Mapping):
        for index, value in enumerate(item):
            yield from _unknown(schema["items"], value, (*path, index))


def _spelt(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _check(schema: Schema, item: Any, path: str) -> Iterator[FieldError]:
    wanted = schema.get("type")
    if item is None and schema.get("nullable"):
        return
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(item, bool) or not isinstance(item, int | str):
            yield _wrong_type(path, item, "integer,string")
            return
    elif wanted is not None and not _is(wanted, item):
        yield _wrong_type(path, item, wanted)
        return
    choices = schema.get("enum")
    if choices is not None and item not in choices:
        yield api_errors.not_supported(path, item, [str(choice) for choice in choices])
    if isinstance(item, str | list | dict):
        yield from _check_length(schema, item, path)
    if isinstance(item, str):
        pattern = schema.get("pattern")
        if pattern is not None and re.search(pattern, item) is None:
            yield api_errors.invalid_value(path, item, f"{path} in body should match '{pattern}'")
    elif isinstance(item, int | float) and not isinstance(item, bool):
        yield from _check_number(schema, item, path)
    elif isinstance(item, list):
        yield from _check_list(schema, item, path)
    elif isinstance(item, dict):
        yield from _check_object(schema, item, path)


# By type: the fields that bound a length from above and from below, and how too small a one is worded.
_BOUNDS = {
    str: ("maxLength", "minLength", "be at least {} chars long"),
    list: ("maxItems", "minItems", "have at least {} items"),
    dict: ("maxProperties", "minProperties", "have at least {} properties"),
}


def _check_length(schema: Schema, item: str | list[Any] | Object, path: str) -> Iterator[FieldError]:
    above, below, worded = _BOUNDS[type(item)]
    most, least = schema.get(above), schema.get(below)
    if most is not None and len(item) > most:
        yield api_errors.too_long(path, most) if isinstance(item, str) else _too_many(path, len(item), most)
    if least is not None and len(item) < least:
        shown = item if isinstance(item, str) else len(item)
        yield api_errors.invalid_value(path, shown, f"{path} in body should {worded.format(least)}")


def _check_number(schema: Schema, item: float, path: str) -> Iterator[FieldError]:
    most, least = schema.get("maximum"), schema.get("minimum")
    if most is not None and item > most:
        yield api_errors.invalid_value(path, item, f"{path} in body should be less than or equal to {most}")
    if least is not None and item < least:
        why = f"{path} in body should be greater than or equal to {least}"
        yield api_errors.invalid_value(path, item, why)


def _check_list(schema: Schema, item: list[Any], path: str) -> Iterator[FieldError]:
    each = schema.get("items")
    if isinstance(each, Mapping):
        for index, value in enumerate(item):
            yield from _check(each, value, f"{path}[{index}]")
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return
    seen: list[Any] = []
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    for index, value in enumerate(item):
        what = value
        if kind == "map":
            what = {key: value[key] for key in keys if isinstance(value, dict) and key in value}
        if what in seen:
            yield api_errors.duplicate(f"{path}[{index}]", what)
        seen.append(what)


def _check_object(schema: Schema, item: Object, path: str) -> Iterator[FieldError]:
    for name in schema.get("required") or ():
        if name not in item:
            yield api_errors.required(f"{path}.{name}" if path else name)
    fields = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    for name, value in item.items():
        if not path and name in _ROOT:
            continue
        inner = fields.get(name, extra)
        if isinstance(inner, Mapping):
            yield from _check(inner, value, f"{path}.{name}" if path else name)


def _is(wanted: str, item: Any) -> bool:
    if isinstance(item, bool):
        return wanted == "boolean"
    return isinstance(item, _TYPES[wanted])


def _wrong_type(path: str, item: Any, wanted: str) -> FieldError:
    found = _name_of(item)
    text = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return FieldError(path, "FieldValueTypeInvalid", text)


def _name_of(item: Any) -> str:
    if item is None:
        return "null"
    return next(
        name for name in ("boolean", "integer", "number", "string", "array", "object") if _is(name, item)
    )


def _too_many(path: str, found: int, most: int) -> FieldError:
    text = f"Too many: {found}: must have at most {most} item{'s' if most != 1 else ''}"
    return FieldError(path, "FieldValueTooMany", text)
