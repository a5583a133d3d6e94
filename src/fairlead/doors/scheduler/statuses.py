"""What the scheduler writes into pods' status: why a pod waits, and the node it was promised.

Only the latest wish per pod is written, and only what changes something. The subtle thing: the API
server sets ``PodScheduled=True`` when it binds, so a bind must wait for a write about the same pod that
is under way, or "Unschedulable" could land on top of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.retry import Backoff
from fairlead.doors.scheduler.lane import Lane
from fairlead.engine.core.actions import HoldPod, NominatePod
from fairlead.errors import ApiError, BadObject, Conflict, Invalid, NotFound, Unreachable
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known

__all__ = ["Statuses"]

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


class Statuses:
    """See the module. `pending` finds a pod that waits, by UID, as the API last showed it."""

    def __init__(
        self,
        client: Client,
        pending: Callable[[str], Pod | None],
        *,
        workers: int = 16,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self.written = 0
        self._client = client
        self._pending = pending
        self._clock = clock
        self._wishes: dict[str, _Wish] = {}
        self._under_way: dict[str, asyncio.Event] = {}
        self._lane: Lane[str] = Lane(self._write, workers)
        self.run = self._lane.run
        self.idle = self._lane.idle

    def __len__(self) -> int:
        return len(self._lane)

    def hold(self, hold: HoldPod) -> None:
        """Say that a pod is unschedulable or, where that was said before, that it only waits."""
        wish = self._wish(hold.pod, hold.uid)
        wish.message, wish.unschedulable = hold.message, hold.unschedulable
        wish.reason = hold.condition_reason

    def nominate(self, nomination: NominatePod) -> None:
        """Write, or clear, the node that a pod was promised."""
        self._wish(nomination.pod, nomination.uid).nominated = nomination.node

    def concerns(self, uid: str) -> bool:
        """Whether anything about a pod is to be written, or under way."""
        return uid in self._wishes or uid in self._under_way

    async def give_way(self, uid: str) -> None:
        """Forget what is still to be written about a pod, and wait for what is under way."""
        self._wishes.pop(uid, None)
        while (writing := self._under_way.get(uid)) is not None:
            await writing.wait()

    def _wish(self, pod: str, uid: str) -> _Wish:
        found = self._wishes.get(uid)
        if found is None:
            found = self._wishes[uid] = _Wish(pod, uid)
            self._lane.put(uid)
        return found

    async def _write(self, uid: str) -> None:
        while (writing := self._under_way.get(uid)) is not None:
            await writing.wait()
        wish = self._wishes.pop(uid, None)
        if wish is None:
            return
        self._under_way[uid] = over = asyncio.Event()
        try:
            await self._patch(wish)
        finally:
            del self._under_way[uid]
            over.set()

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
            return False  # nobody knows: what was refused is reported

    def _status(self, wish: _Wish) -> dict[str, Any]:
        """The part of the status to write; empty when it says so already, or the pod does not wait."""
        pod = self._pending(wish.uid)
        status: dict[str, Any] = {}
        if pod is None:
            # No longer waiting, but a promise that was taken back must not stay in the API.
            return {"nominatedNodeName": None} if wish.nominated == "" else status
        if wish.message is not None:
            said = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
            told = (said.status, said.reason, said.message) if said else ("", "", "")
            # Autoscalers go by the reason. Who was never called unschedulable may wait without a word.
            reason = wish.reason
            if told != ("False", reason, wish.message) and (wish.unschedulable or told[1] == _UNSCHEDULABLE):
                condition: dict[str, Any] = {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": reason,
                    "message": wish.message,
                    "lastProbeTime": None,
                }
                if said is None or said.status != "False":
                    condition["lastTransitionTime"] = self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
                status["conditions"] = [condition]
        if wish.nominated is not None and wish.nominated != pod.status.nominated_node_name:
            status["nominatedNodeName"] = wish.nominated or None
        return status
