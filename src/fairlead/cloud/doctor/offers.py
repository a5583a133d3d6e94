"""The instance types that Karpenter's providers have, as far as they are known here, with their labels.

A type that the catalogue does not have, and whatever another provider has, is taken to be anything: of what
is not known, nothing is said. EC2 always has more types, and more labels on each, than the catalogue.
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

__all__ = ["PURCHASE", "RESERVED", "TYPE", "Offer", "offers_of"]

TYPE = "node.kubernetes.io/instance-type"
PURCHASE = "karpenter.sh/capacity-type"
# Only to be had where the account has reserved it, and the node class selects the reservation.
RESERVED = "reserved"
_AWS = "karpenter.k8s.aws/instance-"
_KWOK = "karpenter.kwok.sh/instance-"
_HUGE: Quantities = {"cpu": "100000", "memory": "1000Ti", "pods": "10000"}
_EC2_PURCHASES: dict[str, tuple[str, ...]] = {PURCHASE: ("on-demand", "spot", RESERVED)}
_OF_EC2 = ("karpenter.k8s.aws/", "topology.k8s.aws/")
_OF_TYPES = (*_OF_EC2, "karpenter.kwok.sh/", "node.kubernetes.io/", "kubernetes.io/")
# What Karpenter says of a type without GPUs is that it has none of these.
_GPUS = frozenset(_AWS + each for each in ("gpu-count", "gpu-name", "gpu-manufacturer", "gpu-memory"))


@dataclass(frozen=True, slots=True)
class Offer:
    """A type to be had. `choices`: labels that may take one of several values, e.g. the zone.

    Not `known`: how large it is and what other labels it has is anybody's guess. Of a label whose key begins
    like one of `unsaid` it may have any value, unless it is in `lacks`: those it certainly has not.
    """

    name: str
    labels: dict[str, str]
    capacity: Quantities
    choices: dict[str, tuple[str, ...]]
    known: bool = True
    unsaid: tuple[str, ...] = ()
    lacks: frozenset[str] = frozenset()

    def tells(self, key: str) -> bool:
        """Whether it is known what value it has of a label, if any."""
        return key in self.labels or key in self.choices or key in self.lacks

    def guesses(self, key: str) -> bool:
        """Whether it may have any value of a label, or none."""
        return key.startswith(self.unsaid) and not self.tells(key)


def offers_of(provider: str, named: Iterable[str], *, others: bool = False) -> tuple[Offer, ...]:
    """All types of a provider, by the API group of its node class, the best known first.

    `others`: whether types that are neither in the catalogue nor `named` will do, too.
    """
    if provider == "karpenter.kwok.sh":
        return _kwok()
    if provider == "karpenter.k8s.aws":
        known = {each.name for each in _aws()}
        unknown = [_unknown(name) for name in named if name not in known]
        return (*_aws(), *unknown, *([_OTHER] if others else []))
    return (Offer("any", {}, _HUGE, {}, known=False, unsaid=_OF_TYPES),)


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
    lacks = frozenset[str]() if GPU in kind.capacity else _GPUS
    return Offer(name, labels, kind.capacity, _EC2_PURCHASES, unsaid=_OF_EC2, lacks=lacks)


def _unknown(name: str) -> Offer:
    labels = {TYPE: name, "kubernetes.io/arch": architecture(name)}
    return Offer(name, labels, _HUGE, _EC2_PURCHASES, known=False, unsaid=_OF_TYPES)


_OTHER = Offer("another", {}, _HUGE, _EC2_PURCHASES, known=False, unsaid=_OF_TYPES)


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
                PURCHASE: ("on-demand", "spot"),
                "topology.kubernetes.io/zone": KWOK_ZONES,
            },
        )
        for cpus in KWOK_CPUS
        for gib, family in families.items()
        for arch in ("amd64", "arm64")
    )
