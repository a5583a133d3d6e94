"""The four ways to change an object by saying what should differ.

JSON patch and merge patch are generic; strategic merge and apply know the kinds' lists. All are
pure: they return a new document and leave the old one alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from fairlead.world.answers import bad_request, patch_refused, unsupported_media
from fairlead.world.patches.apply import apply_configuration
from fairlead.world.patches.json_patch import json_patch
from fairlead.world.patches.merge import merge_patch
from fairlead.world.patches.strategic import strategic_patch
from fairlead.world.schema.resources import Served
from fairlead.world.schema.types import struct_of

__all__ = ["PatchKind", "apply_configuration", "apply_patch", "json_patch", "merge_patch", "strategic_patch"]

PatchKind = Literal["json", "merge", "strategic", "apply"]

_NOT_A_MAP = (
    "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
)
_ACCEPTED = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"


def apply_patch(
    kind: PatchKind,
    served: Served,
    old: dict[str, Any],
    patch: Any,
    *,
    manager: str = "",
    force: bool = False,
    now: datetime,
) -> dict[str, Any]:
    """The object that a patch makes of `old` (for ``apply`` of a new object: of an empty one)."""
    struct = None if served.custom else struct_of(served.resource, served.storage_version)
    result: Any
    match kind:
        case "json":
            result = json_patch(old, patch)
        case "merge":
            if not isinstance(patch, dict):
                raise bad_request(_NOT_A_MAP)
            result = merge_patch(old, patch)
        case "strategic":
            if struct is None:
                raise unsupported_media(_ACCEPTED)
            result = strategic_patch(old, patch, struct)
        case "apply":
            result = apply_configuration(old, patch, struct or "", manager=manager, force=force, now=now)
    if not isinstance(result, dict):
        raise patch_refused()
    return result
