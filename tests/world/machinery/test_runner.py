from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import pytest

from fairlead.errors import ApiError, BadObject, Conflict
from fairlead.world.admission import AdmissionRequest, Admitter
from fairlead.world.api import Admitted, Api
from fairlead.world.clock import EPOCH, VirtualClock, WallClock
from fairlead.world.controllers.writes import Again, Batch, Create, Delete, Patch, Update, View, Write
from fairlead.world.events import Recorder
from fairlead.world.ids import CountedIds
from fairlead.world.objects import key_of
from fairlead.world.runner import Runner
from fairlead.world.schema.resources import CONFIGMAPS, MUTATING_WEBHOOKS
from fairlead.world.store import Store
from fairlead.world.world import World
from support.manifests import config_map, deployment
from support.worlds import Obj, node, ready, seconds

Step = Callable[[View, str, datetime], list[Write]]


class Probe:
    """A controller over ConfigMaps whose reconcile the test gives."""

    name = "probe"
    watches = ("ConfigMap",)

    def __init__(self, step: Step) -> None:
        self._step = step
        self.looks: list[tuple[str, datetime]] = []

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        item = new or old
        assert item is not None
        return [key_of(item)]

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        self.looks.append((key, now))
        return self._step(view, key, now)


class Bench:
    """An API in virtual time with one probe on it."""

    def __init__(self, step: Step) -> None:
        self.clock = VirtualClock()
        self.api = Api(Store(), self.clock, CountedIds())
        self.probe = Probe(step)
        self.runner = Runner(self.api, self.clock, [self.probe], Recorder(self.api, self.clock))

    def create(self, name: str, **data: str) -> Obj:
        return self.api.create(CONFIGMAPS, config_map(name, data=data), "default")

    def run(self, span_s: float = 0) -> None:
        end = self.clock.now() + timedelta(seconds=span_s)
        self.runner.drain()
        while self.clock.step(end):
            self.runner.drain()


def data(item: Obj) -> dict[str, str]:
    return item.get("data") or {}


def nothing(view: View, key: str, now: datetime) -> list[Write]:
    return []


def test_a_key_that_changed_often_is_looked_at_once() -> None:
    bench = Bench(nothing)
    bench.create("a")
    for number in range(5):
        bench.api.patch(CONFIGMAPS, "a", {"data": {"n": str(number)}}, "default")
    bench.run()
    assert [key for key, _ in bench.probe.looks] == ["default/a"]


def test_what_was_there_before_is_looked_at_too() -> None:
    bench = Bench(nothing)
    bench.create("a")
    probe = Probe(nothing)
    runner = Runner(bench.api, bench.clock, [probe], Recorder(bench.api, bench.clock))
    runner.drain()
    assert [key for key, _ in probe.looks] == ["default/a"]


def test_a_controllers_own_writes_bring_it_back_until_nothing_is_left_to_do() -> None:
    def count_to_three(view: View, key: str, now: datetime) -> list[Write]:
        item = view.get("ConfigMap", *key.split("/"))
        if item is None or len(data(item)["n"]) == 3:
            return []
        return [Update({**item, "data": {"n": data(item)["n"] + "|"}})]

    bench = Bench(count_to_three)
    bench.create("a", n="")
    bench.run()
    assert bench.api.get(CONFIGMAPS, "a", "default")["data"]["n"] == "|||"
    assert len(bench.probe.looks) == 4


def test_looking_again_happens_at_the_earliest_time_asked_for() -> None:
    asked = [Again(EPOCH + timedelta(seconds=60)), Again(EPOCH + timedelta(seconds=10))]
    bench = Bench(lambda view, key, now: [asked.pop(0)] if asked else [])
    bench.create("a")
    bench.runner.drain()
    bench.runner.enqueue("probe", "default/a")
    bench.run(3600)
    assert [at - EPOCH for _, at in bench.probe.looks] == [seconds(0), seconds(0), seconds(10)]


def test_a_failed_write_ends_the_list_and_is_tried_again_later_each_time() -> None:
    stale: list[Obj] = []

    def conflict(view: View, key: str, now: datetime) -> list[Write]:
        return [Update(stale[0]), Create(config_map("never", namespace="default"))]

    bench = Bench(conflict)
    stale.append(bench.create("a"))
    bench.api.patch(CONFIGMAPS, "a", {"data": {"n": "1"}}, "default")
    bench.run(1)
    waits = [
        round((b[1] - a[1]).total_seconds() * 1000)
        for a, b in zip(bench.probe.looks, bench.probe.looks[1:], strict=False)
    ]
    assert waits == [5, 10, 20, 40, 80, 160, 320]
    assert bench.api.store.get(CONFIGMAPS, "default", "never") is None


def test_an_object_that_cannot_be_used_does_not_stop_the_others() -> None:
    def picky(view: View, key: str, now: datetime) -> list[Write]:
        if key == "default/bad":
            raise BadObject("ConfigMap bad", "data", "cannot be used")
        item = view.get("ConfigMap", *key.split("/"))
        return [] if item is None or data(item) else [Patch(item, {"data": {"seen": "yes"}})]

    bench = Bench(picky)
    bench.create("bad")
    bench.create("good")
    bench.run(1)
    assert data(bench.api.get(CONFIGMAPS, "good", "default")) == {"seen": "yes"}


def test_a_defect_in_a_controller_is_not_hidden() -> None:
    def broken(view: View, key: str, now: datetime) -> list[Write]:
        raise ZeroDivisionError

    bench = Bench(broken)
    bench.create("a")
    with pytest.raises(ZeroDivisionError):
        bench.run()


