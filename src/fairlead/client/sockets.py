"""The sockets under a connection, so that all of them can be closed at once.

Cancelling a request leaves its TLS connection to an orderly end: close_notify, and wait for the server's.
The loop may stop before that comes; the socket then has no owner. The same goes for a handshake that is
given up in its first or last instant. Below TLS there is nothing to wait for.
"""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

_log = structlog.get_logger(__name__)

_TURNS = 100  # of the loop; a socket that was shut down is closed after two or three

# As getaddrinfo gives it: family, type, protocol, canonical name, address.
_AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]


@contextmanager
def without_goodbyes() -> Iterator[None]:
    """While connections are broken, let the loop say nothing of TLS that could not take leave of its peer.

    uvloop writes close_notify also where the socket below was closed a moment before; that fails, and
    the loop would log it with a traceback, as if something were wrong.
    """
    loop = asyncio.get_running_loop()
    usual = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, RuntimeError) and "closed" in str(error) and "protocol" in context:
            _log.debug("goodbye_not_sent", error=str(error))
        elif usual is not None:
            usual(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        loop.set_exception_handler(usual)


class Sockets:
    """Makes sockets and knows which of them are still open."""

    def __init__(self) -> None:
        self._made: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def make(self, info: _AddressInfo) -> socket.socket:
        """A socket for this address, not yet connected."""
        family, kind, protocol, _, _ = info
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        self._made.add(made)
        return made

    async def connect(self, host: str, port: int) -> socket.socket:
        """A socket connected to the first address that answers; raises OSError of the last that did not."""
        loop = asyncio.get_running_loop()
        failed: OSError = ConnectionError(f"{host} has no address")
        for info in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            made = self.make(info)
            try:
                await loop.sock_connect(made, info[4])
            except OSError as error:
                failed = error
                made.close()
            except BaseException:
                made.close()
                raise
            else:
                return made
        raise failed

    async def close(self) -> None:
        """Break whatever is still open, and wait until its owner has noticed."""
        broken = [one for one in list(self._made) if _is_shut(one)]
        for _ in range(_TURNS):
            if all(one.fileno() < 0 for one in broken):
                return
            await asyncio.sleep(0)


def _is_shut(made: socket.socket) -> bool:
    """Whether there was a connection to break."""
    try:
        made.shutdown(socket.SHUT_RDWR)
    except OSError:  # closed, or not yet connected: cancelling closes that
        return False
    return True
