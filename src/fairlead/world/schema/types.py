"""The field types of the built-in kinds, from ``types.json`` (written by ``tools/field_types.py``)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from fairlead.world.schema.resources import Served


class Field(msgspec.Struct, frozen=True, rename={"merge_key": "key"}):
    """One field. `type` is a scalar's name or a struct's, behind ``[]`` for lists and ``{}`` for maps."""

    type: str
    pointer: bool = False
    omit: bool = False
    omitzero: bool = False
    patch: str = ""
    """Strategic merge: ``merge``, ``replace``, ``retainKeys``, or several."""
    merge_key: str = ""
    list: str = ""
    """Server-side apply: ``atomic``, ``set`` or ``map``; absent means atomic."""
    keys: tuple[str, ...] = ()
    atomic: bool = False
    number: int = 0
    """The field's number in protobuf."""

    @property
    def element(self) -> str:
        """The type of a list's items or a map's values; the type itself otherwise."""
        return self.type[2:] if self.type[:2] in ("[]", "{}") else self.type


class Table(msgspec.Struct, frozen=True):
    """Kinds (``group/version/kind``), structs with their fields, and the structs applied as a whole."""

    kinds: dict[str, str]
    types: dict[str, dict[str, Field]]
    atomic: frozenset[str]
    inline: dict[str, dict[int, str]]
    """Embedded structs by protobuf number: JSON spreads their fields, protobuf nests them."""


@cache
def table() -> Table:
    """The table, read once."""
    data = files("fairlead.world.schema").joinpath("types.json").read_bytes()
    return msgspec.json.decode(data, type=Table)


def struct_of(served: Served, version: str = "") -> str | None:
    """The struct of a resource's objects in a version, or as they are stored; None for custom ones."""
    if served.custom:
        return None
    return table().kinds.get(f"{served.api_group}/{version or served.storage_version}/{served.resource.kind}")
