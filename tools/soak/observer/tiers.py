"""How a policy splits N pods over its tiers, computed apart from Fairlead: mins first, then in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Manifest = Mapping[str, Any]


def split(number: int, tiers: Sequence[Manifest]) -> dict[str, int]:
    """How many pods belong in each tier that has any.

    >>> spot, safe = {"name": "spot"}, {"name": "on-demand", "min": "30%"}
    >>> [split(number, [spot, safe]) for number in (1, 2, 10)]
    [{'on-demand': 1}, {'spot': 1, 'on-demand': 1}, {'spot': 7, 'on-demand': 3}]
    >>> split(5, [{"name": "base", "max": 3}, {"name": "burst"}])
    {'base': 3, 'burst': 2}
    """
    counts: dict[str, int] = {}
    left = number
    for tier in tiers:
        counts[tier["name"]] = least = min(left, _amount(tier.get("min", 0), number, up=True))
        left -= least
    for tier in tiers:
        most = _amount(tier["max"], number, up=False) if tier.get("max") is not None else number
        more = max(0, min(left, most - counts[tier["name"]]))
        counts[tier["name"]] += more
        left -= more
    return {name: pods for name, pods in counts.items() if pods}


def tier_of(node: Manifest, tiers: Sequence[Manifest]) -> str:
    """The name of the tier whose labels a node has, "" for none."""
    labels = node["metadata"].get("labels") or {}
    for tier in tiers:
        if tier.get("nodes") and tier["nodes"].items() <= labels.items():
            return str(tier["name"])
    return ""


def _amount(said: str | int, number: int, *, up: bool) -> int:
    if isinstance(said, int):
        return said
    percent = int(said.removesuffix("%"))
    return -(-number * percent // 100) if up else number * percent // 100
