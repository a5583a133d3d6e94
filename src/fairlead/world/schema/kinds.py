"""Which strategy each resource has."""

from __future__ import annotations

from fairlead.world.schema.resources import Resource
from fairlead.world.schema.strategy import PLAIN, Strategy

__all__ = ["strategy_of"]

_STRATEGIES: dict[str, Strategy] = {}


def strategy_of(resource: Resource) -> Strategy:
    """The rules of a built-in resource."""
    return _STRATEGIES.get(resource.qualified, PLAIN)
