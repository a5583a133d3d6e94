"""Columns, and the small words that many of them share: ages, containers, selectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fairlead.world.timestamps import parse

__all__ = [
    "Column",
    "Printer",
    "age",
    "age_of",
    "columns",
    "containers",
    "count_in",
    "human",
    "labels",
    "name_of",
    "selector",
]

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column; priority 1 is shown by ``-o wide`` only."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns of a kind and how an object fills them."""

    columns: tuple[Column, ...]
    cells: Callable[[Object, datetime], list[Any]]


def columns(*names: str, wide: tuple[str, ...] = ()) -> tuple[Column, ...]:
    """Columns by name: ``Count:integer`` gives a type; `wide` ones come last."""
    made = []
    for index, spelled in enumerate((*names, *wide)):
        name, _, kind = spelled.partition(":")
        priority = 0 if index < len(names) else 1
        made.append(Column(name, kind or "string", priority, "name" if name == "Name" else ""))
    return tuple(made)


def age(stamp: str | None, now: datetime) -> str:
    """How long ago, as kubectl says it."""
    return human(now - parse(stamp)) if stamp else "<unknown>"


def age_of(item: Object, now: datetime) -> str:
    """How old an object is."""
    return age(item["metadata"].get("creationTimestamp"), now)


def name_of(item: Object) -> str:
    """An object's name."""
    name: str = item["metadata"]["name"]
    return name


def count_in(item: Object, field: str) -> Any:
    """A number in an object's status; 0 when it is not there."""
    return (item.get("status") or {}).get(field) or 0


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


def containers(spec: Object) -> list[str]:
    """The names and the images of a pod spec's containers, each joined."""
    held = spec.get("containers") or ()
    return [
        ",".join(item.get("name", "") for item in held),
        ",".join(item.get("image", "") for item in held),
    ]


def labels(held: dict[str, str] | None) -> str:
    """Labels in one cell."""
    if not held:
        return "<none>"
    return ",".join(f"{key}={value}" for key, value in sorted(held.items()))


def selector(held: Object | None) -> str:
    """A label selector in one cell."""
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
    return ",".join(sorted(parts)) or "<none>"
