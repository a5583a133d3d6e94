"""Pods with terms whose selectors demand no label outright: for tests of what those cost and mean."""

from __future__ import annotations

from typing import Any

from support.units import pod

__all__ = ["REQUIRED", "apart", "has", "loose_pod", "not_in", "spread_over", "would_rather_be_apart"]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HOSTNAME = "kubernetes.io/hostname"


def not_in(value: str) -> dict[str, Any]:
    """A selector of all pods but those with one label."""
    return {"matchExpressions": [{"key": "id", "operator": "NotIn", "values": [value]}]}


def has(key: str) -> dict[str, Any]:
    """A selector of the pods that have a label."""
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


def apart(*selectors: dict[str, Any], key: str = _HOSTNAME, **more: Any) -> dict[str, Any]:
    """Affinity of a pod that must not be near what the selectors match."""
    terms = [{"topologyKey": key, "labelSelector": selector, **more} for selector in selectors]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def would_rather_be_apart(*selectors: dict[str, Any]) -> dict[str, Any]:
    """The same, as a preference."""
    terms = [{"topologyKey": _HOSTNAME, "labelSelector": selector} for selector in selectors]
    weighted = [{"weight": 1, "podAffinityTerm": term} for term in terms]
    return {"affinity": {"podAntiAffinity": {_PREFERRED: weighted}}}


def spread_over(*selectors: dict[str, Any]) -> dict[str, Any]:
    """Spread constraints, each over a topology of its own that every node lacks; they need not hold."""
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": f"rack-{index}",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }
            for index, selector in enumerate(selectors)
        ]
    }


def loose_pod(name: str, terms: int, **more: Any) -> dict[str, Any]:
    """A pod with so many loose terms that no other pod has, none of which speaks of any pod."""
    wishes = apart(*(has(f"{name}-{index}") for index in range(terms)))
    return pod(name, **{"cpu": "10m", **wishes, **more})
