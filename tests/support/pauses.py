"""How long to pause between two looks at what must come."""

from __future__ import annotations

import time

__all__ = ["pause"]

_SHORTEST_S, _LONGEST_S = 0.03, 0.3
_SHARE = 0.05


def pause(waited_s: float) -> None:
    """Pause for a twentieth of the time that was waited already.

    What comes soon is seen soon; what takes long is seen a little later, and not asked for a thousand times.
    """
    time.sleep(min(max(_SHORTEST_S, _SHARE * waited_s), _LONGEST_S))
