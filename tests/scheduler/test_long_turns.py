"""While the core decides over much at once, the rest of the process goes on, and asks it nothing half-way."""

from __future__ import annotations

import asyncio

from fairlead.doors.scheduler.door import SchedulerDoor
from fairlead.doors.scheduler.inbox import Inbox
from fairlead.doors.scheduler.session import WORK_AT_ONCE
from fairlead.engine.core.events import Gone
from support.scheduler import Shop, aside, in_process

PODS = 2 * WORK_AT_ONCE


async def test_others_run_while_a_scheduler_takes_in_what_there_is(ours: Shop) -> None:
    def fill() -> None:
        ours.cluster.add_nodes(2, cpu=1)
        for part in range(4):
            ours.deployment(f"waits-{part}", PODS // 4, cpu="2")
        ours.cluster.wait(lambda: len(ours.cluster.list("Pod")["items"]) >= PODS, "the pods")

    await aside(fill)
    known: set[int] = set()

    async def look(scheduler: SchedulerDoor) -> None:
        while True:
            if scheduler.session is not None:
                known.add(scheduler.session.core.report.pending)
            await asyncio.sleep(0)

    async with in_process(ours, meanwhile=look):
        # Neither nothing nor everything: it was in the middle.
        assert any(0 < number < PODS for number in known), known


async def test_what_was_taken_is_open_until_it_is_settled() -> None:
    inbox = Inbox()
    inbox.tell(Gone("Node", "", "n", ""))
    taken = asyncio.create_task(inbox.empty())
    await asyncio.sleep(0)
    assert not taken.done()
    inbox.take()
    over = asyncio.create_task(inbox.between_turns())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not taken.done()
    assert not over.done()
    inbox.settle()
    await taken
    await over
