"""A scenario made from something else, before it is written: its data, files beside it, and notes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from fairlead.simulation.scenario.model import API_VERSION, KIND

_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Draft:
    """See the module. `files` are texts by the name that the scenario has for them.

    `notes` say what was chosen and what could not be carried over.
    """

    name: str
    description: str
    spec: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def text(self, made_by: str) -> str:
        """The scenario's file, with the notes as comments before it."""
        head = [f"Made by {made_by}.", *self.notes]
        comments = "".join(f"# {line}\n" for one in head for line in _wrapped(one))
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self.name, "description": self.description},
            "spec": dict(self.spec),
        }
        return comments + yaml.dump(
            document,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=_WIDTH,
            default_flow_style=None,
        )


def name_from(text: str, otherwise: str, most: int = 63) -> str:
    """A name that a scenario may have, from any text.

    >>> name_from("V100M16 (spot)", "x"), name_from("…", "x")
    ('v100m16-spot', 'x')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:most].strip("-") or otherwise


def duration(seconds: float) -> str:
    """A span of time as a scenario spells it, in whole seconds, never shorter.

    >>> duration(90), duration(86400), duration(3600.5)
    ('90s', '1d', '3601s')
    """
    whole = max(1, -int(-seconds // 1))
    for unit, size in (("d", 86400), ("h", 3600)):
        if whole % size == 0:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def counted(number: int, what: str) -> str:
    """A number and a noun.

    >>> counted(1, "pod"), counted(2, "pod")
    ('1 pod', '2 pods')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class _Dumper(yaml.SafeDumper):
    """YAML as people write it: without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _wrapped(text: str) -> Sequence[str]:
    import textwrap

    return textwrap.wrap(text, _WIDTH - 2) or [""]
