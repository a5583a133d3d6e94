"""The choice among ranked nodes, and its tie-break."""

from __future__ import annotations

import numpy as np

from fairlead.engine.snapshot.nodes import Bools, Ints, NodeColumns

__all__ = ["best"]


def best(nodes: NodeColumns, scores: Ints, mask: Bools) -> int:
    """The slot with the highest score within the mask; -1: none.

    Of equals the first by node name, because that does not depend on the order in which nodes came, so
    that two snapshots of one cluster choose alike, and a reader can check it.
    """
    slots = np.flatnonzero(mask)
    if not len(slots):
        return -1
    found = scores[slots]
    slots = slots[found == found.max()]
    return int(slots[np.argmin(nodes.rank[slots])])
