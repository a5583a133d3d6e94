"""Watch streams: the history, read from a version onwards, as frames.

A stream keeps no queue: it remembers the last version it sent and reads on from the store's history
when woken. A reader too slow for the history gets 410 in the stream, as from the real server.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from aiohttp import web

from fairlead.errors import Gone
from fairlead.world.api_errors import status_of
from fairlead.world.http.representation import shown, shown_table
from fairlead.world.http.request import Representation, Target
from fairlead.world.listing import Listing, Selection
from fairlead.world.schema.resources import Resource
from fairlead.world.store import Change, Object, Store
from fairlead.world.tables import metadata_only

_BATCH = 512 * 1024  # bytes of frames put on the wire at once


class Bell:
    """Wakes streams when their resource changes; one subscription to the store for all of them.

    `close` ends every stream in good order.
    """

    def __init__(self, store: Store) -> None:
        self._events: dict[Resource, asyncio.Event] = {}
        self._stop = store.subscribe(self._ring)
        self.closed = False

    def _ring(self, change: Change) -> None:
        event = self._events.get(change.resource)
        if event is not None and not event.is_set():
            event.set()

    async def wait(self, resource: Resource, timeout_s: float) -> bool:
        """Wait for a change to a resource; False when the time is up. Cancelling it changes nothing."""
        if self.closed:
            return False
        event = self._events.get(resource)
        if event is None or event.is_set():
            event = self._events[resource] = asyncio.Event()
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Stop listening and end all watches."""
        self.closed = True
        self._stop()
        for event in self._events.values():
            event.set()


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What a client asked to watch. `since` None means: start with what there is."""

    target: Target
    selection: Selection
    representation: Representation
    include: str
    since: int | None
    bookmarks: bool
    initial_end: bool
    timeout_s: float
    bookmark_every_s: float = 60.0


async def stream(
    request: web.Request, asked: WatchRequest, store: Store, bell: Bell, now: Any
) -> web.StreamResponse:
    """Answer a watch until its time is up, the client leaves or the server closes."""
    response = web.StreamResponse(
        headers={"Content-Type": asked.representation.content_type, "Cache-Control": "no-cache, private"}
    )
    response.enable_chunked_encoding()
    await response.prepare(request)
    frames = _Frames(asked, now)
    loop = asyncio.get_running_loop()
    ends = loop.time() + asked.timeout_s
    resource, namespace = asked.target.served.resource, asked.target.namespace
    sent = asked.since if asked.since is not None else store.rv
    try:
        if asked.since is None:
            for chunk in _chunks(frames.initial(store, resource, namespace)):
                await response.write(chunk)
            if asked.initial_end:
                await response.write(frames.bookmark(sent, end_of_initial=True))
        mark_at = _next_mark(loop.time(), ends, asked)
        while not bell.closed:
            try:
                changes = store.changes(resource, sent)
                current = store.rv
            except Gone as error:
                await response.write(frames.error(status_of(error)))
                break
            for chunk in _chunks(frames.of(changes, namespace)):
                await response.write(chunk)
            # A version ahead of the store (the client knows more than we) is waited for.
            sent = max(sent, current)
            left = ends - loop.time()
            if left <= 0:
                break
            if loop.time() >= mark_at:
                await response.write(frames.bookmark(sent))
                mark_at = _next_mark(loop.time(), ends, asked)
            # Nothing may be awaited between this check and the wait, or a change could be slept through.
            if store.rv == sent or not _pending(store, resource, sent):
                await bell.wait(resource, min(left, max(mark_at - loop.time(), 0.0)))
        await response.write_eof()
    except (ConnectionResetError, ConnectionError):
        pass  # the client left; there is no receiver
    return response


def _next_mark(now: float, ends: float, asked: WatchRequest) -> float:
    """When the next bookmark is due: every minute or so, and once shortly before the end."""
    if not asked.bookmarks:
        return math.inf
    regular, last = now + asked.bookmark_every_s, ends - 2.0
    return min(regular, last) if last > now else regular


def _pending(store: Store, resource: Resource, since: int) -> bool:
    try:
        return bool(store.changes(resource, since))
    except Gone:
        return True


def _chunks(frames: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for frame in frames:
        held.append(frame)
        size += len(frame)
        if size >= _BATCH:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


class _Frames:
    """Encodes changes for one stream; what does not depend on the stream is kept on the change."""

    def __init__(self, asked: WatchRequest, now: Any) -> None:
        self._asked = asked
        self._now = now
        self._columns_sent = False

    def initial(self, store: Store, resource: Resource, namespace: str) -> Iterator[bytes]:
        selection = self._asked.selection
        for item in store.list(resource, namespace):
            if selection.everything or selection.admits(item):
                yield self._frame("ADDED", item)

    def of(self, changes: list[Change], namespace: str) -> Iterator[bytes]:
        selection = self._asked.selection
        for change in changes:
            item = change.object
            if namespace and item["metadata"].get("namespace") != namespace:
                continue
            if selection.everything:
                yield self._cached(change, change.type, item)
                continue
            is_in = change.type != "DELETED" and selection.admits(item)
            was_in = change.old is not None and selection.admits(change.old)
            if is_in:
                kind = "MODIFIED" if was_in else "ADDED"
                yield self._cached(change, kind, item)
            elif was_in:
                # What left the selection is gone for this watcher: its last state seen, the new version.
                assert change.old is not None
                metadata = {**change.old["metadata"], "resourceVersion": str(change.rv)}
                yield self._frame("DELETED", {**change.old, "metadata": metadata})

    def bookmark(self, rv: int, *, end_of_initial: bool = False) -> bytes:
        served, version = self._asked.target.served, self._asked.target.version
        metadata: Object = {"resourceVersion": str(rv)}
        if end_of_initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        item: Object = {
            "kind": served.resource.kind,
            "apiVersion": served.api_version_of(version),
            "metadata": metadata,
        }
        if self._asked.representation.table:
            item = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": str(rv)},
                "columnDefinitions": None,
                "rows": [{"cells": [], "object": metadata_only(item)}],
            }
        return _encoded("BOOKMARK", item)

    def error(self, status: Object) -> bytes:
        return _encoded("ERROR", status)

    def _cached(self, change: Change, kind: str, item: Object) -> bytes:
        if self._asked.representation.kind != "object":
            return self._frame(kind, item)
        key = (kind, self._asked.target.served.api_group, self._asked.target.version)
        frame = change.encoded.get(key)
        if frame is None:
            frame = change.encoded[key] = self._frame(kind, item)
        return frame

    def _frame(self, kind: str, item: Object) -> bytes:
        target = self._asked.target
        if self._asked.representation.table:
            listing = Listing([item], int(item["metadata"]["resourceVersion"]))
            now: datetime = self._now()
            table = shown_table(
                target, listing, self._asked.include, now, with_columns=not self._columns_sent
            )
            self._columns_sent = True
            return _encoded(kind, table)
        if self._asked.representation.kind == "PartialObjectMetadata":
            return _encoded(kind, metadata_only(item))
        return _encoded(kind, shown(target, item))


def _encoded(kind: str, item: Object) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), msgspec.json.encode(item))
