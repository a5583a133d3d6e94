"""Leader election on a Lease, with a fence that stops writes before the lease can be another's.

The others count from when they *saw* our renewal, we from just before we *sent* it, so our end comes
first whatever the network does. A leader that was suspended knows nothing of it until it looks at the
clock: hence the fence is asked right before each send, and old connections are closed on resume.
"""

from __future__ import annotations

import asyncio
import functools
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.namespaces import in_namespace
from fairlead.client.request import say
from fairlead.client.retry import Retry
from fairlead.errors import ApiError, Conflict, LeaseLost, NotFound, Unreachable
from fairlead.kube.resources import known
from fairlead.kube.workloads import Lease

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Terms:
    """Kubernetes' own times. `margin_s` is kept free at the lease's end (clocks do not tick alike);
    a write that has less than `least_s` left is not worth sending.
    """

    lease_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0
    margin_s: float = 1.0
    least_s: float = 0.5


DEFAULT = Terms()


class LeaseFence:
    """Says whether we may write, and for how long. Closed unless we lead.

    Invariant: it never lets a write through whose timeout reaches beyond the end of the lease that was
    last confirmed, less the margin.
    """

    def __init__(self, clock: Clock = WALL_CLOCK, terms: Terms = DEFAULT) -> None:
        self._clock = clock
        self._terms = terms
        self._ends: float | None = None

    def deadline(self) -> float | None:
        """The instant (of the clock's `now`) by which every write must be over; None: we do not lead."""
        return self._ends

    def check(self) -> float:
        """Seconds that a write sent now may take; raises LeaseLost when there are too few."""
        if self._ends is None:
            raise LeaseLost("not written: this process does not hold the lease")
        left_s = self._ends - self._clock.now()
        if left_s < self._terms.least_s:
            raise LeaseLost(f"not written: the lease may have ended ({left_s:.1f} s left)")
        return left_s

    def extend(self, sent_at: float) -> None:
        """A renewal that was sent at `sent_at` was confirmed."""
        self._ends = sent_at + self._terms.lease_s - self._terms.margin_s

    def close(self) -> None:
        """We do not lead any more."""
        self._ends = None


class ApiLease:
    """A Lease object on an API server; writes are compare-and-swap and raise Conflict.

    Its requests are sent once: the election itself tries again.
    """

    def __init__(self, client: Client, name: str, namespace: str) -> None:
        self.client = Client(client.connection, rng=client.rng, retry=Retry(client.rng, attempts=1))
        self._resource = known("Lease")
        self._name = name
        self.namespace = namespace

    async def get(self) -> Lease | None:
        """The lease as it is; None when there is none."""
        try:
            return await self.client.get(self._resource, self._name, self.namespace, kind=Lease)
        except NotFound:
            return None

    async def put(self, spec: dict[str, Any], old: Lease | None) -> Lease:
        """Create it, in a new namespace if need be, or replace the version that `old` is."""
        metadata = {"name": self._name, "namespace": self.namespace}
        body = {"metadata": metadata, "spec": spec}
        if old is not None:
            metadata["resourceVersion"] = old.metadata.resource_version
            return await self.client.replace(self._resource, body, kind=Lease)
        create = functools.partial(self.client.create, self._resource, body, kind=Lease)
        return await in_namespace(self.client, self.namespace, create)


async def _nothing() -> None:
    """When there are no connections to close."""


