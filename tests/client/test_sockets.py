"""However a request is given up, closing the connection leaves no socket behind."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from fairlead.client.authority import Authority
from fairlead.client.config import Pem, Server, Target
from fairlead.client.connection import Connection
from support.wire import PATIENCE_S

TURNS = 150  # of the loop: by then, a request has gone from looking up an address to waiting for an answer

Request = Callable[[Connection], Awaitable[object]]


class Silent:
    """Agrees on TLS, and then says nothing: no answer and no goodbye. Each connection has its thread."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        pair = authority.server([], ["127.0.0.1"])
        (folder / "server.pem").write_bytes(pair.private + pair.public)
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(folder / "server.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._changed = threading.Condition()
        self._arrived = self._open = 0
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()
        port = self._listener.getsockname()[1]
        ca = Pem(authority.pair.public.decode())
        self.target = Target(Server(f"https://127.0.0.1:{port}", ca=ca), source="silent server")

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()

    def wait_for_a_request(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._arrived, PATIENCE_S)

    def wait_for_nobody(self) -> None:
        with self._changed:
            gone = self._changed.wait_for(lambda: not self._open, PATIENCE_S)
            assert gone, f"{self._open} still connected"

    def _accept(self) -> None:
        while True:
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self._open += 1
            threading.Thread(target=self._hear, args=(raw,)).start()

    def _hear(self, raw: socket.socket) -> None:
        try:
            with self._tls.wrap_socket(raw, server_side=True) as tls:
                if tls.recv(1):
                    with self._changed:
                        self._arrived += 1
                        self._changed.notify_all()
                with socket.socket(fileno=tls.detach()) as raw:
                    while raw.recv(65536):
                        pass
        except OSError:
            pass  # the client went away half-way
        finally:
            raw.close()
            with self._changed:
                self._open -= 1
                self._changed.notify_all()


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Silent]:
    server = Silent(tmp_path)
    yield server
    server.wait_for_nobody()
    server.stop()


async def watch(connection: Connection) -> None:
    async with connection.stream("/x"):
        pass


@pytest.fixture(params=["read", "write", "watch"])
def request_of(request: pytest.FixtureRequest) -> Request:
    ways: dict[str, Request] = {
        "read": lambda connection: connection.request("GET", "/x"),
        "write": lambda connection: connection.request("POST", "/x", b"{}"),
        "watch": watch,
    }
    return ways[request.param]


async def test_given_up_while_it_waits_for_an_answer(silent: Silent, request_of: Request) -> None:
    async with Connection(silent.target) as connection:
        task = asyncio.ensure_future(request_of(connection))
        await asyncio.to_thread(silent.wait_for_a_request)
        task.cancel()
        await asyncio.wait([task])
    # The server hears of it without a goodbye of its own, and before the loop ends.
    silent.wait_for_nobody()


async def test_given_up_at_any_moment(silent: Silent, request_of: Request) -> None:
    for turns in range(TURNS):
        async with Connection(silent.target) as connection:
            task = asyncio.ensure_future(request_of(connection))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        silent.wait_for_nobody()
