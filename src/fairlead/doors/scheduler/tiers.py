"""Policies and marks to the core, and the core's marks to the API, where other doors see them.

The core goes by its own marks at once. Until they are written, what the API says of them is old: it is
told again only when the write is done. Others may have been faster, so a write changes only the tiers
that are still as the core saw them, and then the core is told how things stand.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.doors.marks import LiveMarks
from fairlead.doors.policies import LivePolicies
from fairlead.doors.promises import Promises
from fairlead.doors.scheduler.lane import Lane
from fairlead.engine.core.actions import MarkTiers
from fairlead.engine.core.events import Event, MarksAre, PoliciesAre, Promised
from fairlead.errors import ApiError, FairleadError, LeaseLost, Unreachable
from fairlead.policy.marks import Mark, Marks
from fairlead.policy.model import PlacementPolicy

__all__ = ["TierFeed", "Tiering", "merged"]

_log = structlog.get_logger(__name__)

_PROMISES_S = 10.0  # they are hints: better plan without them than not at all


class TierFeed:
    """The policies and marks that a process follows, for one session after the other."""

    def __init__(
        self, policies: LivePolicies, marks: LiveMarks, exempt: tuple[str, ...], *, only_ours: bool = False
    ) -> None:
        """`exempt` are namespaces that no policy governs; `only_ours`: other schedulers' pods neither."""
        self.policies = policies
        self.marks = marks
        self.exempt = exempt
        self.only_ours = only_ours
        self.listener: Callable[[], None] | None = None  # the session under way
        self.some = asyncio.Event()  # there are policies, or were
        policies.on_change(self._changed)
        marks.on_change(self._changed)
        self._changed()

    async def synced(self) -> None:
        """Wait until policies and marks are known."""
        await self.policies.synced()
        await self.marks.synced()

    def _changed(self) -> None:
        if self.policies.policies:
            self.some.set()
        if self.listener is not None:
            self.listener()


class Tiering:
    """One session's part of it: see the module. `listen` from the start, `run` it while leading.

    Cancelled, marks may be unwritten.
    """

    def __init__(
        self,
        feed: TierFeed,
        client: Client,
        tell: Callable[[Event], None],
        *,
        rng: random.Random,
        clock: Clock,
    ) -> None:
        self._feed = feed
        self._promises = Promises(client, self._promised, rng=rng, clock=clock)
        self._client = client
        self._tell = tell
        self._policies: tuple[PlacementPolicy, ...] | None = None
        self._marks: dict[str, dict[str, Mark]] = {}  # as the core has them
        self._unwritten: dict[str, int] = {}
        self._lane: Lane[MarkTiers] = Lane(self._write, 1)
        self.idle = self._lane.idle

    def __len__(self) -> int:
        return len(self._lane)

    async def run(self) -> None:
        """Tell what changes, and write, for ever."""
        self._feed.listener = self._look
        try:
            self._look()
            await self._lane.run()
        finally:
            self._feed.listener = None

    async def listen(self) -> None:
        """Hear of promises for ever, if there are policies."""
        await self._feed.some.wait()
        await self._promises.run()

    async def synced(self) -> None:
        """Wait until policies, marks and, for a while, the promises so far are known."""
        await self._feed.synced()
        if self._feed.some.is_set():
            try:
                async with asyncio.timeout(_PROMISES_S):
                    await self._promises.heard.wait()
            except TimeoutError:
                _log.warning("promises_unheard", waited_s=_PROMISES_S)

    def news(self) -> list[Event]:
        """What the core is yet to be told."""
        events: list[Event] = []
        policies = self._feed.policies.policies
        if policies is not self._policies:
            if policies or self._policies:
                events.append(PoliciesAre(policies, self._feed.exempt, self._feed.only_ours))
            # The core has no marks of a policy that comes, also if it had some before that one went.
            stay = {policy.name for policy in policies} & {one.name for one in self._policies or ()}
            self._marks = {name: marks for name, marks in self._marks.items() if name in stay}
            self._policies = policies
        for policy in policies:
            marks = dict(self._feed.marks.of(policy.name))
            if policy.name not in self._unwritten and marks != self._marks.get(policy.name, {}):
                self._marks[policy.name] = marks
                events.append(MarksAre(policy.name, marks))
        return events

    def put(self, marks: MarkTiers) -> None:
        """Write what the core marked."""
        self._unwritten[marks.policy] = self._unwritten.get(marks.policy, 0) + 1
        self._lane.put(marks)

    def _promised(self, uid: str, at: float) -> None:
        self._tell(Promised(uid, at))

    def _look(self) -> None:
        for event in self.news():
            self._tell(event)

    async def _write(self, marks: MarkTiers) -> None:
        try:
            await self._feed.marks.change(
                marks.policy, lambda found: merged(found, marks.before, marks.after), client=self._client
            )
        except LeaseLost:
            raise
        except (ApiError, Unreachable, FairleadError) as error:
            # The core goes by them all the same; other doors find out for themselves.
            _log.warning("marks_unwritten", policy=marks.policy, reason=str(error))
        else:
            self._marks[marks.policy] = dict(marks.after)
        self._unwritten[marks.policy] -= 1
        if not self._unwritten[marks.policy]:
            del self._unwritten[marks.policy]
            self._look()


def merged(found: Marks, before: Mapping[str, Mark], after: Mapping[str, Mark]) -> Marks:
    """Marks as they are, with what changed from `before` to `after` where nobody else changed it.

    >>> seen = Marks().failed("spot", 0)
    >>> [tier for tier, _ in merged(seen.failed("other", 5), dict(seen), {})]
    ['other']
    """
    wanted = dict(found)
    for tier in {**before, **after}:
        if found.get(tier) == before.get(tier):
            wanted.pop(tier, None)
            if tier in after:
                wanted[tier] = after[tier]
    return found if wanted == dict(found) else Marks(found.cool_down_s, wanted)
