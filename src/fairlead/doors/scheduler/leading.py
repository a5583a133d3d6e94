"""Who works when: leader election around sessions, and sessions one after the other.

A session ends because the configuration changed, because the core failed, or because the process is to
end; the lease is kept over all but the last. Losing the lease ends the session and makes us a candidate
again: nothing is written until the lease is ours anew.
"""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.election import ApiLease, Election
from fairlead.doors.scheduler.configuration import Configuration, seconds
from fairlead.doors.scheduler.drift import Drifted
from fairlead.doors.scheduler.metrics import Metrics
from fairlead.doors.scheduler.recording import Recorder
from fairlead.doors.scheduler.session import InternalError, Session
from fairlead.errors import ApiError, Conflict, LeaseLost, NotFound
from fairlead.kube.resources import known

__all__ = ["Scheduler"]

_log = structlog.get_logger(__name__)


class Scheduler:
    """A whole scheduler: run it until it is told to stop.

    `configuration` may be exchanged by `reload` while it runs; what only a start can change (where the
    API server is, leader election, the port) stays as it was.
    """

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        system_namespace: str,
        metrics: Metrics | None = None,
        rng: random.Random | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.session: Session | None = None
        self._client = client
        self._configuration = configuration
        self._system_namespace = system_namespace
        self._rng = rng or random.Random()
        self._clock = clock
        self._stopping = asyncio.Event()
        self._renew = asyncio.Event()
        self._instance = socket.gethostname()

    @property
    def ready(self) -> bool:
        """Whether it does what it is there for: a standby does, and a leader that has listed everything."""
        return self.session is None or self.session.synced

    def stop(self) -> None:
        """Finish what is under way and return from `run`."""
        self._stopping.set()
        self._renew.set()

    def reload(self, configuration: Configuration) -> None:
        """Go on with another configuration."""
        self._configuration = configuration
        self._renew.set()

    async def run(self) -> None:
        """Schedule, whenever we lead, until `stop`."""
        election = self._configuration.leader_election
        if not election.enabled:
            await self._sessions(self._client)
            return
        await self._ensure_namespace()
        while not self._stopping.is_set():
            candidate = Election(
                ApiLease(self._client, election.lease_name, self._system_namespace),
                self._instance,
                rng=self._rng,
                terms=self._configuration.terms(),
                clock=self._clock,
                on_resume=self._client.connection.reset,
            )
            fenced = self._client.fenced(candidate.fence)
            try:
                await self._until_stopped(candidate, fenced)
            except LeaseLost as error:
                _log.warning("lease_lost", reason=str(error))
                # Bytes that wait in an old socket must not be sent now.
                await self._client.connection.reset()

    async def _until_stopped(self, candidate: Election, fenced: Client) -> None:
        """Run the election; waiting for a lease ends at once when told to stop, leading ends in order."""
        leading = asyncio.Event()

        async def lead() -> None:
            leading.set()
            self.metrics.leader.set(1)
            try:
                await self._sessions(fenced)
            finally:
                self.metrics.leader.set(0)

        run = asyncio.ensure_future(candidate.run(lead))
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((run, stop), return_when=asyncio.FIRST_COMPLETED)
            if not run.done() and not leading.is_set():
                run.cancel()
            try:
                await run
            except asyncio.CancelledError:
                if not self._stopping.is_set():
                    raise
        finally:
            for task in (run, stop):
                task.cancel()
            await asyncio.gather(run, stop, return_exceptions=True)

    async def _sessions(self, client: Client) -> None:
        rebuild = self._configuration.rebuild
        last_rebuild: float | None = None
        while not self._stopping.is_set():
            self._renew.clear()
            recorder = self._recorder()
            session = Session(
                client,
                self._configuration,
                self.metrics,
                recorder=recorder,
                rng=self._rng,
                instance=self._instance,
                clock=self._clock,
            )
            self.session = session
            try:
                await session.run(self._renew)
            except (InternalError, Drifted) as error:
                _log.exception("rebuild", reason=str(error))
                self.metrics.rebuilds.labels("drift" if isinstance(error, Drifted) else "error").inc()
                wait_s = seconds(rebuild.delay)
                now = self._clock.now()
                if last_rebuild is not None:
                    wait_s = max(wait_s, last_rebuild + seconds(rebuild.interval) - now)
                last_rebuild = now + wait_s
                await self._rest(wait_s)
            finally:
                self.session = None
                if recorder is not None:
                    recorder.close()

    def _recorder(self) -> Recorder | None:
        record = self._configuration.record
        if not record.file:
            return None
        return Recorder(
            Path(record.file),
            self._configuration.settings(),
            segment_bytes=record.segment_bytes,
            segments=record.segments,
        )

    async def _rest(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._stopping.wait()
        except TimeoutError:
            pass  # rested

    async def _ensure_namespace(self) -> None:
        namespace = known("Namespace")
        try:
            await self._client.get(namespace, self._system_namespace)
        except NotFound:
            try:
                await self._client.create(namespace, {"metadata": {"name": self._system_namespace}})
            except Conflict:
                return  # another replica was faster
        except ApiError as error:
            # With narrow rights we may not look; the lease will tell whether it is there.
            _log.debug("namespace_not_seen", namespace=self._system_namespace, reason=str(error))
