"""A scenario's plain data with other values: where a path leads, and the data with a value in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_origin, get_type_hints

import msgspec

from fairlead.errors import BadInput
from fairlead.simulation.scenario.model import Spec
from fairlead.simulation.sweep.parameters import Parameter, Value

Steps = tuple[str | int, ...]
Setting = tuple[Steps, Value]
"""Where a value goes, and the value."""

_LISTS = {
    field.encode_name
    for field in msgspec.structs.fields(Spec)
    if get_origin(get_type_hints(Spec)[field.name]) is tuple
}


def resolve(data: Any, parameter: Parameter) -> Steps:
    """Where a parameter's path leads in a scenario's data; items of lists are found by their name or number.

    A field that the data leaves out may be one of the model's all the same: whether there is such a field is
    known once the data with the value in it is read.

    >>> from fairlead.simulation.sweep.parameters import parameter
    >>> resolve({"spec": {"workloads": [{"name": "web"}]}}, parameter("workloads.web.replicas=1"))
    ('spec', 'workloads', 0, 'replicas')
    """
    called = f"--vary {parameter.path}"
    node, passed = data["spec"], "spec"
    found: list[str | int] = ["spec"]
    for part in parameter.parts:
        if isinstance(node, list):
            number = _item(node, part)
            if number is None:
                names = ", ".join(name for one in node if (name := _name(one)))
                there = f"there are {names}" if names else f"it has {len(node) or 'none'}"
                raise BadInput(f"{called}: {passed} has no item {part!r}; {there}")
            found.append(number)
            node = node[number]
        elif isinstance(node, dict | None):
            found.append(part)
            node = (node or {}).get(part)
            if node is None and len(found) == 2 and part in _LISTS:
                node = []  # which has no items to go on in
        else:
            raise BadInput(f"{called}: {passed} is {node!r}, and has no fields")
        passed += f".{part}"
    # Kubernetes objects may have fields that no struct has; of a policy, nothing else has a meaning here.
    if found[1] == "policies" and found[3:4] not in ([], ["spec"]):
        raise BadInput(f"{called}: there is no such field; of a policy, fields of its spec can be varied")
    return tuple(found)


def vary(data: Any, settings: Iterable[Setting]) -> Any:
    """The data with values in their places; what was given stays as it is.

    >>> vary({"spec": {"workloads": [{"name": "a"}]}}, [(("spec", "workloads", 0, "replicas"), 3)])
    {'spec': {'workloads': [{'name': 'a', 'replicas': 3}]}}
    """
    for steps, value in settings:
        data = _with(data, steps, value)
    return data


def _with(node: Any, steps: Sequence[str | int], value: Value) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        return [_with(one, rest, value) if at == step else one for at, one in enumerate(node)]
    fields = node or {}
    return {**fields, step: _with(fields.get(step), rest, value)}


def _item(items: list[Any], part: str) -> int | None:
    """An item by its name, else by its number, from 0."""
    for number, one in enumerate(items):
        if _name(one) == part:
            return number
    return int(part) if part.isdecimal() and int(part) < len(items) else None


def _name(item: Any) -> str:
    if not isinstance(item, dict):
        return ""
    metadata = item.get("metadata")
    found = item.get("name") or (metadata.get("name") if isinstance(metadata, dict) else "")
    return str(found or "")
