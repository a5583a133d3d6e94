"""The four ways to change an object by saying what should differ.

JSON patch and merge patch are generic; strategic merge and apply know the kinds' lists. All are
pure: they return a new document and leave the old one alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Literal

from fairlead.errors import ApiError
from fairlead.world.api_errors import bad_request, invalid_options, patch_refused, required, unsupported_media
from fairlead.world.objects import stamp
from fairlead.world.schema.resources import Served
from fairlead.world.schema.types import Field, struct_of, table

Object = dict[str, Any]
PatchKind = Literal["json", "merge", "strategic", "apply"]

_NOT_A_MAP = (
    "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
)
_ACCEPTED = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"


def apply_patch(
    kind: PatchKind,
    served: Served,
    old: dict[str, Any],
    patch: Any,
    *,
    manager: str = "",
    force: bool = False,
    now: datetime,
) -> dict[str, Any]:
    """The object that a patch makes of `old` (for ``apply`` of a new object: of an empty one)."""
    struct = struct_of(served)
    result: Any
    match kind:
        case "json":
            result = json_patch(old, patch)
        case "merge":
            if not isinstance(patch, dict):
                raise bad_request(_NOT_A_MAP)
            result = merge_patch(old, patch)
        case "strategic":
            if struct is None:
                raise unsupported_media(_ACCEPTED)
            result = strategic_patch(old, patch, struct)
        case "apply":
            result = _apply_configuration(old, patch, struct or "", manager=manager, force=force, now=now)
    if not isinstance(result, dict):
        raise patch_refused()
    return result


def merge_patch(old: Any, patch: Any) -> Any:
    """The document that `patch` makes of `old`.

    >>> merge_patch({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None}, "d": [2]})
    {'a': {'c': 2}, 'd': [2]}
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


Edit = Callable[[Any, str], Any]
"""Changes a container, which is the patch's own copy, at a token; returns it."""

_NOT_A_PATCH = (
    "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
)


def json_patch(old: Any, operations: Any) -> Any:
    """The document that the operations make of `old`; 422 when one cannot be done.

    >>> json_patch({"a": [1, 2]}, [{"op": "add", "path": "/a/-", "value": 3}])
    {'a': [1, 2, 3]}
    """
    if not isinstance(operations, list):
        raise bad_request(_NOT_A_PATCH)
    document = old
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request(_NOT_A_PATCH)
        document = _do(document, operation)
    return document


def _do(document: Any, operation: dict[str, Any]) -> Any:
    op, path = operation.get("op"), _tokens(operation.get("path"))
    match op:
        case "add":
            return _changed(document, path, _adding(operation.get("value")))
        case "remove":
            return _changed(document, path, _removing)
        case "replace":
            return _changed(document, path, _replacing(operation.get("value")))
        case "move":
            source = _tokens(operation.get("from"))
            value = _at(document, source)
            return _changed(_changed(document, source, _removing), path, _adding(value))
        case "copy":
            return _changed(document, path, _adding(_at(document, _tokens(operation.get("from")))))
        case "test":
            try:
                held = _at(document, path)
            except ApiError:
                held = None  # an absent member equals null
            if held != operation.get("value"):
                raise patch_refused()
            return document
    raise patch_refused()


def _tokens(path: object) -> list[str]:
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise patch_refused()
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _at(document: Any, path: list[str]) -> Any:
    for token in path:
        document = document[_key(document, token)]
    return document


def _changed(document: Any, path: list[str], edit: Edit) -> Any:
    """A copy of the document in which the container that holds the path's last token was edited."""
    if not path:
        return edit({"": document}, "").get("")
    copied = document.copy() if isinstance(document, dict | list) else document
    if len(path) > 1:
        key = _key(copied, path[0])
        copied[key] = _changed(copied[key], path[1:], edit)
        return copied
    return edit(copied, path[0])


def _adding(value: Any) -> Edit:
    def edit(container: Any, token: str) -> Any:
        if isinstance(container, list):
            at = len(container) if token == "-" else _index(container, token, len(container))
            container.insert(at, value)
        elif isinstance(container, dict):
            container[token] = value
        else:
            raise patch_refused()
        return container

    return edit


def _replacing(value: Any) -> Edit:
    def edit(container: Any, token: str) -> Any:
        # A member that is not there yet is added.
        container[token if isinstance(container, dict) else _key(container, token)] = value
        return container

    return edit


def _removing(container: Any, token: str) -> Any:
    del container[_key(container, token)]
    return container


def _key(container: Any, token: str) -> Any:
    if isinstance(container, dict) and token in container:
        return token
    if isinstance(container, list):
        return _index(container, token, len(container) - 1)
    raise patch_refused()


def _index(container: list[Any], token: str, last: int) -> int:
    negative = token.startswith("-")
    digits = token[1:] if negative else token
    if not digits.isdecimal():
        raise patch_refused()
    index = int(digits)
    if negative:  # counted from the end, an extension of the API server's library
        index = len(container) - index
    if not 0 <= index <= last:
        raise patch_refused()
    return index


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
        field = _field_at(struct, key)
        if value is None or (isinstance(value, dict) and _DIRECTIVE in value and key not in merged):
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merge_map(merged[key], value, _struct(field))
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
                merged[name] = _ordered(merged[name], merged[name], value, _field_at(struct, name))


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


# Fields of identity and bookkeeping have no manager.
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


