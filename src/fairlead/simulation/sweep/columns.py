"""Columns of a sweep's table: paths in results, like ``waits.p95`` or ``workloads.web.availability``."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from fairlead.errors import BadInput
from fairlead.simulation.scenario.material import Material
from fairlead.simulation.simulate.result import Result
from fairlead.simulation.sweep.parameters import parts_of

_ALWAYS = ("pods.placed", "pods.pending", "waits.p95", "cost")


def default_columns(material: Material) -> tuple[str, ...]:
    """What is shown unless something else is chosen; availability, where workloads have a minimum."""
    measured = (one.name for one in material.scenario.spec.workloads if one.min_available is not None)
    return (*_ALWAYS, *(f"workloads.{name}.availability" for name in measured))


def check_columns(columns: Iterable[str], materials: Iterable[Material]) -> None:
    """Raise what is wrong with a column, before anything is played.

    A name is right when one of the scenarios has it. Names that only objects or nodes know are not looked at.
    """
    groups: dict[str, None] = {}
    workloads: dict[str, None] = {}
    others = False
    for one in materials:
        groups |= dict.fromkeys(group.name for group in one.groups)
        workloads |= dict.fromkeys(each.name for each in one.scenario.spec.workloads)
        workloads |= dict.fromkeys(each.name for each in one.scenario.spec.arrivals)
        others = others or bool(one.objects)
    names: dict[str, Iterable[str]] = (
        {"groups": groups} if others else {"groups": groups, "workloads": workloads}
    )
    seen: set[str] = set()
    for column in columns:
        called = f"--columns: {column!r}"
        if column in seen:
            raise BadInput(f"{called} is given twice")
        seen.add(column)
        parts = parts_of(column)
        if not parts:
            raise BadInput(f"{called} is not a path like cost or waits.p95")
        _check(parts, called)
        known = names.get(parts[0])
        if known is not None and parts[1] not in known:
            raise BadInput(f"{called}: there is no {parts[1]!r}; there are {', '.join(known) or 'none'}")


def value_at(result: Mapping[str, Any], column: str) -> float | None:
    """The number that a result, as plain data, has in a column; None where it has none.

    >>> value_at({"groups": [{"name": "big", "cost": 2.5}]}, "groups.big.cost")
    2.5
    """
    found: Any = result
    for part in parts_of(column):
        if isinstance(found, list | tuple):
            found = next((one for one in found if one["name"] == part), None)
        elif isinstance(found, dict):
            found = found.get(part)
    return found if isinstance(found, int | float) else None


def _check(parts: tuple[str, ...], called: str) -> None:
    kind: Any = Result
    for part in parts:
        if get_origin(kind) is tuple:
            kind = get_args(kind)[0]
            if not _is_part(kind):
                break
            continue
        if not _is_part(kind):
            break
        fields = {one.encode_name: one.name for one in msgspec.structs.fields(kind)}
        if part not in fields:
            allowed = ", ".join(name for name, own in fields.items() if _leads(get_type_hints(kind)[own]))
            raise BadInput(f"{called}: there is no {part!r}; there are {allowed}")
        kind = get_type_hints(kind)[fields[part]]
    else:
        if _is_number(kind):
            return
        if get_origin(kind) is tuple and _is_part(get_args(kind)[0]):
            raise BadInput(f"{called}: wants a name behind it")
        if _is_part(kind):
            allowed = ", ".join(one.encode_name for one in msgspec.structs.fields(kind))
            raise BadInput(f"{called}: wants one of {allowed} behind it")
    raise BadInput(f"{called} is not a number of a result")


def _leads(kind: Any) -> bool:
    """Whether there are numbers at or below a field."""
    if get_origin(kind) is tuple:
        return _leads(get_args(kind)[0])
    if _is_part(kind):
        return any(_leads(one) for one in get_type_hints(kind).values())
    return _is_number(kind)


def _is_part(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _is_number(kind: Any) -> bool:
    if get_origin(kind) in (Union, types.UnionType):
        return all(one is type(None) or _is_number(one) for one in get_args(kind))
    return kind in (int, float)
