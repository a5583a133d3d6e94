"""Files that another program rewrites while we run: has one changed, and reading it again when it has."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import structlog

from fairlead.errors import BadInput

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
    file: str,
    known: Stamp | None,
    read: Callable[[], None],
    *,
    look_s: float,
    refused: str,
    again: asyncio.Event | None = None,
) -> None:
    """Call `read` whenever the file is another one than `known`, and each time that `again` is set, for ever.

    What it does not take (BadInput) is logged as `refused` and waits for another change, unless the file
    could not even be read (no rights yet, no descriptors left): the next look tries that again.
    """
    told: tuple[Stamp | None, str] | None = None
    again = again or asyncio.Event()
    while True:
        try:
            async with asyncio.timeout(look_s):
                await again.wait()
        except TimeoutError:
            pass  # time to look at the file
        stamp = stamp_of(file)
        if again.is_set():
            again.clear()
            told = None
        elif stamp is None or stamp == known:
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
