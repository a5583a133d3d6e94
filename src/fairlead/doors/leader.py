"""Work only while holding a Lease: for doors of which one replica may act, and for what one process writes.

Whoever stands by only waits: `lead` calls the work with a client whose writes are fenced, and cancels it
before the lease can be another's.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.election import ApiLease, Election, Terms
from fairlead.doors.failures import worst
from fairlead.doors.namespaces import in_namespace
from fairlead.errors import LeaseLost
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
                    raise LeaseLost(str(worst(lost))) from several
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
        put = functools.partial(super().put, spec, old)
        return await (put() if old is not None else in_namespace(self.client, self.namespace, put))