def test_a_batch_is_carried_out_whole_even_if_one_of_it_fails() -> None:
    said: list[str] = []

    def otherwise(error: ApiError) -> list[Write]:
        said.append(error.reason)
        return []

    def twice(view: View, key: str, now: datetime) -> list[Write]:
        if key != "default/a" or said:
            return []
        both = [Create(config_map("a", namespace="default")), Create(config_map("b", namespace="default"))]
        return [Batch(both, otherwise), Create(config_map("c", namespace="default"))]

    bench = Bench(twice)
    bench.create("a")
    bench.run()
    names = [item["metadata"]["name"] for item in bench.api.store.list(CONFIGMAPS, "default")]
    assert names == ["a", "b"]
    assert said == ["AlreadyExists"]


def test_what_is_gone_already_counts_as_deleted() -> None:
    done: list[str] = []

    def remove(view: View, key: str, now: datetime) -> list[Write]:
        item = view.get("ConfigMap", *key.split("/"))
        if item is None:
            done.append(key)
            return []
        return [Delete(item), Delete(item)]

    bench = Bench(remove)
    bench.create("a")
    bench.run(10)
    assert done == ["default/a"]


def test_a_patch_meant_for_an_object_does_not_hit_its_successor() -> None:
    first: list[Obj] = []

    def late(view: View, key: str, now: datetime) -> list[Write]:
        return [Patch(first[0], {"data": {"hit": "yes"}})] if first else []

    bench = Bench(late)
    first.append(bench.create("a"))
    bench.api.delete(CONFIGMAPS, "a", "default")
    bench.create("a", fresh="yes")
    bench.run(1)
    assert bench.api.get(CONFIGMAPS, "a", "default")["data"] == {"fresh": "yes"}


class Slow(Admitter):
    """Webhooks that hold every write until the test lets it go."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[AdmissionRequest, asyncio.Event]] = asyncio.Queue()

    async def next(self) -> tuple[AdmissionRequest, asyncio.Event]:
        async with asyncio.timeout(30):
            return await self.asked.get()

    async def admit(self, request: AdmissionRequest) -> Obj | None:
        go = asyncio.Event()
        await self.asked.put((request, go))
        await go.wait()
        return request.object


def with_webhooks(bench: Bench) -> None:
    bench.api.create(MUTATING_WEBHOOKS, {"metadata": {"name": "any"}, "webhooks": []})


async def test_on_the_wall_clock_a_slow_webhook_holds_up_its_own_key_only() -> None:
    def touch(view: View, key: str, now: datetime) -> list[Write]:
        item = view.get("ConfigMap", *key.split("/"))
        return [] if item is None or "seen" in data(item) else [Patch(item, {"data": {"seen": "yes"}})]

    bench = Bench(touch)
    with_webhooks(bench)
    bench.create("a")
    bench.create("b")
    slow = Slow()
    life = asyncio.create_task(bench.runner.run(Admitted(bench.api, slow)))
    first, hold = await slow.next()
    second, go = await slow.next()
    assert (first.name, second.name) == ("a", "b")
    bench.api.patch(CONFIGMAPS, "a", {"data": {"again": "yes"}}, "default")
    looks = len(bench.probe.looks)
    written = asyncio.Event()
    bench.api.store.subscribe(lambda change: written.set())
    go.set()
    async with asyncio.timeout(30):
        await written.wait()
    assert "seen" in data(bench.api.get(CONFIGMAPS, "b", "default"))
    # The other key changed meanwhile, but its write is under way: it is not looked at.
    assert "default/a" not in [key for key, _ in bench.probe.looks[looks:]]
    hold.set()
    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life


async def test_a_cancelled_write_that_waits_for_a_webhook_is_not_sent() -> None:
    def touch(view: View, key: str, now: datetime) -> list[Write]:
        item = view.get("ConfigMap", *key.split("/"))
        return [] if item is None else [Patch(item, {"data": {"seen": "yes"}})]

    bench = Bench(touch)
    with_webhooks(bench)
    bench.create("a")
    slow = Slow()
    life = asyncio.create_task(bench.runner.run(Admitted(bench.api, slow)))
    await slow.next()
    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life
    assert "seen" not in data(bench.api.get(CONFIGMAPS, "a", "default"))


async def test_on_the_wall_clock_replica_sets_ask_webhooks_side_by_side_in_doubling_batches() -> None:
    cluster = World([node("n1", cpu=64)], clock=WallClock())
    cluster.api.create(MUTATING_WEBHOOKS, {"metadata": {"name": "any"}, "webhooks": []})
    cluster.create(deployment("web", 7))
    slow = Slow()
    life = asyncio.create_task(cluster.runner.run(Admitted(cluster.api, slow)))
    batches: list[int] = []
    waiting: list[asyncio.Event] = []
    expected = 1
    async with asyncio.timeout(30):
        while sum(batches) < 7:
            request, go = await slow.next()
            if request.operation != "CREATE" or request.resource.kind != "Pod":
                go.set()
                continue
            waiting.append(go)
            if len(waiting) == expected:
                batches.append(expected)
                for each in waiting:
                    each.set()
                waiting.clear()
                expected *= 2
    assert batches == [1, 2, 4]
    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life
    cluster.close()


def test_a_stale_bind_does_not_lose_the_pods_that_were_to_be_bound_after_it() -> None:
    cluster = World([node("n1", cpu=64)])
    cluster.run_until(seconds(1))
    refused: list[str] = []

    def once(request: AdmissionRequest) -> Obj | None:
        if request.subresource == "binding" and not refused:
            refused.append(request.name)
            raise Conflict(409, "Conflict", "somebody was faster")
        return None

    cluster.api.hooks.append(once)
    cluster.create(deployment("web", 5))
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 5)
    assert len(refused) == 1
