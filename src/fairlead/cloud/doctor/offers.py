"""The instance types that Karpenter's providers have, as far as they are known here, with their labels.

A type that a NodePool names and the catalogue does not have, and whatever another provider has, is taken to
be anything: of what is not known, nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from fairlead.cloud.karpenter import KWOK_CPUS, KWOK_GIB, KWOK_ZONES
from fairlead.kube.pod import Quantities
from fairlead.kube.quantity import value
from fairlead.nodegroups.catalog import FAMILIES, GPU, architecture, instance_type

__all__ = ["TYPE", "Offer", "offers_of"]

TYPE = "node.kubernetes.io/instance-type"
_AWS = "karpenter.k8s.aws/instance-"
_KWOK = "karpenter.kwok.sh/instance-"
_HUGE: Quantities = {"cpu": "100000", "memory": "1000Ti", "pods": "10000"}


@dataclass(frozen=True, slots=True)
class Offer:
    """A type to be had. `choices`: labels that may take one of several values, e.g. the zone.

    Not `known`: how large it is and what other labels it has is anybody's guess.
    """

    name: str
    labels: dict[str, str]
    capacity: Quantities
    choices: dict[str, tuple[str, ...]]
    known: bool = True


def offers_of(provider: str, named: Iterable[str]) -> tuple[Offer, ...]:
    """All types of a provider, by the API group of its node class."""
    if provider == "karpenter.kwok.sh":
        return _kwok()
    if provider == "karpenter.k8s.aws":
        known = {each.name for each in _aws()}
        return (*_aws(), *(_unknown(name) for name in named if name not in known))
    return (Offer("any", {}, _HUGE, {}, known=False),)


@cache
def _aws() -> tuple[Offer, ...]:
    return tuple(_of_aws(f"{family}.{size}") for family, sizes in FAMILIES.items() for size in sizes)


def _of_aws(name: str) -> Offer:
    kind = instance_type(name)
    assert kind is not None
    family, _, size = name.partition(".")
    parts = re.match(r"([a-z]+)(\d+)", family)
    memory = value(kind.capacity["memory"]) // 2**20
    labels = {
        TYPE: name,
        "kubernetes.io/arch": kind.architecture,
        "kubernetes.io/os": "linux",
        _AWS + "category": parts[1] if parts else "",
        _AWS + "generation": parts[2] if parts else "",
        _AWS + "family": family,
        _AWS + "size": size,
        _AWS + "cpu": str(kind.capacity["cpu"]),
        _AWS + "memory": str(memory),
        **({_AWS + "gpu-count": str(kind.capacity[GPU])} if GPU in kind.capacity else {}),
    }
    return Offer(name, labels, kind.capacity, {"karpenter.sh/capacity-type": ("on-demand", "spot")})


def _unknown(name: str) -> Offer:
    labels = {TYPE: name, "kubernetes.io/arch": architecture(name), "kubernetes.io/os": "linux"}
    return Offer(name, labels, _HUGE, {"karpenter.sh/capacity-type": ("on-demand", "spot")}, known=False)


@cache
def _kwok() -> tuple[Offer, ...]:
    families = dict(zip(KWOK_GIB, "csm", strict=True))
    return tuple(
        Offer(
            f"{family}-{cpus}x-{arch}-linux",
            {
                TYPE: f"{family}-{cpus}x-{arch}-linux",
                "kubernetes.io/arch": arch,
                "kubernetes.io/os": "linux",
                _KWOK + "cpu": str(cpus),
                _KWOK + "memory": f"{cpus * gib}Gi",
                _KWOK + "family": family,
                _KWOK + "size": f"{cpus}x",
            },
            {"cpu": str(cpus), "memory": f"{cpus * gib}Gi", "pods": str(min(cpus * 16, 1024))},
            {
                "karpenter.sh/capacity-type": ("on-demand", "spot"),
                "topology.kubernetes.io/zone": KWOK_ZONES,
            },
        )
        for cpus in KWOK_CPUS
        for gib, family in families.items()
        for arch in ("amd64", "arm64")
    )
