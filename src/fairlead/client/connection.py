"""Requests and streams to one API server over kept-alive connections.

Every failure comes out as an error that says whether the request can have been applied: NotSent,
Unreachable, or the ApiError that the server's Status stands for. aiohttp repeats PUT and DELETE by
itself when a kept-alive connection turns out dead; `Guard` keeps it from doing so.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
import structlog
from multidict import CIMultiDict
from yarl import URL

from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.config import Target
from fairlead.client.credentials import Credential, source_of
from fairlead.client.raw_http import RawHttp
from fairlead.client.request import JSON, Call, Fence, FencedBody, Guard, say
from fairlead.client.sockets import Sockets, without_goodbyes
from fairlead.client.tls import client_context
from fairlead.client.wire import status_error
from fairlead.errors import ApiError, BadKubeconfig, NotSent, Unreachable

__all__ = ["JSON", "Connection", "Fence", "Stream", "abandon"]

_log = structlog.get_logger(__name__)

T = TypeVar("T")


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
    ) -> None:
        self.target = target
        self.timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._clock = clock
        self._source = source_of(target, clock=clock)
        self._lane = asyncio.Semaphore(in_flight)
        self.proxy = target.server.proxy_url or _proxy_of(target.server.url)
        self._headers: CIMultiDict[str] = CIMultiDict(target.user.headers)
        self._headers["User-Agent"] = user_agent
        # The API server compresses large lists; near it, that costs more time than it saves.
        self._headers["Accept-Encoding"] = "identity"
        self._made_headers: dict[tuple[str, str | None], CIMultiDict[str]] = {}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=connect_timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._raw_http: RawHttp | None = None
        self._sockets = Sockets()
        self._streams: set[Stream] = set()  # open watches
        self._raw_heads: dict[tuple[str, str], bytes] = {}
        self._credential: Credential | None = None
        self._authorities: str | None = None  # PEM, trusted by all connections since the last reset
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
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
        raw_http, self._raw_http = self._raw_http, None
        sockets, self._sockets = self._sockets, Sockets()
        self._authorities = None
        with without_goodbyes():
            # aiohttp closes a session without a word to readers of bodies: they would wait for ever.
            for stream in tuple(self._streams):
                stream.abort()
            if raw_http is not None:
                raw_http.close()
            if session is not None:
                await session.close()
            await sockets.close()

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
        newer credentials. `fence` is for writes, which all have a body: it is asked when the turn has
        come and again at the instant of sending.
        """
        call = Call(method, self.target.server.url + path, body, accept, content_type)
        async with lane or self._lane:
            return await self._authorized(lambda credential: self._send(call, credential, timeout_s, fence))

    @asynccontextmanager
    async def stream(
        self, path: str, *, accept: str = JSON, inactivity_s: float = 90.0
    ) -> AsyncIterator[Stream]:
        """An open watch. Leaving the context closes its connection: there is no telling what is in it."""
        call = Call("GET", self.target.server.url + path, None, accept)
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._connect_timeout_s, sock_read=inactivity_s
        )
        response = await self._authorized(lambda credential: self._open(call, credential, timeout))
        stream = Stream(response, call)
        self._streams.add(stream)
        try:
            yield stream
        finally:
            self._streams.discard(stream)
            abandon(response)

    async def _authorized(self, send: Callable[[Credential], Awaitable[T]]) -> T:
        """Send with the current credential, once more after a 401 when there is a newer one."""
        credential = await self._source.get()
        try:
            return await send(credential)
        except NotSent:
            await self._reread_authorities()
            raise
        except ApiError as error:
            if error.code != 401 or not await self._source.newer(credential):
                raise
        return await send(await self._source.get())

    async def _open(
        self, call: Call, credential: Credential, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        response = await self._begin(call, credential, timeout, None)
        if not _is_success(response.status):
            raise _error_of(response, await _body(response, call))
        return response

    async def _send(
        self, call: Call, credential: Credential, timeout_s: float | None, fence: Fence | None
    ) -> bytes:
        if call.body is not None and self.proxy is None:
            return await self._send_express(call, credential, timeout_s, fence)
        timeout = self._timeout
        if fence is not None or timeout_s is not None:
            timeout_s = timeout_s or self.timeout_s
            if fence is not None:
                timeout_s = min(timeout_s, fence.check())
            timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=self._connect_timeout_s)
        response = await self._begin(call, credential, timeout, fence)
        answer = await _body(response, call)
        if not _is_success(response.status):
            raise _error_of(response, answer)
        return answer

    async def _send_express(
        self, call: Call, credential: Credential, timeout_s: float | None, fence: Fence | None
    ) -> bytes:
        """Writes are small and many: they go without aiohttp, which costs several times their CPU."""
        raw_http = await self._raw_http_for(credential)
        timeout_s = timeout_s or self.timeout_s
        if fence is not None:
            timeout_s = min(timeout_s, fence.check())
        kind = (call.accept, call.content_type)
        head = self._raw_heads.get(kind)
        if head is None:
            head = self._raw_heads[kind] = raw_http.head(self._headers_for(call, credential).items())
        path = call.url[len(self.target.server.url) :]
        check = fence.check if fence is not None else None
        reply = await raw_http.send(
            call.method,
            path,
            head,
            call.body or b"",
            what=f"{call.method} {call.url}",
            timeout_s=timeout_s,
            check=check,
        )
        if not _is_success(reply.status):
            raise status_error(reply.body, reply.status, reply.reason, reply.retry_after)
        return reply.body

    async def _raw_http_for(self, credential: Credential) -> RawHttp:
        await self._use(credential)
        if self._raw_http is None:
            context = self._context(credential)
            self._raw_http = RawHttp(
                self.target.server.url,
                tls=context if isinstance(context, ssl.SSLContext) else None,
                tls_name=self.target.server.tls_name,
                connect_timeout_s=self._connect_timeout_s,
                sockets=self._sockets,
            )
        return self._raw_http

    async def _begin(
        self, call: Call, credential: Credential, timeout: aiohttp.ClientTimeout, fence: Fence | None
    ) -> aiohttp.ClientResponse:
        """Send, and wait for the head of the answer; the caller reads it to the end or closes it."""
        session = await self._session_for(credential)
        guard = Guard(call)
        body = call.body if fence is None or call.body is None else FencedBody(call.body, fence)
        try:
            return await session.request(
                call.method,
                URL(call.url, encoded=True),
                data=body,
                headers=self._headers_for(call, credential),
                timeout=timeout,
                allow_redirects=False,
                proxy=self.proxy,
                server_hostname=self.target.server.tls_name,
                middlewares=(guard,),
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise guard.explain(error) from error

    def _headers_for(self, call: Call, credential: Credential) -> CIMultiDict[str]:
        """Made once for each kind of request: they are the same thousands of times a second."""
        content_type = call.content_type if call.body is not None else None
        headers = self._made_headers.get((call.accept, content_type))
        if headers is None:
            headers = self._headers.copy()
            headers["Accept"] = call.accept
            if content_type is not None:
                headers["Content-Type"] = content_type
            if credential.authorization is not None:
                headers["Authorization"] = credential.authorization
            self._made_headers[call.accept, content_type] = headers
        return headers

    async def _use(self, credential: Credential) -> None:
        if self._closed:
            raise NotSent(f"{self.target.server.url}: the connection was closed")
        if credential is not self._credential:
            known, self._credential = self._credential, credential
            self._made_headers = {}
            self._raw_heads = {}
            if known is not None and known.certificate != credential.certificate:
                await self.reset()  # connections are made with a certificate: another one needs new ones

    async def _session_for(self, credential: Credential) -> aiohttp.ClientSession:
        await self._use(credential)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    ssl=self._context(credential),
                    keepalive_timeout=60.0,
                    socket_factory=self._sockets.make,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
                read_bufsize=256 * 1024,
            )
        return self._session

    async def _reread_authorities(self) -> None:
        """After a connection that did not come about: the server's authority may have been replaced, and the
        file that names it rewritten. The next connections go by that; one that cannot be used is passed over.
        """
        ca = self.target.server.ca
        if ca is None or self._authorities is None:
            return  # nothing to read, or what is there now will be read
        try:
            found = ca.read()
            if found == self._authorities:
                return
            client_context(ca_pem=found)
        except (BadKubeconfig, ssl.SSLError, ValueError) as error:
            _log.warning("authorities_not_reread", reason=str(error))
            return
        _log.info("authorities_reread", file=str(ca.file))
        await self.reset()
        self._authorities = found

    def _context(self, credential: Credential) -> ssl.SSLContext | bool:
        server = self.target.server
        if server.url.startswith("http://"):
            return True
        authorities = self._authorities
        if authorities is None and server.ca is not None:
            authorities = server.ca.read()
        try:
            context = client_context(
                ca_pem=authorities,
                verify=server.verify,
                strict=self.target.strict_x509,
                certificate=credential.certificate,
            )
        except (ssl.SSLError, ValueError) as error:
            raise BadKubeconfig(
                f"{self.target.source}: the CA or client certificate cannot be used: {error}"
            ) from error
        self._authorities = authorities
        return context


