"""An API server's raw answers: status, headers and body as they came, and watches read line by line.

Nothing is retried, decoded into types or hidden: the conformance suite compares what clusters *say*.
"""

from __future__ import annotations

import http.client
import json
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

PATIENCE_S = 60.0
"""How long a test waits for what must come; only one that fails waits that long."""
_KEPT_S = 20.0  # servers hang up on connections that nobody uses for longer than a minute


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer."""

    status: int
    headers: dict[str, str]
    body: Any

    def ok(self) -> Any:
        """The body of a success; anything else fails the test with what the server said."""
        assert self.status < 300, f"{self.status}: {self.body}"
        return self.body

    def refused(self, status: int, reason: str | None = None) -> Any:
        """The Status of a refusal with this code (and reason)."""
        assert self.status == status, f"{self.status} instead of {status}: {self.body}"
        assert self.body["kind"] == "Status"
        assert self.body["status"] == "Failure"
        assert self.body["code"] == status
        if reason is not None:
            assert self.body["reason"] == reason
        return self.body


class Wire:
    """Talks to one server over one kept-alive connection; watches get connections of their own."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None, *, token: str = "") -> None:
        self._url = urlsplit(url)
        self._tls = tls
        self._credentials = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection: http.client.HTTPConnection | None = None
        self._used_at = 0.0

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        **query: str | int | bool,
    ) -> Answer:
        """Send one request and read the whole answer."""
        if time.monotonic() - self._used_at > _KEPT_S:
            self.close()
        if self._connection is None:
            self._connection = self._connect()
        headers = {"Accept": accept, "Content-Type": content_type, **self._credentials}
        try:
            self._connection.request(method, with_query(path, query), encode(body), headers)
            response = self._connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        self._used_at = time.monotonic()
        received = {name.lower(): value for name, value in response.getheaders()}
        return Answer(
            response.status, received, json.loads(data) if data[:1] in (b"{", b"[") else data.decode()
        )

    @contextmanager
    def watch(self, path: str, *, accept: str = JSON, **query: str | int | bool) -> Iterator[Watch]:
        """A watch that is open inside the block."""
        connection = self._connect()
        watch = None
        try:
            headers = {"Accept": accept, **self._credentials}
            connection.request("GET", with_query(path, {"watch": True, **query}), headers=headers)
            response = connection.getresponse()
            assert response.status == 200, f"{response.status}: {response.read()!r}"
            if connection.sock is not None:
                # A cluster may be silent for longer than a test waits for one event.
                connection.sock.settimeout(None)
            watch = Watch(response)
            yield watch
        finally:
            if watch is not None:
                watch.close(connection)
            connection.close()

    def close(self) -> None:
        """Drop the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=PATIENCE_S, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=PATIENCE_S)


class Watch:
    """The events of a watch, in order, read as they are asked for."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, args=(response,), daemon=True)
        self._reader.start()

    def next(self) -> dict[str, Any]:
        """The next event; the test fails when the stream ends or stays silent."""
        try:
            event = self._events.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise AssertionError("no event came") from None
        assert event is not None, "the watch ended"
        return event

    def expect(self, *types: str) -> list[dict[str, Any]]:
        """The objects of the next events, which must be of these types."""
        events = [self.next() for _ in types]
        assert tuple(event["type"] for event in events) == types, events
        return [event["object"] for event in events]

    def until(self, matches: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """All events up to and including the first that matches."""
        events = [self.next()]
        while not matches(events[-1]):
            events.append(self.next())
        return events

    def ends(self) -> list[dict[str, Any]]:
        """All events until the server ends the stream."""
        events = []
        while (event := self._events.get(timeout=PATIENCE_S)) is not None:
            events.append(event)
        return events

    def close(self, connection: http.client.HTTPConnection) -> None:
        """Stop reading: wakes the reader, which closing alone would leave waiting for the next event."""
        with suppress(OSError):  # the server may have closed it first
            # Past the TLS layer, whose own shutdown would wait for the other side.
            if connection.sock is not None:
                socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
        self._reader.join(PATIENCE_S)

    def _read(self, response: http.client.HTTPResponse) -> None:
        try:
            while line := response.readline():
                self._events.put(json.loads(line))
        except (OSError, ValueError, http.client.HTTPException):
            pass  # the connection was closed under us: the end of the watch
        self._events.put(None)


def with_query(path: str, query: dict[str, str | int | bool]) -> str:
    """`path` with query parameters, booleans as the API spells them."""
    spelt = {
        name.rstrip("_"): str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
    }
    return f"{path}?{urlencode(spelt)}" if spelt else path


def encode(body: Any) -> bytes | None:
    """JSON, unless it is bytes already."""
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(body).encode()
