"""What becomes of a bind when answers are lost, refused, or too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from support.faults import Answer, FrameFault, LoseReply, LoseRequest, RequestFault, Script
from support.scheduler import Shop, aside, in_process


@dataclass
class Meanwhile:
    """Does something behind the scheduler's back just before its first bind of a pod arrives."""

    name: str
    happens: Callable[[], object]
    done: bool = False

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if not self.done and path.endswith(f"/pods/{self.name}/binding"):
            self.done = True
            self.happens()
        return None

    def on_frame(self, path: str) -> FrameFault | None:
        return None


def own_wire(ours: Shop, method: str, path: str, body: dict[str, Any]) -> None:
    """A request over a connection of its own: the test's is in use while it waits."""
    wire = ours.cluster.host.wire()
    wire.request(method, path, body).ok()
    wire.close()


def gone(ours: Shop, name: str) -> None:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    own_wire(ours, "DELETE", ours.cluster.path("Pod", name), options)


def bind(ours: Shop, name: str, node: str) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": node},
    }
    own_wire(ours, "POST", ours.cluster.path("Pod", name, "binding"), binding)


@pytest.mark.parametrize(
    "fault",
    [
        LoseReply(),
        LoseRequest(),
        Answer(409, "Conflict"),
        Answer(429, "TooManyRequests", retry_after="0"),
        Answer(500, "InternalError"),
        Answer(503, "ServiceUnavailable", retry_after="0"),
        Answer(504, "GatewayTimeout"),
    ],
    ids=lambda fault: f"{type(fault).__name__}{getattr(fault, 'code', '')}",
)
async def test_the_pod_is_bound_once_and_everybody_knows(ours: Shop, fault: RequestFault):
    await aside(ours.cluster.add_nodes, 1)
    async with in_process(ours, Script(requests=[("/pods/a/binding", fault)])):
        await aside(ours.add, "a")
        await aside(ours.bound, "a")
        assert len(await aside(ours.events, "a", "Scheduled")) == 1


async def test_a_pod_that_is_gone_is_forgotten(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=1)
    plan = Meanwhile("a", lambda: gone(ours, "a"))
    async with in_process(ours, plan) as running:
        await aside(ours.add, "a")
        await aside(ours.cluster.gone, "Pod", "a")
        await aside(ours.add, "b")  # takes the room that was assumed for the first
        await aside(ours.bound, "b")
        assert running.ledger.binds("a") == 1


async def test_a_pod_that_somebody_else_bound_stays_there_and_its_room_is_free_again(ours: Shop):
    nodes = await aside(ours.cluster.add_nodes, 2, cpu=1)
    chosen, other = sorted(nodes)
    plan = Meanwhile("a", lambda: bind(ours, "a", other))
    async with in_process(ours, plan) as running:
        await aside(ours.add, "a")
        assert (await aside(ours.bound, "a"))["a"] == other
        await aside(ours.add, "b")
        assert (await aside(ours.bound, "b"))["b"] == chosen
        assert running.ledger.binds("a") == 1


async def test_another_pod_of_the_same_name_is_a_pod_of_its_own(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=1)

    def replace() -> None:
        gone(ours, "a")
        own_wire(ours, "POST", ours.cluster.path("Pod"), ours.pod("a", cpu="500m"))

    async with in_process(ours, Meanwhile("a", replace)):
        first = (await aside(ours.add, "a"))["metadata"]["uid"]

        def replaced() -> bool:
            answer = ours.cluster.try_get("Pod", "a")
            return (
                answer.status == 200
                and answer.body["metadata"]["uid"] != first
                and bool(answer.body["spec"].get("nodeName"))
            )

        await aside(ours.cluster.wait, replaced, "the second pod to be bound")


async def test_a_gang_whose_member_cannot_be_bound_at_first_is_completed(ours: Shop):
    await aside(ours.cluster.add_nodes, 3, cpu=1)
    faults: list[tuple[str, RequestFault]] = [("/pods/b/binding", Answer(403, "Forbidden"))] * 2
    async with in_process(ours, Script(requests=faults)):
        for name in ("a", "b", "c"):
            await aside(ours.add, name, gang="g", minimum=3)
        found = await aside(ours.bound, "a", "b", "c")
        assert len(set(found.values())) == 3
