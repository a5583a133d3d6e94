"""Columns, and the cells that many kinds share: fields, ages, containers, selectors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fairlead.world.objects import parse_time

Object = dict[str, Any]

Cell = Callable[[Object, datetime], Any]
"""What an object puts into one column, at a time."""


@dataclass(frozen=True, slots=True)
class Column:
    """The head of one column; priority 1 is shown by ``-o wide`` only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns of a kind and how an object fills them."""

    columns: tuple[Column, ...]
    cells: Callable[[Object, datetime], list[Any]]


def heading(spelled: str) -> Column:
    """A column from its heading: ``Count:integer`` gives a type, ``+IP`` is for ``-o wide`` only."""
    name, _, kind = spelled.removeprefix("+").partition(":")
    form = "name" if name == "Name" else ""
    return Column(name, kind or "string", form, priority=int(spelled.startswith("+")))


def printer(cells: Mapping[str, Cell], *, named: bool = True) -> Printer:
    """A printer from headings and their cells; the first column is the object's name, unless it is not."""
    by_heading = {"Name": at("metadata.name"), **cells} if named else cells
    filled = tuple(by_heading.values())
    return Printer(
        tuple(heading(each) for each in by_heading), lambda item, now: [cell(item, now) for cell in filled]
    )


# Cells


def read_field(item: Any, path: str) -> Any:
    """The field at a dotted path; None where a member is missing."""
    for step in path.split("."):
        item = item.get(step) if isinstance(item, dict) else None
    return item


def at(path: str, otherwise: Any = "") -> Cell:
    """The field at a dotted path; `otherwise` where it is absent or empty."""

    def cell(item: Object, now: datetime) -> Any:
        found = read_field(item, path)
        return otherwise if found is None or found == "" else found

    return cell


def spelled(path: str, otherwise: str) -> Cell:
    """The same as text, whatever the field's type."""
    return lambda item, now: str(at(path, otherwise)(item, now))


def length_of(path: str) -> Cell:
    """How many items the list at a path has."""
    return lambda item, now: len(read_field(item, path) or ())


def containers(field: str, template: str = "spec.template.spec") -> Cell:
    """The names or images of a pod template's containers."""
    return lambda item, now: ",".join(
        each.get(field, "") for each in read_field(item, f"{template}.containers") or ()
    )


def labels(path: str) -> Cell:
    """The labels at a path."""

    def cell(item: Object, now: datetime) -> str:
        held = read_field(item, path) or {}
        return ",".join(f"{key}={value}" for key, value in sorted(held.items())) or "<none>"

    return cell


def selector(path: str) -> Cell:
    """The label selector at a path."""
    return lambda item, now: selector_text(read_field(item, path)) or "<none>"


def selector_text(held: Object | None) -> str:
    """A label selector as the API server spells it, sorted."""
    parts = [f"{key}={value}" for key, value in ((held or {}).get("matchLabels") or {}).items()]
    for term in (held or {}).get("matchExpressions") or ():
        values = ",".join(sorted(term.get("values") or ()))
        shown = {
            "In": f"{term['key']} in ({values})",
            "NotIn": f"{term['key']} notin ({values})",
            "Exists": term["key"],
            "DoesNotExist": f"!{term['key']}",
        }
        parts.append(shown.get(term["operator"], ""))
    return ",".join(sorted(parts))


def age_of(item: Object, now: datetime) -> str:
    """How old an object is."""
    return age(item["metadata"].get("creationTimestamp"), now)


def age(stamp: str | None, now: datetime) -> str:
    """How long ago, as kubectl says it."""
    return human(now - parse_time(stamp)) if stamp else "<unknown>"


def human(span: timedelta) -> str:
    """A duration in its two most telling units.

    >>> human(timedelta(seconds=119)), human(timedelta(minutes=9, seconds=5)), human(timedelta(hours=76))
    ('119s', '9m5s', '3d4h')
    """
    seconds = int(span.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // 60, seconds // 3600
    days = hours // 24
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"


_AGE: Object = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_STEP = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)|\[(?P<index>\d+|\*)\]|\[\?\((?P<filter>[^)]*)\)\]|\['(?P<quoted>[^']*)'\]"""
)
_FILTER = re.compile(r"""@\.(?P<path>[\w.]+)\s*==\s*["'](?P<value>[^"']*)["']""")


def printer_of_custom(declared: Sequence[Object]) -> Printer:
    """The printer of a custom resource; without columns of its own it shows name and age."""
    given = list(declared) or [_AGE]
    columns = [
        Column(
            str(each["name"]),
            str(each.get("type", "string")),
            str(each.get("format") or ""),
            str(each.get("description") or ""),
            int(each.get("priority") or 0),
        )
        for each in given
    ]

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

    return Printer((heading("Name"), *columns), cells)


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
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else str(value)
