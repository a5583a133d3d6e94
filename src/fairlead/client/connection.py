"""Requests and streams to one API server over kept-alive connections.

Every failure comes out as an error that says whether the request can have been applied: NotSent,
Unreachable, or the ApiError that the server's Status stands for. aiohttp repeats PUT and DELETE by
itself when a kept-alive connection turns out dead; `_Guard` keeps it from doing so.
"""

from __future__ import annotations

import asyncio
import email.utils
import ssl
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.config import Target
from fairlead.client.credentials import Credential, Source, source_of
from fairlead.client.tls import client_context
from fairlead.errors import ApiError, BadKubeconfig, NotSent, Unreachable

__all__ = ["Connection", "Fence", "Stream", "status_error"]

JSON = "application/json"


class Fence(Protocol):
    """Stands before writes: may we still?"""

    def check(self) -> float:
        """Seconds within which a write sent now must be over; raises LeaseLost when there are none."""


class Connection:
    """All connections to one API server, made when needed and kept alive.

    Invariant: at most `in_flight` requests are under way (streams and other lanes not counted);
    further callers wait their turn. Cancelled while waiting, nothing was sent; cancelled later, the
    connection in use is closed and the outcome of a write is unknown.
    """

    def __init__(
        self,
        target: Target,
        *,
        in_flight: int = 64,
        timeout_s: float = 30.0,
        connect_timeout_s: float = 10.0,
        clock: Clock = WALL_CLOCK,
        user_agent: str = "fairlead",
        compress: bool = False,
    ) -> None:
        self.target = target
        self.timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._clock = clock
        self._source: Source = source_of(target, clock=clock)
        self._lane = asyncio.Semaphore(in_flight)
        self._proxy = target.server.proxy_url or _proxy_of(target.server.url)
        self._headers: CIMultiDict[str] = CIMultiDict(target.user.headers)
        self._headers["User-Agent"] = user_agent
        # The API server compresses large lists; near it, that costs more time than it saves.
        self._headers["Accept-Encoding"] = "gzip" if compress else "identity"
        self._session: aiohttp.ClientSession | None = None
        self._credential: Credential | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close everything; requests under way end as Unreachable, later ones are refused."""
        self._closed = True
        await self.reset()

    async def reset(self) -> None:
        """Close every connection, also those in use: what comes next starts on a new one.

        For the moment after a suspension: bytes that wait in an old socket must not be sent now.
        """
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_s: float | None = None,
        fence: Fence | None = None,
        lane: asyncio.Semaphore | None = None,
    ) -> bytes:
        """Send one request, once, and return the body of a success.

        The exception: a 401 means that it was not looked at, so it is sent once more when there are
        newer credentials. `fence` is asked when the turn has come and again at the instant of sending.
        """
        call = _Call(method, path, body, accept, content_type)
        async with lane or self._lane:
            credential = await self._source.get()
            try:
                return await self._send(call, credential, timeout_s, fence)
            except ApiError as error:
                if error.code != 401 or not await self._source.newer(credential):
                    raise
            credential = await self._source.get()
            return await self._send(call, credential, timeout_s, fence)

    @asynccontextmanager
    async def stream(
        self, path: str, *, accept: str = JSON, inactivity_s: float = 90.0
    ) -> AsyncIterator[Stream]:
        """An open watch. Leaving the context closes its connection: there is no telling what is in it."""
        call = _Call("GET", path, None, accept)
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._connect_timeout_s, sock_read=inactivity_s
        )
        credential = await self._source.get()
        async with AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(self._open(call, credential, timeout))
                await _raise_for_status(response)
            except ApiError as error:
                if error.code != 401 or not await self._source.newer(credential):
                    raise
                await stack.aclose()
                credential = await self._source.get()
                response = await stack.enter_async_context(self._open(call, credential, timeout))
                await _raise_for_status(response)
            stack.callback(response.close)
            yield Stream(response, self._what(call))

    async def _send(
        self, call: _Call, credential: Credential, timeout_s: float | None, fence: Fence | None
    ) -> bytes:
        timeout_s = timeout_s or self.timeout_s
        if fence is not None:
            timeout_s = min(timeout_s, fence.check())
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=self._connect_timeout_s)
        async with self._open(call, credential, timeout, fence) as response:
            try:
                answer = await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise Unreachable(f"{self._what(call)}: the answer broke off: {_say(error)}") from error
            if response.status >= 400:
                raise _error_of(response, answer)
            return answer

    @asynccontextmanager
    async def _open(
        self,
        call: _Call,
        credential: Credential,
        timeout: aiohttp.ClientTimeout,
        fence: Fence | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        session = await self._session_for(credential)
        headers = self._headers.copy()
        headers["Accept"] = call.accept
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        if credential.authorization is not None:
            headers["Authorization"] = credential.authorization
        guard = _Guard(self._what(call), fence)
        try:
            response = await session.request(
                call.method,
                URL(self.target.server.url + call.path, encoded=True),
                data=call.body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                proxy=self._proxy,
                server_hostname=self.target.server.tls_name,
                middlewares=(guard,),
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise guard.explain(error) from error
        async with response:
            yield response

    async def _session_for(self, credential: Credential) -> aiohttp.ClientSession:
        if self._closed:
            raise NotSent(f"{self.target.server.url}: the connection was closed")
        known = self._credential
        if self._session is not None and (known is None or known.certificate != credential.certificate):
            await self.reset()  # connections are made with a certificate: another one needs new ones
        self._credential = credential
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, ssl=self._context(credential), keepalive_timeout=60.0
                ),
                request_class=_Request,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
                read_bufsize=256 * 1024,
            )
        return self._session

    def _context(self, credential: Credential) -> ssl.SSLContext | bool:
        server = self.target.server
        if server.url.startswith("http://"):
            return True
        try:
            return client_context(
                ca_pem=server.ca.read() if server.ca else None,
                verify=server.verify,
                strict=self.target.strict_x509,
                certificate=credential.certificate,
            )
        except (ssl.SSLError, ValueError) as error:
            raise BadKubeconfig(
                f"{self.target.source}: the CA or client certificate cannot be used: {error}"
            ) from error

    def _what(self, call: _Call) -> str:
        return f"{call.method} {self.target.server.url}{call.path}"


class Stream:
    """The chunks of an open watch, as they come."""

    __slots__ = ("_content", "_response", "_what")

    def __init__(self, response: aiohttp.ClientResponse, what: str) -> None:
        self._response = response
        self._content = response.content
        self._what = what

    async def read(self) -> bytes:
        """What has arrived, at least one byte; b"" at the end. Raises Unreachable when it breaks or
        stays silent for too long. Not reading holds the server back. Cancelled, nothing is lost.
        """
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{self._what}: the stream broke off: {_say(error)}") from error

    def abort(self) -> None:
        """Close the connection under it: whoever reads gets Unreachable."""
        self._response.close()


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    path: str
    body: bytes | None
    accept: str
    content_type: str = JSON


class _Request(aiohttp.ClientRequest):
    """Asks the fence at the last instant: a connection is there, the next thing are the bytes."""

    fence: Fence | None = None

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        if self.fence is not None:
            self.fence.check()
        return await super().send(conn)


class _Guard:
    """Goes with one request: hands on its fence, and turns failures into ours before aiohttp sees them."""

    __slots__ = ("_fence", "_what")

    def __init__(self, what: str, fence: Fence | None) -> None:
        self._what = what
        self._fence = fence

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if self._fence is not None and isinstance(request, _Request):
            request.fence = self._fence
        try:
            return await handler(request)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self.explain(error) from error

    def explain(self, error: Exception) -> Unreachable:
        match error:
            case aiohttp.ClientConnectorCertificateError():
                hint = "; if only Python's strict check minds, it can be turned off" * _is_strictness(error)
                return NotSent(f"{self._what}: the server's certificate is not trusted: {_say(error)}{hint}")
            case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError() | aiohttp.InvalidURL():
                return NotSent(f"{self._what}: no connection: {_say(error)}")
            case aiohttp.ClientHttpProxyError() | aiohttp.ClientProxyConnectionError():
                return NotSent(f"{self._what}: the proxy gave no connection: {_say(error)}")
            case _:
                return Unreachable(f"{self._what}: no answer: {_say(error)}")


def _is_strictness(error: aiohttp.ClientConnectorCertificateError) -> bool:
    said = str(error)
    return any(word in said for word in ("Key Identifier", "Basic Constraints", "key usage", "critical"))


def _say(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment names for this URL, as other Kubernetes clients honour it."""
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy is None or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


