"""Karpenter's NodePools, listed every few seconds: a hint whether nodes could come to a tier.

A cluster without Karpenter has none. A rebalancer that may not read them does without, and says so once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.engine.node_pools import NodePool
from fairlead.errors import ApiError, NotFound, Unreachable
from fairlead.kube.resources import Resource

__all__ = ["NodePools"]

_log = structlog.get_logger(__name__)

_NODE_POOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
_EVERY_S = 15.0


class _List(msgspec.Struct, frozen=True):
    items: tuple[NodePool, ...] = ()


class NodePools:
    """Run it; `tell` gets all pools whenever they may have changed. `listed` is set after the first try."""

    def __init__(self, client: Client, tell: Callable[[Sequence[NodePool]], None]) -> None:
        self._client = client
        self._tell = tell
        self._told = ""
        self.listed = asyncio.Event()

    async def run(self) -> None:
        """List them for ever."""
        while True:
            await self._look()
            self.listed.set()
            await asyncio.sleep(_EVERY_S)

    async def _look(self) -> None:
        try:
            answer = await self._client.read(_NODE_POOLS.path())
            self._tell(msgspec.json.decode(answer, type=_List).items)
        except NotFound:
            self._tell(())
        except (ApiError, msgspec.MsgspecError) as error:
            if str(error) != self._told:
                self._told = str(error)
                _log.warning("node_pools_unread", reason=str(error))
        except Unreachable:
            pass  # the watches say so
