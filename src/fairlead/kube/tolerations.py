"""Taints and the tolerations that let pods past them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from fairlead.kube.meta import Int64, Object


class Taint(Object, frozen=True, gc=False):
    """Keeps pods off a node, or prefers to."""

    key: str
    effect: str = ""
    value: str = ""

    def __str__(self) -> str:
        """As kubectl spells it: ``key=value:Effect``."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(Object, frozen=True, gc=False):
    """Lets a pod past matching taints. Empty key with Exists: all taints; empty effect: all effects."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None

    def to_plain(self) -> dict[str, Any]:
        """As it is written: what is not said is left out."""
        return {key: value for key, value in msgspec.to_builtins(self).items() if value not in ("", None)}

    def covers(self, taint: Taint) -> bool:
        """Whether this toleration covers the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
        return False


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any toleration covers the taint."""
    return any(toleration.covers(taint) for toleration in tolerations)
