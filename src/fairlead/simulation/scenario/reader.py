"""Reads a scenario's file: a mistake is said with the file, the line, the field and what is allowed there."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml

from fairlead.errors import BadInput
from fairlead.kube.decode import strip_nulls
from fairlead.kube.documents import documents
from fairlead.simulation.scenario.model import API_VERSION, KIND, Scenario, dec_hook

_AT = re.compile(r"(?P<problem>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")

Step = str | int


class Lines:
    """Where the fields of a YAML text are."""

    def __init__(self, text: str) -> None:
        self._root = yaml.compose(text, Loader=yaml.SafeLoader)

    def of(self, path: str) -> int:
        """The line of a field (``spec.arrivals[0].every``), or of what is around it."""
        node, line = self._root, 1
        for step in steps(path):
            found = _child(node, step)
            if found is None:
                break
            node, line = found
        return line


class Source:
    """A scenario's text and what its messages call it. `error` makes one for a field."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self._text = text
        self._lines: Lines | None = None

    def error(self, path: str, problem: str) -> BadInput:
        """What is wrong with a field, with its line."""
        if self._lines is None:
            self._lines = Lines(self._text)
        return BadInput(f"{self.name}:{self._lines.of(path)}: {path + ': ' if path else ''}{problem}")


def read_text(text: str, name: str) -> tuple[Scenario, Source]:
    r"""The scenario that a text says.

    >>> head = "apiVersion: fairlead.dev/v1alpha1\nkind: Scenario\nmetadata: {name: a}\n"
    >>> read_text(head + "spec: {}", "a.yaml")
    Traceback (most recent call last):
    ...
    fairlead.errors.BadInput: a.yaml:4: spec: lacks duration, which is required
    """
    source = Source(text, name)
    found = [one for one in documents(text, name) if one is not None]
    if len(found) != 1:
        raise BadInput(f"{name}: holds {len(found)} documents where one {KIND} should be")
    return convert(found[0], source), source


def convert(data: Any, source: Source) -> Scenario:
    """The scenario that plain data says."""
    if not isinstance(data, dict):
        raise BadInput(f"{source.name}: holds a {type(data).__name__} where a {KIND} should be")
    for field, wanted in (("kind", KIND), ("apiVersion", API_VERSION)):
        if data.get(field) != wanted:
            raise source.error(field, f"{data.get(field)!r} is not {wanted!r}")
    try:
        return msgspec.convert(strip_nulls(data), Scenario, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        found = _AT.fullmatch(str(error))
        problem, path = (found["problem"], found["path"] or "") if found else (str(error), "")
        path = path.lstrip(".")
        unknown = _UNKNOWN.fullmatch(problem)
        if unknown is not None:
            allowed = ", ".join(fields_at(path)) or "none"
            at = f"{path}.{unknown[1]}" if path else unknown[1]
            raise source.error(at, f"there is no such field; allowed are {allowed}") from error
        raise source.error(path, _plainer(problem)) from error


def read_file(path: Path) -> tuple[Scenario, Source]:
    """The scenario of a file."""
    try:
        text = path.read_text()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: is not UTF-8: {error}") from error
    return read_text(text, str(path))


def steps(path: str) -> Iterator[Step]:
    """The names and numbers of a path.

    >>> list(steps("spec.arrivals[0].every"))
    ['spec', 'arrivals', 0, 'every']
    """
    for name, number in _STEP.findall(f".{path}" if path and path[0] != "[" else path):
        yield int(number) if number else name


def fields_at(path: str) -> list[str]:
    """The fields that the part of a scenario at a path may have.

    >>> fields_at("spec.workloads[0].scale[1]")
    ['at', 'replicas']
    """
    kind: Any = Scenario
    for step in steps(path):
        kind = _struct_in(kind)
        if isinstance(step, int):
            continue
        if kind is None:
            return []
        fields = {one.encode_name: one.name for one in msgspec.structs.fields(kind)}
        if step not in fields:
            return []
        kind = get_type_hints(kind)[fields[step]]
    kind = _struct_in(kind)
    return [one.encode_name for one in msgspec.structs.fields(kind)] if kind is not None else []


def _struct_in(kind: Any) -> Any:
    """The struct that a type is, or is made of; None where there is none."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if get_origin(kind) in (tuple, Union, types.UnionType):
        return next((found for one in get_args(kind) if (found := _struct_in(one)) is not None), None)
    return None


def _child(node: yaml.Node | None, step: Step) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return value, key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step].start_mark.line + 1
    return None


def _plainer(problem: str) -> str:
    """Msgspec's words for what is wrong, said to people who write YAML.

    >>> _plainer("Object missing required field `duration`")
    'lacks duration, which is required'
    """
    missing = re.fullmatch(r"Object missing required field `(.*)`", problem)
    if missing is not None:
        return f"lacks {missing[1]}, which is required"
    invalid = re.fullmatch(r"Invalid enum value (.*)", problem)
    if invalid is not None:
        return f"{invalid[1]} is not allowed here"
    words = {"`str`": "text", "`int`": "a whole number", "`float`": "a number", "`array`": "a list"}
    words |= {"`object`": "fields", "`bool`": "true or false", "`null`": "nothing"}
    for theirs, ours in words.items():
        problem = problem.replace(theirs, ours)
    return problem[:1].lower() + problem[1:]
