"""One request on its way out: what it is, the fence that may stop it, and what its failure means.

aiohttp is between us and the wire for reads, watches and proxies; here its ways are turned into ours.
"""

from __future__ import annotations

from typing import Protocol

import aiohttp

from fairlead.errors import LeaseLost, NotSent, Unreachable

JSON = "application/json"


class Fence(Protocol):
    """Stands before writes: may we still?"""

    def check(self) -> float:
        """Seconds within which a write sent now must be over; raises LeaseLost when there are none."""


class Call:
    """One request as it goes out; as text, what messages call it."""

    __slots__ = ("accept", "body", "content_type", "method", "url")

    def __init__(
        self, method: str, url: str, body: bytes | None, accept: str, content_type: str = JSON
    ) -> None:
        self.method = method
        self.url = url
        self.body = body
        self.accept = accept
        self.content_type = content_type

    def __str__(self) -> str:
        return f"{self.method} {self.url}"


class FencedBody(aiohttp.BytesPayload):
    """A body that asks the fence when its turn on the connection has come.

    aiohttp holds back a request's head until its body is written, and writes that in a task of its own:
    refused here, nothing goes out, and what lies between the question and the bytes is a system call.
    """

    def __init__(self, body: bytes, fence: Fence) -> None:
        super().__init__(body)
        self._fence = fence

    async def write_with_length(
        self, writer: aiohttp.abc.AbstractStreamWriter, content_length: int | None
    ) -> None:
        self._fence.check()
        await super().write_with_length(writer, content_length)


class Guard:
    """Goes with one request: turns failures into ours before aiohttp sees them."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        try:
            return await handler(request)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error.__cause__, LeaseLost):  # from the body: aiohttp wraps what it raises
                raise error.__cause__ from None
            raise self.explain(error) from error

    def explain(self, error: Exception) -> Unreachable:
        """Our error for aiohttp's."""
        match error:
            case aiohttp.ClientConnectorCertificateError():
                return NotSent(f"{self._call}: {distrusted(error)}")
            case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError() | aiohttp.InvalidURL():
                return NotSent(f"{self._call}: no connection: {say(error)}")
            case aiohttp.ClientHttpProxyError() | aiohttp.ClientProxyConnectionError():
                return NotSent(f"{self._call}: the proxy gave no connection: {say(error)}")
            case _:
                return Unreachable(f"{self._call}: no answer: {say(error)}")


def distrusted(error: Exception) -> str:
    """What is wrong with the server's certificate, and what can be done about it."""
    said = say(error)
    strictness = ("Key Identifier", "Basic Constraints", "key usage", "critical")
    hint = "; if only Python's strict check minds, it can be turned off"
    return f"the server's certificate is not trusted: {said}" + hint * any(
        word in said for word in strictness
    )


def say(error: BaseException) -> str:
    """An error's text; its name when it has none."""
    return str(error) or type(error).__name__