class _Status(msgspec.Struct, rename="camel"):
    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, object] | None = None


_read_status = msgspec.json.Decoder(_Status).decode


async def _raise_for_status(response: aiohttp.ClientResponse) -> None:
    if response.status >= 400:
        try:
            answer = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            answer = b""  # the status line alone says enough
        raise _error_of(response, answer)


def _error_of(response: aiohttp.ClientResponse, answer: bytes) -> ApiError:
    return status_error(answer, response.status, response.reason or "", response.headers.get("Retry-After"))


def status_error(answer: bytes, code: int, reason: str = "", retry_after: str | None = None) -> ApiError:
    """The error that a Status stands for, from a response or from an ERROR frame of a watch."""
    try:
        status = _read_status(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        status = _Status()  # a proxy's error page: its text is the message
    if status.kind != "Status":
        status = _Status(message=answer[:500].decode(errors="replace").strip() or reason or "no message")
    details = status.details or {}
    seconds = _seconds(retry_after)
    if seconds is None and isinstance(asked := details.get("retryAfterSeconds"), int | float) and asked:
        seconds = float(asked)
    return ApiError.of(
        status.code or code,
        status.reason or reason.replace(" ", "") or "Unknown",
        status.message or reason or "no message",
        retry_after_s=seconds,
        details=details,
    )


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After is seconds or a date."""
    if not retry_after:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        date = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (date - WALL_CLOCK.wall()).total_seconds())
