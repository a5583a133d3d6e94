"""Scales that are not answered: whose server hangs or fails delays others' pods at most once, and briefly."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence

import pytest

from fairlead.client.api import Client
from fairlead.client.config import Server, Target
from fairlead.client.connection import JSON, Connection
from fairlead.engine.core.events import Event, Seen
from fairlead.errors import ApiError
from fairlead.feed.scales import Scales
from fairlead.kube.workloads import Workload
from support.units import pod, typed
from support.virtual_loop import VirtualLoop, pass_by, run_virtually

PATIENCE_S = 5.0


class Apis(Client):
    """An API server with custom kinds that have a scale; some groups' server hangs, or fails."""

    def __init__(self) -> None:
        super().__init__(Connection(Target(Server("http://nowhere.invalid"))))
        self.hung: set[str] = set()
        self.failing: set[str] = set()
        self.sizes: Counter[str] = Counter()
        self.asked: list[str] = []
        self.under_way: Counter[str] = Counter()

    async def read(self, path: str, *, accept: str = JSON) -> bytes:
        group = path.split("/")[2]
        if not path.endswith("/scale"):
            named = ("gadgets", "gadgets/scale")
            return json.dumps({"resources": [{"name": one, "kind": "Gadget"} for one in named]}).encode()
        name = path.split("/")[-2]
        self.asked.append(name)
        self.under_way[group] += 1
        try:
            if group in self.hung:
                await asyncio.get_running_loop().create_future()
            if group in self.failing:
                raise ApiError(500, "InternalError", "conversion webhook failed")
        finally:
            self.under_way[group] -= 1
        metadata = {"name": name, "uid": f"uid-{name}"}
        return json.dumps({"metadata": metadata, "spec": {"replicas": self.sizes[name]}}).encode()


class Scene:
    """Scales over such a server, and what the core was told by whom it reads again."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.apis = Apis()
        self.scales = Scales(self.apis, lambda pod: True, loop.clock)
        self.told: dict[str, int] = {}

    async def before(self, group: str, owners: Iterable[str], *more: Event) -> tuple[set[str], float]:
        """Pods of these owners appear; the owners that are told before them, and how long that took."""
        began = self.loop.time()
        events = await self.scales.before([*(self.pod(group, owner) for owner in owners), *more])
        return set(_sizes(events)), self.loop.time() - began

    def pod(self, group: str, owner: str) -> Seen:
        reference = {"apiVersion": f"{group}/v1", "kind": "Gadget", "name": owner, "uid": f"uid-{owner}"}
        self.apis.sizes[owner] = self.apis.sizes[owner] or 3
        return Seen("Pod", typed(pod(f"{owner}-0", gang=owner, owner=reference | {"controller": True})))

    async def tell(self, events: Sequence[Event]) -> None:
        self.told |= _sizes(events)


def _sizes(events: Sequence[Event]) -> dict[str, int]:
    return {
        event.object.metadata.name: event.object.spec.replicas or 0
        for event in events
        if isinstance(event, Seen) and isinstance(event.object, Workload)
    }


def play(main: Callable[[Scene], Awaitable[None]]) -> None:
    """The scene, with its reader running."""

    async def run(loop: VirtualLoop) -> None:
        scene = Scene(loop)
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(scene.scales.run(scene.tell))
            await main(scene)
            reader.cancel()

    run_virtually(run)


def names(prefix: str, number: int) -> list[str]:
    return [f"{prefix}{index}" for index in range(number)]


def test_owners_that_answer_are_told_before_their_pods() -> None:
    async def main(scene: Scene) -> None:
        assert await scene.before("good.dev", names("g", 100)) == (set(names("g", 100)), 0.0)

    play(main)


def test_what_was_read_is_known_to_a_core_that_begins_later() -> None:
    async def main(scene: Scene) -> None:
        scene.apis.hung.add("bad.dev")
        await scene.before("good.dev", names("g", 3))
        await scene.before("bad.dev", names("b", 3))
        assert _sizes(scene.scales.known()) == dict.fromkeys(names("g", 3), 3)

    play(main)


def test_all_owners_of_a_batch_share_one_patience() -> None:
    async def main(scene: Scene) -> None:
        scene.apis.hung.add("bad.dev")
        assert await scene.before("bad.dev", names("b", 1000)) == (set(), PATIENCE_S)

    play(main)


def test_a_kind_that_hangs_keeps_no_other_from_being_told_in_time() -> None:
    async def main(scene: Scene) -> None:
        scene.apis.hung.add("bad.dev")
        good = scene.pod("good.dev", "good")
        told, _ = await scene.before("bad.dev", names("b", 100), good)
        assert told == {"good"}

    play(main)


@pytest.mark.parametrize("how", ["hung", "failing"])
def test_nobody_waits_again_for_a_kind_that_did_not_answer(how: str) -> None:
    async def main(scene: Scene) -> None:
        getattr(scene.apis, how).add("bad.dev")
        await scene.before("bad.dev", ["first"])
        for number in range(20):
            assert await scene.before("bad.dev", [f"next{number}"]) == (set(), 0.0)
            await pass_by(10)
        assert await scene.before("good.dev", ["good"]) == ({"good"}, 0.0)

    play(main)


def test_a_kind_that_did_not_answer_is_asked_one_at_a_time_until_it_does() -> None:
    async def main(scene: Scene) -> None:
        scene.apis.hung.add("bad.dev")
        await scene.before("bad.dev", names("b", 30))
        for _ in range(200):
            await pass_by(0.3)
            assert scene.apis.under_way["bad.dev"] <= 1
        scene.apis.hung.clear()
        await pass_by(60)
        assert scene.told == dict.fromkeys(names("b", 30), 3)
        assert await scene.before("bad.dev", ["new"]) == ({"new"}, 0.0)

    play(main)


def test_sizes_of_other_kinds_are_followed_while_one_hangs() -> None:
    async def main(scene: Scene) -> None:
        scene.apis.hung.add("bad.dev")
        await scene.before("good.dev", ["good"])
        await scene.before("bad.dev", names("b", 100))
        for size in (4, 5, 6):
            scene.apis.sizes["good"] = size
            await pass_by(3)  # it is read every two seconds, and looked at every half
            assert scene.told["good"] == size

    play(main)


def test_one_owner_that_fails_keeps_its_fellows_from_nothing_for_long() -> None:
    async def main(scene: Scene) -> None:
        await scene.before("good.dev", ["good", "fellow"])
        scene.apis.failing.add("good.dev")
        assert await scene.before("good.dev", ["new"]) == (set(), 0.0)
        scene.apis.failing.clear()
        await pass_by(3)
        assert await scene.before("good.dev", ["newer"]) == ({"newer"}, 0.0)

    play(main)
