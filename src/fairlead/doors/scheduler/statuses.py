"""What the scheduler writes into pods' status: why a pod waits, and the node it was promised.

Only the latest wish per pod is written, and only what changes something. Two things are subtle. The API
server sets ``PodScheduled=True`` when it binds, so a bind must wait for a write about the same pod that
is under way, or "Unschedulable" could land on top of it. And a pod changes while its wish waits: it comes
with the wish, and later versions of it from the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.retry import Backoff
from fairlead.doors.scheduler.lane import Lane
from fairlead.engine.core.actions import HoldPod, NominatePod
from fairlead.engine.core.events import Event, Gone, Seen
from fairlead.errors import ApiError, BadObject, Conflict, Invalid, NotFound, Unreachable
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known

_log = structlog.get_logger(__name__)

_POD = known("Pod")
_UNSCHEDULABLE = "Unschedulable"
_TRANSIENT = (408, 429, 500, 502, 503, 504)


@dataclass(slots=True)
class _Wish:
    pod: str
    uid: str
    message: str | None = None  # why it is held
    unschedulable: bool = True  # False: not that, it only waits
    reason: str = _UNSCHEDULABLE
    nominated: str | None = None  # "" clears
    waiting: Pod | None = None  # as the API last showed it; None: it does not wait any more
    placed: bool = False  # a bind was decided since: only another wish makes it wait again
    over: asyncio.Event = field(default_factory=asyncio.Event)  # once it is written, or will not be


class Statuses:
    """See the module.

    Invariant: the pod of every wish that is queued or under way is the latest that the session was told of.
    """

    def __init__(self, client: Client, *, workers: int = 16, clock: Clock = WALL_CLOCK) -> None:
        self.written = 0
        self._client = client
        self._clock = clock
        self._wishes: dict[str, _Wish] = {}
        self._under_way: dict[str, _Wish] = {}
        self._lane: Lane[str] = Lane(self._write, workers)
        self.run = self._lane.run
        self.idle = self._lane.idle

    def __len__(self) -> int:
        return len(self._lane)

    def hold(self, hold: HoldPod) -> None:
        """Say that a pod is unschedulable or, where that was said before, that it only waits."""
        wish = self._wish(hold)
        wish.message, wish.unschedulable = hold.message, hold.unschedulable
        wish.reason = hold.condition_reason

    def nominate(self, nomination: NominatePod) -> None:
        """Write, or clear, the node that a pod was promised."""
        self._wish(nomination).nominated = nomination.node

    def told(self, events: Iterable[Event]) -> None:
        """Take note of pods that changed while something about them is to be written."""
        if not (self._wishes or self._under_way):
            return
        for event in events:
            if isinstance(event, Seen) and isinstance(event.object, Pod):
                pod = event.object
                for wish in self._about(pod.metadata.uid):
                    wish.waiting = pod if _waits(pod) and not wish.placed else None
            elif isinstance(event, Gone) and event.kind == "Pod":
                for wish in self._about(event.uid):
                    wish.waiting = None

    def place(self, uid: str) -> None:
        """A bind of a pod was decided: it does not wait any more."""
        for wish in self._about(uid):
            wish.waiting, wish.placed = None, True

    async def give_way(self, uid: str) -> None:
        """Forget what is still to be written about a pod, and wait for what is under way."""
        self._wishes.pop(uid, None)
        await self._written(uid)

    def _about(self, uid: str) -> Iterator[_Wish]:
        return (wishes[uid] for wishes in (self._wishes, self._under_way) if uid in wishes)

    def _wish(self, action: HoldPod | NominatePod) -> _Wish:
        uid = action.uid
        if uid not in self._wishes:
            self._wishes[uid] = _Wish(action.pod, uid)
            self._lane.put(uid)
        for wish in self._about(uid):
            wish.waiting, wish.placed = action.waiting or None, False
        return self._wishes[uid]

    async def _written(self, uid: str) -> None:
        while (wish := self._under_way.get(uid)) is not None:
            await wish.over.wait()

    async def _write(self, uid: str) -> None:
        await self._written(uid)
        wish = self._wishes.pop(uid, None)
        if wish is None:
            return
        self._under_way[uid] = wish
        try:
            await self._patch(wish)
        finally:
            del self._under_way[uid]
            wish.over.set()

    async def _patch(self, wish: _Wish) -> None:
        namespace, _, name = wish.pod.partition("/")
        backoff = Backoff(self._client.rng)
        while status := self._status(wish):
            body = {"metadata": {"uid": wish.uid}, "status": status}
            try:
                await self._client.patch(
                    _POD, name, namespace, body, how="strategic", subresource="status", repeatable=True
                )
                self.written += 1
                return
            except NotFound:
                return
            except Conflict:
                wait_s = backoff.next_s()  # others wrote too fast
            except Unreachable as error:
                wait_s = backoff.next_s()
                _log.info("status_delayed", pod=wish.pod, reason=str(error))
            except ApiError as error:
                if isinstance(error, Invalid) and await self._is_another(wish):
                    return
                if error.code not in _TRANSIENT:
                    _log.warning("status_refused", pod=wish.pod, reason=str(error))
                    return
                wait_s = backoff.next_s(error.retry_after_s)
            await asyncio.sleep(wait_s)

    async def _is_another(self, wish: _Wish) -> bool:
        """Whether the pod is gone, or its name another's: a patch that names its UID is then invalid."""
        namespace, _, name = wish.pod.partition("/")
        try:
            return (await self._client.get(_POD, name, namespace, kind=Pod)).metadata.uid != wish.uid
        except NotFound:
            return True
        except (ApiError, Unreachable, BadObject):
            return False  # unknown: what was refused is reported

    def _status(self, wish: _Wish) -> dict[str, Any]:
        """The part of the status to write; empty when it says so already, or the pod does not wait."""
        pod = wish.waiting
        status: dict[str, Any] = {}
        if pod is None:
            # No longer waiting, but a promise that was taken back must not stay in the API.
            return {"nominatedNodeName": None} if wish.nominated == "" else status
        if wish.message is not None:
            said = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
            told = (said.status, said.reason, said.message) if said else ("", "", "")
            differs = told != ("False", wish.reason, wish.message)
            # Autoscalers go by the reason. A pod never called unschedulable may wait without a word.
            if differs and (wish.unschedulable or told[1] == _UNSCHEDULABLE):
                condition: dict[str, Any] = {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": wish.reason,
                    "message": wish.message,
                    "lastProbeTime": None,
                }
                if said is None or said.status != "False":
                    condition["lastTransitionTime"] = self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
                status["conditions"] = [condition]
        if wish.nominated is not None and wish.nominated != pod.status.nominated_node_name:
            status["nominatedNodeName"] = wish.nominated or None
        return status


def _waits(pod: Pod) -> bool:
    """Whether a pod may still be given a node."""
    return not (
        pod.spec.node_name
        or pod.terminal
        or pod.metadata.deletion_timestamp is not None
        or pod.spec.scheduling_gates
    )
