"""Kubernetes quantities as exact numbers, and what a pod requests: apart from Fairlead's own on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

Manifest = Mapping[str, Any]

_SUFFIXES = {
    **{
        suffix: Fraction(1024) ** power
        for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
    },
    **{suffix: Fraction(10) ** power for suffix, power in (("n", -9), ("u", -6), ("m", -3))},
    **{
        suffix: Fraction(10) ** power
        for suffix, power in (("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15))
    },
}


def quantity(text: str | int) -> Fraction:
    """The number that a quantity stands for.

    >>> quantity("250m") * 4 == quantity(1), quantity("1Gi") == quantity("1024Mi"), quantity("2e3") == 2000
    (True, True, True)
    """
    text = str(text)
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return Fraction(text[: -len(suffix)]) * factor
    return Fraction(text)


def requested(pod: Manifest) -> dict[str, Fraction]:
    """What a pod takes of its node: a place, and its containers together or its largest init container.

    The load has neither sidecars nor overhead, so they are not counted here.
    """
    together: dict[str, Fraction] = {}
    for container in pod["spec"]["containers"]:
        for name, amount in _requests(container).items():
            together[name] = together.get(name, Fraction(0)) + amount
    for container in pod["spec"].get("initContainers") or ():
        for name, amount in _requests(container).items():
            together[name] = max(together.get(name, Fraction(0)), amount)
    return {**together, "pods": Fraction(1)}


def allocatable(node: Manifest) -> dict[str, Fraction]:
    """What a node has for pods."""
    return {name: quantity(amount) for name, amount in node["status"].get("allocatable", {}).items()}


def _requests(container: Manifest) -> dict[str, Fraction]:
    asked = (container.get("resources") or {}).get("requests") or {}
    return {name: quantity(amount) for name, amount in asked.items()}
