"""The four ways to change an object by saying what should differ.

JSON patch and merge patch are generic; strategic merge and apply know the kinds' lists. All are
pure: they return a new document and leave the old one alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from fairlead.world.patches.json_patch import json_patch
from fairlead.world.patches.merge import merge_patch
from fairlead.world.schema.resources import Served

__all__ = ["PatchKind", "apply_patch", "json_patch", "merge_patch"]

PatchKind = Literal["json", "merge", "strategic", "apply"]


def apply_patch(
    kind: PatchKind, served: Served, old: dict[str, Any] | None, patch: Any, *, manager: str, now: datetime
) -> dict[str, Any]:
    """The object that a patch makes of `old`."""
    if kind == "json":
        return json_patch(old, patch)
    return merge_patch(old, patch)
