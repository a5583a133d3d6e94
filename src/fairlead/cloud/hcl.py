"""Terraform's language, written as ``terraform fmt`` would leave it.

Equal signs stand in one column within a run of attributes that take a line each; an attribute of several
lines ends the run. A string is escaped, so that nothing in it is taken for an expression; what is one says
so by its type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Attribute", "Block", "Comment", "Expression", "Item", "Template", "write"]

_WIDTH = 100
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Expression(str):
    """What is evaluated: ``var.cluster_name``."""

    __slots__ = ()


class Template(str):
    """A string with expressions in it: ``k8s.io/${var.cluster_name}``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Attribute:
    """``name = value``: a string, a number, a boolean, an expression, or lists and maps of those."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Comment:
    """Lines behind ``#``."""

    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """``type "label" "label" { … }``."""

    type: str
    labels: tuple[str, ...]
    body: Sequence[Item]


Item = Attribute | Block | Comment


def write(items: Sequence[Item]) -> str:
    """The text of a file.

    >>> body = [Attribute("a", 1), Attribute("long", Expression("local.a"))]
    >>> print(write([Block("locals", (), body)]), end="")
    locals {
      a    = 1
      long = local.a
    }
    """
    return "\n".join(_lines(items)) + "\n"


def _lines(items: Sequence[Item]) -> list[str]:
    lines: list[str] = []
    run: list[tuple[str, str]] = []

    def end_run() -> None:
        width = max((len(name) for name, _ in run), default=0)
        lines.extend(f"{name:<{width}} = {value}" for name, value in run)
        run.clear()

    for number, item in enumerate(items):
        before = items[number - 1] if number else None
        apart = isinstance(item, Block | Comment) or isinstance(before, Block)
        if apart and before is not None and not isinstance(before, Comment):
            end_run()
            lines.append("")
        if isinstance(item, Comment):
            lines += (f"# {line}".rstrip() for line in item.text.splitlines())
        elif isinstance(item, Block):
            head = " ".join([item.type, *map(_quoted, item.labels)])
            inner = _lines(item.body)
            lines += [f"{head} {{", *_indented(inner), "}"] if inner else [f"{head} {{}}"]
        else:
            value = _value(item.value, len(item.name) + 3)
            if len(value) == 1:
                run.append((item.name, value[0]))
            else:
                end_run()
                lines += [f"{item.name} = {value[0]}", *value[1:]]
    end_run()
    return lines


def _value(value: Any, used: int = 0) -> list[str]:
    """The lines of a value; `used` is how much of the first is taken already."""
    if isinstance(value, Expression):
        return value.splitlines()
    if isinstance(value, str):
        return [f'"{value}"' if isinstance(value, Template) else _quoted(value)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, int):
        return [str(value)]
    if value is None:
        return ["null"]
    if isinstance(value, Mapping):
        attributes = [Attribute(_key(key), each) for key, each in value.items()]
        return ["{", *_indented(_lines(attributes)), "}"] if attributes else ["{}"]
    parts = [_value(each) for each in value]
    if all(len(part) == 1 for part in parts):
        line = f"[{', '.join(part[0] for part in parts)}]"
        if used + len(line) <= _WIDTH:
            return [line]
    return ["[", *_indented([line for part in parts for line in (*part[:-1], f"{part[-1]},")]), "]"]


def _key(key: str) -> str:
    if isinstance(key, Template):
        return f'"{key}"'
    return key if _IDENTIFIER.fullmatch(key) else _quoted(key)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("${", "$${").replace("%{", "%%{") + '"'


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" if line else line for line in lines]
