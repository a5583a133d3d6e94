"""Events, conditions, metrics and health, in the words and names that people already know."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import replace
from datetime import datetime, timedelta

from fairlead.client.clock import WALL_CLOCK
from support.scheduler import Shop, aside, in_process
from support.wire import PATIENCE_S


async def test_a_bound_pod_has_the_event_that_kubectl_describe_shows(ours: Shop):
    (node,) = await aside(ours.cluster.add_nodes, 1)
    async with in_process(ours):
        await aside(ours.add, "a")
        await aside(ours.bound, "a")
        (event,) = await aside(ours.events, "a", "Scheduled")
    assert event["message"] == f"Successfully assigned {ours.cluster.namespace}/a to {node}"
    assert event["type"] == "Normal"
    assert event["action"] == "Binding"
    assert event["reportingComponent"] == ours.scheduler


async def test_a_held_pod_says_why_in_kube_schedulers_words(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=1)
    async with in_process(ours):
        await aside(ours.add, "big", cpu="64")
        condition = await aside(ours.held, "big")
        (event,) = await aside(ours.events, "big", "FailedScheduling")
    assert condition["reason"] == "Unschedulable"
    assert "nodes are available: " in condition["message"]
    assert "1 Insufficient cpu" in condition["message"]
    assert condition["message"].endswith("Preemption is not helpful for scheduling.")
    assert event["message"] == condition["message"]
    assert event["type"] == "Warning"
    assert event["action"] == "Scheduling"


async def test_the_condition_is_not_written_again_after_a_restart(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=1)
    await aside(ours.add, "big", cpu="64")
    async with in_process(ours):
        before = await aside(ours.held, "big")
    async with in_process(ours) as running:
        await aside(ours.add, "small")
        await aside(ours.bound, "small")
        assert not [write for write in running.ledger.writes if write.endswith("/big/status")]
    assert await aside(ours.held, "big") == before


async def test_a_priority_that_cannot_be_read_is_reported_and_replaced(ours: Shop):
    await aside(ours.cluster.add_nodes, 1)
    async with in_process(ours):
        made = ours.pod("a")
        made["metadata"]["annotations"]["priority"] = "urgent"
        await aside(ours.cluster.create, made)
        await aside(ours.bound, "a")
        (event,) = await aside(ours.events, "a", "PriorityAnnotation")
    assert "urgent" in event["message"]


async def test_only_pods_of_the_named_namespaces_are_placed_but_all_are_counted(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=2)
    first = ours.cluster.namespace
    second = await aside(ours.cluster.add_namespace)
    elsewhere = ours.pod("elsewhere")
    elsewhere["spec"]["nodeSelector"]["test"] = first
    await aside(ours.cluster.create, elsewhere)
    ours.cluster.namespace = first
    async with in_process(ours, namespaces=[first]):
        await aside(ours.add, "a")
        await aside(ours.bound, "a")
    ours.cluster.namespace = second
    assert (await aside(ours.nodes_of)) == {"elsewhere": ""}


def test_metrics_and_health_are_served_where_asked(ours: Shop):
    ours.cluster.add_nodes(1, cpu=2)
    process = ours.run("--listen=127.0.0.1:0")
    url = process.wait_for("listening")[0]["url"]
    ours.add("a")
    ours.add("big", cpu="64")
    ours.bound("a")
    ours.held("big")
    process.wait_for("held")
    profile = f'profile="{ours.scheduler}"'

    def counted() -> str:
        text = get(f"{url}/metrics")
        return (
            text if f'scheduler_schedule_attempts_total{{{profile},result="scheduled"}} 1.0' in text else ""
        )

    # A bind counts once it was answered, and the API shows it before that.
    text = ours.cluster.wait(counted, "the bind to be counted")
    assert f'scheduler_schedule_attempts_total{{{profile},result="unschedulable"}} 1.0' in text
    assert 'scheduler_pending_pods{queue="unschedulable"} 1.0' in text
    for name in (
        "scheduler_scheduling_attempt_duration_seconds_bucket",
        "scheduler_pod_scheduling_attempts_bucket",
        "scheduler_pod_scheduling_sli_duration_seconds_bucket",
        "scheduler_preemption_attempts_total",
        "scheduler_preemption_victims_bucket",
        "scheduler_queue_incoming_pods_total",
        "scheduler_framework_extension_point_duration_seconds_bucket",
        "fairlead_plan_duration_seconds_bucket",
        "fairlead_gangs_started_total",
        "fairlead_leader",
    ):
        assert name in text, name
    assert get(f"{url}/livez") == get(f"{url}/readyz") == "ok"
    assert process.stop() == 0


def test_a_port_that_is_taken_is_an_error_with_a_name(ours: Shop):
    first = ours.run("--listen=127.0.0.1:0")
    url = first.wait_for("listening")[0]["url"]
    second = ours.run(f"--listen={url.removeprefix('http://')}", elect=True)
    assert second.ended() == 2
    assert "cannot listen on" in second.text()


def get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            text: str = answer.read().decode()
            return text
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


async def test_times_are_told_by_the_clock_that_the_scheduler_goes_by(ours: Shop):
    began = WALL_CLOCK.wall()
    ahead = replace(WALL_CLOCK, wall=lambda: WALL_CLOCK.wall() + timedelta(days=1))
    async with in_process(ours, clock=ahead):
        await aside(ours.add, "a")
        held = await aside(ours.held, "a")
    assert datetime.fromisoformat(held["lastTransitionTime"]) > began + timedelta(hours=23)
