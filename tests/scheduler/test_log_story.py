"""What a person reads in the scheduler's log at info: a line for each decision, and none besides."""

from __future__ import annotations

from support.scheduler import Shop

# What a start says, once.
STARTING = {
    *("changes_cluster", "no_policy_crd", "policy_accepted", "policies_unread", "right_missing"),
    *("without_definitions", "lease_acquired", "leading", "synced"),
}


def test_each_decision_is_a_line_with_the_pod_the_node_and_the_reason(ours: Shop) -> None:
    (node,) = ours.cluster.add_nodes(cpu=2, labels={"test": ours.cluster.namespace})
    scheduler = ours.run()
    here = ours.cluster.namespace

    ours.add("low", cpu="2", priority=1)
    ours.bound("low")
    ours.add("large", cpu="9")
    ours.held("large")
    ours.add("high", cpu="2", priority=5)
    ours.bound("high")
    ours.events("high", "Scheduled")  # written after all that was decided before

    story = [line for line in scheduler.log() if line["event"] not in STARTING]
    said = [(line["event"], line["pod"].partition("/")[2], line.get("node", "")) for line in story]
    assert said == [
        ("bound", "low", node),
        ("held", "large", ""),
        ("nominated", "high", node),
        ("evicted", "low", node),
        ("bound", "high", node),
    ]
    assert {line["level"] for line in story} == {"info"}
    held, evicted = story[1], story[3]
    assert "1 Insufficient cpu" in held["reason"]
    assert evicted["unit"] == f"{here}/high"
    assert evicted["reason"].startswith("Preempted by")
