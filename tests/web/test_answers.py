"""What the engine is asked for the page: again after a change, and after a while without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from fairlead.engine.planning.settings import Settings
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.rig.nodes import node_object
from fairlead.web.answers import Answers, Objects

SOON_S = 0.05


class Asked:
    """Answers about a cluster of which only the time goes on: ten seconds each time that it is looked at."""

    def __init__(self) -> None:
        metadata = {
            "name": "a",
            "namespace": "ml",
            "uid": "a",
            "annotations": {"pod-group": "train"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        spec = {"schedulerName": "fairlead", "containers": [{"name": "c"}]}
        member = convert({"kind": "Pod", "metadata": metadata, "spec": spec}, Pod)
        self.typed = {"Node": [convert(node_object("n1", cpu=4), Node)], "Pod": [member]}
        self.now = datetime(2026, 1, 1, tzinfo=UTC).timestamp() - 9.0
        self.overviews: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.answers = Answers(
            self._collect, Settings(), lease="", made=self.overviews.put_nowait, oldest_s=SOON_S
        )

    def _collect(self) -> Objects:
        self.now += 10.0
        return Objects(self.now, self.typed, unread={"Lease": "not read"})

    async def reasons(self) -> list[str]:
        async with asyncio.timeout(30):
            overview = await self.overviews.get()
        return [one["kind"] for one in overview["waiting"]]


@asynccontextmanager
async def asked() -> AsyncIterator[Asked]:
    found = Asked()
    running = asyncio.create_task(found.answers.run())
    try:
        yield found
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_what_time_alone_changes_is_seen_while_a_page_is_open() -> None:
    async with asked() as found:
        found.answers.viewer(1)
        found.answers.changed()
        first = await found.reasons()
        assert first == ["gang-settling"]
        later = await found.reasons()
        assert later != first


async def test_a_single_question_is_answered_of_the_cluster_as_it_is_now() -> None:
    async with asked() as found, asyncio.timeout(30):
        first = await found.answers.of("gangs")
        assert first["at"] == found.now
        (gang,) = first["gangs"]
        assert gang["present"] == 1
        found.typed["Pod"] = []
        second = await found.answers.of("gangs")
        assert second["gangs"] == []
        assert await found.answers.pod("ml/a") is None


async def test_nothing_is_asked_while_no_page_is_open() -> None:
    async with asked() as found:
        found.answers.viewer(1)
        found.answers.changed()
        await found.reasons()
        found.answers.viewer(-1)
        # What was under way may end; then it is quiet until a page is opened.
        for _ in range(2):
            try:
                async with asyncio.timeout(10 * SOON_S + 0.6):
                    await found.overviews.get()
            except TimeoutError:
                break
        else:
            raise AssertionError("it went on")
        found.answers.viewer(1)
        await found.reasons()
