"""Terraform's language, written as ``terraform fmt`` would leave it.

Equal signs stand in one column within a run of attributes that take a line each; an attribute of several
lines ends the run. A string is escaped, so that nothing in it is taken for an expression; what is one says
so by its type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import indent
from typing import Any

_WIDTH = 100
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Expression(str):
    """What is evaluated: ``var.cluster_name``."""

    __slots__ = ()


class Template(str):
    """A string with expressions in it: ``k8s.io/${var.cluster_name}``."""

    __slots__ = ()


def block(head: str, *parts: str) -> str:
    """A block: what it is called, and its parts with an empty line between them.

    >>> print(block("locals", attributes({"a": 1, "long": Expression("local.a")})))
    locals {
      a    = 1
      long = local.a
    }
    """
    body = "\n\n".join(parts)
    return f"{head} {{\n{indent(body, '  ')}\n}}"


def attributes(values: Mapping[str, Any]) -> str:
    """``name = value`` for each: strings, numbers, booleans, expressions, or lists and maps of those."""
    lines: list[str] = []
    run: list[tuple[str, str]] = []

    def end_run() -> None:
        width = max((len(name) for name, _ in run), default=0)
        lines.extend(f"{name:<{width}} = {value}" for name, value in run)
        run.clear()

    for key, each in values.items():
        name = key if _IDENTIFIER.fullmatch(key) else quoted(key)
        value = _value(each, len(name) + 3)
        if "\n" in value:
            end_run()
            lines.append(f"{name} = {value}")
        else:
            run.append((name, value))
    end_run()
    return "\n".join(lines)


def quoted(text: str) -> str:
    """A string in quotes; nothing in it is an expression, unless it is a Template."""
    if isinstance(text, Template):
        return f'"{text}"'
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("${", "$${").replace("%{", "%%{") + '"'


def _value(value: Any, used: int = 0) -> str:
    """A value as it is written; `used` is how much of its first line is taken already."""
    match value:
        case Expression():
            return value
        case str():
            return quoted(value)
        case None:
            return "null"
        case bool() | int():
            return str(value).lower()
        case Mapping():
            return f"{{\n{indent(attributes(value), '  ')}\n}}" if value else "{}"
    parts = [_value(each) for each in value]
    line = f"[{', '.join(parts)}]"
    if "\n" not in line and used + len(line) <= _WIDTH:
        return line
    return "[\n" + indent("".join(f"{part},\n" for part in parts), "  ") + "]"
