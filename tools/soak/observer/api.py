"""JSON over HTTP to an API server, and watches that list again whenever they break. aiohttp and json only."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import aiohttp

Manifest = dict[str, Any]
See = Callable[[str, str, Manifest], None]
"""Called with what happened (ADDED, MODIFIED, DELETED), the kind, and the object."""

_RETRY_S = 0.5


class Api:
    """One user of an API server."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        self._url = url
        self._tls = tls

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> tuple[int, Manifest]:
        """One request: the status and the answer; without one, `aiohttp.ClientError` or `TimeoutError`."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        async with self._session.request(method, self._url + path, data=data, headers=headers) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text.startswith("{") else {"message": text}

    async def watch(self, kind: str, path: str, see: See) -> None:
        """Follow all objects under `path`; what left while the stream was broken is seen as DELETED."""
        known: dict[str, Manifest] = {}
        while True:
            try:
                status, listed = await self.request("GET", path)
                if status == 200:
                    _compare(kind, known, listed["items"], see)
                    await self._stream(kind, path, listed["metadata"]["resourceVersion"], known, see)
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass  # the API server is away: listing again shows what was missed
            await asyncio.sleep(_RETRY_S)

    async def _stream(self, kind: str, path: str, version: str, known: dict[str, Manifest], see: See) -> None:
        url = f"{self._url}{path}?watch=1&resourceVersion={version}&allowWatchBookmarks=true"
        timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
        async with self._session.get(url, timeout=timeout) as answer:
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    if event["type"] == "BOOKMARK":
                        continue
                    one, uid = event["object"], event["object"]["metadata"]["uid"]
                    if event["type"] == "DELETED":
                        known.pop(uid, None)
                    else:
                        known[uid] = one
                    see(event["type"], kind, one)


def _compare(kind: str, known: dict[str, Manifest], items: list[Manifest], see: See) -> None:
    listed = {one["metadata"]["uid"]: one for one in items}
    for uid in [uid for uid in known if uid not in listed]:
        see("DELETED", kind, known.pop(uid))
    for uid, one in listed.items():
        before = known.get(uid)
        if before is None or before["metadata"]["resourceVersion"] != one["metadata"]["resourceVersion"]:
            known[uid] = one
            see("ADDED" if before is None else "MODIFIED", kind, one)
