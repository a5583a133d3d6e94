"""Terraform files looked at without Terraform: parsed, their format checked, what they name compared.

`parsed` is what python-hcl2 reads, with strings freed of their quotes; an expression stays ``${…}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hcl2

__all__ = ["Module", "misformatted", "parsed"]

Tree = dict[str, Any]

_REFERENCE = re.compile(r"(?<![\w.\"/-])(var|local|module|data|aws_\w+|helm_\w+)\.([\w-]+)(?:\.([\w-]+))?")
_ATTRIBUTE = re.compile(r'(\s*)([\w-]+|"[^"]*")( +)= (.*)')


def parsed(text: str) -> Tree:
    """The file as plain data: block type → list of blocks, labels as keys."""
    found = _plain(hcl2.loads(text))
    assert isinstance(found, dict)
    return found


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {
            _plain(key): _plain(value)
            for key, value in data.items()
            if key not in ("__is_block__", "__comments__", "__inline_comments__")
        }
    if isinstance(data, list):
        return [_plain(each) for each in data]
    if isinstance(data, str) and data[:1] == data[-1:] == '"' and len(data) > 1:
        return data[1:-1]
    return data


class Module:
    """A folder of Terraform files, as one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = parsed(text)

    @classmethod
    def of(cls, folder: Path) -> Module:
        return cls("\n".join(path.read_text() for path in sorted(folder.glob("*.tf"))))

    def named(self, kind: str) -> dict[str, Tree]:
        """Variables, outputs, modules or providers by name."""
        return {name: body for block in self.tree.get(kind, []) for name, body in block.items()}

    def resources(self, kind: str, *, of: str = "resource") -> dict[str, Tree]:
        """The resources (or data) of a type by name."""
        return {
            name: body
            for block in self.tree.get(of, [])
            for found, named in block.items()
            if found == kind
            for name, body in named.items()
        }

    def locals(self) -> set[str]:
        return {name for block in self.tree.get("locals", []) for name in block}

    def undeclared(self) -> list[str]:
        """What is referred to and is nowhere declared."""
        declared = {f"var.{name}" for name in self.named("variable")}
        declared |= {f"local.{name}" for name in self.locals()}
        declared |= {f"module.{name}" for name in self.named("module")}
        for block, prefix in (("resource", ""), ("data", "data.")):
            for each in self.tree.get(block, []):
                declared |= {f"{prefix}{kind}.{name}" for kind, named in each.items() for name in named}
        return sorted(self.references() - declared)

    def unused_variables(self) -> list[str]:
        return sorted(name for name in self.named("variable") if f"var.{name}" not in self.references())

    def references(self) -> set[str]:
        return set(self._references())

    def _references(self) -> Iterator[str]:
        text = re.sub(r"^\s*#.*$", "", self.text, flags=re.MULTILINE)
        for kind, name, more in _REFERENCE.findall(text):
            yield f"{kind}.{name}.{more}" if kind == "data" else f"{kind}.{name}"


def misformatted(text: str) -> list[str]:
    """Lines that ``terraform fmt`` would change for their depth, equal signs or blanks: the most of it."""
    found = []
    if not text.endswith("\n") or text.endswith("\n\n"):
        found.append("the end: one newline is expected")
    depth, run = 0, []
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        code = _without_strings(line)
        stripped = line.strip()
        opened = sum(code.count(each) for each in "{[(")
        closed = sum(code.count(each) for each in "}])")
        leading = len(re.match(r"[}\])]*", stripped)[0])  # type: ignore[index]  # it matches nothing, too
        wanted = depth - (1 if leading else 0)
        if line != line.rstrip() or "\t" in line:
            found.append(f"{number}: blanks at its end, or a tab")
        if not stripped and not before.strip():
            found.append(f"{number}: a second empty line")
        if stripped and len(line) - len(line.lstrip()) != 2 * wanted:
            found.append(f"{number}: is indented by {len(line) - len(line.lstrip())}, not {2 * wanted}")
        # A bracket that opens with others on its line indents once: `values = [yamlencode({`.
        depth += (1 if opened > closed else 0) - (1 if closed > opened else 0)
        attribute = _ATTRIBUTE.fullmatch(line)
        if attribute is not None and opened == closed:
            run.append((number, attribute))
        else:
            found += _unaligned(run)
            run = []
        before = line
    return [*found, *_unaligned(run)]


def _unaligned(run: list[tuple[int, re.Match[str]]]) -> list[str]:
    widest = max((len(found[2]) for _, found in run), default=0)
    return [
        f"{number}: its equal sign is not below the one above"
        for number, found in run
        if len(found[2]) + len(found[3]) != widest + 1
    ]


def _without_strings(line: str) -> str:
    return re.sub(r'"(?:\\.|\$\{[^}]*\}|[^"\\])*"', '""', line).partition("#")[0]
