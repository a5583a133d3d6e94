"""Ledgers brought up to date when no pod asks for a slot: pods that slipped through get theirs.

Whatever changed in a group is looked at once it has been quiet for a moment. Replicas wait for different
times, so that mostly one of them writes and the others find nothing left to do.
"""

from __future__ import annotations

import asyncio
import random

import structlog

from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.webhook.ledgers import Ledgers
from fairlead.errors import Conflict, FairleadError, NotFound
from fairlead.feed.groups import LiveGroups
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.slots.ledger import EXPIRY_S

_log = structlog.get_logger(__name__)

_QUIET_S = (2.0, 5.0)
_LOOK_S = 0.5


class Adoption:
    """See the module. Only writes ledgers; cancelled, at most one write is under way, whole or not at all."""

    def __init__(self, rng: random.Random, clock: Clock = WALL_CLOCK) -> None:
        self._rng = rng
        self._clock = clock
        self._due: dict[GroupKey, float] = {}
        self._some = asyncio.Event()

    def changed(self, key: GroupKey) -> None:
        """Something happened to a group's pods or to its ledger."""
        if key.alone:
            return  # it has no ledger
        self._due[key] = self._clock.now() + self._rng.uniform(*_QUIET_S)
        self._some.set()

    async def run(self, groups: LiveGroups, ledgers: Ledgers) -> None:
        """Look after groups for ever."""
        while True:
            await self._some.wait()
            await asyncio.sleep(_LOOK_S)
            now = self._clock.now()
            for key in [key for key, due in self._due.items() if due <= now]:
                del self._due[key]
                if groups.blind:
                    self.changed(key)  # what we know may be old: later
                else:
                    await self._look_after(key, groups, ledgers)
            if not self._due:
                self._some.clear()

    async def _look_after(self, key: GroupKey, groups: LiveGroups, ledgers: Ledgers) -> None:
        try:
            ledger = await ledgers.observe(key)
        except (Conflict, NotFound):
            self.changed(key)  # another replica wrote it just now
            return
        except FairleadError as error:
            _log.info("ledger_not_kept", ledger=str(key), reason=str(error))
            self.changed(key)
            return
        except Exception:  # noqa: BLE001 (one group must not end the webhook; the log has it all)
            _log.exception("ledger_not_kept", ledger=str(key))
            return  # it is looked at again when something happens to it
        pods = {name for member in groups.index.members(key) for name in (member.token, member.uid)}
        if any(entry.token not in pods for entry in ledger.entries):
            # Taken, but its pod is not there yet: look again when it will have expired.
            again = self._clock.now() + EXPIRY_S + self._rng.uniform(*_QUIET_S)
            self._due.setdefault(key, again)
            self._some.set()
