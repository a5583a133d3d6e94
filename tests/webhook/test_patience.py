"""How long a pod waits for a slot within the number that its controller wants: for news, and in time.

The clock stands still but for what a test moves it by; looks at the number count how often it was tried.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.webhook.ledgers import Ledgers, Wish
from fairlead.policy.slots.placing import Placing
from support.cluster import Cluster
from support.ledgers import kept, wishes_of_one_group
from support.wire import PATIENCE_S

API_SERVER_WAITS_S = 10  # for an admission, unless a webhook says otherwise


@dataclass
class Number:
    """How many pods the controller wants, and how often that was asked for."""

    wanted: int
    looks: int = 0
    looked: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self) -> int:
        self.looks += 1
        self.looked.set()
        return self.wanted


@dataclass
class Waiting:
    """A pod that asks for a slot while the clock stands still."""

    ledgers: Ledgers
    number: Number
    asked: asyncio.Future[Placing]
    seconds: list[float]

    async def after(self, seconds: float) -> int | None:
        """The slot it was given by now, this long after it asked; None: it still waits."""
        self.seconds[0] = seconds
        enough = self.number.looks + 10  # one that was under way, and several that know the time
        async with asyncio.timeout(PATIENCE_S):
            while not self.asked.done() and self.number.looks < enough:
                self.number.looked.clear()
                looked = asyncio.ensure_future(self.number.looked.wait())
                await asyncio.wait((self.asked, looked), return_when=asyncio.FIRST_COMPLETED)
                looked.cancel()
        return self.asked.result().slot if self.asked.done() else None


@asynccontextmanager
async def waiting(
    served: Cluster, folder: Path, wanted: int, *, ours: int = 0, others: int = 0
) -> AsyncIterator[Waiting]:
    """A pod beyond the `wanted` number; slots were given to pods that never came, by us and by another."""
    wishes = wishes_of_one_group(served)
    began, seconds = WALL_CLOCK.now(), [0.0]
    clock = Clock(lambda: began + seconds[0], WALL_CLOCK.wall)
    async with served.client() as client, kept(client, folder, clock) as ledgers:
        async with kept(client, folder, clock) as another:
            for _ in range(others):
                await another.take(wishes.pop())
        for _ in range(ours):
            await ledgers.take(wishes.pop())
        number = Number(wanted)
        wish: Wish = replace(wishes.pop(), bound=number)
        asked = asyncio.ensure_future(ledgers.take(wish))
        try:
            yield Waiting(ledgers, number, asked, seconds)
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)


async def test_a_pod_beyond_the_number_waits_and_is_answered_before_the_api_server_gives_up(
    served: Cluster, tmp_path: Path
) -> None:
    async with waiting(served, tmp_path, wanted=0) as pod:
        assert [await pod.after(seconds) for seconds in (0, 1, 3)] == [None, None, None]
        assert await pod.after(API_SERVER_WAITS_S / 2) == 1


async def test_a_number_that_grows_meanwhile_is_all_it_waits_for(served: Cluster, tmp_path: Path) -> None:
    async with waiting(served, tmp_path, wanted=0) as pod:
        assert await pod.after(0) is None
        pod.number.wanted = 1
        assert await pod.after(0) == 1


async def test_a_slot_whose_pod_never_came_is_first_taken_from_another_replica(
    served: Cluster, tmp_path: Path
) -> None:
    async with waiting(served, tmp_path, wanted=1, others=1) as pod:
        assert [await pod.after(seconds) for seconds in (0, 1)] == [None, None]
        assert await pod.after(3) == 1


async def test_a_slot_that_we_gave_ourselves_is_kept_for_longer(served: Cluster, tmp_path: Path) -> None:
    async with waiting(served, tmp_path, wanted=1, ours=1) as pod:
        assert [await pod.after(seconds) for seconds in (0, 1, 3)] == [None, None, None]
        assert await pod.after(API_SERVER_WAITS_S / 2) == 1


@pytest.mark.parametrize(("later_s", "tier"), [(9, "spot"), (11, "on-demand")])
async def test_where_no_number_is_known_a_min_does_not_depend_on_pods_that_did_not_come_in_ten_seconds(
    served: Cluster, tmp_path: Path, later_s: float, tier: str
) -> None:
    *wishes, last = wishes_of_one_group(served)[:3]
    began, start, seconds = WALL_CLOCK.now(), WALL_CLOCK.wall(), [0.0]
    clock = Clock(lambda: began + seconds[0], lambda: start + timedelta(seconds=seconds[0]))
    async with served.client() as client, kept(client, tmp_path, clock) as ledgers:
        given = [await ledgers.take(wish) for wish in wishes]
        seconds[0] = later_s
        given.append(await ledgers.take(last))
    tiers = [last.place.policy.spec.tiers[one.choice.tier or 0].name for one in given]
    assert tiers == ["on-demand", "spot", tier]


async def test_after_a_write_that_took_long_the_next_pod_waits_for_a_moment_only(
    served: Cluster, tmp_path: Path
) -> None:
    first, second, *_ = wishes_of_one_group(served)
    hours = itertools.count(WALL_CLOCK.now(), 3600.0)  # whatever is measured took an hour at least
    clock = Clock(lambda: next(hours), WALL_CLOCK.wall)
    async with (
        served.client() as client,
        kept(client, tmp_path, clock) as ledgers,
        asyncio.timeout(PATIENCE_S),
    ):
        assert (await ledgers.take(first)).token == first.token
        assert (await ledgers.take(second)).token == second.token
