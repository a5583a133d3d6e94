"""The scheduler as a door: around a `Scheduler`, its configuration, read again when it changes, and the
placement policies of the process.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

import structlog

from fairlead.doors.failures import worst
from fairlead.doors.files import stamp_of
from fairlead.doors.marks import LiveMarks
from fairlead.doors.running import Door, Surroundings
from fairlead.doors.scheduler.configuration import Configuration, read_configuration
from fairlead.doors.scheduler.leading import Scheduler
from fairlead.doors.scheduler.tiers import TierFeed
from fairlead.errors import BadInput

__all__ = ["SchedulerDoor"]

_log = structlog.get_logger(__name__)

_LOOK_S = 5.0  # how often the configuration file is looked at


class SchedulerDoor(Door):
    """See the module. SIGHUP makes it read its file at once."""

    name = "scheduler"

    def __init__(
        self,
        around: Surroundings,
        configuration: Configuration,
        *,
        file: str | None = None,
        flags: Mapping[str, Any] | None = None,
        only_ours: bool = False,
    ) -> None:
        """`only_ours`: policies are for the pods of this scheduler only."""
        # Where policies are not ours to read, the scheduler goes on without.
        around.policies.optional = True
        self._file = file
        self._flags = flags or {}
        self._marks = LiveMarks(
            around.client, around.policies, around.system_namespace, rng=around.rng, clock=around.clock
        )
        self._scheduler = Scheduler(
            around.client,
            configuration,
            system_namespace=around.system_namespace,
            tiers=TierFeed(
                around.policies,
                self._marks,
                around.exempt,
                only_ours=only_ours,
            ),
            rng=around.rng,
            clock=around.clock,
        )

    def checks(self) -> Mapping[str, str]:
        """See `Scheduler.checks`."""
        return self._scheduler.checks()

    def metrics(self) -> bytes:
        """See `Metrics`."""
        return self._scheduler.metrics.text()

    def stop(self) -> None:
        """Finish what is under way, give the lease back and return."""
        self._scheduler.stop()

    async def run(self) -> None:
        """Schedule, whenever we lead, until `stop`."""
        again = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, again.set)
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self._marks.run())]
                if self._file:
                    beside.append(group.create_task(self._reload(self._file, again)))
                await self._scheduler.run()
                for task in beside:
                    task.cancel()
        except BaseExceptionGroup as several:
            raise worst(several) from several
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    async def _reload(self, file: str, again: asyncio.Event) -> None:
        """Read the file again on SIGHUP and when it changes; a file that cannot be used changes nothing."""
        known, told, refused = stamp_of(file), None, ""
        while True:
            try:
                async with asyncio.timeout(_LOOK_S):
                    await again.wait()
            except TimeoutError:
                pass  # time to look at the file
            stamp = stamp_of(file)
            if not again.is_set() and stamp == known:
                continue
            again.clear()
            before, known = known, stamp
            try:
                configuration = read_configuration(file, self._flags)
            except BadInput as error:
                unread = isinstance(error.__cause__, OSError)
                if not unread or refused != str(error):
                    _log.error("configuration_refused", reason=str(error))
                refused = str(error)
                if unread:
                    known = before  # the next look tries again
                continue
            refused = ""
            if configuration != told:
                told = configuration
                _log.info("configuration_reloaded", file=file)
                self._scheduler.reload(configuration)
