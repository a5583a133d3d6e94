"""Events are written in a lane of their own: none dropped, repeats counted, order kept per object."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.events import About, EventLane
from fairlead.client.retry import Retry
from fairlead.errors import LeaseLost
from fairlead.kube.resources import known
from support.faults import Answer, LoseReply, LoseRequest, RequestFault, Script
from support.odd_server import answer, serving, status

if TYPE_CHECKING:
    from client.conftest import Through

EVENTS = known("Event")


def pod(name: str, namespace: str = "shop") -> About:
    return About(known("Pod"), name, namespace, f"uid-{name}")


class Store:
    """Stands for an API server's events where the test must see each request, or hold it up."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.refuse: Callable[[dict[str, Any]], web.Response | None] = lambda body: None

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        await self.gate.wait()
        body = json.loads(await request.read())
        if (no := self.refuse(body)) is not None:
            return no
        if request.method == "POST":
            self.events[body["metadata"]["name"]] = body
            self.order.append(f"{body['involvedObject']['name']} {body['reason']}")
            return answer(body, 201)
        name = request.path.rpartition("/")[2]
        if name not in self.events:
            return status(404, "NotFound")
        self.events[name] |= body
        return answer(self.events[name])

    @property
    def counts(self) -> dict[str, int]:
        return {f"{e['involvedObject']['name']} {e['reason']}": e["count"] for e in self.events.values()}


@asynccontextmanager
async def lane(store: Store, **options: Any) -> AsyncIterator[EventLane]:
    async with (
        asyncio.timeout(20),
        serving(store) as target,
        Connection(target) as connection,
        asyncio.TaskGroup() as group,
    ):
        rng = random.Random(1)
        client = Client(connection, rng=rng, retry=Retry(rng, first_s=0.001))
        events = EventLane(client, component="fairlead", rng=rng, **options)
        group.create_task(events.run())
        yield events
        await events.close()


class TestWriting:
    async def test_all_are_written_by_the_time_it_is_closed(self) -> None:
        store = Store()
        async with lane(store) as events:
            for number in range(200):
                await events.record(pod(f"p{number}"), "Scheduled", "Successfully assigned")
        assert len(store.events) == 200
        assert (events.written, events.counted, events.refused) == (200, 0, 0)

    async def test_they_are_in_order_for_each_object(self) -> None:
        store = Store()
        async with lane(store, writers=4) as events:
            for reason in ("First", "Second", "Third"):
                for name in "abcdefgh":
                    await events.record(pod(name), reason, "")
        for name in "abcdefgh":
            written = [said for said in store.order if said.startswith(name)]
            assert written == [f"{name} First", f"{name} Second", f"{name} Third"]

    async def test_long_messages_are_cut_to_what_the_api_takes(self) -> None:
        store = Store()
        async with lane(store) as events:
            await events.record(pod("a"), "Failed", "ä" * 2000)
        (event,) = store.events.values()
        assert len(event["message"].encode()) <= 1024
        assert event["message"].endswith(" ...")

    async def test_nothing_is_taken_after_closing(self) -> None:
        async with lane(Store()) as events:
            await events.close()
            with pytest.raises(RuntimeError, match="closed"):
                await events.record(pod("a"), "Late", "")


class TestRepeats:
    async def test_those_that_wait_are_counted_before_they_are_written(self) -> None:
        store = Store()
        async with lane(store) as events:
            for _ in range(50):
                await events.record(pod("a"), "FailedScheduling", "0/5 nodes are available.")
        assert len(store.events) == 1
        assert store.counts == {"a FailedScheduling": 50}

    async def test_those_that_come_later_are_counted_on_the_written_one(self) -> None:
        store = Store()
        async with lane(store) as events:
            for _ in range(3):
                await events.record(pod("a"), "FailedScheduling", "no room")
                await events.flush()
        assert store.counts == {"a FailedScheduling": 3}
        (event,) = store.events.values()
        assert datetime.fromisoformat(event["firstTimestamp"]) <= datetime.fromisoformat(
            event["lastTimestamp"]
        )

    async def test_one_that_lived_its_hour_is_begun_anew(self) -> None:
        store = Store()
        async with lane(store) as events:
            await events.record(pod("a"), "FailedScheduling", "no room")
            await events.flush()
            store.events.clear()
            await events.record(pod("a"), "FailedScheduling", "no room")
        assert store.counts == {"a FailedScheduling": 1}

    async def test_another_object_reason_message_or_type_is_another_event(self) -> None:
        store = Store()
        async with lane(store) as events:
            await events.record(pod("a"), "R", "m")
            await events.record(pod("b"), "R", "m")
            await events.record(pod("a"), "S", "m")
            await events.record(pod("a"), "R", "n")
            await events.record(pod("a"), "R", "m", type="Warning")
        assert len(store.events) == 5


