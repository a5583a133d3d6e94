"""What goes to the process that works out a what-if, in frames: eight bytes of length, then that many.

First the task, then pages of the cluster's objects. Apart from the process itself, because the server needs
nothing of what that has to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairlead.engine.ask.cost import Price
from fairlead.engine.planning.settings import Settings
from fairlead.nodegroups import NodeGroup

HEAD = 8
"""Bytes of a frame's length."""


@dataclass(frozen=True, slots=True)
class Task:
    """What to work out: changes by name and text, and what the objects of the cluster do not tell."""

    changes: tuple[tuple[str, str], ...]
    at: datetime
    settings: Settings
    groups: tuple[NodeGroup, ...]
    prices: tuple[Price, ...]
    policies: tuple[dict[str, Any], ...]
    memory: int


def framed(data: bytes) -> bytes:
    """A frame."""
    return len(data).to_bytes(HEAD, "big") + data


def page_of(api_version: str, kind: str, items: Sequence[bytes]) -> bytes:
    """A page of objects as they were sent; they need not say what they are.

    >>> page_of("v1", "Pod", [b'{"metadata":{}}', b"{}"])
    b'{"apiVersion":"v1","kind":"Pod","items":[{"metadata":{}},{}]}'
    """
    head = b'{"apiVersion":"%s","kind":"%s","items":[' % (api_version.encode(), kind.encode())
    return head + b",".join(items) + b"]}"