def _apply_configuration(
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
    owned = _fields_of(_ownable(applied), struct)
    live = old or {"metadata": {}}
    entries = list(live["metadata"].get("managedFields") or ())
    mine = next((entry for entry in entries if _is(entry, manager)), None)
    others = [entry for entry in entries if entry is not mine and entry.get("operation") == "Apply"]
    _check_conflicts(others, owned, live, applied, force=force)
    whole = Field(type=struct or "any")
    merged: Object = _merge(live, _without_bookkeeping(applied), whole)
    if mine is not None:
        given_up = _subtract(mine["fieldsV1"], owned, whole)
        for entry in others:
            given_up = _subtract(given_up, entry["fieldsV1"], whole)
        merged = _remove(merged, given_up, whole)
    if force:
        others = [{**entry, "fieldsV1": _subtract(entry["fieldsV1"], owned, whole)} for entry in others]
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
        tree = _drop_changed(entry.get("fieldsV1") or {}, old, new, Field(type=struct or "any"))
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
        for path in _leaves(entry["fieldsV1"]):
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
    if _is_atomic(field, applied) or type(live) is not type(applied):
        return applied
    if isinstance(applied, dict):
        merged = dict(live)
        for key, value in applied.items():
            merged[key] = _merge(merged.get(key), value, _inside(field, f"f:{key}"))
        return merged
    held, wanted = _items_by_key(live, field), _items_by_key(applied, field)
    below = _inside(field, "k:")
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
                left[name] = _remove(left[name], inner, _inside(field, key))
        return left
    if isinstance(value, list):
        below = _inside(field, "k:")
        items = []
        for key, item in _items_by_key(value, field).items():
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
        item.get(key, _KEY_DEFAULTS.get(key)) == value for key, value in wanted.items()
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


Tree = dict[str, Any]
_KEY_DEFAULTS = {"protocol": "TCP"}  # the one key of a list that may be left out


def _field_at(struct: str, key: str) -> Field:
    """The type of a member; untyped when the struct is not ours."""
    return table().types.get(struct, {}).get(key, _UNTYPED)


def _element(field: Field) -> str:
    """What is inside a field: the struct of its items or members, or nothing known."""
    return field.element if "." in field.element else ""


def _is_atomic(field: Field, value: Any) -> bool:
    """Whether a value is owned as a whole."""
    if isinstance(value, dict):
        return field.atomic or field.type in table().atomic
    if isinstance(value, list):
        return field.list not in ("map", "set")
    return True


def _fields_of(value: Any, struct: str) -> Tree:
    """The tree of everything that `value`, of type `struct`, sets."""
    tree: Tree = {}
    for key, member in value.items():
        field = _field_at(struct, key)
        tree[f"f:{key}"] = _fields_in(member, field)
    return tree


def _fields_in(value: Any, field: Field) -> Tree:
    if _is_atomic(field, value) or not value:
        return {}
    if isinstance(value, dict):
        return _fields_of(value, _element(field))
    tree: Tree = {}
    for key, item in _items_by_key(value, field).items():
        tree[key] = {".": {}, **_fields_of(item, _element(field))} if isinstance(item, dict) else {}
    return tree


def _items_by_key(value: list[Any], field: Field) -> dict[str, Any]:
    """The items of a keyed list or set under their path elements."""
    if field.list == "set":
        return {f"v:{json.dumps(item, separators=(',', ':'))}": item for item in value}
    found = {}
    for item in value:
        keys = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in sorted(field.keys)}
        keys = {key: value for key, value in keys.items() if value is not None}
        found[f"k:{json.dumps(keys, separators=(',', ':'))}"] = item
    return found


def _leaves(tree: Tree, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of a tree's leaves."""
    for key, inner in tree.items():
        if inner:
            yield from _leaves(inner, (*path, key))
        else:
            yield (*path, key)


def _subtract(tree: Tree, other: Tree, field: Field) -> Tree:
    """What `tree` owns, in a value of type `field`, and `other` does not.

    A struct that `other` does not touch at all is given as a leaf: it goes with its defaults.
    """
    left: Tree = {}
    for key, inner in tree.items():
        below = _inside(field, key)
        if key not in other:
            left[key] = {} if key.startswith("f:") and _struct(below) else inner
        elif inner:
            rest = _subtract(inner, other[key], below)
            if rest:
                left[key] = rest
    return left


def _inside(field: Field, key: str) -> Field:
    """The type under a path element of a value of type `field`."""
    if key.startswith("f:"):
        struct = _struct(field)
        return _field_at(struct, key[2:]) if struct else Field(type=_element(field) or "any")
    return Field(type=_element(field) or "any")


def _drop_changed(tree: Tree, old: Any, new: Any, field: Field) -> Tree:
    """What is still owned of `tree` after another manager turned `old` into `new`."""
    if old == new:
        return tree
    if not tree or _is_atomic(field, new) or type(old) is not type(new):
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
                rest = _drop_changed(inner, before[key], after[key], _inside(field, key))
                if rest:
                    kept[key] = rest
    return kept


def _members(value: Any, field: Field) -> dict[str, Any]:
    if isinstance(value, dict):
        return {f"f:{key}": member for key, member in value.items()}
    return _items_by_key(value, field)


def _struct(field: Field) -> str:
    return field.type if "." in field.type and field.type[:2] not in ("[]", "{}") else ""
