"""The ledgers of the cluster, for the extender's tokens.

The webhook writes the ledger before the pod is made; which of the two our watches show first is open, so a
token that is not known is looked up once for each pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from fairlead.client.api import Client
from fairlead.client.wire import object_path, read_as
from fairlead.errors import ApiError, NotFound, Unreachable
from fairlead.feed.watches import Followed, Watches
from fairlead.kube.meta import Object
from fairlead.policy.decide.filter.tokens import Tokens
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.names import LEDGERS
from fairlead.policy.slots.ledger import Ledger, PlacementLedger

_log = structlog.get_logger(__name__)

_LOOK_S = 30.0  # until ledgers that the cluster does not have are looked for again


class _Found(Object, frozen=True, gc=False):
    items: tuple[PlacementLedger, ...] = ()


class Ledgers:
    """See the module. `changed` is called for every group whose ledger changed. Only reads."""

    def __init__(
        self,
        client: Client,
        watches: Watches,
        tokens: Tokens,
        changed: Callable[[GroupKey], None],
    ) -> None:
        self._client = client
        self._tokens = tokens
        self._changed = changed
        self._followed = Followed(watches, LEDGERS, PlacementLedger, self._put, self._drop)
        self._looked = asyncio.Event()

    async def run(self) -> None:
        """Watch ledgers for ever; without a webhook a cluster may not know what that is."""
        while not await self._served():
            self._looked.set()
            await asyncio.sleep(_LOOK_S)
        await self._followed.run()

    async def synced(self) -> None:
        """Wait until all ledgers were listed, or are known not to be served."""
        waits = [asyncio.ensure_future(one) for one in (self._followed.listed.wait(), self._looked.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    async def look_up(self, key: GroupKey, uid: str, token: str) -> None:
        """Read the ledger of a pod whose token is not known; once for each pod."""
        if not self._tokens.asks(key, uid, token):
            return
        path = object_path(
            LEDGERS, key.namespace, query={"fieldSelector": f"metadata.name={key.ledger_name}"}
        )
        try:
            found = read_as(await self._client.read(path), _Found).items
        except NotFound:
            found = ()
        has = any(token == entry.token for one in found for entry in Ledger.from_object(one).entries)
        self._tokens.looked_up(uid, token if has else "")

    async def _served(self) -> bool:
        try:
            await self._client.read(object_path(LEDGERS, query={"limit": "1"}))
        except NotFound:
            return False
        except (ApiError, Unreachable) as error:
            _log.warning("ledgers_not_read", reason=str(error), result="slot tokens are not believed")
            return False
        return True

    def _put(self, ledger: PlacementLedger) -> None:
        self._tokens.put(Ledger.from_object(ledger))
        self._changed(ledger.key)

    def _drop(self, name: str, _: str) -> None:
        if (key := self._tokens.drop(name)) is not None:
            self._changed(key)
