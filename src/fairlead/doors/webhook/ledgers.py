"""Slots, taken in ledgers by compare-and-swap: one write for all requests made while the last is under way.

A write that meets a newer ledger applies every wish again to that one: a wish goes by its token, so
what was applied before, even by a write whose answer was lost, is found again.

The subtle thing is a slot beyond the number that its controller wants: then something that we know is out
of date (a pod is gone, the number has grown), or a slot was taken for a pod that was never made (a replica
was killed, a quota said no). Such a wish waits a moment for news, and then slots without a pod expire early:
first those that others gave, then those that we gave ourselves, whose pods may yet be with another webhook.
Were they kept instead, the pods made in place of refused ones would get none of the first slots, and those
are a min's. Should a pod come after all whose slot is another's by then, it is adopted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.webhook.decision_log import tell
from fairlead.doors.webhook.ledger_cache import LedgerCache
from fairlead.doors.webhook.metrics import Metrics
from fairlead.errors import Conflict, FairleadError, NotFound, Unreachable
from fairlead.feed.groups import LiveGroups
from fairlead.feed.watches import Watches
from fairlead.policy.groups.member import GroupKey, Place
from fairlead.policy.rule.split import Tiers
from fairlead.policy.slots.ledger import EXPIRY_S, Ledger, Sightings
from fairlead.policy.slots.placing import Placing, place

_log = structlog.get_logger(__name__)

_TRIES = 32  # each lost race, but for the first, means that another writer got on
_NEVER_S = 1e12
_BREATH_S = 0.001
_TURNS = 3  # of the loop, from a request that has arrived to its wish: a busy machine is late to look for it
_GATHER_S = 0.02  # about what a write takes when there is a rush
_TURN_S = 0.1  # for how long others may have a ledger that we have written
_LOOK_S = 0.01  # how often news is looked for on behalf of waiting pods
_DOUBT_S = 10.0  # where the number wanted is unknown, a pod that is not there by then is doubted
_EARLY_S = 2.0  # a pod that was made is in the watch well before
_PATIENCE_S = 3.5  # then the number is wrong, not the slots; well within the API server's ten seconds


@dataclass(frozen=True, slots=True)
class _Step:
    """How hard it is tried to give a pod a slot within bounds, once it has waited `waited_s`."""

    waited_s: float
    expiry_s: float
    patience_s: float
    """A pod that has waited this long is given a slot beyond them."""
    spares: bool = True
    """Whether slots that we gave ourselves are left alone."""


_IN_TIME = _Step(0.0, EXPIRY_S, _NEVER_S)
_OTHERS = _Step(_EARLY_S, _EARLY_S, _NEVER_S)
_OURS = _Step(_PATIENCE_S, _EARLY_S, _PATIENCE_S, spares=False)


def _unbounded() -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class Wish:
    """A pod that wants a slot, by its name or how that will begin; `unavailable` are names of tiers to skip,
    `crowded` those of them that take it all the same if there is room now.

    `bound` tells how many pods the group is to have as far as is known now, None when it is not.
    """

    pod: str
    place: Place
    tiers: Tiers
    token: str
    unavailable: frozenset[str] = frozenset()
    crowded: frozenset[str] = frozenset()
    bound: Callable[[], int | None] = _unbounded


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    wish: Wish
    done: asyncio.Future[Placing]
    since: float


@dataclass(slots=True)
class _Line:
    """The requests that wait for a write of one ledger; `busy` while a task serves them."""

    waiting: list[_Asked] = field(default_factory=list)
    busy: bool = False

    def next(self) -> list[_Asked]:
        """All waiting requests, except those that were given up; none waits after that."""
        found = [asked for asked in self.waiting if not asked.done.done()]
        self.waiting = []
        return found


class Ledgers:
    """See the module. `run` it; `take` works while it runs.

    Invariant: a slot is handed out only after the ledger that says so was written. Cancelled while
    waiting, a slot may have been taken all the same: it expires.
    """

    def __init__(
        self,
        client: Client,
        watches: Watches,
        groups: LiveGroups,
        metrics: Metrics,
        *,
        clock: Clock = WALL_CLOCK,
        changed: Callable[[GroupKey], None] = lambda _: None,
    ) -> None:
        """`changed` is called for ledgers that were written."""
        self._sightings = Sightings()
        # Most ledgers go with their workload: the garbage collector deletes them, not we.
        self._copies = LedgerCache(client, watches, changed, self._sightings.forget)
        self._groups = groups
        self._metrics = metrics
        self._clock = clock
        self._given: dict[str, float] = {}  # tokens to which we gave slots of late, and when
        self._lines: dict[GroupKey, _Line] = {}
        self._asked = 0  # wishes, ever
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Watch ledgers and write them, for ever."""
        async with asyncio.TaskGroup() as group:
            self._tasks = group
            await self._copies.run()

    async def synced(self) -> None:
        """Wait until all ledgers were listed."""
        await self._copies.synced()

    @property
    def is_synced(self) -> bool:
        """Whether all ledgers were listed."""
        return self._copies.is_synced

    def newest(self, key: GroupKey) -> Ledger:
        """A group's ledger as it was last seen or written; an empty one when there is none."""
        return self._copies.newest(key)

    def preview(self, wish: Wish) -> Placing:
        """What `take` would give now. Nothing is written."""
        return _placed(self._observed(self.newest(wish.place.key), wish), wish, self._now())[1]

    async def refresh(self, key: GroupKey) -> Ledger:
        """The ledger as the API server has it now."""
        return await self._copies.refresh(key)

    def again(self, ledger: Ledger, token: str) -> bool:
        """Whether a token is that of an earlier call for a pod that is still being made."""
        return self._sightings.of(ledger, self._clock.now()).again(token, self._now()) is not None

    async def take(self, wish: Wish) -> Placing:
        """Take a slot, or find the one that the token took before; returns when it is written."""
        if self._tasks is None:
            raise FairleadError("ledgers are not being kept yet")
        line = self._lines.setdefault(wish.place.key, _Line())
        self._asked += 1
        done: asyncio.Future[Placing] = asyncio.get_running_loop().create_future()
        line.waiting.append(_Asked(wish, done, self._clock.now()))
        if not line.busy:
            line.busy = True
            self._tasks.create_task(self._serve(wish.place.key, line))
        return await done

    async def observe(self, key: GroupKey, *, delete_empty: bool = True) -> Ledger:
        """Write what follows from the group's pods alone: adopted, freed, expired; the ledger after it.

        A ledger without slots is deleted: another revision's will follow, and nothing else would delete it.
        """
        ledger = self.newest(key)
        after = self._observed(ledger)
        if after.same_slots(ledger) and (after.entries or not ledger.version):
            return after
        if not after.entries and delete_empty:
            if ledger.version:
                await self._copies.delete(ledger)
                self._sightings.forget(key)
            return after
        return await self._write(after)

    async def _serve(self, key: GroupKey, line: _Line) -> None:
        """Write until no request waits any more; one task per group at a time."""
        batch: list[_Asked] = []
        try:
            while line.waiting:
                await self._gather()
                batch, began = line.next(), self._clock.now()
                late = await self._give(key, batch, line) if batch else []
                line.waiting = late + line.waiting
                took_s = self._clock.now() - began
                if late and len(late) == len(batch):
                    await asyncio.sleep(_LOOK_S)
                elif took_s > _GATHER_S:
                    # The API server is busy. Meanwhile more come along, and writers that lost to us get on.
                    await asyncio.sleep(min(took_s, _TURN_S))
        finally:
            line.busy = False
            self._lines.pop(key, None)
            for asked in (*batch, *line.waiting):
                asked.done.cancel()  # there are any only if we were cancelled

    async def _gather(self) -> None:
        """Let pods that are admitted at the same moment come along: in a rush, of whatever groups, every
        write counts, the API server's time as well as ours. When no other pod is admitted none waits.
        """
        clock = asyncio.get_running_loop().time
        ends = clock() + _GATHER_S
        asked, breath_s = self._asked, 0.0
        while True:
            await asyncio.sleep(breath_s)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            if self._asked == asked or clock() >= ends:
                return
            asked, breath_s = self._asked, _BREATH_S

    async def _give(self, key: GroupKey, batch: list[_Asked], line: _Line) -> list[_Asked]:
        """Give slots to all requests whose slot is within bounds; return the others, which wait for news."""
        try:
            given, late = await self._swap(key, batch, line)
        except Exception as error:  # noqa: BLE001 (the caller receives it; one pod must not end all others)
            if len(batch) > 1 and not isinstance(error, FairleadError):
                # One of the pods makes us stumble: the others must not suffer from it.
                return [late for asked in batch for late in await self._give(key, [asked], _Line())]
            for asked in batch:
                if not asked.done.done():
                    asked.done.set_exception(error)
            return []
        if given:
            self._metrics.batch.observe(len(given))
            tell(self._metrics, [(asked.wish.pod, asked.wish.place, placing) for asked, placing in given])
        now = self._clock.now()
        for asked, placing in given:
            if not asked.done.done():
                self._remember(asked.wish.token, now)
                asked.done.set_result(placing)
        return late

    def _remember(self, token: str, now: float) -> None:
        """That we gave a slot, for as long as it waits for its pod."""
        self._given.pop(token, None)  # so that the first is always the oldest
        self._given[token] = now
        while now - self._given[first := next(iter(self._given))] > EXPIRY_S:
            del self._given[first]

    async def _swap(
        self, key: GroupKey, batch: list[_Asked], line: _Line
    ) -> tuple[list[tuple[_Asked, Placing]], list[_Asked]]:
        ledger = self.newest(key)
        for tried in range(_TRIES):
            after, given, late = self._sift(ledger, batch)
            if not given or (after.same_slots(ledger) and ledger.version):
                return given, late
            try:
                await self._write(after)
                return given, late
            except (Conflict, NotFound) as error:
                self._metrics.writes.labels("conflict").inc()
                if isinstance(error, NotFound) and not ledger.version:
                    raise  # not the ledger: its namespace is gone, or the definition is
            except Unreachable as error:
                self._metrics.writes.labels("unknown").inc()
                _log.info("ledger_answer_lost", ledger=str(key), reason=str(error))
            if tried > 1:
                # Whose watch is behind would lose against every version in turn.
                ledger = await self._copies.refresh(key)
            else:
                ledger = await self._copies.newer(ledger)
                if not tried:
                    batch += line.next()  # requests that came meanwhile have all the other tries
        raise FairleadError(f"the ledger of {key} changes faster than we can write it")

    def _sift(
        self, ledger: Ledger, batch: list[_Asked]
    ) -> tuple[Ledger, list[tuple[_Asked, Placing]], list[_Asked]]:
        """The ledger with the wishes that can be granted, what they are given, and which must wait."""
        after, given, late = self._within(ledger, batch, _IN_TIME)
        for step in (_OTHERS, _OURS):
            waited_s = self._clock.now() - min((asked.since for asked in late), default=self._clock.now())
            if waited_s > step.waited_s:
                after, given, late = self._within(ledger, batch, step)
        return after, given, late

    def _within(
        self, ledger: Ledger, batch: list[_Asked], step: _Step
    ) -> tuple[Ledger, list[tuple[_Asked, Placing]], list[_Asked]]:
        given, late = [], []
        first = batch[0].wish
        after = self._observed(ledger, first, step.expiry_s, spare=self._given if step.spares else ())
        doubted = self._doubted(after) if first.bound() is None else ()
        now, wall, patience_s = self._clock.now(), self._now(), step.patience_s
        for asked in batch:
            taken, placing = _placed(after, asked.wish, wall, doubted)
            bound = asked.wish.bound()
            if bound is not None and placing.slot > bound and now - asked.since < patience_s:
                late.append(asked)
            else:
                after = taken
                given.append((asked, placing))
        return after, given, late

    async def _write(self, ledger: Ledger) -> Ledger:
        written = await self._copies.write(ledger)
        self._metrics.writes.labels("written").inc()
        return written

    def _doubted(self, ledger: Ledger) -> Collection[str]:
        """Tokens of pods that should be in the watch by now: they may have been refused."""
        here = {name for one in self._groups.index.members(ledger.key) for name in (one.token, one.uid)}
        return {
            entry.token
            for entry in ledger.entries
            if entry.token not in here and ledger.age(entry, self._now()) > _DOUBT_S
        }

    def _observed(
        self,
        ledger: Ledger,
        wish: Wish | None = None,
        expiry_s: float = EXPIRY_S,
        spare: Collection[str] = (),
    ) -> Ledger:
        """The ledger with what we know of the group's pods."""
        key = ledger.key
        members = self._groups.index.members(key)
        tiers = None
        if wish is not None:
            tiers, ledger = wish.tiers, ledger.owned_by(wish.place.workload)
        elif (some := self._groups.index.some(key)) is not None:
            tiers = self._groups.index.tiers(some.place, some.facts.metadata.labels)
            ledger = ledger.owned_by(some.workload)
        after_s = _NEVER_S if self._groups.blind else expiry_s
        ledger = self._sightings.of(ledger, self._clock.now())
        if tiers is None:
            # No pods, or the policy is gone: no pod to adopt.
            return ledger.gone(self._groups.gone(key)).expire(members, self._now(), after_s, spare)
        return ledger.observe(
            members,
            tiers,
            self._now(),
            gone=self._groups.gone(key),
            after_s=after_s,
            spare=spare,
        )

    def _now(self) -> float:
        return self._clock.wall().timestamp()


def _placed(ledger: Ledger, wish: Wish, now: float, doubted: Collection[str] = ()) -> tuple[Ledger, Placing]:
    return place(
        ledger,
        wish.place.policy,
        wish.place.workload,
        wish.tiers,
        token=wish.token,
        now=now,
        unavailable=wish.unavailable,
        crowded=wish.crowded,
        doubted=doubted,
    )
