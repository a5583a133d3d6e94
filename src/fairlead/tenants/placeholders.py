"""``${parameter}`` in templates: where they are, and what is left when they are filled.

A text that is nothing but one placeholder becomes the parameter's value as it is, number, list or object;
inside a longer text, and in keys, a value is written out. ``$${`` stands for ``${``, and values are never
looked into: what comes from a tenant is not a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

_ANY = re.compile(r"\$\$\{|\$\{([^{}]*)\}?")
_WHOLE = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class BadPlaceholder(Exception):  # noqa: N818 (never shown: the reader of the template turns it into BadObject)
    """Something is wrong with a placeholder; `path` is where in the template."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


def fill(template: Any, values: Mapping[str, Any], path: str = "") -> Any:
    """The template with its placeholders filled; a name that is not among the values is BadPlaceholder.

    >>> fill({"a": "${n}", "b-${n}": "x${n}", "c": "$${n}"}, {"n": 3})
    {'a': 3, 'b-3': 'x3', 'c': '${n}'}
    """
    if isinstance(template, str):
        whole = _WHOLE.fullmatch(template)
        return (
            _write_out(template, values, path) if whole is None else _value(_name(whole, path), values, path)
        )
    if isinstance(template, dict):
        filled = {}
        for key, value in template.items():
            below = f"{path}.{key}" if path else str(key)
            known = _write_out(key, values, below) if isinstance(key, str) else key
            if known in filled:
                raise BadPlaceholder(below, f"there are two members {known!r} once placeholders are filled")
            filled[known] = fill(value, values, below)
        return filled
    if isinstance(template, list | tuple):
        return [fill(item, values, f"{path}[{index}]") for index, item in enumerate(template)]
    return template


def placeholders(template: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The parameters that a template names, each with where it does; malformed ones are BadPlaceholder."""
    if isinstance(template, str):
        for found in _ANY.finditer(template):
            if found[0] != "$${":
                yield _name(found, path), path
    elif isinstance(template, dict):
        for key, value in template.items():
            below = f"{path}.{key}" if path else str(key)
            yield from placeholders(key, below)
            yield from placeholders(value, below)
    elif isinstance(template, list | tuple):
        for index, item in enumerate(template):
            yield from placeholders(item, f"{path}[{index}]")


def text_of(value: Any) -> str | None:
    """How a value is written inside a text; None if it cannot be.

    >>> text_of(True), text_of(8080), text_of([1])
    ('true', '8080', None)
    """
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            # As JSON and the chart have it: no exponent for what people write, no needless .0.
            return f"{Decimal(repr(value)):f}".removesuffix(".0")
        case str() | int():
            return str(value)
    return None


def _write_out(text: str, values: Mapping[str, Any], path: str) -> str:
    def one(found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        name = _name(found, path)
        written = text_of(_value(name, values, path))
        if written is None:
            raise BadPlaceholder(path, f"${{{name}}} is a list or an object, which no text can hold")
        return written

    return _ANY.sub(one, text)


def _name(found: re.Match[str], path: str) -> str:
    name = found[1]
    if not found[0].endswith("}") or _NAME.fullmatch(name) is None:
        raise BadPlaceholder(
            path, f"{found[0]!r} is not a placeholder like ${{name}}; for a plain ${{ write $${{"
        )
    return name


def _value(name: str, values: Mapping[str, Any], path: str) -> Any:
    if name not in values:
        raise BadPlaceholder(path, f"the parameter {name!r} is not given")
    return values[name]
