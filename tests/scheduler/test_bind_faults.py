"""What becomes of a bind when answers are lost, refused, or too late."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairlead.client.clock import WALL_CLOCK
from fairlead.engine.core.actions import BindPod
from fairlead.engine.core.events import BindFailed, Seen
from fairlead.kube.pod import Pod
from support.faults import Answer, LoseReply, LoseRequest, RequestFault, Script
from support.meanwhile import Held, Meanwhile, bind, gone, replaced_by
from support.scheduler import InProcess, Shop, aside, in_process
from support.workloads import condition
from support.writers import writing


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
    plan = Meanwhile("/pods/a/binding", lambda: gone(ours, "a"))
    async with in_process(ours, plan) as running:
        await aside(ours.add, "a")
        await aside(ours.cluster.gone, "Pod", "a")
        await aside(ours.add, "b")  # takes the room that was assumed for the first
        await aside(ours.bound, "b")
        assert running.ledger.binds("a") == 1


async def test_a_pod_that_is_being_deleted_gives_its_room_back_before_its_finalizers_let_it_go(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=1)
    kept = ours.pod("a")
    kept["metadata"]["finalizers"] = ["example.com/keep"]
    async with in_process(ours, Meanwhile("/pods/a/binding", lambda: gone(ours, "a"))):
        await aside(ours.cluster.create, kept)
        await aside(ours.cluster.wait, lambda: "a" not in ours.nodes_of(), "a to be on its way out")
        await aside(ours.add, "b")
        await aside(ours.bound, "b")
    assert "nodeName" not in (await aside(ours.cluster.get, "Pod", "a"))["spec"]
    await aside(ours.cluster.patch, "Pod", "a", {"metadata": {"finalizers": None}})


# A request without an answer is sent once more before the pod is looked at: it carries the pod's UID.
@pytest.mark.parametrize(("fault", "sent"), [(None, 1), (LoseRequest(), 2)], ids=["refused", "unanswered"])
async def test_a_pod_that_somebody_else_bound_stays_there_and_its_room_is_free_again(
    ours: Shop, fault: RequestFault | None, sent: int
):
    nodes = await aside(ours.cluster.add_nodes, 2, cpu=1)
    chosen, other = sorted(nodes)

    def bound_by_another() -> RequestFault | None:
        bind(ours, "a", other)
        return fault

    async with in_process(ours, Meanwhile("/pods/a/binding", bound_by_another)) as running:
        await aside(ours.add, "a")
        assert (await aside(ours.bound, "a"))["a"] == other
        await aside(ours.add, "b")
        assert (await aside(ours.bound, "b"))["b"] == chosen
        assert running.ledger.binds("a") <= sent
        await aside(
            ours.cluster.wait, lambda: counted(running, "fairlead_bind_failures_total") == 1, "a failed bind"
        )
    # Ended in order, it has said all that it had to say.
    said = (await aside(ours.cluster.list, "Event"))["items"]
    assert [one["involvedObject"]["name"] for one in said if one["reason"] == "Scheduled"] == ["b"]
    assert counted(running, "scheduler_schedule_attempts_total", result="scheduled") == 1


async def bind_of(ours: Shop, node: str) -> BindPod:
    """A decision for a new pod a."""
    made = await aside(ours.add, "a")
    return BindPod(f"{ours.cluster.namespace}/a", made["metadata"]["uid"], node, "a", {})


async def test_the_core_learns_where_a_pod_is_that_another_scheduler_bound(ours: Shop):
    """Until its watch shows that, it would try to bind the pod again."""
    chosen, other = sorted(await aside(ours.cluster.add_nodes, 2, cpu=1))
    decided = await bind_of(ours, chosen)
    async with writing(ours, Meanwhile("/pods/a/binding", lambda: bind(ours, "a", other))) as found:
        found.binder.put(decided, 0.0)
        await found.binder.idle()
    failed, seen = found.told
    assert failed == BindFailed(decided.pod, decided.uid, chosen)
    assert isinstance(seen, Seen)
    assert isinstance(seen.object, Pod)
    assert (seen.object.metadata.uid, seen.object.spec.node_name) == (decided.uid, other)
    assert not found.bound


@pytest.mark.parametrize(
    ("fault", "least_s"),
    [(LoseRequest(), 0.0), (Answer(503, "ServiceUnavailable", retry_after="1"), 1.0)],
    ids=["unanswered", "put-off"],
)
async def test_a_bind_that_was_not_applied_is_sent_again_when_the_api_server_may_take_it(
    ours: Shop, fault: RequestFault, least_s: float
):
    (node,) = await aside(ours.cluster.add_nodes, 1, cpu=1)
    decided = await bind_of(ours, node)
    async with writing(ours, Script(requests=[("/pods/a/binding", fault)])) as found:
        found.binder.put(decided, WALL_CLOCK.now())
        await found.binder.idle()
    ((bind, took_s),) = found.bound
    assert bind == decided
    assert took_s >= least_s
    assert not found.told


def counted(running: InProcess, name: str, **labels: str) -> float:
    """What the scheduler's metrics say."""
    families = text_string_to_metric_families(running.scheduler.metrics().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(one.value for one in samples if labels.items() <= one.labels.items())


async def test_another_pod_of_the_same_name_is_a_pod_of_its_own(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=1)
    plan = Meanwhile("/pods/a/binding", lambda: replaced_by(ours, ours.pod("a", cpu="500m")))
    async with in_process(ours, plan):
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


async def test_a_condition_that_is_being_written_does_not_land_on_top_of_the_bind(ours: Shop):
    plan = Held("/pods/a/status")
    async with in_process(ours, plan) as running:
        await aside(ours.add, "a")  # there is no node
        async with plan.meanwhile():
            await aside(ours.cluster.add_nodes, 1, cpu=2)
            await aside(ours.add, "b")
            await aside(ours.bound, "b")
            assert running.ledger.binds("a") == 0
        await aside(ours.bound, "a")
    scheduled = condition(await aside(ours.cluster.get, "Pod", "a"), "PodScheduled")
    assert scheduled["status"] == "True"
