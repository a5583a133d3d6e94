"""JSON Patch (RFC 6902), built step by step or as the difference of two documents."""

from __future__ import annotations

from typing import Any

import msgspec


def escape(token: str) -> str:
    """One token of a JSON pointer.

    >>> escape("fairlead.dev/slot~1")
    'fairlead.dev~1slot~01'
    """
    return token.replace("~", "~0").replace("/", "~1")


class JsonPatch:
    """Operations in order; paths are given as tokens, escaping is done here.

    >>> JsonPatch().test(("metadata", "uid"), "u1").add(("metadata", "labels", "a/b"), "c").operations[1]
    {'op': 'add', 'path': '/metadata/labels/a~1b', 'value': 'c'}
    """

    __slots__ = ("operations",)

    def __init__(self) -> None:
        self.operations: list[dict[str, Any]] = []

    def add(self, path: tuple[str | int, ...], value: Any) -> JsonPatch:
        """Add a member or list item (``-`` appends); an existing member is overwritten."""
        return self._append("add", path, value)

    def replace(self, path: tuple[str | int, ...], value: Any) -> JsonPatch:
        """Replace what must exist."""
        return self._append("replace", path, value)

    def test(self, path: tuple[str | int, ...], value: Any) -> JsonPatch:
        """Fail the whole patch unless the value is there: a precondition."""
        return self._append("test", path, value)

    def remove(self, path: tuple[str | int, ...]) -> JsonPatch:
        """Remove what must exist."""
        self.operations.append({"op": "remove", "path": _pointer(path)})
        return self

    def encode(self) -> bytes:
        """The patch as a request body."""
        return msgspec.json.encode(self.operations)

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.operations)

    def _append(self, op: str, path: tuple[str | int, ...], value: Any) -> JsonPatch:
        self.operations.append({"op": op, "path": _pointer(path), "value": value})
        return self


def diff(old: dict[str, Any], new: dict[str, Any]) -> JsonPatch:
    """The patch that turns `old` into `new`: member by member, lists as a whole.

    >>> diff({"a": 1, "b": {"c": 2}}, {"b": {"c": 3}}).operations
    [{'op': 'remove', 'path': '/a'}, {'op': 'replace', 'path': '/b/c', 'value': 3}]
    """
    patch = JsonPatch()
    _diff(patch, (), old, new)
    return patch


def _diff(patch: JsonPatch, path: tuple[str | int, ...], old: dict[str, Any], new: dict[str, Any]) -> None:
    for key in old:
        if key not in new:
            patch.remove((*path, key))
    for key, value in new.items():
        if key not in old:
            patch.add((*path, key), value)
        elif value is old[key]:
            continue
        elif isinstance(value, dict) and isinstance(old[key], dict):
            _diff(patch, (*path, key), old[key], value)
        elif value != old[key] or type(value) is not type(old[key]):
            patch.replace((*path, key), value)


def _pointer(path: tuple[str | int, ...]) -> str:
    return "".join(f"/{escape(str(token))}" for token in path)
