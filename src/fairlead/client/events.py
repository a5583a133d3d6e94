"""Events about objects, written in a lane of their own so that they delay nothing that matters.

Writing an event costs the API server about as much as a bind: while more important writes wait, events may
stand back, though not for long and never without bound. Never dropped: when the lane is full the producer
waits, or is one that is bounded otherwise. What is the same about the same object is
counted, not written again. Per object they are written in the order in which they first happened,
because each object's events go through one of the lane's writers, which writes one at a time.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.retry import Backoff, Repeat
from fairlead.client.wire import object_path, typed
from fairlead.errors import ApiError, Conflict, NotFound, Unreachable
from fairlead.kube.resources import Resource, known

_log = structlog.get_logger(__name__)

_EVENT = known("Event")
_REMEMBERED = 4096  # written events that a repeat can still be counted on, per writer
_MESSAGE = 1024  # bytes: the API's limit for an event's note
_STAND_BACK = timedelta(seconds=60)  # how long an event stands back for other writes
_STANDING_BACK = 20_000  # events that may do so; beyond that they are written alongside
_LOOK_AGAIN_S = 0.05
_TRANSIENT = (401, 408, 429, 500, 502, 503, 504)  # worth another try, for as long as it takes


@dataclass(frozen=True, slots=True)
class About:
    """The object that an event is about."""

    resource: Resource
    name: str
    namespace: str = ""
    uid: str = ""

    def reference(self) -> dict[str, str]:
        """As an event's involvedObject."""
        said = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {key: value for key, value in said.items() if value}


@dataclass(frozen=True, slots=True)
class _Key:
    about: About
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Note:
    key: _Key
    name: str  # drawn once: with it, writing again after a lost answer cannot make a second event
    action: str
    count: int
    first: datetime
    last: datetime


