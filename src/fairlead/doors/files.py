"""Files that somebody else rewrites while we run: has one changed, and reading it again when it has."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import structlog

from fairlead.errors import BadInput

__all__ = ["Stamp", "follow", "stamp_of"]

_log = structlog.get_logger(__name__)

Stamp = tuple[int, int, int]


def stamp_of(file: str) -> Stamp | None:
    """Another value for every version of a file; None when there is none, be it for a moment.

    The inode too: mounted ConfigMaps and Secrets are replaced whole, maybe with an older time. And when
    anything about it changed: that is how a file becomes readable.
    """
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino


async def follow(
    file: str, known: Stamp | None, read: Callable[[], None], *, look_s: float, refused: str
) -> None:
    """Call `read` whenever the file is another one than `known`, for ever.

    What it does not take (BadInput) is logged as `refused` and waits for another change, unless the file
    could not even be read (no rights yet, no descriptors left): the next look tries that again.
    """
    told: tuple[Stamp, str] | None = None
    while True:
        await asyncio.sleep(look_s)
        stamp = stamp_of(file)
        if stamp is None or stamp == known:
            continue  # a file that is away for a moment is being replaced
        try:
            read()
        except BadInput as error:
            if told != (stamp, str(error)):
                told = stamp, str(error)
                _log.error(refused, reason=str(error))
            if isinstance(error.__cause__, OSError):
                continue
        known = stamp
