"""Drives controllers: changes and timers in, their writes carried out.

One queue for all, each key in it at most once, and never twice at work: a key that changes while its
writes are under way is looked at again when they are done. In virtual time `drain` does everything
on the spot; on the wall clock `run` does the same but waits for webhooks without holding others up.
A failed write ends its list, and the key comes back later, each time after twice as long; so does one
whose object cannot be used. Any other error is a defect of ours and ends the whole cluster, loudly.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from datetime import timedelta
from typing import Any

import structlog

from fairlead.errors import ApiError, BadObject
from fairlead.world.admission import Staged
from fairlead.world.api import Admitted, Api, DeleteOptions, Options
from fairlead.world.clock import Clock, Timer
from fairlead.world.controllers.writes import (
    Again,
    Batch,
    Bind,
    Controller,
    Create,
    Delete,
    Emit,
    Obj,
    Patch,
    Update,
    Write,
)
from fairlead.world.events import Recorder
from fairlead.world.schema.resources import MUTATING_WEBHOOKS
from fairlead.world.store import Change
from fairlead.world.subresources import stage_bind
from fairlead.world.view import StoreView, kind_of

_log = structlog.get_logger()

# As client-go's controllers: 5 ms, doubled with each failure in a row, at most 1000 s.
_FIRST_RETRY_S = 0.005
_LAST_RETRY_S = 1000.0

# Keys whose writes are under way at one time on the wall clock; more wait in the queue.
_AT_ONCE = 64
# Keys looked at before others on the loop get a turn.
_SLICE = 32

_Key = tuple[int, str]


class Runner:
    """Owns the queue. Invariant: a key is reconciled by one caller at a time, with its writes done."""

    def __init__(self, api: Api, clock: Clock, controllers: Sequence[Controller], recorder: Recorder) -> None:
        self.view = StoreView(api.store, api.registry)
        self._api = api
        self._clock = clock
        self._controllers = list(controllers)
        self._recorder = recorder
        self._queue: deque[_Key] = deque()
        self._queued: set[_Key] = set()
        self._busy: dict[_Key, bool] = {}  # at work → must be looked at again
        self._timers: dict[_Key, Timer] = {}
        self._failures: dict[_Key, int] = {}
        self._wake = asyncio.Event()
        self._by_kind: dict[str, list[int]] = {}
        self._of_all: list[int] = []
        for index, controller in enumerate(self._controllers):
            for kind in controller.watches:
                if kind == "*":
                    self._of_all.append(index)
                else:
                    self._by_kind.setdefault(kind, []).append(index)
        self._stop = api.store.subscribe(self._changed)
        for resource in api.store.resources():
            for item in api.store.list(resource):
                self._dispatch(kind_of(resource), None, item)

    def close(self) -> None:
        """Stop following the store and drop all timers; queued work is forgotten."""
        self._stop()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._queue.clear()
        self._queued.clear()

    def enqueue(self, controller: str, key: str) -> None:
        """Have a controller look at a key now."""
        for index, each in enumerate(self._controllers):
            if each.name == controller:
                self._enqueue((index, key))

    # Virtual time

    def drain(self, most: int | None = None) -> bool:
        """Work until nothing is left to do at this moment, or on `most` keys; whether something is left."""
        while self._queue and most != 0:
            self._work(self._pop())
            most = None if most is None else most - 1
        return bool(self._queue)

    def drain_one(self) -> bool:
        """Look at one key; False when there is none."""
        if not self._queue:
            return False
        self._work(self._pop())
        return True

    def _work(self, key: _Key) -> None:
        try:
            steps = self._carry_out(key, self._reconcile(key))
            group = next(steps)
            while True:
                group = steps.send([self._write(key, write) for write in group])
        except StopIteration:
            self._failures.pop(key, None)
        except (ApiError, BadObject) as error:
            self._failed(key, error)

    # Wall clock

    async def run(self, admitted: Admitted) -> None:
        """Work for ever. Cancelled, it ends the writes under way: each is either committed or not sent."""
        slots = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._wake.wait()
                for _ in range(min(_SLICE, len(self._queue))):
                    key = self._pop()
                    if key in self._busy:
                        self._busy[key] = True
                    elif self._api.store.count(MUTATING_WEBHOOKS) == 0:
                        self._work(key)
                    else:
                        await slots.acquire()
                        self._busy[key] = False
                        tasks.create_task(self._work_waiting(key, admitted, slots))
                if not self._queue:
                    self._wake.clear()
                await asyncio.sleep(0)

    async def _work_waiting(self, key: _Key, admitted: Admitted, slots: asyncio.Semaphore) -> None:
        try:
            steps = self._carry_out(key, self._reconcile(key))
            group = next(steps)
            while True:
                if any(isinstance(each, Create | Update | Patch) for each in group):
                    results = await asyncio.gather(
                        *(self._write_waiting(key, each, admitted) for each in group)
                    )
                else:
                    # Webhooks are asked about objects, not about bindings and deletions: no waiting, so
                    # that no other controller decides between a scheduler's choice and its binding.
                    results = [self._write(key, each) for each in group]
                group = steps.send(list(results))
        except StopIteration:
            self._failures.pop(key, None)
        except (ApiError, BadObject) as error:
            self._failed(key, error)
        finally:
            slots.release()
            if self._busy.pop(key):
                self._enqueue(key)

    async def _write_waiting(self, key: _Key, write: Write, admitted: Admitted) -> Obj | ApiError | None:
        try:
            staged = self._stage(write)
            if staged is not None:
                return await admitted.commit(staged)
            self._note(key, write)
        except ApiError as error:
            if not _already_so(write, error):
                return error
        return None

    # Both

    def _reconcile(self, key: _Key) -> list[Write]:
        return self._controllers[key[0]].reconcile(self.view, key[1], self._clock.now())

    def _carry_out(
        self, key: _Key, writes: Iterable[Write]
    ) -> Generator[Sequence[Write], list[Obj | ApiError | None], None]:
        """Yields what may be sent side by side and takes the results; raises the first failure."""
        for write in writes:
            group: Sequence[Write] = write.writes if isinstance(write, Batch) else [write]
            results = yield group
            failure: ApiError | None = None
            for sent, result in zip(group, results, strict=True):
                if isinstance(result, ApiError):
                    failure = failure or result
                elif isinstance(sent, Create) and sent.then is not None and result is not None:
                    yield from self._carry_out(key, sent.then(result))
            if failure is not None:
                if isinstance(write, Batch) and write.otherwise is not None:
                    yield from self._carry_out(key, write.otherwise(failure))
                raise failure

    def _write(self, key: _Key, write: Write) -> Obj | ApiError | None:
        try:
            staged = self._stage(write)
            if staged is not None:
                made: Obj = self._api.finish(staged)
                return made
            self._note(key, write)
        except ApiError as error:
            if not _already_so(write, error):
                return error
        return None

    def _stage(self, write: Write) -> Staged[Any] | None:
        """The write up to its admission; None for what is not a write to an object."""
        api = self._api
        match write:
            case Create(item):
                return api.stage_create(self.view.resource(item), item)
            case Update(item, subresource):
                return api.stage_update(self.view.resource(item), item, subresource=subresource)
            case Patch(target, patch, subresource):
                meta = target["metadata"]
                guarded = {**patch, "metadata": {**patch.get("metadata", {}), "uid": meta["uid"]}}
                resource, namespace = self.view.resource(target), meta.get("namespace", "")
                return api.stage_patch(resource, meta["name"], guarded, namespace, subresource=subresource)
            case Delete(target, grace_s, propagation):
                meta = target["metadata"]
                options = DeleteOptions(grace_s=grace_s, propagation=propagation or None, uid=meta["uid"])
                return api.stage_delete(
                    self.view.resource(target), meta["name"], meta.get("namespace", ""), options
                )
            case Bind(pod, node):
                return _stage_bind(api, pod, node)
            case Batch():
                raise TypeError("a batch within a batch has no meaning")
            case Emit() | Again():
                return None

    def _note(self, key: _Key, write: Write) -> None:
        match write:
            case Emit():
                self._recorder.record(write)
            case Again():
                self._again(key, write)

    # The queue

    def _changed(self, change: Change) -> None:
        self.view.observe(change)
        new = None if change.type == "DELETED" else change.object
        old = change.object if change.type == "DELETED" else change.old
        self._dispatch(kind_of(change.resource), old, new)

    def _dispatch(self, kind: str, old: Obj | None, new: Obj | None) -> None:
        now = self._clock.now()
        for index in (*self._by_kind.get(kind, ()), *self._of_all):
            for key in self._controllers[index].keys(self.view, kind, old, new, now):
                self._enqueue((index, key))

    def _enqueue(self, key: _Key) -> None:
        if key not in self._queued:
            self._queued.add(key)
            self._queue.append(key)
            self._wake.set()

    def _pop(self) -> _Key:
        key = self._queue.popleft()
        self._queued.discard(key)
        return key

    def _again(self, key: _Key, again: Again) -> None:
        held = self._timers.get(key)
        if held is not None and held.pending:
            if held.at <= again.at:
                return
            held.cancel()
        self._timers[key] = self._clock.call_at(again.at, lambda: self._due(key))

    def _due(self, key: _Key) -> None:
        self._timers.pop(key, None)
        self._enqueue(key)

    def _failed(self, key: _Key, error: ApiError | BadObject) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait_s = min(_LAST_RETRY_S, _FIRST_RETRY_S * 2 ** min(failures, 30))
        # Conflicts and vanished objects are daily business; an object that cannot be read is not.
        if isinstance(error, BadObject) or error.code not in (404, 409):
            _log.info(
                "reconcile_delayed",
                controller=self._controllers[key[0]].name,
                key=key[1],
                error=str(error),
                again_in_s=wait_s,
            )
        self._again(key, Again(self._clock.now() + timedelta(seconds=wait_s)))


def _already_so(write: Write, error: ApiError) -> bool:
    # For a deletion it is no error that the object is gone, or that another one has its name by now.
    return isinstance(write, Delete) and (error.code == 404 or "UID in the precondition" in error.message)


def _stage_bind(api: Api, pod: Obj, node: str) -> Staged[Any]:
    meta = pod["metadata"]
    binding: Obj = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
        "target": {"kind": "Node", "name": node},
    }
    return stage_bind(api, meta["name"], binding, meta["namespace"], Options())
