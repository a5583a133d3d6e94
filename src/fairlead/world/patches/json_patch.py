"""JSON patch (RFC 6902), applied as the API server applies it: in order, all or nothing."""

from __future__ import annotations

from typing import Any

from fairlead.errors import ApiError
from fairlead.world.answers import bad_request, patch_refused

__all__ = ["json_patch"]

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
            return _put(document, path, operation.get("value"), operation, insert=True)
        case "remove":
            return _drop(document, path, operation)
        case "replace":
            _read(document, path[:-1], operation)  # a member that is not there yet is added
            return _put(document, path, operation.get("value"), operation, insert=False)
        case "move":
            source = _tokens(operation.get("from"))
            value = _read(document, source, operation)
            return _put(_drop(document, source, operation), path, value, operation, insert=True)
        case "copy":
            value = _read(document, _tokens(operation.get("from")), operation)
            return _put(document, path, value, operation, insert=True)
        case "test":
            try:
                held = _read(document, path, operation)
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


def _read(document: Any, path: list[str], operation: dict[str, Any]) -> Any:
    for token in path:
        document = _member(document, token, operation)
    return document


def _member(container: Any, token: str, operation: dict[str, Any]) -> Any:
    if isinstance(container, dict) and token in container:
        return container[token]
    if isinstance(container, list):
        return container[_index(container, token, operation, len(container) - 1)]
    raise patch_refused()


def _put(document: Any, path: list[str], value: Any, operation: dict[str, Any], *, insert: bool) -> Any:
    if not path:
        return value
    token, rest = path[0], path[1:]
    if isinstance(document, dict):
        if rest:
            value = _put(_member(document, token, operation), rest, value, operation, insert=insert)
        return {**document, token: value}
    if isinstance(document, list):
        changed = list(document)
        if rest:
            index = _index(document, token, operation, len(document) - 1)
            changed[index] = _put(changed[index], rest, value, operation, insert=insert)
        elif insert:
            at = len(document) if token == "-" else _index(document, token, operation, len(document))
            changed.insert(at, value)
        else:
            changed[_index(document, token, operation, len(document) - 1)] = value
        return changed
    raise patch_refused()


def _drop(document: Any, path: list[str], operation: dict[str, Any]) -> Any:
    if not path:
        return None
    token, rest = path[0], path[1:]
    if isinstance(document, dict) and token in document:
        changed = dict(document)
        if rest:
            changed[token] = _drop(document[token], rest, operation)
        else:
            del changed[token]
        return changed
    if isinstance(document, list):
        index = _index(document, token, operation, len(document) - 1)
        items = list(document)
        if rest:
            items[index] = _drop(items[index], rest, operation)
        else:
            del items[index]
        return items
    raise patch_refused()


def _index(container: list[Any], token: str, operation: dict[str, Any], last: int) -> int:
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
