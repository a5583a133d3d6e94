"""How victims are asked to leave: budgets, conditions, nominations, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from support.faults import Answer, Script
from support.manifests import budget
from support.scheduler import InProcess, Shop, aside, in_process
from support.units import pod, typed
from support.workloads import condition, wait_ready


def full_node(ours: Shop, *names: str, **more: object) -> None:
    """A node that these low pods fill."""
    ours.cluster.add_nodes(1, cpu=len(names))
    for name in names:
        ours.add(name, priority=1, labels={"app": "low"}, **more)


def wait_for_budget(ours: Shop, name: str, allowed: int) -> None:
    def look() -> bool:
        found = ours.cluster.get("PodDisruptionBudget", name)
        status = found.get("status", {})
        settled = status.get("observedGeneration") == found["metadata"]["generation"]
        return settled and status.get("disruptionsAllowed") == allowed and status.get("currentHealthy", 0) > 0

    ours.cluster.wait(look, f"budget {name} to allow {allowed}")


async def heard_of(ours: Shop, running: InProcess, **allowed: int) -> None:
    """Wait until the scheduler knows what the budgets of the low pods allow: pods are watched apart."""
    low = typed(pod("low", namespace=ours.cluster.namespace, labels={"app": "low"}))
    session = running.scheduler.session
    assert session is not None
    budgets = session.core.state.budgets

    def look() -> bool:
        return {one.metadata.name: budgets.allowed(one) for one in budgets.of(low)} == allowed

    await aside(ours.cluster.wait, look, f"the scheduler to hear that budgets allow {allowed}")


async def test_the_victim_bears_the_condition_and_the_preemptor_the_nomination(ours: Shop):
    await aside(full_node, ours, "low")
    # The eviction is asked for twice, so that what is written in between can be seen.
    plan = Script(requests=[("/low/eviction", Answer(503, "ServiceUnavailable", retry_after="1"))])
    async with in_process(ours, plan) as running:
        await aside(ours.bound, "low")
        with ours.cluster.wire.watch(ours.cluster.path("Pod")) as watch:
            await aside(ours.add, "high", priority=9)
            seen = await aside(
                watch.until, lambda event: "nodeName" in event["object"]["spec"] and is_high(event)
            )
        assert any(is_high(event) and event["object"]["status"].get("nominatedNodeName") for event in seen)
        assert any(condition(event["object"], "DisruptionTarget") for event in seen)
        writes = running.ledger.writes
        marked = next(index for index, write in enumerate(writes) if write.endswith("/low/status"))
        assert marked < writes.index(next(write for write in writes if write.endswith("/low/eviction")))


def is_high(event: dict[str, Any]) -> bool:
    return bool(event["object"]["metadata"]["name"] == "high")


async def test_by_deletion_the_eviction_api_is_not_asked(ours: Shop):
    await aside(full_node, ours, "low")
    async with in_process(ours, preemption__evict="delete") as running:
        await aside(ours.bound, "low")
        await aside(ours.add, "high", priority=9)
        await aside(ours.bound, "high")
        assert not [write for write in running.ledger.writes if write.endswith("/eviction")]
        assert [write for write in running.ledger.writes if write.startswith("DELETE")]


async def test_a_budget_that_allows_nothing_protects_its_pods_until_it_does(ours: Shop):
    await aside(full_node, ours, "low")
    await aside(ours.cluster.create, budget("all", {"app": "low"}, minAvailable=1))
    async with in_process(ours) as running:
        await aside(ours.bound, "low")
        await aside(wait_for_budget, ours, "all", 0)
        await heard_of(ours, running, all=0)
        await aside(ours.add, "high", priority=9)
        await aside(ours.held, "high")
        assert not [write for write in running.ledger.writes if write.endswith("/eviction")]
        await aside(ours.cluster.delete, "PodDisruptionBudget", "all")
        assert "low" not in await aside(ours.bound, "high")


async def test_a_pod_under_two_budgets_is_never_asked_and_the_preemptor_is_held(ours: Shop):
    await aside(full_node, ours, "low", "low2")
    async with in_process(ours) as running:
        await aside(wait_ready, ours.cluster, "low", 2)
        # Only now: for a pod under two budgets Kubernetes keeps no more than one of them up to date.
        for name in ("one", "two"):
            await aside(ours.cluster.create, budget(name, {"app": "low"}, minAvailable=1))
        for name in ("one", "two"):
            await aside(wait_for_budget, ours, name, 1)
        await heard_of(ours, running, one=1, two=1)
        await aside(ours.add, "high", priority=9)
        await aside(ours.held, "high")
        assert not [write for write in running.ledger.writes if write.endswith("/eviction")]
        assert (await aside(ours.nodes_of))["low"]
        for event in await aside(ours.events, "high", "PreemptionRefused"):
            assert "more than one PodDisruptionBudget: one, two" in event["message"]


@pytest.mark.parametrize("others", [False, True])
async def test_pods_of_other_schedulers_are_victims_only_when_that_is_allowed(ours: Shop, others: bool):
    nodes = await aside(ours.cluster.add_nodes, 1, cpu=1)
    foreign = ours.pod("foreign", nodeName=nodes[0], schedulerName="somebody-else")
    await aside(ours.cluster.create, foreign)
    async with in_process(ours, preemption__others=others):
        await aside(ours.add, "high", priority=9)
        if others:
            assert "foreign" not in await aside(ours.bound, "high")
        else:
            await aside(ours.held, "high")
            assert "foreign" in await aside(ours.nodes_of)
