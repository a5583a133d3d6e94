"""Versions of Cluster Autoscaler, and since when it does what."""

from __future__ import annotations

import re
from typing import NamedTuple

from fairlead.errors import BadInput

__all__ = ["Version"]

_SHAPE = re.compile(r"(?:.*[:/])?v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+@].*)?", re.DOTALL)


class Version(NamedTuple):
    """A release of Cluster Autoscaler. It follows Kubernetes' minor versions."""

    major: int = 1
    minor: int = 36
    patch: int = 0

    @classmethod
    def read(cls, text: str) -> Version:
        """From a version or an image that names one.

        >>> str(Version.read("registry.k8s.io/autoscaling/cluster-autoscaler:v1.27.5"))
        '1.27.5'
        """
        found = _SHAPE.fullmatch(text.strip())
        if found is None:
            raise BadInput(f"{text!r} does not say a version of Cluster Autoscaler: write it as 1.32.1")
        return cls(int(found[1]), int(found[2]), int(found[3] or 0))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def asks_eks(self) -> bool:
        """Whether it reads labels and taints of a managed group with ``eks:DescribeNodegroup``."""
        return self >= (1, 24)

    @property
    def misreads_effects(self) -> bool:
        """Whether it takes EKS' spelling of an effect (NO_SCHEDULE) as it is: the taint then means nothing.

        The translation came to the main branch in mid-2024, between 1.30 and 1.31.
        """
        return self.asks_eks and self < (1, 31)

    @property
    def can_forget_nodes(self) -> bool:
        """Whether it knows ``--node-info-cache-expire-time``."""
        return self >= (1, 24)
