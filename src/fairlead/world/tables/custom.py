"""Rows of custom resources: the columns that their definitions declare, read with simple JSON paths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fairlead.world.tables.columns import Column, Printer, age

__all__ = ["printer_of_custom", "read_path"]

Object = dict[str, Any]

_AGE: Object = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_STEP = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)|\[(?P<index>\d+|\*)\]|\[\?\((?P<filter>[^)]*)\)\]|\['(?P<quoted>[^']*)'\]"""
)
_FILTER = re.compile(r"""@\.(?P<path>[\w.]+)\s*==\s*["'](?P<value>[^"']*)["']""")


def printer_of_custom(declared: Sequence[Object]) -> Printer:
    """The printer of a custom resource; without columns of its own it shows name and age."""
    given = list(declared) or [_AGE]
    made = (
        Column("Name", "string", 0, "name"),
        *(
            Column(
                str(column["name"]),
                str(column.get("type", "string")),
                int(column.get("priority") or 0),
                str(column.get("format") or ""),
                str(column.get("description") or ""),
            )
            for column in given
        ),
    )

    def cells(item: Object, now: datetime) -> list[Any]:
        row: list[Any] = [item["metadata"]["name"]]
        for column in given:
            found = read_path(item, column["jsonPath"])
            value = found[0] if found else None
            if column.get("type") == "date":
                value = age(value, now) if value else "<unknown>"
            elif column.get("type") == "string" and value is not None and not isinstance(value, str):
                value = _spelled(value)
            row.append(value)
        return row

    return Printer(made, cells)


def read_path(item: Any, path: str) -> list[Any]:
    """The values a JSON path names: members, indexes, ``[*]`` and ``[?(@.a=="b")]``.

    >>> read_path({"a": [{"t": "x", "v": 1}, {"t": "y", "v": 2}]}, '.a[?(@.t=="y")].v')
    [2]
    """
    found = [item]
    for step in _STEP.finditer(path):
        name = step["name"] or step["quoted"]
        if name is not None:
            name = name.replace("\\.", ".")
            found = [value[name] for value in found if isinstance(value, dict) and name in value]
        elif step["filter"] is not None:
            found = [
                each
                for value in found
                if isinstance(value, list)
                for each in value
                if _passes(each, step["filter"])
            ]
        elif step["index"] == "*":
            found = [each for value in found if isinstance(value, list) for each in value]
        else:
            index = int(step["index"])
            found = [value[index] for value in found if isinstance(value, list) and index < len(value)]
    return found


def _passes(item: Any, condition: str) -> bool:
    wanted = _FILTER.fullmatch(condition.strip())
    if wanted is None:
        return False
    return any(str(value) == wanted["value"] for value in read_path(item, "." + wanted["path"]))


def _spelled(value: Any) -> str:
    import json

    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else str(value)