class Election:
    """One candidate. `identity` gets a random end: two processes must never share one.

    `on_resume` is awaited when the process turns out to have been suspended; pass the connection's
    `reset`.
    """

    def __init__(
        self,
        store: ApiLease,
        identity: str,
        *,
        rng: random.Random,
        terms: Terms = DEFAULT,
        clock: Clock = WALL_CLOCK,
        on_resume: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self.identity = f"{identity}_{rng.getrandbits(64):016x}"
        self.fence = LeaseFence(clock, terms)
        self._store = store
        self._rng = rng
        self._terms = terms
        self._clock = clock
        self._on_resume = on_resume
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._renewed_at = 0.0
        self._took_at = datetime.min
        self._holds = False  # as far as we know, the lease names us

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `lead` for as long as it is held.

        Returns when `lead` does; raises LeaseLost, with the fence closed and `lead` cancelled, when the
        lease is another's or could not be renewed in time. Cancelled while waiting, nothing is held.
        Cancelled while leading, `lead` is cancelled and may still write as it ends; then the fence closes
        and the lease is released, so that the next one need not wait for its end.
        """
        await self._acquire()
        try:
            async with asyncio.TaskGroup() as group:
                keepers = [group.create_task(self._renew()), group.create_task(self._notice_resume())]
                await lead()
                for keeper in keepers:
                    keeper.cancel()
        except BaseExceptionGroup as several:
            first, *others = several.exceptions
            for other in others:
                _log.warning("also_failed_while_leading", reason=repr(other))
            raise first from None
        finally:
            self.fence.close()
            if self._holds:
                await self._release()

    async def _acquire(self) -> None:
        refused = ""
        while True:
            try:
                if await self._try_to_take():
                    _log.info("lease_acquired", identity=self.identity)
                    return
                refused = ""
            except (ApiError, Unreachable, TimeoutError) as error:
                reason, log = say(error), _log.info
                if _needs_a_fix(error):
                    log = _log.debug if reason == refused else _log.warning
                    refused = reason
                log("lease_not_acquired", identity=self.identity, reason=reason)
            await asyncio.sleep(self._terms.retry_s * self._rng.uniform(1.0, 1.2))

    async def _try_to_take(self) -> bool:
        async with asyncio.timeout(self._terms.renew_s):
            lease = await self._store.get()
            self._observe(lease)
            if lease is not None and not self._is_free(lease):
                return False
            self._took_at = self._clock.wall()
            transitions = lease.spec.lease_transitions + 1 if lease is not None else 0
            sent_at = self._clock.now()
            self._confirm(sent_at, await self._store.put(self._spec(transitions), lease))
            return True

    def _observe(self, lease: Lease | None) -> None:
        """A lease counts from when we first saw it in this state, by our own clock."""
        version = lease.metadata.resource_version if lease is not None else None
        if self._seen is None or version != self._seen.metadata.resource_version:
            self._seen, self._seen_at = lease, self._clock.now()

    def _is_free(self, lease: Lease) -> bool:
        if not lease.spec.holder_identity or lease.spec.holder_identity == self.identity:
            return True
        duration_s = lease.spec.lease_duration_seconds or self._terms.lease_s
        return self._clock.now() >= self._seen_at + duration_s

    def _confirm(self, sent_at: float, lease: Lease) -> None:
        self._seen, self._seen_at = lease, self._clock.now()
        self._renewed_at = sent_at
        self._holds = True
        self.fence.extend(sent_at)

    async def _renew(self) -> None:
        """Ends only by LeaseLost or cancellation."""
        while True:
            await asyncio.sleep(self._terms.retry_s)
            left_s = self._renewed_at + self._terms.renew_s - self._clock.now()
            try:
                # At least one attempt, even if we come late: the lease itself is longer.
                async with asyncio.timeout(max(left_s, self._terms.least_s)):
                    await self._renew_once()
            except (ApiError, Unreachable, TimeoutError) as error:
                _log.warning("lease_not_renewed", identity=self.identity, reason=say(error))
                if self._clock.now() - self._renewed_at >= self._terms.renew_s:
                    self.fence.close()
                    raise LeaseLost(
                        f"the lease was not renewed for {self._terms.renew_s:g} s: {say(error)}"
                    ) from error

    async def _renew_once(self) -> None:
        lease = self._seen
        if lease is None:
            raise AssertionError("a leader has seen its lease")
        sent_at = self._clock.now()
        try:
            renewed = await self._store.put(self._spec(lease.spec.lease_transitions), lease)
        except (Conflict, NotFound):
            # Our own renewal whose answer was lost, or another holder: look.
            current = await self._store.get()
            if current is None or current.spec.holder_identity != self.identity:
                self.fence.close()
                self._holds = False
                holder = current.spec.holder_identity if current is not None else None
                raise LeaseLost(f"the lease is held by {holder or 'no replica'} now") from None
            self._seen = current
            sent_at = self._clock.now()
            renewed = await self._store.put(self._spec(current.spec.lease_transitions), current)
        self._confirm(sent_at, renewed)

    async def _notice_resume(self) -> None:
        """Sleeps that take much longer than asked mean that the process or the machine stood still."""
        allowed_s = self._terms.lease_s - self._terms.renew_s
        while True:
            before = self._clock.now()
            await asyncio.sleep(1.0)
            stood_s = self._clock.now() - before - 1.0
            if stood_s >= allowed_s:
                _log.warning("resumed", stood_s=round(stood_s, 1))
                await self._on_resume()
                if self._clock.now() - self._renewed_at >= self._terms.lease_s - self._terms.margin_s:
                    self.fence.close()
                    raise LeaseLost(f"the process stood still for {stood_s:.1f} s: the lease has ended")

    async def _release(self) -> None:
        """Failing does no harm: the lease just runs out."""
        lease = self._seen
        self._holds = False
        if lease is None:
            return
        spec = self._spec(lease.spec.lease_transitions) | {"holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            async with asyncio.timeout(max(self._terms.retry_s, self._terms.least_s)):
                try:
                    await self._store.put(spec, lease)
                except Conflict:
                    if self._clock.now() - self._renewed_at >= self._terms.renew_s:
                        return  # a lease that was not renewed in time runs out
                    # A renewal that was given up half-way was applied all the same, if it is still ours.
                    current = await self._store.get()
                    if current is None or current.spec.holder_identity != self.identity:
                        return
                    await self._store.put(spec, current)
        except (ApiError, Unreachable, TimeoutError) as error:
            _log.info("lease_not_released", identity=self.identity, reason=say(error))

    def _spec(self, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._terms.lease_s),
            "acquireTime": _micro(self._took_at),
            "renewTime": _micro(self._clock.wall()),
            "leaseTransitions": transitions,
        }


def _micro(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _needs_a_fix(error: BaseException) -> bool:
    """Whether trying again is no use: rights are missing, or the name is not valid. No replica will lead."""
    return isinstance(error, ApiError) and 400 <= error.code < 500 and error.code not in (409, 429)
