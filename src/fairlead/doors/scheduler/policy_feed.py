"""Policies and marks to the core, and the core's marks to the API, where other doors see them.

The core goes by its own marks at once. Until they are written, what the API says of them is old: it is
told again only when the write is done. Others may have been faster, so a write changes only the tiers
that are still as the core saw them, and then the core is told how things stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from fairlead.client.api import Client
from fairlead.doors.process import Context
from fairlead.doors.scheduler.lane import Lane
from fairlead.engine.core.actions import MarkTiers
from fairlead.engine.core.events import Event, MarksAre, PoliciesAre, Promised
from fairlead.errors import FairleadError, LeaseLost
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.marks import Mark

_log = structlog.get_logger(__name__)

_PROMISES_S = 10.0  # they are hints: better plan without them than not at all


class PolicyFeed:
    """See the module. `listen` from the start of a session, `run` it while leading, `look` at each change.

    Nothing is told before `known` was asked for. Cancelled, marks may be unwritten.
    """

    def __init__(
        self, context: Context, client: Client, tell: Callable[[Event], None], *, only_ours: bool = False
    ) -> None:
        """`only_ours`: the policies are not for other schedulers' pods."""
        self._context = context
        self._client = client
        self._tell = tell
        self._only_ours = only_ours
        self._is_told = False
        self._some = asyncio.Event()  # there are policies, or were
        self._policies: tuple[PlacementPolicy, ...] | None = None
        self._marks: dict[str, dict[str, Mark]] = {}  # as the core has them
        self._unwritten: dict[str, int] = {}
        self._lane: Lane[MarkTiers] = Lane(self._write, 1)
        self.run = self._lane.run
        self.idle = self._lane.idle
        self.look()

    def __len__(self) -> int:
        return len(self._lane)

    def look(self) -> None:
        """Policies or marks may have changed."""
        if self._context.policies.policies:
            self._some.set()
        if self._is_told:
            for event in self._news():
                self._tell(event)

    async def listen(self) -> None:
        """Receive scale-up events for ever, if there are policies."""
        await self._some.wait()
        with self._context.scale_ups.reported_to(self._promised):
            await asyncio.Event().wait()

    async def synced(self) -> None:
        """Wait until policies, marks and, for a while, the promises so far are known."""
        await self._context.marks.synced()
        if self._some.is_set():
            try:
                async with asyncio.timeout(_PROMISES_S):
                    await self._context.scale_ups.listed.wait()
            except TimeoutError:
                _log.warning("promises_late", waited_s=_PROMISES_S)

    def known(self, objects: Iterable[Event]) -> list[Event]:
        """All that the core is to know first: policies, marks, these objects, and what their pods are
        promised. What changes from now on is told.
        """
        self._is_told = True
        promised = self._context.scale_ups.known if self._some.is_set() else {}
        return [*self._news(), *objects, *(Promised(uid, at) for uid, at in promised.items())]

    def put(self, marks: MarkTiers) -> None:
        """Write what the core marked."""
        self._unwritten[marks.policy] = self._unwritten.get(marks.policy, 0) + 1
        self._lane.put(marks)

    def _news(self) -> list[Event]:
        """What is yet to be reported to the core."""
        events: list[Event] = []
        policies = self._context.policies.policies
        if policies is not self._policies:
            if policies or self._policies:
                events.append(PoliciesAre(policies, self._context.exempt, self._only_ours))
            # The core has no marks of a policy that comes, also if it had some before that one went.
            stay = {policy.name for policy in policies} & {one.name for one in self._policies or ()}
            self._marks = {name: marks for name, marks in self._marks.items() if name in stay}
            self._policies = policies
        for policy in policies:
            marks = dict(self._context.marks.of(policy.name))
            if policy.name not in self._unwritten and marks != self._marks.get(policy.name, {}):
                self._marks[policy.name] = marks
                events.append(MarksAre(policy.name, marks))
        return events

    def _promised(self, uid: str, at: float) -> None:
        if self._is_told:
            self._tell(Promised(uid, at))

    async def _write(self, marks: MarkTiers) -> None:
        try:
            await self._context.marks.change(
                marks.policy, lambda found: found.merged(marks.before, marks.after), client=self._client
            )
        except LeaseLost:
            raise
        except FairleadError as error:
            # The core goes by them all the same; other doors find out for themselves.
            _log.warning("marks_unwritten", policy=marks.policy, reason=str(error))
        else:
            self._marks[marks.policy] = dict(marks.after)
        self._unwritten[marks.policy] -= 1
        if not self._unwritten[marks.policy]:
            del self._unwritten[marks.policy]
            self.look()
