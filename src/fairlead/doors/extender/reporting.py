"""Whether a scheduler calls at all: with ``ignorable: true`` a wrong address is never noticed elsewhere.

Said in the log, in a metric, and as condition ``ExtenderCalled`` of the cluster's policies, which is
written by the leading replica only and only when it changes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.extender.metrics import Metrics
from fairlead.doors.policies import LivePolicies
from fairlead.errors import ApiError, Conflict, LeaseLost, NotFound, Unreachable
from fairlead.policy.names import POLICIES

__all__ = ["CONDITION", "Calls"]

_log = structlog.get_logger(__name__)

CONDITION = "ExtenderCalled"
PATIENCE_S = 60.0
_AGAIN_S = 3600.0

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
        self._called = asyncio.Event()
        self._changed = asyncio.Event()
        policies.on_change(self._changed.set)

    def called(self) -> None:
        """A scheduler called."""
        if not self._called.is_set():
            self._called.set()
            self._metrics.never_called.set(0)
            _log.info("first_call")
        self._metrics.last_call.set(self._clock.wall().timestamp())

    async def run(self, client: Client) -> None:
        """Report for ever; nothing is said of a scheduler that has yet to have its first minute."""
        wait_s = self._patience_s
        while not await self._first_call(wait_s):
            _log.warning("never_called", reason=_NEVER)
            await self._write(client, called=False)
            wait_s = _AGAIN_S
        while True:
            self._changed.clear()
            await self._write(client, called=True)
            await self._changed.wait()

    async def _first_call(self, wait_s: float) -> bool:
        try:
            async with asyncio.timeout(wait_s):
                await self._called.wait()
        except TimeoutError:
            return False
        return True

    async def _write(self, client: Client, *, called: bool) -> None:
        for name in self._policies.stored_names():
            stored, status = self._policies.stored(name), self._policies.status(name)
            conditions = status.get("conditions") or []
            if stored is None or not conditions:
                continue  # whoever counts groups has yet to write the first status
            wanted = self._condition(called=called)
            others = [one for one in conditions if one.get("type") != CONDITION]
            if any(_same(one, wanted) for one in conditions):
                continue
            patch = {
                "metadata": {"resourceVersion": stored.metadata.resource_version},
                "status": {"conditions": [*others, wanted]},
            }
            try:
                await client.patch(POLICIES, name, None, patch, subresource="status")
            except (Conflict, NotFound):
                self._changed.set()  # the watch brings what we were too late for
            except LeaseLost:
                raise
            except (ApiError, Unreachable) as error:
                _log.warning("not_written", reason=f"condition {CONDITION} of policy {name}: {error}")

    def _condition(self, *, called: bool) -> dict[str, Any]:
        return {
            "type": CONDITION,
            "status": "True" if called else "False",
            "reason": "Called" if called else "NeverCalled",
            "message": _CALLED if called else _NEVER,
            "lastTransitionTime": self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one.get(field) == other[field] for field in ("type", "status", "reason", "message"))
