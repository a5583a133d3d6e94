"""Work only while holding a Lease: for doors of which one replica may act, and for what one process writes.

Whoever stands by only waits: `lead` calls the work with a client whose writes are fenced, and cancels it
before the lease can be another's. The lease's namespace is made when it turns out to be missing, which in
a cluster it never is; looking first would need a right that is good for nothing else.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.election import ApiLease, Election, Terms
from fairlead.errors import Conflict, LeaseLost, NotFound
from fairlead.kube.resources import known
from fairlead.kube.workloads import Lease

__all__ = ["LeaseInItsNamespace", "lead"]

_log = structlog.get_logger(__name__)


async def lead(
    client: Client,
    lease: str,
    namespace: str,
    work: Callable[[Client], Awaitable[None]],
    *,
    terms: Terms = Terms(),  # noqa: B008 (frozen)
    clock: Clock = WALL_CLOCK,
    instance: str = "",
) -> None:
    """Be a candidate for `lease`; do `work`, with a fenced client, for as long as it is ours.

    Returns when the work returns, with the lease given back; a lost lease ends the work and makes us a
    candidate again. Cancelled, the work is cancelled first and the lease given back.
    """
    while True:
        candidate = Election(
            LeaseInItsNamespace(client, lease, namespace),
            instance or socket.gethostname(),
            rng=client.rng,
            terms=terms,
            clock=clock,
            on_resume=client.connection.reset,
        )

        async def leading(candidate: Election = candidate) -> None:
            _log.info("leading", lease=lease)
            try:
                await work(client.fenced(candidate.fence))
            except BaseExceptionGroup as several:
                # One of the work's tasks was stopped by the fence; its fellows were only cancelled.
                if (lost := several.subgroup(LeaseLost)) is not None:
                    raise LeaseLost(str(_first(lost))) from several
                raise

        try:
            await candidate.run(leading)
            return
        except LeaseLost as error:
            _log.warning("lease_lost", lease=lease, reason=str(error))
            # Bytes that wait in an old socket must not be sent now.
            await client.connection.reset()


class LeaseInItsNamespace(ApiLease):
    """A lease whose namespace is made along with it if need be."""

    async def put(self, spec: dict[str, Any], old: Lease | None) -> Lease:
        """Create it, in a new namespace if need be, or replace the version that `old` is."""
        try:
            return await super().put(spec, old)
        except NotFound:
            if old is not None:
                raise
        with contextlib.suppress(Conflict):  # another replica was faster
            await self.client.create(known("Namespace"), {"metadata": {"name": self.namespace}})
        return await super().put(spec, old)


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    found: BaseException = several
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
