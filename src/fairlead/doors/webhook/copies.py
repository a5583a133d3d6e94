"""Ledgers as we know them: as the watch shows them or as we last wrote them, whichever is newer.

So taking a slot costs one write and no read. A copy may be behind; every write says which version it goes
by, and the API server refuses it if there is a newer one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.reflector import Reflector
from fairlead.client.view import Added, Event, Modified
from fairlead.client.wire import version_number
from fairlead.errors import NotFound
from fairlead.kube.meta import Object, ObjectMeta
from fairlead.policy.groups import GroupKey
from fairlead.policy.ledger import Ledger, PlacementLedger
from fairlead.policy.names import LEDGERS

__all__ = ["Copies"]


class _Seen:
    """A ledger as the watch shows it; made of what came only when somebody asks, since most are our own."""

    __slots__ = ("_from", "version")

    def __init__(self, shown: PlacementLedger) -> None:
        self.version = version_number(shown.metadata.resource_version)
        self._from: PlacementLedger | Ledger = shown

    @property
    def ledger(self) -> Ledger:
        """What it says."""
        if isinstance(self._from, PlacementLedger):
            self._from = Ledger.from_object(self._from)
        return self._from

    def is_ours(self, written: Ledger) -> None:
        """It is what we wrote."""
        self._from = written


class _Written(Object, frozen=True, gc=False):
    """What there is to learn from the answer to a write."""

    metadata: ObjectMeta = ObjectMeta()


class Copies:
    """See the module. `run` it; `changed` hears of ledgers that somebody wrote.

    Cancelled in `write` or `delete`, that may or may not have been done.
    """

    def __init__(
        self,
        client: Client,
        changed: Callable[[GroupKey], None] = lambda _: None,
        *,
        rng: random.Random | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self._client = client
        self._changed = changed
        self._reflector: Reflector[PlacementLedger, _Seen] = Reflector(
            client, LEDGERS, PlacementLedger, keep=_Seen, rng=rng, clock=clock
        )
        self._ours: dict[GroupKey, Ledger] = {}  # those that the watch has yet to show

    async def run(self) -> None:
        """Watch ledgers for ever."""
        await self._reflector.run(self._on_event)

    async def synced(self) -> None:
        """Wait until all ledgers were listed."""
        await self._reflector.synced()

    @property
    def is_synced(self) -> bool:
        """Whether all ledgers were listed."""
        return self._reflector.is_synced

    def newest(self, key: GroupKey) -> Ledger:
        """A group's ledger as it was last seen or written; an empty one when there is none."""
        seen = self._reflector.view.get(f"{key.namespace}/{key.ledger_name}")
        ours = self._ours.get(key)
        if seen is None:
            return ours or Ledger(key)
        if ours is not None:
            version = version_number(ours.version)
            if seen.version < version:
                return ours
            del self._ours[key]
            if seen.version == version:
                seen.is_ours(ours)
        return seen.ledger

    async def newer(self, than: Ledger) -> Ledger:
        """The ledger that a write met which went by `than`: often the watch has brought it by now."""
        found = self.newest(than.key)
        return found if found.version != than.version else await self.refresh(than.key)

    async def refresh(self, key: GroupKey) -> Ledger:
        """The ledger as the API server has it now."""
        try:
            found = await self._client.get(LEDGERS, key.ledger_name, key.namespace, kind=PlacementLedger)
        except NotFound:
            self._ours.pop(key, None)
            return Ledger(key)
        ledger = self._ours[key] = Ledger.from_object(found)
        return ledger

    async def write(self, ledger: Ledger) -> Ledger:
        """Write a ledger over the version that it goes by, or make it; the ledger as it is then."""
        body = ledger.to_object()
        if ledger.version:
            found = await self._client.replace(LEDGERS, body, kind=_Written)
        else:
            found = await self._client.create(LEDGERS, body, kind=_Written)
        metadata = found.metadata
        written = replace(ledger, version=metadata.resource_version, uid=metadata.uid)
        self._ours[ledger.key] = written
        return written

    async def delete(self, ledger: Ledger) -> None:
        """Delete a ledger, if it still is what it goes by."""
        key = ledger.key
        await self._client.delete(
            LEDGERS, key.ledger_name, key.namespace, uid=ledger.uid, resource_version=ledger.version
        )
        self._ours.pop(key, None)

    def _on_event(self, event: Event[PlacementLedger, _Seen]) -> None:
        if isinstance(event, Added | Modified):
            self._changed(event.object.key)
