"""A reflector in a storm: hundreds of faults, thousands of objects, changes all the while.

Frames are dropped, delayed, doubled and swapped, streams cut and frozen, requests refused and lost. At
the end its copy equals the API server's list, every deletion was told, and its memory has not grown.
"""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from fairlead.client.reflector import Reflector, Tuning
from fairlead.client.view import Added, Deleted, Event, Modified, Synced
from fairlead.errors import ApiError, Unreachable
from fairlead.kube.resources import known
from fairlead.kube.workloads import Namespace as Bare  # metadata only: all that is looked at here
from support.faults import Seeded, only

if TYPE_CHECKING:
    from client.conftest import Through

MAPS = known("ConfigMap")
TUNING = Tuning(
    page=100,
    inactivity_s=0.5,
    audit_s=0,  # the test does it, to have it out of the way when memory is measured
    settle_s=0.3,
    backoff_first_s=0.02,
    backoff_cap_s=0.1,
    listing_s=5.0,
)


class Consumer:
    """Believes what it is told, and checks that it can be true."""

    def __init__(self) -> None:
        self.told: dict[str, Bare] = {}
        # UIDs, as bytes: a string kept here would be memory that the decoding seems to hold.
        self.added: set[bytes] = set()
        self.deleted: set[bytes] = set()
        self.changed = asyncio.Event()

    def __call__(self, event: Event[Bare, Bare]) -> None:
        match event:
            case Added():
                assert event.key not in self.told
                self.told[event.key] = event.object
                self.added.add(event.object.metadata.uid.encode())
                # A frame dropped from a listing looks like a deletion, until an audit knows better.
                self.deleted.discard(event.object.metadata.uid.encode())
            case Modified():
                assert self.told[event.key] == event.old
                assert event.old.metadata.uid == event.object.metadata.uid
                self.told[event.key] = event.object
            case Deleted():
                assert self.told.pop(event.key) == event.last
                assert event.uid.encode() not in self.deleted
                self.deleted.add(event.uid.encode())
            case Synced():
                pass
            case _:
                raise AssertionError(event)
        self.changed.set()

    async def until_told(self, truth: dict[str, str]) -> None:
        """Wait until what was told is the truth (keys and versions)."""
        await self.until(
            lambda: {key: obj.metadata.resource_version for key, obj in self.told.items()} == truth
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something is so; looked at whenever something was told."""
        while not holds():
            self.changed.clear()
            await self.changed.wait()


class Churn:
    """Creates, changes and deletes, a constant number of objects alive; knows what it did."""

    def __init__(self, through: Through, number: int, rng: random.Random) -> None:
        self.through = through
        self.number = number
        self.rng = rng
        self.alive: dict[str, bytes] = {}  # UIDs, as the Consumer keeps them
        self.deleted: set[bytes] = set()
        self._made = 0

    async def fill(self) -> None:
        await self._many(self.number, self._create)

    async def go_on(self, while_: Callable[[], bool]) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(self._worker(while_))

    async def _worker(self, while_: Callable[[], bool]) -> None:
        client, namespace = self.through.client, self.through.namespace
        while while_():
            name = self.rng.choice(list(self.alive))
            if self.rng.random() < 0.5:
                uid = self.alive.pop(name)
                await client.delete(MAPS, name, namespace, uid=uid.decode())
                self.deleted.add(uid)
                # Sometimes under the same name again: the copy must not mistake one for the other.
                await self._create(name if self.rng.random() < 0.5 else None)
            else:
                uid = self.alive.pop(name)  # nobody else touches it meanwhile
                await client.patch(MAPS, name, namespace, {"data": {"x": str(self.rng.random())}})
                self.alive[name] = uid

    async def _create(self, name: str | None = None) -> None:
        if name is None:
            self._made += 1
            name = f"m{self._made}"
        body = {"metadata": {"name": name, "namespace": self.through.namespace}, "data": {"x": "0"}}
        made = await self.through.client.create(MAPS, body, kind=Bare)
        self.alive[name] = made.metadata.uid.encode()

    async def _many(self, number: int, call: Callable[[], object]) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(call())  # type: ignore[arg-type]  # a coroutine


async def truth_of(through: Through) -> dict[str, str]:
    listing = await through.client.list(MAPS, through.namespace, kind=Bare)
    return {item.metadata.key: item.metadata.resource_version for item in listing.items}


async def audit_for_ever(reflector: Reflector[Bare, Bare]) -> None:
    """As the reflector would by itself. Nothing waits for its pace, which only leaves faults for others."""
    while True:
        await asyncio.sleep(1.0)
        with suppress(ApiError, Unreachable):  # it is a storm
            await reflector.audit()


def held_by_the_client() -> int:
    """Bytes that the client and the decoding of objects hold, by where they were allocated."""
    gc.collect()
    here = [tracemalloc.Filter(True, f"*/fairlead/{part}/*.py") for part in ("client", "kube")]
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(here).statistics("filename"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
async def test_the_copy_is_right_after_the_storm(
    through: Through, count: Callable[[int, int], int], seed: int
) -> None:
    faults, objects = count(30, 300), count(300, 3000)
    churn, consumer = Churn(through, objects, random.Random(seed)), Consumer()
    reflector = Reflector(
        through.faulty, MAPS, Bare, namespace=through.namespace, tuning=TUNING, rng=random.Random(seed)
    )
    await churn.fill()
    tracemalloc.start()
    try:
        held = []
        for part, number in enumerate((faults // 5, faults - faults // 5)):  # most after the first look
            # Rare enough that some listings come through, for there is more to hurt than listings.
            plan = Seeded(seed * 10 + part, number, every=objects // 10)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(reflector.run(consumer))]
                await reflector.synced()
                through.proxy.plan = only("/configmaps", plan)
                tasks.append(group.create_task(audit_for_ever(reflector)))
                await churn.go_on(lambda plan=plan: plan.left > 0)  # type: ignore[misc]  # bound per part
                async with asyncio.timeout(60):
                    await consumer.until_told(await truth_of(through))
                    await consumer.until(lambda: reflector.view.resume is not None)  # no listing under way
                while tasks:  # none is kept: a cancelled one holds its frames, and the page they were reading
                    tasks.pop().cancel()
            held.append(held_by_the_client())
    finally:
        tracemalloc.stop()

    assert through.proxy.injected.total() == faults
    assert reflector.counters.listings > 1
    assert dict(reflector.view.items()) == consumer.told
    assert churn.deleted & consumer.added <= consumer.deleted
    assert consumer.deleted <= churn.deleted
    # As many objects live as before: what grew would be a leak. The allowance is for dictionaries' steps.
    assert held[1] < held[0] * 1.15, held
