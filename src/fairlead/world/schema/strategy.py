"""How each kind is treated on its way in: defaults, what a create or update may set, what is wrong.

Every function gets objects that belong to the request alone, so it may change them in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.world.answers import FieldError

__all__ = ["CUSTOM", "PLAIN", "Strategy"]

Object = dict[str, Any]


def _nothing(item: Object) -> None:
    pass


def _leave(new: Object, old: Object) -> None:
    pass


def _fine(new: Object, old: Object | None) -> list[FieldError]:
    return []


@dataclass(frozen=True, slots=True)
class Strategy:
    """One kind's rules. The defaults of this class fit a kind that has none of its own."""

    default: Callable[[Object], None] = _nothing
    """Fills what the API server's defaulting fills; runs after every change, so it is idempotent."""
    on_create: Callable[[Object], None] = _nothing
    """Resets what a creator may not choose."""
    on_update: Callable[[Object, Object], None] = _leave
    """Resets what an update through the main endpoint may not change: (new, old)."""
    on_status: Callable[[Object, Object], None] = _leave
    """Resets what an update through ``status`` may not change, beyond spec: (new, old)."""
    validate: Callable[[Object, Object | None], list[FieldError]] = _fine
    """What is wrong with the new object, given the old one on updates."""
    generation: bool = False
    """Whether metadata.generation counts changes of the spec."""
    counts_annotations: bool = False
    """Whether a change of annotations counts as well."""
    unconditional_update: bool = True
    """Whether a PUT may leave the resourceVersion out."""
    create_on_update: bool = False
    """Whether a PUT may create."""


PLAIN = Strategy()
CUSTOM = Strategy(generation=True, unconditional_update=False)
