"""A balancer on the loopback before several replicas, as kube-proxy is: it picks one per connection."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from concurrent.futures import Future
from typing import Self

from support.wire import PATIENCE_S


class Balancer:
    """Forwards each connection to the next of `ports` that accepts it. Lives in a thread of its own."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.refused = 0
        self._turn = itertools.count()
        self._started: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)
        self._thread.start()
        self.port = self._started.result(PATIENCE_S)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(PATIENCE_S)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._pipes: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0, backlog=1024)
        self._started.set_result(server.sockets[0].getsockname()[1])
        await self._ended.wait()
        server.close()
        # Cancelled, a connection's task would be reported as an error by the streams themselves.
        for pipe, writer in list(self._pipes.items()):
            writer.transport.abort()
            await asyncio.wait((pipe,))
        await server.wait_closed()

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pipes[task] = writer
        backend = None
        try:
            backend = await self._backend()
            if backend is None:
                self.refused += 1
                return
            ends = [
                asyncio.create_task(_pipe(reader, backend[1])),
                asyncio.create_task(_pipe(backend[0], writer)),
            ]
            try:
                # One end that is gone takes the other with it, as a killed process does.
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
        finally:
            await _close(writer)
            if backend is not None:
                await _close(backend[1])
            del self._pipes[task]

    async def _backend(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        ports = list(self.ports)
        for _ in ports:
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", ports[next(self._turn) % len(ports)])
        return None


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
