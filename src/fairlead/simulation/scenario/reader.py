"""Reads a scenario's file, and knows on which line of it a field is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from fairlead.errors import BadInput
from fairlead.kube.decode import strip_nulls
from fairlead.kube.documents import documents
from fairlead.simulation.scenario.fields import mistakes
from fairlead.simulation.scenario.mistakes import BadScenario, Mistake, together
from fairlead.simulation.scenario.model import API_VERSION, KIND, Scenario, dec_hook

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[([^\]]+)\]")
_LINE = re.compile(r"line (\d+): ")

Step = str | int
T = TypeVar("T", bound=msgspec.Struct)


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
        return BadScenario([Mistake(self.name, self._lines.of(path), path, problem)])

    def errors(self, found: Iterable[tuple[str, str]]) -> BadInput:
        """All that is wrong with fields, as one error."""
        return together(self.error(*one) for one in found)


def read_text(text: str, name: str) -> tuple[Scenario, Source]:
    r"""The scenario that a text says.

    >>> head = "apiVersion: fairlead.dev/v1alpha1\nkind: Scenario\nmetadata: {name: a}\n"
    >>> read_text(head + "spec: {duration: 1h}", "a.yaml")[0].spec.duration
    3600.0
    """
    return document_of_text(text, name, Scenario, KIND)


def read_file(path: Path) -> tuple[Scenario, Source]:
    """The scenario of a file."""
    return read_text(text_of(path), str(path))


def document_of_text(text: str, name: str, document: type[T], kind: str) -> tuple[T, Source]:
    """The one document of a text, of a kind that is read as this struct."""
    source = Source(text, name)
    return document_of(read_data(text, name, kind), source, document, kind), source


def read_data(text: str, name: str, kind: str) -> Any:
    """The one document of a text, as plain data."""
    try:
        found = [one for one in documents(text, "") if one is not None]
    except BadInput as error:
        raise BadScenario([_unread(error, name)]) from error
    if len(found) != 1:
        raise BadScenario([Mistake(name, 1, "", f"holds {len(found)} documents where one {kind} should be")])
    return found[0]


def _unread(error: BadInput, name: str) -> Mistake:
    """Why a text is no YAML, with the line where YAML says it."""
    cause = error.__cause__
    if isinstance(cause, yaml.MarkedYAMLError) and cause.problem_mark is not None:
        problem = " ".join(filter(None, (cause.context, cause.problem)))
        return Mistake(name, cause.problem_mark.line + 1, "", f"is not YAML: {problem}")
    said = str(error).removeprefix(": ")
    at = _LINE.match(said)
    return Mistake(name, int(at[1]), "", said[at.end() :]) if at is not None else Mistake(name, 1, "", said)


def convert(data: Any, source: Source) -> Scenario:
    """The scenario that plain data says."""
    return document_of(data, source, Scenario, KIND)


def document_of(data: Any, source: Source, document: type[T], kind: str) -> T:
    """A document of plain data; the error has all that is wrong with it."""
    if not isinstance(data, dict):
        raise source.error("", f"holds a {type(data).__name__} where a {kind} should be")
    for field, wanted in (("kind", kind), ("apiVersion", API_VERSION)):
        if field not in data:
            raise source.error("", f"lacks {field}, which is required: {wanted}")
        if data[field] != wanted:
            raise source.error(field, f"{data[field]!r} is not allowed; allowed is {wanted}")
    data = strip_nulls(data)
    if found := list(mistakes(data, document)):
        raise source.errors(found)
    try:
        return msgspec.convert(data, document, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        raise source.error("", str(error)) from error


def text_of(path: Path) -> str:
    """A file's text."""
    try:
        return path.read_text()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: is not UTF-8: {error}") from error


def steps(path: str) -> Iterator[Step]:
    """The names and numbers of a path.

    >>> list(steps("spec.arrivals[0].requests[nvidia.com/gpu]"))
    ['spec', 'arrivals', 0, 'requests', 'nvidia.com/gpu']
    """
    for name, number, key in _STEP.findall(f".{path}" if path and path[0] != "[" else path):
        yield int(number) if number else name or key


def _child(node: yaml.Node | None, step: Step) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return value, key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step].start_mark.line + 1
    return None
