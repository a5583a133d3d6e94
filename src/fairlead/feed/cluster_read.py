"""A cluster read once: every kind that is asked for, side by side, page by page.

Nothing is watched and nothing is written. What may not be read, or is not served, is left out and named, with
the API server's reason: an answer that rests on it can then say that it cannot know. The subtle thing is a
user who may read only some namespaces: a kind that is refused in all of them is read in the user's own.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairlead.client.api import PAGE, Client
from fairlead.client.view import salvage
from fairlead.client.wire import plain
from fairlead.errors import ApiError, BadObject, Gone
from fairlead.feed.sources import as_listed
from fairlead.feed.trimming import trimmed
from fairlead.kube.decode import decoder
from fairlead.kube.meta import Object
from fairlead.kube.resources import Resource

Take = Callable[[str, Object], None]
"""Receives each object, with its kind, as soon as it is decoded."""

TakePage = Callable[[Resource, Sequence[bytes]], Awaitable[None]]
"""Receives each page of objects as it was sent, to decode them elsewhere; the next page waits for it."""

Progress = Callable[[int], None]
"""Receives how many objects have been read so far, page by page."""

_UNREADABLE = (403, 404, 405)
# Objects that are taken in one go: in between, the next page is asked for, and the server makes it meanwhile.
_AT_ONCE = 100
_decoder = functools.cache(decoder)


@dataclass(frozen=True, slots=True)
class Query:
    """What to list. With `kind`, objects are handed over typed and trimmed; without, kept as plain data."""

    resource: Resource
    kind: type[Object] | None = None
    namespace: str = ""
    fields: str = ""


@dataclass(slots=True)
class ClusterRead:
    """What was read. `unread`: by kind, why it, or a part of it, could not be read.

    `spoiled` are objects whose fields make no sense, as plain data where they are JSON at all.
    """

    plain: list[dict[str, Any]] = field(default_factory=list)
    spoiled: list[tuple[dict[str, Any], BadObject]] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)


async def read_cluster(
    client: Client,
    queries: Iterable[Query],
    *,
    own: str = "",
    progress: Progress | None = None,
    take: Take | None = None,
    take_page: TakePage | None = None,
    paged: bool = True,
) -> ClusterRead:
    """Read all that is asked for, in one round. `own`: the namespace that is read where all may not be.

    `take` receives typed objects as they come, kinds in any order; without it, all must be asked for plain.
    With `take_page` nothing is decoded or kept here. A list that changed for so long that its next page was
    compacted away is read again in one piece; where part of it was handed over already, Gone is raised
    instead: begin again, not `paged`.

    Cancelled half-way, nothing is left behind. Raises what keeps everything from being read (Unreachable, an
    ApiError that is no missing right).
    """
    reading = _Reading(client, own, progress, (take, take_page), PAGE if paged else 0)
    parts: list[ClusterRead] = []
    try:
        async with asyncio.TaskGroup() as group:
            for query in queries:
                parts.append(part := ClusterRead())
                group.create_task(reading.read(query, part))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None  # the others failed for the same reason, or were cancelled
    found = ClusterRead()
    for part in parts:  # in the order asked for, whatever came first
        found.plain += part.plain
        found.spoiled += part.spoiled
        for kind, why in part.unread.items():
            found.unread.setdefault(kind, why)
    return found


class _Reading:
    """One round of reading, and how far it is."""

    def __init__(
        self,
        client: Client,
        own: str,
        progress: Progress | None,
        receivers: tuple[Take | None, TakePage | None],
        size: int,
    ) -> None:
        self._client = client
        self._hand_over, self._hand_page = receivers
        self._size = size
        self._own = own
        self._progress = progress
        self._read = 0

    async def read(self, query: Query, into: ClusterRead) -> None:
        """Read one kind."""
        namespace = query.namespace or None
        try:
            await self._list(query, namespace, into)
        except ApiError as error:
            if error.code not in _UNREADABLE:
                raise
            if error.code == 403 and self._own and not namespace and query.resource.namespaced:
                await self._read_own(query, error, into)
            else:
                into.unread[query.resource.kind] = str(error)

    async def _read_own(self, query: Query, refused: ApiError, into: ClusterRead) -> None:
        try:
            await self._list(query, self._own, into)
        except ApiError as error:
            if error.code not in _UNREADABLE:
                raise
            into.unread[query.resource.kind] = str(error)
        else:
            into.unread[query.resource.kind] = f"only those of namespace {self._own} were read: {refused}"

    async def _list(self, query: Query, namespace: str | None, into: ClusterRead) -> None:
        """Page by page, the next one under way while one is taken in."""
        for size in (self._size, 0):
            at = len(into.plain), len(into.spoiled)
            counted = 0
            pages = self._client.pages(query.resource, namespace, fields=query.fields, page=size)
            following = asyncio.ensure_future(anext(pages, None))
            try:
                while (page := await following) is not None:
                    following = asyncio.ensure_future(anext(pages, None))
                    if self._hand_page is not None:
                        await self._hand_page(query.resource, [bytes(item) for item in page.items])
                        self._count(len(page.items))
                        continue
                    for start in range(0, len(page.items), _AT_ONCE):
                        await asyncio.sleep(0)
                        for item in page.items[start : start + _AT_ONCE]:
                            self._take(query, bytes(item), into)
                    counted += len(page.items)
                    self._count(len(page.items))
                return
            except Gone:
                if not size or self._hand_over is not None or self._hand_page is not None:
                    raise
                del into.plain[at[0] :], into.spoiled[at[1] :]
                self._read -= counted
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                await pages.aclose()

    def _count(self, number: int) -> None:
        self._read += number
        if self._progress is not None:
            self._progress(self._read)

    def _take(self, query: Query, data: bytes, into: ClusterRead) -> None:
        resource = query.resource
        if query.kind is None:
            said = {"apiVersion": resource.api_version, "kind": resource.kind}
            into.plain.append({**said, **plain(data)})
            return
        try:
            thing = _decoder(query.kind)(data)
        except (BadObject, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            metadata = salvage(data)
            bad = error if isinstance(error, BadObject) else BadObject(resource.kind, "", str(error))
            named = BadObject(f"{resource.kind} {metadata.key}", bad.field, bad.problem)
            try:
                whole = plain(data)
            except BadObject:
                whole = {"metadata": {"name": metadata.name, "namespace": metadata.namespace}}
            into.spoiled.append(({**whole, "kind": resource.kind}, named))
            return
        assert self._hand_over is not None, "typed objects are asked for with somewhere to go"
        self._hand_over(resource.kind, trimmed(as_listed(resource, thing)))
