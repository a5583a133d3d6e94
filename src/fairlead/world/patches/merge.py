"""JSON merge patch (RFC 7386): members replace, null removes, lists are replaced as a whole."""

from __future__ import annotations

from typing import Any

__all__ = ["merge_patch"]


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