class TestALaneThatIsFull:
    async def test_makes_the_producer_wait_and_drops_nothing(self) -> None:
        store = Store()
        store.gate.clear()
        async with lane(store, writers=1, room=3) as events, asyncio.TaskGroup() as group:
            recorded = [group.create_task(events.record(pod(f"p{number}"), "R", "m")) for number in range(10)]
            await asyncio.wait(recorded, timeout=0.2)
            assert sum(task.done() for task in recorded) < 10
            store.gate.set()
        assert len(store.events) == 10

    async def test_still_counts_repeats_of_what_waits(self) -> None:
        store = Store()
        store.gate.clear()
        async with lane(store, writers=1, room=1) as events:
            await events.record(pod("a"), "R", "m")  # taken by the writer, which waits at the gate
            for _ in range(10):
                await events.record(pod("b"), "R", "m")
            store.gate.set()
        assert store.counts == {"a R": 1, "b R": 10}

    async def test_a_producer_that_gives_up_leaves_nothing(self) -> None:
        store = Store()
        store.gate.clear()
        async with lane(store, writers=1, room=1) as events:
            await events.record(pod("a"), "R", "m")
            await events.record(pod("b"), "R", "m")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await events.record(pod("c"), "R", "m")
            store.gate.set()
        assert store.counts == {"a R": 1, "b R": 1}

    @pytest.mark.parametrize("how", ["close", "cancel"])
    async def test_lets_no_producer_wait_for_what_has_ended(self, how: str) -> None:
        store = Store()
        store.gate.clear()
        async with asyncio.timeout(20), serving(store) as target, Connection(target) as connection:
            rng = random.Random(1)
            events = EventLane(Client(connection, rng=rng), component="x", rng=rng, writers=1, room=2)
            running = asyncio.create_task(events.run())
            producers = [
                asyncio.create_task(events.record(pod(f"p{number}"), "Scheduled", "")) for number in range(6)
            ]
            # One is being written and two wait: there is no event for "the others found no room".
            while sum(producer.done() for producer in producers) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0)
            if how == "close":
                closing = asyncio.create_task(events.close())
                await asyncio.sleep(0)
                store.gate.set()
                await closing
                await running
            else:
                running.cancel()
                await asyncio.wait([running])
            ended = await asyncio.gather(*producers, return_exceptions=True)
        taken = [each for each in ended if each is None]
        assert all(isinstance(each, RuntimeError) for each in ended if each is not None)
        assert len(taken) == 3
        assert len(store.events) == (3 if how == "close" else 0)


