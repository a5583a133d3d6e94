"""Ledgers as we know them: as the watch shows them or as we last wrote them, whichever is newer.

So taking a slot costs one write and no read. A copy may be behind; every write says which version it goes
by, and the API server refuses it if there is a newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import structlog

from fairlead.client.api import Client
from fairlead.client.wire import version_number
from fairlead.errors import Conflict, NotFound
from fairlead.feed.watches import Followed, Watches
from fairlead.kube.meta import Object, ObjectMeta
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.names import LEDGERS
from fairlead.policy.slots.ledger import Ledger, PlacementLedger

_log = structlog.get_logger(__name__)


class _Seen:
    """A ledger as the watch shows it; built from the object only when needed, since most are our own."""

    __slots__ = ("_from", "version")

    def __init__(self, shown: PlacementLedger) -> None:
        self.version = shown.metadata.resource_version
        self._from: PlacementLedger | Ledger = shown

    @property
    def ledger(self) -> Ledger:
        """What it says."""
        shown = self._from
        if isinstance(shown, PlacementLedger):
            self._from = found = Ledger.from_object(shown)
            if len(found.entries) < len(shown.spec.slots):
                unread = len(shown.spec.slots) - len(found.entries)
                why = "their pods are adopted by the tier of their node"
                _log.warning("slots_not_understood", ledger=str(found.key), number=unread, result=why)
            return found
        return shown

    def is_ours(self, written: Ledger) -> None:
        """It is what we wrote."""
        self._from = written


class _Written(Object, frozen=True, gc=False):
    """What there is to learn from the answer to a write."""

    metadata: ObjectMeta = ObjectMeta()


class LedgerCache:
    """See the module. `run` it; `changed` is called for ledgers that were written, `gone` for deleted ones.

    Cancelled in `write` or `delete`, that may or may not have been done.
    """

    def __init__(
        self,
        client: Client,
        watches: Watches,
        changed: Callable[[GroupKey], None] = lambda _: None,
        gone: Callable[[GroupKey], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._changed = changed
        self._gone = gone
        self._followed = Followed(watches, LEDGERS, PlacementLedger, self._put, self._drop)
        self._seen: dict[str, _Seen] = {}
        self._ours: dict[GroupKey, Ledger] = {}  # written or read by us, and not seen in the watch yet

    async def run(self) -> None:
        """Watch ledgers for ever."""
        await self._followed.run()

    async def synced(self) -> None:
        """Wait until all ledgers were listed."""
        await self._followed.listed.wait()

    @property
    def is_synced(self) -> bool:
        """Whether all ledgers were listed."""
        return self._followed.listed.is_set()

    def newest(self, key: GroupKey) -> Ledger:
        """A group's ledger as it was last seen or written; an empty one when there is none."""
        seen = self._seen.get(f"{key.namespace}/{key.ledger_name}")
        ours = self._ours.get(key)
        if seen is None:
            return ours or Ledger(key)
        if ours is not None:
            if version_number(seen.version) < version_number(ours.version):
                return ours
            del self._ours[key]
            if seen.version == ours.version:
                seen.is_ours(ours)
        return seen.ledger

    async def newer(self, than: Ledger) -> Ledger:
        """A newer ledger than one that was refused: often the watch has brought it by now."""
        found = self.newest(than.key)
        if version_number(found.version) > version_number(than.version):
            return found
        return await self.refresh(than.key)

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
        with self._doubting(ledger):
            if ledger.version:
                found = await self._client.replace(LEDGERS, body, kind=_Written)
            else:
                found = await self._client.create(LEDGERS, body, kind=_Written)
        metadata = found.metadata
        written = replace(ledger, version=metadata.resource_version, uid=metadata.uid, ages={})
        self._ours[ledger.key] = written
        return written

    async def delete(self, ledger: Ledger) -> None:
        """Delete a ledger, if it still is what it goes by."""
        key = ledger.key
        with self._doubting(ledger):
            await self._client.delete(
                LEDGERS, key.ledger_name, key.namespace, uid=ledger.uid, resource_version=ledger.version
            )
        self._ours.pop(key, None)

    @contextmanager
    def _doubting(self, ledger: Ledger) -> Iterator[None]:
        """What the API server refuses to go by is not the newest: it may even be no more."""
        try:
            yield
        except (Conflict, NotFound):
            ours = self._ours.get(ledger.key)
            if ours is not None and ours.version == ledger.version:
                del self._ours[ledger.key]
            raise

    def _put(self, ledger: PlacementLedger) -> None:
        self._seen[ledger.metadata.key] = _Seen(ledger)
        self._changed(ledger.key)

    def _drop(self, name: str, uid: str) -> None:
        seen = self._seen.pop(name, None)
        if seen is None:
            return
        key = seen.ledger.key
        ours = self._ours.get(key)
        if ours is not None and ours.uid == uid:
            del self._ours[key]
        self._gone(key)
