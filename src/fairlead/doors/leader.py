"""Work only while holding a Lease: for doors of which one replica may act, and for what one process writes.

A standby only waits: `lead` calls the work with a client whose writes are fenced, and cancels it
before the lease can be another's.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.election import ApiLease, Election, Terms
from fairlead.doors.tasks import worst
from fairlead.errors import LeaseLost

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

    async def candidacy(candidate: Election) -> None:
        async def leading() -> None:
            _log.info("leading", lease=lease)
            try:
                await work(client.fenced(candidate.fence))
            except BaseExceptionGroup as several:
                # One of the work's tasks was stopped by the fence; its fellows were only cancelled.
                if (lost := several.subgroup(LeaseLost)) is not None:
                    raise LeaseLost(str(worst(lost))) from several
                raise

        await candidate.run(leading)

    await stand(client, lease, namespace, candidacy, terms=terms, clock=clock, instance=instance)


async def stand(
    client: Client,
    lease: str,
    namespace: str,
    candidacy: Callable[[Election], Awaitable[None]],
    *,
    terms: Terms,
    clock: Clock,
    instance: str = "",
) -> None:
    """Run one candidacy after the other, each as a candidate of its own, until one returns: a lost lease
    ends only the candidacy.
    """
    while True:
        candidate = Election(
            ApiLease(client, lease, namespace),
            instance or socket.gethostname(),
            rng=client.rng,
            terms=terms,
            clock=clock,
            on_resume=client.connection.reset,
        )
        try:
            await candidacy(candidate)
            return
        except LeaseLost as error:
            _log.warning("lease_lost", lease=lease, reason=str(error))
            # Bytes that wait in an old socket must not be sent now.
            await client.connection.reset()
