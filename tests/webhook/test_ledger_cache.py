"""Copies of ledgers: the newest of what was seen and what was written, whoever else writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from fairlead.client.api import Client
from fairlead.doors.webhook.ledger_cache import LedgerCache
from fairlead.errors import Conflict, NotFound
from fairlead.feed.watches import Watches
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.names import LEDGERS
from fairlead.policy.slots.ledger import Ledger
from support.cluster import Cluster
from support.wire import PATIENCE_S


@pytest.fixture
def key(served: Cluster) -> GroupKey:
    return GroupKey("web", served.namespace, "app=web")


class Watched(LedgerCache):
    """A cache whose watch can be waited for."""

    def __init__(self, client: Client, watches: Watches) -> None:
        super().__init__(client, watches, self._heard, self._lost)
        self.heard: list[GroupKey] = []
        self.lost: list[GroupKey] = []
        self._news = asyncio.Event()

    def _heard(self, key: GroupKey) -> None:
        self.heard.append(key)
        self._news.set()

    def _lost(self, key: GroupKey) -> None:
        self.lost.append(key)
        self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def kept(client: Client) -> AsyncIterator[Watched]:
    watches = Watches(client)
    copies = Watched(client, watches)
    tasks = [asyncio.ensure_future(one.run()) for one in (watches, copies)]
    await copies.synced()
    try:
        yield copies
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def taken(ledger: Ledger, token: str) -> Ledger:
    return ledger.take(token, 1.0, lambda _: "spot")[0]


def tokens(ledger: Ledger) -> list[str]:
    return [entry.token for entry in ledger.entries]


async def test_what_we_wrote_counts_before_the_watch_shows_it(served: Cluster, key: GroupKey) -> None:
    async with served.client() as client, kept(client) as copies:
        written = await copies.write(taken(copies.newest(key), "a"))
        assert copies.newest(key) == written
        again = await copies.write(taken(written, "b"))
        assert tokens(copies.newest(key)) == ["a", "b"]
        (found,) = served.list(LEDGERS)["items"]
        assert Ledger.from_object(found) == again


async def test_what_others_wrote_counts_once_the_watch_shows_it(served: Cluster, key: GroupKey) -> None:
    async with served.client() as client, kept(client) as ours, kept(client) as theirs:
        await ours.write(taken(Ledger(key), "a"))
        await theirs.until(lambda: tokens(theirs.newest(key)) == ["a"])
        await theirs.write(taken(theirs.newest(key), "b"))
        await ours.until(lambda: ours.heard.count(key) == 2)
        assert tokens(ours.newest(key)) == ["a", "b"]


async def test_a_write_that_goes_by_an_old_version_is_refused_and_a_newer_one_is_found(
    served: Cluster, key: GroupKey
) -> None:
    async with served.client() as client:
        ours, theirs = (
            LedgerCache(client, Watches(client)),
            LedgerCache(client, Watches(client)),
        )  # which never hear of anything
        first = await ours.write(taken(Ledger(key), "a"))
        await theirs.write(taken(first, "b"))
        with pytest.raises(Conflict):
            await ours.write(taken(first, "c"))
        assert tokens(await ours.newer(first)) == ["a", "b"]
        with pytest.raises(Conflict):
            await ours.write(taken(Ledger(key), "c"))
        assert tokens(await ours.newer(Ledger(key))) == ["a", "b"]


async def test_a_ledger_that_somebody_deleted_is_no_more(served: Cluster, key: GroupKey) -> None:
    async with served.client() as client, kept(client) as copies:
        written = await copies.write(taken(Ledger(key), "a"))
        await client.delete(LEDGERS, key.ledger_name, key.namespace)
        # Nobody asks for it until the watch has shown it come and go.
        marker = GroupKey("web", served.namespace, "app=other")
        await copies.write(taken(Ledger(marker), "m"))
        await copies.until(lambda: marker in copies.heard)
        assert copies.newest(key) == Ledger(key)
        with pytest.raises(NotFound):
            await copies.delete(written)


async def test_what_the_api_server_refuses_to_delete_is_not_believed_again(
    served: Cluster, key: GroupKey
) -> None:
    async with served.client() as client:
        copies = LedgerCache(client, Watches(client))  # which never hears of anything
        written = await copies.write(taken(Ledger(key), "a"))
        await client.delete(LEDGERS, key.ledger_name, key.namespace)
        with pytest.raises(NotFound):
            await copies.delete(written)
        assert copies.newest(key) == Ledger(key)


async def test_slots_that_nobody_understands_are_told(
    served: Cluster, key: GroupKey, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = taken(taken(Ledger(key), "a"), "b").to_object()
    strange["spec"]["slots"][0] = "the first slot, please"
    async with served.client() as client, kept(client) as copies:
        await client.create(LEDGERS, strange)
        await copies.until(lambda: key in copies.heard)
        assert tokens(copies.newest(key)) == ["b"]
        assert "slots_not_understood" in capsys.readouterr().out


async def test_a_ledger_that_the_garbage_collector_deletes_is_reported(
    served: Cluster, key: GroupKey
) -> None:
    async with served.client() as client, kept(client) as copies:
        await copies.write(taken(copies.newest(key), "a"))
        await copies.until(lambda: key in copies.heard)
        await client.delete(LEDGERS, key.ledger_name, key.namespace)
        await copies.until(lambda: key in copies.lost)
        assert copies.newest(key) == Ledger(key)
