"""Fairlead: which pod goes on which node, why, and what it would cost.

The names in ``__all__`` are the public API; everything else may change without notice. `Cluster` is
imported when first used: it brings numpy, and ``import fairlead`` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.errors import BadInput, BadObject, FairleadError

if TYPE_CHECKING:
    from fairlead.feed.cluster import Cluster

__version__ = "0.1.0"

__all__ = ["BadInput", "BadObject", "Cluster", "FairleadError", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Cluster":
        from fairlead.feed.cluster import Cluster

        return Cluster
    raise AttributeError(f"module 'fairlead' has no attribute {name!r}")
