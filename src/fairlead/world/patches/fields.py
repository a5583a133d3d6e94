"""Which fields a manager owns: the ``FieldsV1`` trees of server-side apply.

A tree's keys are ``f:NAME`` for a member, ``k:{…}`` for an item of a keyed list, ``v:…`` for an item
of a set; ``.`` marks that the item itself is owned. A leaf is an empty tree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fairlead.world.schema.types import Field, table

__all__ = [
    "KEY_DEFAULTS",
    "Tree",
    "drop_changed",
    "element_type",
    "field_at",
    "fields_of",
    "inside",
    "is_atomic",
    "items_by_key",
    "leaves",
    "subtract",
]

Tree = dict[str, Any]
_UNTYPED = Field(type="any")
KEY_DEFAULTS = {"protocol": "TCP"}  # the one key of a list that may be left out


def field_at(struct: str, key: str) -> Field:
    """The type of a member; untyped when the struct is not ours."""
    return table().types.get(struct, {}).get(key, _UNTYPED)


def element_type(field: Field) -> str:
    """What is inside a field: the struct of its items or members, or nothing known."""
    return field.element if "." in field.element else ""


def is_atomic(field: Field, value: Any) -> bool:
    """Whether a value is owned as a whole."""
    if isinstance(value, dict):
        return field.atomic or field.type in table().atomic
    if isinstance(value, list):
        return field.list not in ("map", "set")
    return True


def fields_of(value: Any, struct: str) -> Tree:
    """The tree of everything that `value`, of type `struct`, sets."""
    tree: Tree = {}
    for key, member in value.items():
        field = field_at(struct, key)
        tree[f"f:{key}"] = _fields_in(member, field)
    return tree


def _fields_in(value: Any, field: Field) -> Tree:
    if is_atomic(field, value) or not value:
        return {}
    if isinstance(value, dict):
        return fields_of(value, element_type(field))
    tree: Tree = {}
    for key, item in items_by_key(value, field).items():
        tree[key] = {".": {}, **fields_of(item, element_type(field))} if isinstance(item, dict) else {}
    return tree


def items_by_key(value: list[Any], field: Field) -> dict[str, Any]:
    """The items of a keyed list or set under their path elements."""
    if field.list == "set":
        return {f"v:{json.dumps(item, separators=(',', ':'))}": item for item in value}
    found = {}
    for item in value:
        keys = {key: item.get(key, KEY_DEFAULTS.get(key)) for key in sorted(field.keys)}
        keys = {key: value for key, value in keys.items() if value is not None}
        found[f"k:{json.dumps(keys, separators=(',', ':'))}"] = item
    return found


def leaves(tree: Tree, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of a tree's leaves."""
    for key, inner in tree.items():
        if inner:
            yield from leaves(inner, (*path, key))
        else:
            yield (*path, key)


def subtract(tree: Tree, other: Tree, field: Field) -> Tree:
    """What `tree` owns, in a value of type `field`, and `other` does not.

    A struct that `other` does not touch at all is given as a leaf: it goes with its defaults.
    """
    left: Tree = {}
    for key, inner in tree.items():
        below = inside(field, key)
        if key not in other:
            left[key] = {} if key.startswith("f:") and _struct(below) else inner
        elif inner:
            rest = subtract(inner, other[key], below)
            if rest:
                left[key] = rest
    return left


def inside(field: Field, key: str) -> Field:
    """The type under a path element of a value of type `field`."""
    if key.startswith("f:"):
        struct = _struct(field)
        return field_at(struct, key[2:]) if struct else Field(type=element_type(field) or "any")
    return Field(type=element_type(field) or "any")


def drop_changed(tree: Tree, old: Any, new: Any, field: Field) -> Tree:
    """What is still owned of `tree` after somebody else turned `old` into `new`."""
    if old == new:
        return tree
    if not tree or is_atomic(field, new) or type(old) is not type(new):
        return {}
    before = _members(old, field)
    after = _members(new, field)
    kept: Tree = {}
    for key, inner in tree.items():
        if key == ".":
            kept[key] = inner
        elif key in before and key in after:
            if before[key] == after[key]:
                kept[key] = inner
            elif inner:
                rest = drop_changed(inner, before[key], after[key], inside(field, key))
                if rest:
                    kept[key] = rest
    return kept


def _members(value: Any, field: Field) -> dict[str, Any]:
    if isinstance(value, dict):
        return {f"f:{key}": member for key, member in value.items()}
    return items_by_key(value, field)


def _struct(field: Field) -> str:
    return field.type if "." in field.type and field.type[:2] not in ("[]", "{}") else ""
