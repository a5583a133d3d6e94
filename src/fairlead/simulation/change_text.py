"""Changes as texts: ``drain`` and ``steady-1``, ``scale`` and ``shop/web=12``, wherever users write them.

The command line puts dashes before the name and reads files; the page's form has no files, and the texts of
manifests instead. Both read the rest here.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.errors import BadInput
from fairlead.simulation.changes import (
    AddNodes,
    Change,
    Delete,
    DrainNode,
    LoseTier,
    LoseZone,
    RemoveNode,
    Scale,
)


def read_change(called: str, name: str, text: str) -> Change:
    """The change of a name; messages call it `called`.

    >>> read_change("--scale", "scale", "shop/web=12").text
    'scale shop/web to 12'
    """
    return _CHANGES[name](called, text)


def _add_nodes(called: str, text: str) -> Change:
    group, number = _numbered(called, text, "GROUP=N")
    return AddNodes(group, number)


def _scale(called: str, text: str) -> Change:
    named, replicas = _numbered(called, text, "NAMESPACE/NAME=N")
    parts = named.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise BadInput(f"{called} {text}: write NAMESPACE/NAME=N or NAMESPACE/KIND/NAME=N")
    return Scale(parts[0], parts[1] if len(parts) == 3 else "", parts[-1], replicas)


def _delete(called: str, text: str) -> Change:
    parts = text.split("/")
    if len(parts) != 3 or not all(parts):
        raise BadInput(f"{called} {text}: write NAMESPACE/KIND/NAME, such as shop/deployment/web")
    return Delete(parts[1], parts[0], parts[2])


def _named(make: Callable[[str], Change]) -> Callable[[str, str], Change]:
    def read(called: str, text: str) -> Change:
        if not text:
            raise BadInput(f"{called}: the name is missing")
        return make(text)

    return read


def _numbered(called: str, text: str, shape: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not (number.isascii() and number.isdecimal()):
        raise BadInput(f"{called} {text}: write {shape}, with a whole number")
    return name, int(number)


_CHANGES: dict[str, Callable[[str, str], Change]] = {
    "add-nodes": _add_nodes,
    "remove-node": _named(RemoveNode),
    "drain": _named(DrainNode),
    "lose-tier": _named(LoseTier),
    "lose-zone": _named(LoseZone),
    "scale": _scale,
    "delete": _delete,
}
NAMES = tuple(_CHANGES)
"""The changes that a text says; ``apply`` takes objects."""
