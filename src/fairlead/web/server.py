"""Answers browsers: the page's files, the board, the stream of what changes, and what is asked of the engine.

Nothing below the page's path changes the cluster; a what-if is worked out on a copy. A browser reads the
`state`, then the `stream` from the number that the state ends with; after a break it names the last number
that it has. Where that is no longer known it is told to begin again (`reset`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import zlib
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from importlib.resources import files
from typing import Any

import msgspec
from aiohttp import web

import fairlead
from fairlead.doors.bodies import BODIES, Refused
from fairlead.doors.caller_review import Refusal
from fairlead.errors import BadInput
from fairlead.web.access import Access
from fairlead.web.answers import DOCUMENTS, Answers
from fairlead.web.board import Board, Delta
from fairlead.web.history import Frame, History
from fairlead.web.whatif import LARGEST, Asked, Busy, WhatIf, read_asked

PATH = "/dashboard"
MOST_STREAMS = 64
"""Browsers at once: each takes one of the port's connections for as long as the page is open."""
_ALIVE_S = 10.0  # a comment is sent when nothing happens: proxies end silent connections
_PATIENCE_S = 5.0
_REVIEW_S = 30.0  # how often it is asked again whether a reader may go on
_AT_ONCE = 256 * 1024  # bytes of changes that are sent in one go
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""What every answer says: nothing comes from elsewhere, and no other page may show this one."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """See the module. `more` is what the state says besides, such as which way of signing in there is."""

    def __init__(
        self,
        access: Access,
        board: Board,
        history: History,
        answers: Answers,
        what_if: WhatIf,
        *,
        workloads: Callable[[], list[tuple[str, int]]],
        trouble: Callable[[], str],
        now: Callable[[], float],
        more: dict[str, Any],
    ) -> None:
        self._access = access
        self._board = board
        self._history = history
        self._answers = answers
        self._what_if = what_if
        self._workloads = workloads
        self._trouble = trouble
        self._now = now
        self._more = more
        self._files = _page()
        self._streams = 0

    def routes(self) -> list[web.RouteDef]:
        """What it adds to a port."""
        found = [
            web.get(PATH, self._guarded(self._to_page)),
            web.get(f"{PATH}/", self._guarded(self._file)),
            web.get(f"{PATH}/page/{{name}}", self._guarded(self._file)),
        ]
        for method, path, handler in self._access.routes():
            found.append(web.route(method, PATH + path, self._guarded(handler)))  # type: ignore[arg-type]
        for path, handle in (
            ("state", self._state),
            ("stream", self._stream),
            ("replay", self._replay),
            ("lines", self._lines),
            ("workloads", self._scaled),
            ("pods/{namespace}/{name}", self._pod),
            (f"{{what:{'|'.join(DOCUMENTS)}}}", self._document),
        ):
            found.append(web.get(f"{PATH}/api/{path}", self._guarded(self._read(handle))))
        found.append(web.post(f"{PATH}/api/whatif", self._guarded(self._read(self._whatif))))
        return found

    def _guarded(self, handler: Handler) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            refusal = self._access.of_origin(request)
            response = _refused(refusal) if refusal is not None else await handler(request)
            if not response.prepared:
                response.headers.update(HEADERS)
            return response

        return answer

    def _read(self, handler: Handler) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            refusal = await self._access.of_reader(request)
            if refusal is not None:
                return _refused(refusal)
            if self._trouble():
                # A page that is opened while the cluster is being read need not try again.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._history.beginning.wait(), _PATIENCE_S)
            if why := self._trouble():
                return _refused(Refusal(503, why))
            return await handler(request)

        return answer

    # Files

    async def _to_page(self, _: web.Request) -> web.Response:
        return web.Response(status=308, headers={"Location": f"{PATH}/"})

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index.html")
        found = self._files.get(name)
        if found is None:
            return web.Response(status=404, text="there is no such file")
        data, kind, tag = found
        headers = {"Cache-Control": "no-cache", "ETag": tag}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        response = web.Response(body=data, headers={**headers, "Content-Type": kind})
        response.enable_compression()
        return response

    # The board

    async def _state(self, request: web.Request) -> web.Response:
        whole, number = self._board.whole(self._now()), self._history.number
        said = {
            "number": number,
            "epoch": self._history.epoch,
            "version": fairlead.__version__,
            "answers": self._answers.overview,
            "groups": self._what_if.groups,
            **self._more,
        }
        return await _packed(request, lambda: _joined(said, whole))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= MOST_STREAMS:
            return _refused(Refusal(503, f"{MOST_STREAMS} pages are open already; close one"))
        at = self._place(request.headers.get("Last-Event-ID") or request.query.get("from", ""))
        response = web.StreamResponse(
            headers={**HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        self._streams += 1
        self._answers.viewer(1)
        try:
            await response.prepare(request)
            await response.write(b"retry: 1000\n\n")
            if at is None:
                await response.write(b"event: reset\ndata: {}\n\n")
            else:
                await self._send(request, response, at)
        except ConnectionError:
            pass  # the browser went away
        finally:
            self._answers.viewer(-1)
            self._streams -= 1
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse, at: int) -> None:
        loop = asyncio.get_running_loop()
        review = loop.time() + _REVIEW_S
        while True:
            frames = self._history.after(at)
            if frames is None:
                await response.write(b"event: reset\ndata: {}\n\n")
                return
            part = bytearray()
            for frame in frames:
                part += self._event(frame)
                at = frame.number
                if len(part) >= _AT_ONCE:
                    break
            if part:
                await response.write(bytes(part))
            if loop.time() >= review:
                if await self._access.of_reader(request) is not None:
                    return
                review = loop.time() + _REVIEW_S
            try:
                async with asyncio.timeout(_ALIVE_S):
                    if not await self._history.more(at):
                        return
            except TimeoutError:
                await response.write(b": nothing happens\n\n")

    def _place(self, text: str) -> int | None:
        """The number that a browser goes on from; None: it has to begin again."""
        epoch, _, number = text.partition("-")
        if epoch != self._history.epoch or not (number.isascii() and number.isdecimal()):
            return None
        return int(number[:18])

    def _event(self, frame: Frame) -> bytes:
        head = f"id: {self._history.epoch}-{frame.number}\nevent: {frame.name}\ndata: "
        return head.encode() + frame.data + b"\n\n"

    async def _replay(self, request: web.Request) -> web.Response:
        """The past as far as it is kept: the board that it begins with, and all that came after."""
        base, frames = self._history.replay()

        def encoded() -> bytes:
            parts = [
                b'{"at":%.3f,"name":"%s","data":%s}' % (one.at, one.name.encode(), one.data) for one in frames
            ]
            return b'{"base":' + msgspec.json.encode(base) + b',"frames":[' + b",".join(parts) + b"]}"

        return await _packed(request, encoded)

    async def _lines(self, request: web.Request) -> web.Response:
        lines = self._board.lines_of(request.query.get("about", ""))
        return await _packed(request, lambda: msgspec.json.encode({"lines": lines}))

    async def _scaled(self, request: web.Request) -> web.Response:
        found = self._workloads()
        return await _packed(request, lambda: msgspec.json.encode({"workloads": found}))

    # What is asked of the engine

    async def _document(self, request: web.Request) -> web.Response:
        found = await self._answers.of(request.match_info["what"])
        return await _packed(request, lambda: msgspec.json.encode(found))

    async def _pod(self, request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        found = await self._answers.pod(key)
        if found is None:
            return _refused(Refusal(404, f"there is no pod {key}"))
        return await _packed(request, lambda: msgspec.json.encode(found))

    async def _whatif(self, request: web.Request) -> web.StreamResponse:
        """Lines of JSON as it goes on; it ends with the request, however that ends."""
        try:
            async with request.app[BODIES].of(request, LARGEST) as body:
                asked = read_asked(body)
        except Refused as refused:
            return _refused(Refusal(refused.status, str(refused)))
        except BadInput as error:
            return _refused(Refusal(400, str(error)))
        try:
            with self._what_if.alone():
                return await self._play(request, asked)
        except Busy as error:
            return _refused(Refusal(503, str(error)))

    async def _play(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={**HEADERS, "Content-Type": "application/x-ndjson", "Cache-Control": "no-store"}
        )
        async with aclosing(self._what_if.lines(asked)) as lines:
            with contextlib.suppress(ConnectionError):  # the browser went away
                await response.prepare(request)
                async for line in lines:
                    if line.startswith(b'{"answer"') and await self._access.of_reader(request) is not None:
                        break  # it took a while, and the reader may not read any more
                    await response.write(line)
        return response


def _joined(said: dict[str, Any], whole: Delta) -> bytes:
    return msgspec.json.encode({**said, "board": whole})


def _refused(refusal: Refusal) -> web.Response:
    return web.json_response(
        {"why": refusal.why}, status=refusal.status, headers={"Cache-Control": "no-store"}
    )


async def _packed(request: web.Request, encode: Callable[[], bytes]) -> web.Response:
    """Encode, and compress what is large, in a thread: it may be megabytes, and the loop has more to do."""
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    packs = "gzip" in request.headers.get("Accept-Encoding", "")

    def done() -> tuple[bytes, bool]:
        data = encode()
        if not packs or len(data) < 1024:
            return data, False
        packer = zlib.compressobj(1, wbits=31)
        return packer.compress(data) + packer.flush(), True

    body, packed = await asyncio.to_thread(done)
    if packed:
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)


def _page() -> dict[str, tuple[bytes, str, str]]:
    """The page's files by name: content, type and tag."""
    found = {}
    for one in _in_folder():
        data = one.read_bytes()
        kind = _TYPES.get(one.name.rpartition(".")[2])
        if kind is not None:
            found[one.name] = data, kind, f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    return found


def _in_folder() -> Iterable[Any]:
    return files("fairlead.web").joinpath("page").iterdir()
