"""What changes between the decision to evict and the eviction: then no eviction reaches a pod in error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.meanwhile import Held, Meanwhile, replaced_by
from support.scheduler import InProcess, Shop, aside, in_process
from support.workloads import condition


def departures(running: InProcess) -> list[str]:
    """The evictions and deletions of pods that were sent, by name of the pod."""
    writes = (write.removesuffix("/eviction") for write in running.ledger.writes if is_departure(write))
    return [write.rpartition("/")[2] for write in writes]


def is_departure(write: str) -> bool:
    return write.endswith("/eviction") or (write.startswith("DELETE ") and "/pods/" in write)


def successor(ours: Shop, name: str) -> dict[str, Any]:
    """A pod of that name that waits for another scheduler: nothing is a reason to evict it."""
    return ours.pod(name, schedulerName="another")


@pytest.mark.parametrize(
    ("evict", "moment"),
    [
        ("api", "/pods/low/status"),
        ("api", "/pods/low/eviction"),
        ("delete", "/pods/low/status"),
        ("delete", "DELETE {low}"),
    ],
    ids=["before-the-condition", "before-the-eviction", "before-its-condition", "before-the-deletion"],
)
async def test_a_pod_created_under_the_victims_name_is_left_alone(ours: Shop, evict: str, moment: str):
    await aside(ours.cluster.add_nodes, 1, cpu=1)
    path = ours.cluster.path("Pod", "low")
    plan = Meanwhile(moment.format(low=path), lambda: replaced_by(ours, successor(ours, "low")))
    async with in_process(ours, plan, preemption__evict=evict):
        first = await aside(ours.add, "low", priority=1)
        await aside(ours.bound, "low")
        await aside(ours.add, "high", priority=9)
        await aside(ours.bound, "high")
    found = await aside(ours.cluster.get, "Pod", "low")
    assert found["metadata"]["uid"] != first["metadata"]["uid"]
    assert "deletionTimestamp" not in found["metadata"]
    assert not condition(found, "DisruptionTarget")
    said = (await aside(ours.cluster.list, "Event"))["items"]
    assert "Preempted" not in {one["reason"] for one in said}


def without_preemptor(ours: Shop, _: str) -> None:
    """The preemptor is deleted, and the scheduler knows: the next pod it sees is bound."""
    ours.cluster.delete("Pod", "high", gracePeriodSeconds=0)
    ours.add("later", cpu="100m")
    ours.bound("later")


def without_room(ours: Shop, node: str) -> None:
    """The node takes no pods any more, and the scheduler knows: a pod is bound to the next node it sees."""
    ours.cluster.patch("Node", node, {"spec": {"unschedulable": True}})
    ours.add("later", cpu="8")
    ours.cluster.add_nodes(1, cpu=8)
    ours.bound("later")


def cramped(ours: Shop, *low: str) -> str:
    """A node with room for these low pods alone, beside one for a pod that is smaller still."""
    node, _ = ours.cluster.add_nodes(1, cpu=len(low)) + ours.cluster.add_nodes(1, cpu="500m")
    return node


def there(ours: Shop, node: str) -> dict[str, Any]:
    """Fields of pods that go to this node alone."""
    return {"nodeSelector": {"test": ours.cluster.namespace, "kubernetes.io/hostname": node}}


@pytest.mark.parametrize("changes", [without_preemptor, without_room])
async def test_an_eviction_whose_reason_went_while_the_condition_was_written_is_not_sent(
    ours: Shop, changes: Callable[[Shop, str], None]
):
    node = await aside(cramped, ours, "low")
    plan = Held("/pods/low/status")
    async with in_process(ours, plan) as running:
        await aside(ours.add, "low", priority=1)
        await aside(ours.bound, "low")
        await aside(ours.add, "high", priority=9, **there(ours, node))
        async with plan.meanwhile():
            await aside(changes, ours, node)
    # It has ended in order: what was under way was finished.
    assert departures(running) == []
    assert (await aside(ours.nodes_of))["low"] == node


@pytest.mark.parametrize("changes", [without_preemptor, without_room])
async def test_when_the_reason_goes_the_victims_that_are_left_are_not_touched(
    ours: Shop, changes: Callable[[Shop, str], None]
):
    node = await aside(cramped, ours, "low1", "low2")
    plan = Held("/eviction")
    async with in_process(ours, plan) as running:
        for name in ("low1", "low2"):
            await aside(ours.add, name, priority=1)
        await aside(ours.bound, "low1", "low2")
        await aside(ours.add, "high", cpu="2", priority=9, **there(ours, node))
        async with plan.meanwhile():
            await aside(changes, ours, node)
    (first,) = set(departures(running))
    (left,) = {"low1", "low2"} - {first}
    pod = await aside(ours.cluster.get, "Pod", left)
    assert "deletionTimestamp" not in pod["metadata"]
    assert not condition(pod, "DisruptionTarget")
