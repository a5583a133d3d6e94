"""Binds pods, with bounded concurrency, and finds out what became of each bind.

Every bind carries the pod's UID, so it can land on no other pod and no second node. An answer that is
missing or says conflict is resolved by reading the pod: on our node it is success, gone or another UID
means forget, elsewhere means that we were wrong and plan again. Nothing is ever guessed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

import structlog
from msgspec import UNSET

from fairlead.client.api import Client
from fairlead.client.retry import Backoff
from fairlead.doors.scheduler.lane import Lane
from fairlead.doors.scheduler.statuses import Statuses
from fairlead.doors.scheduler.volumes import Volumes, VolumesNotBound
from fairlead.engine.core.actions import BindPod
from fairlead.engine.core.events import BindFailed, Event, Gone, Seen
from fairlead.errors import ApiError, Conflict, Invalid, NotFound, Unreachable
from fairlead.feed.trimming import trimmed
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known

_log = structlog.get_logger(__name__)

_POD = known("Pod")
_TRANSIENT = (408, 429, 500, 502, 503, 504)
_ATTEMPTS = 8  # refusals that may pass (429, 5xx, a conflict of versions) before the core plans again


_Job = tuple[BindPod, float]
"""A bind, and when it was decided."""


class _Found(Enum):
    OURS = "on our node"
    OVER = "not ours any more, and the core has been told"
    UNBOUND = "still without a node"


class Binder:
    """See the module. `tell` reaches the core; `done` receives every bind that succeeded, and when it was
    decided.
    """

    def __init__(
        self,
        client: Client,
        volumes: Volumes,
        statuses: Statuses,
        *,
        tell: Callable[[Event], None],
        done: Callable[[BindPod, float], None],
        in_flight: int = 64,
    ) -> None:
        self._client = client
        self._volumes = volumes
        self._statuses = statuses
        self._tell = tell
        self._done = done
        self._lane: Lane[_Job] = Lane(self._work, in_flight)
        # Waiting for volumes takes as long as provisioning does: it must not keep others from binding.
        self._slow: Lane[_Job] = Lane(self._work_with_volumes, 256)
        self.in_flight = in_flight

    def __len__(self) -> int:
        return len(self._lane) + len(self._slow)

    @property
    def backlog(self) -> int:
        """Binds that wait for their turn."""
        return max(0, len(self._lane) - self.in_flight)

    def put(self, bind: BindPod, decided_at: float) -> None:
        """Bind a pod, after the volumes it waits for."""
        if bind.volumes is UNSET:
            self._lane.put((bind, decided_at))
        else:
            self._volumes.follow(bind.volumes)
            self._slow.put((bind, decided_at))

    async def run(self) -> None:
        """Bind for ever. Ends with LeaseLost when the client's fence refuses."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lane.run())
            group.create_task(self._slow.run())

    async def idle(self) -> None:
        """Wait until no bind is under way but those that wait for volumes."""
        await self._lane.idle()

    async def _work_with_volumes(self, job: _Job) -> None:
        bind, _ = job
        assert bind.volumes is not UNSET
        try:
            await self._volumes.bind(bind.volumes, bind.node)
        except VolumesNotBound as error:
            self._failed(bind, str(error))
        except Unreachable as error:
            # Whether it was written or not, the next plan starts from what the watch shows.
            self._failed(bind, f"binding volumes: {error}")
        else:
            self._lane.put(job)

    async def _work(self, job: _Job) -> None:
        bind, decided_at = job
        await self._statuses.give_way(bind.uid)
        backoff: Backoff | None = None
        for left in range(_ATTEMPTS - 1, -1, -1):
            try:
                if bind.tolerations:
                    await self._tolerate(bind)
                await self._client.bind(
                    bind.name, bind.namespace, bind.node, uid=bind.uid, annotations=bind.annotations
                )
                self._done(bind, decided_at)
                return
            except NotFound:
                self._tell(Gone("Pod", bind.namespace, bind.name, bind.uid))
                return
            except (Conflict, Invalid, Unreachable) as error:
                failure: ApiError | Unreachable = error
            except ApiError as error:
                if error.code not in _TRANSIENT:
                    self._failed(bind, str(error))
                    return
                failure = error
            match await self._look(bind):
                case _Found.OURS:
                    self._done(bind, decided_at)
                    return
                case _Found.OVER:
                    return
            # A patch that names another UID than the pod's is invalid, for that would change it. Since it is
            # our pod, we asked for something else that will never do.
            if not left or isinstance(failure, Invalid):
                self._failed(bind, str(failure))
                return
            _log.info("bind_repeated", pod=bind.pod, node=bind.node, reason=str(failure))
            asked_s = failure.retry_after_s if isinstance(failure, ApiError) else None
            backoff = backoff or Backoff(self._client.rng)
            await asyncio.sleep(backoff.next_s(asked_s))

    async def _tolerate(self, bind: BindPod) -> None:
        """Give a pod the tolerations that its tier needs: adding some is allowed, and doing so twice."""
        tolerations = [one.to_plain() for one in bind.tolerations]
        body = {"metadata": {"uid": bind.uid}, "spec": {"tolerations": tolerations}}
        await self._client.patch(_POD, bind.name, bind.namespace, body, repeatable=True)

    async def _look(self, bind: BindPod) -> _Found:
        """What the API server says of the pod; asked until it answers."""
        backoff = Backoff(self._client.rng)
        while True:
            try:
                pod = await self._client.get(_POD, bind.name, bind.namespace, kind=Pod)
                break
            except NotFound:
                self._tell(Gone("Pod", bind.namespace, bind.name, bind.uid))
                return _Found.OVER
            except (ApiError, Unreachable) as error:
                _log.info("bind_unresolved", pod=bind.pod, node=bind.node, reason=str(error))
                await asyncio.sleep(backoff.next_s())
        if pod.metadata.uid != bind.uid:
            self._tell(Gone("Pod", bind.namespace, bind.name, bind.uid))
            return _Found.OVER
        if pod.spec.node_name == bind.node:
            return _Found.OURS
        if pod.spec.node_name or pod.metadata.deletion_timestamp is not None or pod.spec.scheduling_gates:
            _log.warning("bind_lost", pod=bind.pod, node=bind.node, found=pod.spec.node_name or "no node")
            # No message and no event: what the pod shows says it all.
            self._tell(BindFailed(bind.pod, bind.uid, bind.node))
            self._tell(Seen("Pod", trimmed(pod)))
            return _Found.OVER
        return _Found.UNBOUND

    def _failed(self, bind: BindPod, message: str) -> None:
        _log.warning("bind_failed", pod=bind.pod, node=bind.node, reason=message)
        self._tell(BindFailed(bind.pod, bind.uid, bind.node, message))
