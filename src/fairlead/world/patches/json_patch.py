"""JSON patch (RFC 6902), applied as the API server applies it: in order, all or nothing."""

from __future__ import annotations

from typing import Any

from fairlead.errors import ApiError
from fairlead.world.answers import bad_request

__all__ = ["json_patch"]


def json_patch(old: Any, operations: Any) -> Any:
    """The document that the operations make of `old`; 422 when one cannot be done.

    >>> json_patch({"a": [1, 2]}, [{"op": "add", "path": "/a/-", "value": 3}])
    {'a': [1, 2, 3]}
    """
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    document = old
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request("json: cannot unmarshal into Go value of type jsonpatch.Operation")
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
            _read(document, path, operation)
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
                raise _refused(f"testing value {operation.get('path')} failed: test failed")
            return document
    raise _refused(f"Unexpected kind: {op}")


def _tokens(path: object) -> list[str]:
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise _refused(f"invalid path {path!r}")
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
    raise _missing(operation)


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
    raise _missing(operation)


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
    raise _missing(operation)


def _index(container: list[Any], token: str, operation: dict[str, Any], last: int) -> int:
    negative = token.startswith("-")
    digits = token[1:] if negative else token
    if not digits.isdecimal():
        raise _missing(operation)
    index = int(digits)
    if negative:  # counted from the end, an extension of the API server's library
        index = len(container) - index
    if not 0 <= index <= last:
        raise _missing(operation)
    return index


def _missing(operation: dict[str, Any]) -> ApiError:
    op, path = operation.get("op"), operation.get("path")
    return _refused(f"{op} operation does not apply: doc is missing path: {path}: missing value")


def _refused(why: str) -> ApiError:
    return ApiError.of(
        422, "Invalid", f"the server rejected our request due to an error in our request: {why}"
    )
