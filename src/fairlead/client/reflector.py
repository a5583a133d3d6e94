"""Keep a faithful copy of a collection, and tell each change once, in order.

WatchList where it is served, else a paged list and a watch; a stream that ends, breaks or falls
silent is resumed from the last version seen; a version that is too old means listing again, with a
diff that finds unreported deletions. A frame that never came leaves no trace in a stream: the
audit, a rare comparison of versions with the API server's, finds it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.connection import JSON, Stream
from fairlead.client.lines import Lines
from fairlead.client.retry import Backoff
from fairlead.client.view import Distrust, Event, K, T, View, salvage
from fairlead.client.wire import METADATA_ONLY, Page, object_path, page_of, version_number
from fairlead.errors import ApiError, BadKubeconfig, BadObject, FairleadError, Gone, Unreachable
from fairlead.kube.decode import decoder
from fairlead.kube.resources import Resource

_log = structlog.get_logger(__name__)

_LASTED_S = 10.0  # a stream that lasted this long worked


@dataclass(frozen=True, slots=True)
class Tuning:
    """Times and sizes. API servers send a bookmark about once a minute, the first one after two, so
    `inactivity_s` of silence means a dead stream; `audit_s` of 0 turns the audit off.
    """

    page: int = 500
    inactivity_s: float = 150.0
    watch_s: float = 480.0  # the server ends the watch after this to twice this: it spreads the load
    audit_s: float = 1800.0
    listing_s: float = 120.0  # how long a WatchList may take before a plain list is tried
    believed_s: float = 1.0  # how long a stream goes on before its silence means that nothing happens
    settle_s: float = 5.0  # how long a difference may be a frame that is still on its way
    backoff_first_s: float = 0.2
    backoff_cap_s: float = 30.0
    line_limit: int = 64 * 1024 * 1024


DEFAULT = Tuning()


@dataclass(slots=True)
class Counters:
    """What happened so far; for metrics and tests."""

    listings: int = 0
    streams: int = 0
    broken: int = 0
    audits: int = 0
    missed: int = 0
    bad: int = 0


class Reflector(Generic[T, K]):
    """A copy of one collection. Use one of `run` (a callback) and `batches` (an iterator), once.

    `trim` cuts objects down to what anything reads, before all else. `keep` cuts them down to what stays in
    memory (default: all of the struct). Memory beyond that is
    one chunk of the stream and one line. A slow consumer holds the stream back: nothing is queued, the
    API server at length ends the watch, and it is resumed or listed again. `on_bad` hears of every
    object that cannot be read, by name; it is skipped, the rest goes on.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        kind: type[T],
        *,
        keep: Callable[[T], K] | None = None,
        trim: Callable[[T], T] | None = None,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        on_bad: Callable[[BadObject], None] | None = None,
        tuning: Tuning = DEFAULT,
        rng: random.Random | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self.counters = Counters()
        self.resource = resource
        self.client = self._client = client
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._on_bad = on_bad
        self._tuning = tuning
        self._rng = rng or client.rng
        self._clock = clock
        self._view: View[T, K] = View(resource.kind, _decoder(kind, trim), keep or _whole, self._bad)
        self._watch_list = True  # until the server says that it does not know it
        self._plain_next = False  # a WatchList came to nothing: try a plain list once
        self._stream: Stream | None = None
        self._failure: FairleadError | None = None  # why there was no stream
        self._resumed_at: float | None = None  # since when one goes on from where the last one ended
        self._must_list = False
        self._synced = asyncio.Event()

    @property
    def view(self) -> View[T, K]:
        """What is known now. Changes between awaits only."""
        return self._view

    @property
    def trouble(self) -> FairleadError | None:
        """Why what is known may be old; None while a stream tells every change.

        Where nothing happens, a stream that was taken up again has nothing to tell. It is believed after the
        moment in which a server says that the point is too old to go on from.
        """
        resumed_at = self._resumed_at
        if resumed_at is not None and self._clock.now() >= resumed_at + self._tuning.believed_s:
            return None
        return self._failure

    @property
    def is_synced(self) -> bool:
        """Whether the first listing was delivered."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Wait until the first listing was delivered. Cancelled, nothing happens."""
        await self._synced.wait()

    async def run(self, deliver: Callable[[Event[T, K]], None]) -> None:
        """Call `deliver` with each event, for ever; what it raises ends the run.

        Ends when cancelled: at once, with the view at a whole number of delivered batches or, if the
        callback raised, with part of the last batch untold.
        """
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    deliver(event)

    async def batches(self) -> AsyncGenerator[list[Event[T, K]], None]:
        """The events, in lists of what arrived together. The stream is read only while the next list is
        awaited. Close it (`aclosing`) when done; cancelled, no event is lost that `view` has taken in,
        but for those of a list that was not handed over any more.
        """
        auditing = asyncio.create_task(self._audit_for_ever()) if self._tuning.audit_s else None
        try:
            async with aclosing(self._streams()) as batches:
                async for batch in batches:
                    yield batch
        finally:
            if auditing is not None:
                auditing.cancel()
                await asyncio.gather(auditing, return_exceptions=True)

    async def _streams(self) -> AsyncGenerator[list[Event[T, K]], None]:
        """What one stream after the other tells, for ever."""
        backoff = Backoff(self._rng, first_s=self._tuning.backoff_first_s, cap_s=self._tuning.backoff_cap_s)
        while True:
            began, reached = self._clock.now(), self._view.resume
            source = self._next_source()
            failure: FairleadError | None = None
            try:
                async with aclosing(source):
                    async for batch in source:
                        yield batch
                        if self._view.resume is not None and not self._must_list:
                            self._synced.set()
            except (ApiError, Unreachable, BadObject, Distrust) as error:
                failure = error
            except BadKubeconfig as error:
                if not self._synced.is_set():
                    raise  # wrong from the start; later it is a credential plugin's bad day
                failure = error
            lasted_s = self._clock.now() - began
            # A stream that got somewhere before the network cut it worked: the next failure is a new one.
            # One that was refused or could not be believed may have got somewhere every time.
            got_on = isinstance(failure, Unreachable) and self._view.resume not in (None, reached)
            if got_on or lasted_s > _LASTED_S:
                backoff.reset()
            if failure is not None:
                wait_s = backoff.next_s(failure.retry_after_s if isinstance(failure, ApiError) else None)
                self._note(failure, wait_s)
                await asyncio.sleep(wait_s)
            elif lasted_s < 1.0 and not self._listing_is_next():
                await asyncio.sleep(backoff.next_s())  # a server that hangs up at once

    def _listing_is_next(self) -> bool:
        return self._must_list or self._view.resume is None

    def _next_source(self) -> AsyncGenerator[list[Event[T, K]], None]:
        plain, self._plain_next = self._plain_next or not self._watch_list, False
        if not self._listing_is_next():
            return self._watch()
        self._must_list = False
        self._view.begin()
        self.counters.listings += 1
        return self._list() if plain else self._watch()

    def _note(self, failure: FairleadError, wait_s: float) -> None:
        """Remember why, and choose how to go on."""
        known, self._failure = self._failure, failure
        self.counters.broken += 1
        listing = self._view.resume is None
        plural = self.resource.plural
        if not _is_refusal(failure):
            _log.info("watch_broken", resource=plural, reason=str(failure), wait_s=round(wait_s, 3))
        elif not _is_refusal(known):
            # Said once: the right is there or it is not, however often it is asked for.
            _log.warning("right_missing", right=f"list and watch {plural}", reason=str(failure))
        if isinstance(failure, Gone | Distrust):
            self._must_list = True
        elif isinstance(failure, ApiError):
            if listing and self._watch_list and failure.code in (400, 422):
                self._watch_list = False
            elif not listing and failure.code in (400, 504):
                # "Too large resource version": the cluster was set back in time.
                self._must_list = True
        elif listing:
            self._plain_next = True

    async def _list(self) -> AsyncGenerator[list[Event[T, K]], None]:
        """A listing page by page; in one piece when it changes faster than we read."""
        for size in (self._tuning.page, 0):
            try:
                async with aclosing(self._pages(size)) as batches:
                    async for batch in batches:
                        yield batch
                return
            except Gone:
                if not size:
                    raise
                self._view.begin()

    async def _pages(self, size: int) -> AsyncGenerator[list[Event[T, K]], None]:
        async with aclosing(self._all(size, JSON)) as pages:
            async for page in pages:
                batch: list[Event[T, K]] = []
                for item in page.items:
                    self._view.take(bytes(item), batch)
                if not page.more:
                    self._view.end(page.resource_version, batch)
                    self._failure = None
                yield batch

    def _all(self, size: int, accept: str) -> AsyncGenerator[Page, None]:
        return self._client.pages(
            self.resource,
            self._namespace,
            labels=self._labels,
            fields=self._fields,
            page=size,
            accept=accept,
        )

    async def _watch(self) -> AsyncGenerator[list[Event[T, K]], None]:
        tuning, view = self._tuning, self._view
        self.counters.streams += 1
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(round(tuning.watch_s * self._rng.uniform(1.0, 2.0))),
            "labelSelector": self._labels,
            "fieldSelector": self._fields,
        }
        if view.resume is not None:
            query["resourceVersion"] = view.resume
        else:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        path = object_path(self.resource, self._namespace, query=query)
        listed_by = self._clock.now() + tuning.listing_s
        lines = Lines(tuning.line_limit)
        async with self._client.connection.stream(path, inactivity_s=tuning.inactivity_s) as stream:
            self._stream = stream
            self._resumed_at = self._clock.now() if view.resume is not None else None
            try:
                while chunk := await stream.read():
                    batch: list[Event[T, K]] = []
                    failure: ApiError | Distrust | None = None
                    try:
                        for line in lines.feed(chunk):
                            view.frame(line, batch)
                            if view.resume is not None:
                                self._failure = None
                    except (ApiError, Distrust) as error:
                        failure = error  # what came before it has happened and must be delivered
                    if batch:
                        yield batch
                    if failure is not None:
                        raise failure
                    if view.resume is None and self._clock.now() > listed_by:
                        raise Unreachable(f"a WatchList of {self.resource.plural} does not come to its end")
                if self.trouble is None:
                    self._failure = None  # a stream that was believed came to its end
            finally:
                self._stream = self._resumed_at = None

    async def missed(self, settle_s: float | None = None) -> list[str]:
        """Keys of objects whose changes never reached us, found by comparing versions with the API
        server's. A difference counts when it is still there `settle_s` later. Cancelled, nothing changes.
        """
        self.counters.audits += 1
        behind, gone = await self._suspects()
        if not behind and not gone:
            return []
        await asyncio.sleep(self._tuning.settle_s if settle_s is None else settle_s)
        version = self._view.version
        # One that is unknown by now may also have been deleted since: listing will tell.
        found = [key for key, wanted in behind.items() if (version(key) or 0) < wanted]
        found += [key for key, before in gone.items() if version(key) == before]
        self.counters.missed += len(found)
        return found

    async def _suspects(self) -> tuple[dict[str, int], dict[str, int]]:
        """Objects whose changes may have been missed, going by a listing of now: those that the API server
        has in a newer version, with that version, and those that it does not have, with the known one.

        A frame that is only on its way looks the same, so this is a suspicion.
        """
        behind: dict[str, int] = {}
        unlisted = self._view.versions()
        async with aclosing(self._all(self._tuning.page, METADATA_ONLY)) as pages:
            async for page in pages:
                for item in page.items:
                    meta = salvage(bytes(item))
                    version = version_number(meta.resource_version)
                    if not version:
                        return {}, {}  # not comparable: the stream is all there is
                    unlisted.pop(meta.key, None)
                    if (self._view.version(meta.key) or 0) < version:
                        behind[meta.key] = version
        return behind, unlisted

    async def read(self, key: str) -> bytes | None:
        """One object as it is, None when there is none. Read as a list: what is watched may be listed."""
        namespace, _, name = key.rpartition("/")
        path = object_path(self.resource, namespace or None, query={"fieldSelector": f"metadata.name={name}"})
        items = page_of(await self._client.read(path), self.resource).items
        return bytes(items[0]) if items else None

    async def mend(self, key: str) -> list[Event[T, K]]:
        """Read one object again and bring the view up to date; the events are the caller's to deliver."""
        known = self._view.version(key)
        batch: list[Event[T, K]] = []
        body = await self.read(key)
        if body is not None:
            self._view.mend(body, batch)
        elif known is not None:
            self._view.lose(key, known, batch)
        return batch

    async def audit(self) -> int:
        """Compare versions with the API server's; how many changes never reached us. If any, list again."""
        missed = await self.missed()
        if missed:
            _log.warning("watch_missed_changes", resource=self.resource.plural, objects=missed[:10])
            self._break_off()
        return len(missed)

    def list_again(self) -> None:
        """What is known is not to be trusted: nothing counts as listed before everything was listed again."""
        self._synced.clear()
        self._break_off()

    def _break_off(self) -> None:
        self._must_list = True
        if self._stream is not None:
            self._stream.abort()

    async def _audit_for_ever(self) -> None:
        await self.synced()
        while True:
            await asyncio.sleep(self._tuning.audit_s * self._rng.uniform(0.75, 1.25))
            try:
                await self.audit()
            except (ApiError, Unreachable, BadObject, BadKubeconfig) as error:
                _log.info("audit_not_done", resource=self.resource.plural, reason=str(error))
            except Exception:  # noqa: BLE001 (a check that fails must not end what it checks; the log has it all)
                _log.exception("audit_not_done", resource=self.resource.plural)

    def _bad(self, error: BadObject) -> None:
        self.counters.bad += 1
        _log.warning("bad_object", object=error.object, field=error.field, problem=error.problem)
        if self._on_bad is not None:
            self._on_bad(error)


def _decoder(kind: type[T], trim: Callable[[T], T] | None) -> Callable[[bytes], T]:
    decode: Callable[[bytes], T] = decoder(kind)
    return decode if trim is None else lambda body: trim(decode(body))


def _whole(obj: Any) -> Any:
    return obj


def _is_refusal(failure: FairleadError | None) -> bool:
    return isinstance(failure, ApiError) and failure.code == 403
