"""How victims are asked to leave: budgets, conditions, nominations, refusals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from fairlead.engine.core.actions import EvictPod
from fairlead.engine.core.events import EvictFailed
from support.faults import Answer, Faithful, RequestFault, Script
from support.manifests import budget
from support.scheduler import InProcess, Shop, aside, in_process
from support.units import pod, typed
from support.workloads import condition, wait_ready
from support.writers import Writing, writing


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
    report = session.core.report

    def look() -> bool:
        return report.disruptions_allowed(low) == allowed

    await aside(ours.cluster.wait, look, f"the scheduler to hear that budgets allow {allowed}")


async def test_the_victim_bears_the_condition_and_the_preemptor_the_nomination(ours: Shop):
    await aside(full_node, ours, "low")
    # The eviction is asked for twice, so that what is written in between can be seen.
    plan = Script(requests=[("/low/eviction", Answer(503, "ServiceUnavailable", retry_after="1"))])
    async with in_process(ours, plan) as running:
        await aside(wait_ready, ours.cluster, "low", 1)
        with ours.cluster.wire.watch(ours.cluster.path("Pod")) as watch:
            await aside(ours.add, "high", priority=9)
            seen = await aside(
                watch.until, lambda event: "nodeName" in event["object"]["spec"] and is_high(event)
            )
        assert any(is_high(event) and event["object"]["status"].get("nominatedNodeName") for event in seen)
        marked = [event["object"] for event in seen if condition(event["object"], "DisruptionTarget")]
        # What others wrote stays beside it.
        assert any(condition(one, "Ready") and condition(one, "fairlead.dev/Evicted") for one in marked)
        writes = running.ledger.writes
        at = next(index for index, write in enumerate(writes) if write.endswith("/low/status"))
        assert at < writes.index(next(write for write in writes if write.endswith("/low/eviction")))


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


async def test_an_eviction_that_the_api_server_will_never_grant_is_not_asked_for_again(ours: Shop):
    await aside(full_node, ours, "low")
    text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    refusal = Answer(500, "InternalError", message=text)
    async with in_process(ours, Script(requests=[("/low/eviction", refusal)])) as running:
        await aside(ours.bound, "low")
        await aside(ours.add, "high", priority=9)
        for event in await aside(ours.events, "high", "PreemptionRefused"):
            assert text in event["message"]
        await aside(ours.held, "high")
        # Lower still, and served: had the eviction been put off, it would have been asked for by now.
        await aside(ours.cluster.add_nodes, 1, cpu=1)
        await aside(ours.bound, "low", "high")
        assert len([write for write in running.ledger.writes if write.endswith("/low/eviction")]) == 1


async def evicted(ours: Shop, *faults: tuple[str, RequestFault]) -> tuple[EvictPod, Writing]:
    """A decision to evict a new pod low, and what became of it."""
    made = await aside(ours.add, "low")
    decided = EvictPod(
        f"{ours.cluster.namespace}/low",
        made["metadata"]["uid"],
        "",
        "high",
        "high",
        "for a pod of more priority",
    )
    async with writing(ours, Script(requests=list(faults))) as found:
        found.evictor.put([decided])
        await found.evictor.idle()
    return decided, found


async def test_an_eviction_that_the_api_server_failed_at_may_be_asked_for_again(ours: Shop):
    text = "etcdserver: request timed out"
    decided, found = await evicted(ours, ("/low/eviction", Answer(500, "InternalError", message=text)))
    assert found.told == [EvictFailed(decided.pod, decided.uid, text, final=False, unknown=False)]
    assert not found.evicted


async def test_a_pod_that_cannot_be_marked_is_not_evicted(ours: Shop):
    refusal = Answer(403, "Forbidden", message="no rights")
    decided, found = await evicted(ours, ("/low/status", refusal))
    assert found.told == [EvictFailed(decided.pod, decided.uid, "no rights")]
    assert [write.rpartition("/")[2] for write in found.ledger.writes] == ["status"]
    assert "low" in await aside(ours.nodes_of)


@dataclass
class BindsTwo(Faithful):
    """Lets two pods be bound and no others, and refuses the first deletion."""

    bound: set[str] = field(default_factory=set)
    refused: int = 0

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if path.endswith("/binding"):
            if path in self.bound or len(self.bound) < 2:
                self.bound.add(path)
                return None
            return Answer(403, "Forbidden")
        if method == "DELETE" and "/pods/" in path and not self.refused:
            self.refused += 1
            return Answer(403, "Forbidden")
        return None


async def test_members_of_a_gang_that_cannot_be_completed_are_let_go_though_that_is_refused_at_first(
    ours: Shop,
):
    await aside(ours.cluster.add_nodes, 3, cpu=1)
    plan = BindsTwo()
    async with in_process(ours, plan, gangs__commitTimeout="1s"):
        await aside(ours.deployment, "gang", 3, gang="g", annotations={"pod-group-min-member": "3"})

        def bound() -> set[str]:
            return {name for name, node in ours.nodes_of().items() if node}

        first = await aside(ours.cluster.wait, lambda: bound() if len(bound()) == 2 else set(), "two members")

        def are_gone() -> bool:
            return not first & set(ours.nodes_of())

        await aside(ours.cluster.wait, are_gone, "both members to be let go")
    assert plan.refused == 1


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
