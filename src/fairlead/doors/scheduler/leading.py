"""Who works when: leader election around sessions, and sessions one after the other.

A candidate already runs its session, which watches and waits: taking over needs no listing. It gets a
client whose fence is closed until the lease is ours, so that it could not write if it tried. A session
ends because the configuration changed, because the core failed, or because the process is to end; the
lease is kept over all but the last. Losing the lease ends the session and makes us a candidate again.
"""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.election import Election
from fairlead.doors.leader import LeaseInItsNamespace
from fairlead.doors.scheduler.configuration import Configuration
from fairlead.doors.scheduler.drift import Drifted
from fairlead.doors.scheduler.metrics import Metrics
from fairlead.doors.scheduler.recording import Recorder
from fairlead.doors.scheduler.session import InternalError, Session
from fairlead.doors.scheduler.tiers import TierFeed
from fairlead.errors import LeaseLost
from fairlead.kube.duration import seconds

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
        tiers: TierFeed | None = None,
        rng: random.Random | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """`tiers` are the placement policies to go by; None: there are none."""
        self.metrics = metrics or Metrics()
        self.session: Session | None = None
        self._client = client
        self._configuration = configuration
        self._system_namespace = system_namespace
        self._tiers = tiers
        self._rng = rng or random.Random()
        self._clock = clock
        self._stopping = asyncio.Event()
        self._renew = asyncio.Event()
        self._leads = asyncio.Event()  # of the candidacy under way
        self._instance = socket.gethostname()

    def checks(self) -> dict[str, str]:
        """What must hold for it to be ready, by name: "" or what is wrong.

        A standby is ready when it has listed everything, a leader when it also plans.
        """
        if self.session is None:
            return {"session": "there is none: it begins, or everything is to be listed anew"}
        return {"session": "", **self.session.checks(leads=self._leads.is_set())}

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
            self._leads.set()
            await self._sessions(self._client)
            return
        while not self._stopping.is_set():
            candidate = Election(
                LeaseInItsNamespace(self._client, election.lease_name, self._system_namespace),
                self._instance,
                rng=self._rng,
                terms=self._configuration.terms(),
                clock=self._clock,
                on_resume=self._client.connection.reset,
            )
            try:
                await self._candidacy(candidate)
            except LeaseLost as error:
                _log.warning("lease_lost", reason=str(error))
                # Bytes that wait in an old socket must not be sent now.
                await self._client.connection.reset()

    async def _candidacy(self, candidate: Election) -> None:
        """Stand by until the lease is ours, then lead for as long as it is.

        Told to stop, a standby ends at once and a leader in order, giving the lease back.
        """
        self._leads = leads = asyncio.Event()
        sessions = asyncio.ensure_future(self._sessions(self._client.fenced(candidate.fence)))

        async def lead() -> None:
            leads.set()
            self.metrics.leader.set(1)
            try:
                await sessions
            finally:
                self.metrics.leader.set(0)

        run = asyncio.ensure_future(candidate.run(lead))
        try:
            await asyncio.wait((run, sessions), return_when=asyncio.FIRST_COMPLETED)
            await (run if leads.is_set() or run.done() else sessions)
        finally:
            for task in (run, sessions):
                task.cancel()
            await asyncio.gather(run, sessions, return_exceptions=True)
            leads.clear()

    async def _sessions(self, client: Client) -> None:
        rebuild = self._configuration.rebuild
        last_rebuild: float | None = None
        while not self._stopping.is_set():
            try:
                await self._session(client)
            except (InternalError, Drifted) as error:
                _log.exception("rebuild", reason=str(error))
                self.metrics.rebuilds.labels("drift" if isinstance(error, Drifted) else "error").inc()
                wait_s = seconds(rebuild.delay)
                now = self._clock.now()
                if last_rebuild is not None:
                    wait_s = max(wait_s, last_rebuild + seconds(rebuild.interval) - now)
                last_rebuild = now + wait_s
                await self._rest(wait_s)

    async def _session(self, client: Client) -> None:
        self._renew.clear()
        self.session = Session(
            client,
            self._configuration,
            self.metrics,
            recording=self._recorder,
            rng=self._rng,
            instance=self._instance,
            tiers=self._tiers,
            clock=self._clock,
        )
        try:
            await self.session.run(self._renew, self._leads)
        finally:
            self.session = None

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