class EventLane:
    """Takes events from any task, writes them while `run` runs.

    Invariant: at most `room` events of those that `record` took wait; every event that was taken is written,
    counted on another one, or refused by the API server for good and logged.
    """

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        instance: str = "",
        rng: random.Random | None = None,
        clock: Clock = WALL_CLOCK,
        writers: int = 16,
        room: int = 10_000,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`busy` says whether writes are waiting that come first."""
        self.written = 0
        self.counted = 0  # repeats that went onto another event
        self.refused = 0
        self._client = client.in_lane(writers)
        self._source = {"component": component, "instance": instance or component}
        self._rng = rng or client.rng
        self._clock = clock
        self._room = room
        self._busy = busy
        self._hurry = False
        self._freed = asyncio.Event()
        self._waiting: list[OrderedDict[_Key, _Note]] = [OrderedDict() for _ in range(writers)]
        self._woken = [asyncio.Event() for _ in range(writers)]
        self._idle = asyncio.Event()
        self._idle.set()
        self._unwritten = 0
        self._closing = False
        self._ended: Counter[str] = Counter()  # namespaces that take no more events, and how many that was

    def __len__(self) -> int:
        """Events that are yet to be written."""
        return self._unwritten

    async def record(
        self,
        about: About,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 (the field's own name)
        action: str = "",
    ) -> None:
        """Hand over an event; waits while the lane is full. Cancelled while it waits, nothing was taken.

        Raises RuntimeError when the lane is closed or its `run` ended, also for producers that wait by then.
        """
        key = _Key(about, type, reason, _cut(message))
        # What is there already needs no room, also when it was taken while we waited.
        while not (self._closing or self._has_room_for(key)):
            self._freed.clear()
            await self._freed.wait()
        if self._closing:
            raise RuntimeError("the event lane is closed")
        self._take(key, action)

    def tell(
        self,
        about: About,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 (the field's own name)
        action: str = "",
    ) -> None:
        """Hand over an event at once, from a producer that is bounded otherwise."""
        self._take(_Key(about, type, reason, _cut(message)), action)

    def _has_room_for(self, key: _Key) -> bool:
        return sum(map(len, self._waiting)) < self._room or key in self._waiting[self._lane(key)]

    def _lane(self, key: _Key) -> int:
        return zlib.crc32((key.about.uid or key.about.name).encode()) % len(self._waiting)

    def _take(self, key: _Key, action: str) -> None:
        lane, now = self._lane(key), self._clock.wall()
        note = self._waiting[lane].get(key)
        if note is not None:
            note.count += 1
            note.last = now
            self.counted += 1
            return
        name = f"{key.about.name[:200]}.{self._rng.getrandbits(64):016x}"
        self._waiting[lane][key] = _Note(key, name, action, 1, now, now)
        self._unwritten += 1
        self._idle.clear()
        self._woken[lane].set()

    async def run(self) -> None:
        """Write until `close`. Cancelled, it stops at once; what was not written is logged as a number.

        Ends with LeaseLost when the client's fence refuses: a former leader writes no events.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for lane in range(len(self._waiting)):
                    group.create_task(self._write_lane(lane))
        finally:
            self._closing = True
            self._freed.set()
            self._idle.set()  # no producer must wait for what will not be written any more
            if self._unwritten:
                _log.warning("events_not_written", count=self._unwritten)
            self._say_ended()

    async def flush(self) -> None:
        """Wait until all taken so far is written, or `run` has ended. Cancelled, the writing goes on."""
        await self._idle.wait()

    async def drain(self) -> None:
        """Write everything without standing back for other writes, and wait until that is done."""
        self._hurry = True
        await self.flush()

    async def close(self) -> None:
        """Take no more, wait until `run` has written what is left; it returns then."""
        self._closing = True
        self._freed.set()
        for woken in self._woken:
            woken.set()
        await self.flush()

    async def _write_lane(self, lane: int) -> None:
        waiting, woken = self._waiting[lane], self._woken[lane]
        written: OrderedDict[_Key, tuple[str, int]] = OrderedDict()
        while True:
            while waiting:
                if self._stands_back(next(iter(waiting.values()))):
                    await asyncio.sleep(_LOOK_AGAIN_S)
                    continue
                _, note = waiting.popitem(last=False)
                self._freed.set()
                await self._write(note, written)
                self._unwritten -= 1
                if not self._unwritten:
                    self._idle.set()
                    self._say_ended()
            if self._closing:
                return
            woken.clear()
            await woken.wait()

    def _stands_back(self, note: _Note) -> bool:
        return (
            not (self._hurry or self._closing)
            and self._busy()
            and self._unwritten < _STANDING_BACK
            and self._clock.wall() - note.first < _STAND_BACK
        )

    async def _write(self, note: _Note, written: OrderedDict[_Key, tuple[str, int]]) -> None:
        backoff = Backoff(self._rng)
        while True:
            try:
                await self._write_once(note, written)
                return
            except Unreachable as error:
                wait_s = backoff.next_s()
                _log.info("event_delayed", reason=str(error), wait_s=round(wait_s, 3))
            except ApiError as error:
                if error.code not in _TRANSIENT:
                    self.refused += 1
                    if _namespace_ends(error):
                        self._ended[note.key.about.namespace] += 1
                    else:
                        _log.warning("event_refused", about=note.key.about.name, reason=str(error))
                    return
                wait_s = backoff.next_s(error.retry_after_s)
            await asyncio.sleep(wait_s)

    def _say_ended(self) -> None:
        """A namespace that goes takes its pods along, and they have a lot to say: one line for all."""
        if self._ended:
            some = sorted(self._ended)[:10]
            _log.info("events_of_ended_namespaces", count=self._ended.total(), namespaces=some)
            self._ended.clear()

    async def _write_once(self, note: _Note, written: OrderedDict[_Key, tuple[str, int]]) -> None:
        if (before := written.get(note.key)) is not None:
            name, count = before
            try:
                await self._recount(note, name, count + note.count)
            except NotFound:
                del written[note.key]  # it lived its hour: begin a new one
            else:
                written[note.key] = name, count + note.count
                written.move_to_end(note.key)
                return
        try:
            body = typed(_EVENT, self._body(note))
            path = object_path(_EVENT, note.key.about.namespace or "default")
            # Safe to repeat: no other writer makes this name, so a conflict is with ourselves.
            await self._client.write("POST", path, body, Repeat.GUARDED)
        except Conflict:
            pass
        self.written += 1
        written[note.key] = note.name, note.count
        if len(written) > _REMEMBERED:
            written.popitem(last=False)

    async def _recount(self, note: _Note, name: str, count: int) -> None:
        path = object_path(_EVENT, note.key.about.namespace or "default", name)
        body = msgspec.json.encode({"count": count, "lastTimestamp": _seconds(note.last)})
        # Safe to repeat: it says the whole count, and only this writer says it.
        await self._client.write(
            "PATCH", path, body, Repeat.GUARDED, content_type="application/merge-patch+json"
        )
        self.counted += 1

    def _body(self, note: _Note) -> dict[str, Any]:
        about = note.key.about
        return {
            "metadata": {"name": note.name, "namespace": about.namespace or "default"},
            "involvedObject": about.reference(),
            "type": note.key.type,
            "reason": note.key.reason,
            "message": note.key.message,
            "count": note.count,
            "firstTimestamp": _seconds(note.first),
            "lastTimestamp": _seconds(note.last),
            "eventTime": note.first.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "action": note.action or note.key.reason,
            "source": {"component": self._source["component"]},
            "reportingComponent": self._source["component"],
            "reportingInstance": self._source["instance"],
        }


def _namespace_ends(error: ApiError) -> bool:
    """Whether an event was refused because its namespace is being deleted, or is gone."""
    if isinstance(error, NotFound):
        return error.details.get("kind") == "namespaces"
    causes = error.details.get("causes")
    return isinstance(causes, list) and any(
        isinstance(cause, dict) and cause.get("reason") == "NamespaceTerminating" for cause in causes
    )


def _seconds(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _cut(message: str) -> str:
    data = message.encode()
    if len(data) <= _MESSAGE:
        return message
    return data[: _MESSAGE - 4].decode(errors="ignore") + " ..."