class TestAServerThatSaysNo:
    async def test_for_now_is_asked_again_for_as_long_as_it_takes(self) -> None:
        store, left = Store(), 25

        def refuse(body: dict[str, Any]) -> web.Response | None:
            nonlocal left
            left -= 1
            return status(503, "ServiceUnavailable") if left >= 0 else None

        store.refuse = refuse
        async with lane(store, writers=8) as events:
            for number in range(8):
                await events.record(pod(f"p{number}"), "R", "m")
        assert len(store.events) == 8

    async def test_for_good_is_counted_and_the_rest_goes_on(self) -> None:
        store = Store()
        store.refuse = lambda body: (
            status(403, "Forbidden") if body["involvedObject"]["name"] == "bad" else None
        )
        async with lane(store) as events:
            await events.record(pod("bad"), "R", "m")
            await events.record(pod("good"), "R", "m")
        assert store.counts == {"good R": 1}
        assert events.refused == 1

    @pytest.mark.parametrize(
        "no",
        [
            partial(status, 403, "Forbidden", details={"causes": [{"reason": "NamespaceTerminating"}]}),
            partial(status, 404, "NotFound", details={"kind": "namespaces", "name": "shop"}),
        ],
        ids=["being deleted", "gone"],
    )
    async def test_because_the_namespace_ends_is_one_quiet_line(self, no: Callable[[], web.Response]) -> None:
        store = Store()
        store.gate.clear()
        store.refuse = lambda body: no() if body["metadata"]["namespace"] == "shop" else None
        with capture_logs() as said:
            async with lane(store) as events:
                for number in range(20):
                    await events.record(pod(f"p{number}"), "R", "m")
                await events.record(pod("good", "open"), "R", "m")
                store.gate.set()
        assert store.counts == {"good R": 1}
        assert events.refused == 20
        (line,) = said
        assert (line["log_level"], line["count"], line["namespaces"]) == ("info", 20, ["shop"])


class Refusing:
    def check(self) -> float:
        raise LeaseLost("no longer the leader")


async def test_a_former_leader_writes_none() -> None:
    store = Store()
    async with serving(store) as target, Connection(target) as connection:
        events = EventLane(Client(connection).fenced(Refusing()), component="fairlead")
        await events.record(pod("a"), "R", "m")
        with pytest.raises(ExceptionGroup) as caught:
            await events.run()
        await events.flush()  # returns: nobody waits for what will not be written
    assert caught.group_contains(LeaseLost)
    assert store.events == {}


class TestOnAcluster:
    async def test_what_people_and_dashboards_read_is_there(self, through: Through) -> None:
        async with asyncio.TaskGroup() as group:
            events = EventLane(through.client, component="fairlead", instance="fairlead-0")
            group.create_task(events.run())
            about = pod("a", through.namespace)
            for _ in range(3):
                await events.record(about, "Scheduled", "Successfully assigned", action="Binding")
                await events.flush()
            await events.close()
        (event,) = (
            await through.client.list(EVENTS, through.namespace, fields="involvedObject.name=a")
        ).items
        assert event["metadata"]["name"].startswith("a.")
        assert event["count"] == 3
        assert (event["reason"], event["message"], event["type"]) == (
            "Scheduled",
            "Successfully assigned",
            "Normal",
        )
        assert event["involvedObject"]["uid"] == "uid-a"
        assert event["reportingComponent"] == "fairlead"
        assert event["action"] == "Binding"
        assert event["firstTimestamp"] <= event["lastTimestamp"]

    async def test_one_about_a_node_goes_to_the_default_namespace(self, through: Through) -> None:
        name = through.cluster.unique("node")
        async with asyncio.TaskGroup() as group:
            events = EventLane(through.client, component="fairlead")
            group.create_task(events.run())
            await events.record(About(known("Node"), name, uid=name), "Interrupted", "gone", type="Warning")
            await events.close()
        found = await through.client.list(EVENTS, "default", fields=f"involvedObject.name={name}")
        assert len(found.items) == 1

    async def test_lost_answers_make_no_second_event(self, through: Through) -> None:
        faults: list[RequestFault] = [
            LoseReply(),
            LoseRequest(),
            Answer(503, "x", retry_after="0"),
            LoseReply(),
        ]
        through.proxy.plan = Script([("POST", fault) for fault in faults])
        async with asyncio.TaskGroup() as group:
            events = EventLane(through.faulty, component="fairlead")
            group.create_task(events.run())
            for number in range(20):
                await events.record(pod(f"p{number}", through.namespace), "R", "m")
            await events.close()
        found = await through.client.list(EVENTS, through.namespace, fields="reason=R")
        assert sorted(event["involvedObject"]["name"] for event in found.items) == sorted(
            f"p{number}" for number in range(20)
        )
        assert through.proxy.injected.total() == 4
