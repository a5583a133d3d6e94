"""Whether a scheduler calls at all: with ``ignorable: true`` a wrong address is never noticed elsewhere.

Said in the log, in a metric, and as condition ``ExtenderCalled`` of the cluster's policies, which is
written by the leading replica only and only when it changes. The status is also the memory: a quiet
cluster's extender that was restarted has been called before.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.extender.metrics import Metrics
from fairlead.errors import ApiError, Conflict, LeaseLost, NotFound, Unreachable
from fairlead.feed.policies import LivePolicies
from fairlead.policy.names import POLICIES

_log = structlog.get_logger(__name__)

CONDITION = "ExtenderCalled"
PATIENCE_S = 60.0
_AGAIN_S = 3600.0
_RETRY_S = 60.0

_NEVER = (
    "no scheduler has ever called the extender: see `fairlead extender config` for what kube-scheduler "
    "needs, and check that the address resolves from where it runs"
)
_CALLED = "a scheduler calls the extender"


class Calls:
    """Counts calls and reports on them. Run it while leading."""

    def __init__(
        self,
        policies: LivePolicies,
        metrics: Metrics,
        *,
        patience_s: float = PATIENCE_S,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """`patience_s` is how long a scheduler may take to call before that is reported."""
        self._policies = policies
        self._metrics = metrics
        self._patience_s = patience_s
        self._clock = clock
        self._called = False
        self._changed = asyncio.Event()
        policies.on_change(self._changed.set)

    def called(self) -> None:
        """A scheduler called."""
        if not self._called:
            self._called = True
            self._metrics.never_called.set(0)
            _log.info("first_call")
            self._changed.set()
        self._metrics.last_call.set(self._clock.wall().timestamp())

    async def run(self, client: Client) -> None:
        """Report for ever; nothing is said of a scheduler that has yet to have its first minute."""
        try:
            await self._report(client)
        finally:
            self._metrics.never_called.set(0)  # a standby is not called

    async def _report(self, client: Client) -> None:
        patient_until = self._clock.now() + self._patience_s
        said = -math.inf
        while True:
            self._changed.clear()
            called = self._called or self._known()
            self._metrics.never_called.set(0 if called else 1)
            wait_s = patient_until - self._clock.now()
            if called or wait_s <= 0:
                wait_s = _AGAIN_S if await self._write(client, called=called) else _RETRY_S
            if not called and self._clock.now() >= max(patient_until, said + _AGAIN_S):
                said = self._clock.now()
                _log.warning("never_called", reason=_NEVER)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    def _known(self) -> bool:
        """Whether a status says so: it was called before this process was there, or it had the lease."""
        return any(
            one.get("type") == CONDITION and one.get("status") == "True"
            for name in self._policies.stored_names()
            for one in self._policies.status(name).get("conditions") or ()
        )

    async def _write(self, client: Client, *, called: bool) -> bool:
        """Say it in every status that says something else; whether there is nothing left to try again."""
        done = True
        wanted: dict[str, Any] = {
            "type": CONDITION,
            "status": "True" if called else "False",
            "reason": "Called" if called else "NeverCalled",
            "message": _CALLED if called else _NEVER,
        }
        stamp = self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        for name in self._policies.stored_names():
            stored, status = self._policies.stored(name), self._policies.status(name)
            conditions = status.get("conditions") or []
            if stored is None or not conditions:
                continue  # the component that counts groups has yet to write the first status
            wanted["observedGeneration"] = stored.metadata.generation
            if any(wanted.items() <= one.items() for one in conditions):
                continue
            before: Mapping[str, Any] = next((one for one in conditions if one.get("type") == CONDITION), {})
            same = before.get("status") == wanted["status"]
            since = before.get("lastTransitionTime", stamp) if same else stamp
            others = [one for one in conditions if one.get("type") != CONDITION]
            patch = {
                "metadata": {"resourceVersion": stored.metadata.resource_version},
                "status": {"conditions": [*others, wanted | {"lastTransitionTime": since}]},
            }
            try:
                await client.patch(POLICIES, name, None, patch, subresource="status")
            except (Conflict, NotFound):
                done = False  # the watch brings what we were too late for, and mostly wakes us
            except LeaseLost:
                raise
            except (ApiError, Unreachable) as error:
                _log.warning("not_written", reason=f"condition {CONDITION} of policy {name}: {error}")
                done = False
        return done
