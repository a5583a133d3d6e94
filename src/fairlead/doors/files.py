"""Whether a file that we follow was written or replaced since we last looked."""

from __future__ import annotations

import os

__all__ = ["Stamp", "stamp_of"]

Stamp = tuple[int, int]


def stamp_of(file: str) -> Stamp | None:
    """Another value for every version of a file; None when there is none, be it for a moment.

    The inode too: mounted ConfigMaps and Secrets are replaced whole, maybe with an older time.
    """
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
