"""The scheduler as a door: leader election around sessions, and sessions one after the other.

A candidate already runs its session, which watches and waits: taking over needs no listing. It gets a
client whose fence is closed until the lease is ours, so that it could not write if it tried. A session
ends because the configuration changed, because the core failed, or because the process is to end; the
lease is kept over all but the last. Losing the lease ends the session and makes us a candidate again.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog

from fairlead.client.api import Client
from fairlead.client.election import Election, Terms
from fairlead.doors.caller_review import CallerReview
from fairlead.doors.leader import stand
from fairlead.doors.process import Context, Door
from fairlead.doors.scheduler.configuration import Configuration, read_configuration
from fairlead.doors.scheduler.drift import Drifted
from fairlead.doors.scheduler.metrics import Metrics
from fairlead.doors.scheduler.session import InternalError, Session
from fairlead.doors.tasks import beside
from fairlead.engine.core.kinds import KINDS
from fairlead.engine.core.report import QueuePosition
from fairlead.feed.files import follow, stamp_of
from fairlead.feed.sources import watched

if TYPE_CHECKING:
    from aiohttp import web

_log = structlog.get_logger(__name__)

_LOOK_S = 5.0  # how often the configuration file is looked at


class SchedulerDoor(Door):
    """See the module. SIGHUP makes it read its file at once.

    The configuration may be exchanged while it runs; what only a start can change (where the API server is,
    leader election, the port) stays as it was.
    """

    name = "scheduler"
    reloads = True

    def __init__(
        self,
        context: Context,
        configuration: Configuration,
        *,
        file: str | None = None,
        flags: Mapping[str, Any] | None = None,
        only_ours: bool = False,
    ) -> None:
        """`only_ours`: policies are for the pods of this scheduler only."""
        self.session: Session | None = None
        super().__init__(context)
        self._configuration = configuration
        self._file = file
        self._stamp = stamp_of(file) if file else None
        self._flags = flags or {}
        self._only_ours = only_ours
        self._metrics = Metrics()
        self._instance = socket.gethostname()
        self._renew = asyncio.Event()
        self._read_again = asyncio.Event()
        self._leads = asyncio.Event()  # of the candidacy under way
        # Where policies are not ours to read, the scheduler goes on without.
        context.policies.optional = True
        context.marks.on_change(self._tiers_changed)
        for resource in watched():
            context.watches.want(resource, KINDS[resource.kind])

    def checks(self) -> Mapping[str, str]:
        """A standby is ready when it has listed everything, a leader when it also plans."""
        if self.session is None:
            return {"session": "there is none: it begins, or everything is to be listed again"}
        return {"session": "", **self.session.checks(leads=self._leads.is_set())}

    def metrics(self) -> bytes:
        """See `Metrics`."""
        return self._metrics.text()

    def routes(self) -> Iterable[web.RouteDef]:
        """See `QueueEndpoint`."""
        from fairlead.doors.scheduler.queue_endpoint import QueueEndpoint  # with a web server, which is a lot

        return QueueEndpoint(CallerReview(self._context.client), self._queue).routes()

    def _queue(self) -> Callable[[str], Awaitable[QueuePosition | None]] | None:
        session = self.session
        return session.queue_position if session is not None and session.synced else None

    def reload(self) -> None:
        """Read the file at once."""
        self._read_again.set()

    def use(self, configuration: Configuration) -> None:
        """Go on with another configuration."""
        self._configuration = configuration
        self._renew.set()

    def stop(self) -> None:
        """Finish what is under way, give the lease back and return from `run`."""
        super().stop()
        self._renew.set()

    async def run(self) -> None:
        """Schedule, whenever we lead, until `stop`."""
        again, refused = self._read_again, "configuration_refused"
        async with beside() as start:
            if self._file:
                start(
                    follow(
                        self._file, self._stamp, self._reread, look_s=_LOOK_S, refused=refused, again=again
                    )
                )
            await self._schedule()

    def _reread(self) -> None:
        """Read the file again; one that cannot be used changes nothing."""
        configuration = read_configuration(self._file, self._flags)
        if configuration != self._configuration:
            _log.info("configuration_reloaded", file=self._file)
            self.use(configuration)

    def _tiers_changed(self) -> None:
        if self.session is not None:
            self.session.look()

    async def _schedule(self) -> None:
        client, election = self._context.client, self._configuration.leader_election
        if not election.enabled:
            self._leads.set()
            await self._sessions(client)
            return
        terms = Terms(election.lease_duration, election.renew_deadline, election.retry_period)
        namespace, clock = self._context.system_namespace, self._context.clock
        await stand(client, election.lease_name, namespace, self._candidacy, terms=terms, clock=clock)

    async def _candidacy(self, candidate: Election) -> None:
        """Stand by until the lease is ours, then lead for as long as it is.

        Told to stop, a standby ends at once and a leader in order, giving the lease back.
        """
        self._leads = leads = asyncio.Event()
        sessions = asyncio.ensure_future(self._sessions(self._context.client.fenced(candidate.fence)))

        async def lead() -> None:
            leads.set()
            self._metrics.leader.set(1)
            try:
                await sessions
            finally:
                self._metrics.leader.set(0)

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
        clock, last_rebuild = self._context.clock, float("-inf")
        while not self._stopping.is_set():
            try:
                await self._session(client)
            except (InternalError, Drifted) as error:
                _log.exception("rebuild", reason=str(error))
                self._context.watches.start_over()
                self._metrics.rebuilds.labels("drift" if isinstance(error, Drifted) else "error").inc()
                now, rebuild = clock.now(), self._configuration.rebuild
                last_rebuild = max(now + rebuild.delay, last_rebuild + rebuild.interval)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), last_rebuild - now)

    async def _session(self, client: Client) -> None:
        self._renew.clear()
        self.session = Session(
            self._context,
            client,
            self._configuration,
            self._metrics,
            only_ours=self._only_ours,
            instance=self._instance,
        )
        try:
            await self.session.run(self._renew, self._leads)
        finally:
            self.session = None
