"""Which slot tokens are real: those that a ledger has.

A pod with a token was admitted by the webhook, and the extender leaves it alone. But an annotation is what
any user writes, so a token counts only if the ledger of the pod's group has it. The webhook writes the
ledger before the pod is made; which of the two our watches show first is open, so a token that is not known
is looked up once for each pod.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.reflector import Reflector
from fairlead.client.view import Added, Deleted, Event, Modified
from fairlead.client.wire import object_path, read_as
from fairlead.doors.references import keep_newest
from fairlead.errors import ApiError, NotFound, Unreachable
from fairlead.kube.meta import Object
from fairlead.policy.groups import GroupKey
from fairlead.policy.ledger import Ledger, PlacementLedger
from fairlead.policy.names import LEDGERS

__all__ = ["Tokens"]

_log = structlog.get_logger(__name__)

_LOOK_S = 30.0  # until ledgers that the cluster does not have are looked for again
_LOOKED_UP = 10_000  # pods of which we remember that their token was looked up

_Kept = tuple[GroupKey, frozenset[str]]


class _Found(Object, frozen=True, gc=False):
    items: tuple[PlacementLedger, ...] = ()


class Tokens:
    """See the module. `changed` hears of every group whose ledger changed. Only reads."""

    def __init__(
        self,
        client: Client,
        changed: Callable[[GroupKey], None],
        *,
        rng: random.Random | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self._client = client
        self._changed = changed
        self._ledgers: Reflector[PlacementLedger, _Kept] = Reflector(
            client, LEDGERS, PlacementLedger, keep=_tokens, rng=rng, clock=clock
        )
        self._looked_up: dict[str, str] = {}  # by the pod's uid: the token, if its ledger has it
        self._looked = asyncio.Event()

    async def run(self) -> None:
        """Watch ledgers for ever; without a webhook a cluster may not know what that is."""
        while not await self._served():
            self._looked.set()
            await asyncio.sleep(_LOOK_S)
        await self._ledgers.run(self._on_ledger)

    async def synced(self) -> None:
        """Wait until all ledgers were listed, or are known not to be served."""
        waits = [asyncio.ensure_future(one) for one in (self._ledgers.synced(), self._looked.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    def known(self, key: GroupKey, uid: str, token: str) -> bool:
        """Whether a group's ledger has this token, as far as we know; `uid` is the pod's that carries it."""
        kept = self._ledgers.view.get(f"{key.namespace}/{key.ledger_name}")
        return (kept is not None and token in kept[1]) or self._looked_up.get(uid) == token

    async def look_up(self, key: GroupKey, uid: str, token: str) -> None:
        """Read the ledger of a pod whose token is not known; once for each pod."""
        if uid in self._looked_up or self.known(key, uid, token):
            return
        path = object_path(
            LEDGERS, key.namespace, query={"fieldSelector": f"metadata.name={key.ledger_name}"}
        )
        try:
            found = read_as(await self._client.read(path), _Found).items
        except NotFound:
            found = ()
        has = any(token in _tokens(one)[1] for one in found)
        self._looked_up[uid] = token if has else ""
        keep_newest(self._looked_up, _LOOKED_UP)

    async def _served(self) -> bool:
        try:
            await self._client.read(object_path(LEDGERS, query={"limit": "1"}))
        except NotFound:
            return False
        except (ApiError, Unreachable) as error:
            _log.warning("ledgers_not_read", reason=str(error), result="slot tokens are not believed")
            return False
        return True

    def _on_ledger(self, event: Event[PlacementLedger, _Kept]) -> None:
        if isinstance(event, Added | Modified):
            self._changed(event.object.key)
        elif isinstance(event, Deleted) and event.last is not None:
            self._changed(event.last[0])


def _tokens(ledger: PlacementLedger) -> _Kept:
    return ledger.key, frozenset(entry.token for entry in Ledger.from_object(ledger).entries)