class Stream:
    """The chunks of an open watch, as they come."""

    __slots__ = ("_call", "_content", "_response")

    def __init__(self, response: aiohttp.ClientResponse, call: Call) -> None:
        self._response = response
        self._content = response.content
        self._call = call

    async def read(self) -> bytes:
        """What has arrived, at least one byte; b"" at the end. Raises Unreachable when it breaks or
        stays silent for too long. Not reading holds the server back. Cancelled, nothing is lost.
        """
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{self._call}: the stream broke off: {say(error)}") from error

    def abort(self) -> None:
        """Close the connection under it: its reader gets Unreachable."""
        self._response.close()


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment names for this URL, as other Kubernetes clients honour it.

    Never for this machine itself: Go does not either, and a proxy's own loopback is another machine's.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy is None or _is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def abandon(response: aiohttp.ClientResponse) -> None:
    """Close a response's connection at once, in the middle of its body.

    Closing it politely would have TLS wait for the server's goodbye, which a closing loop never hears.
    """
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()


async def _body(response: aiohttp.ClientResponse, call: Call) -> bytes:
    """The whole answer. However it ends, the connection is given back or closed."""
    try:
        return await response.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"{call}: the answer broke off: {say(error)}") from error


def _is_success(status: int) -> bool:
    """A redirect is none: it is a login page or a proxy's, and what was asked for was not done."""
    return 200 <= status < 300


def _error_of(response: aiohttp.ClientResponse, answer: bytes) -> ApiError:
    return status_error(answer, response.status, response.reason or "", response.headers.get("Retry-After"))
