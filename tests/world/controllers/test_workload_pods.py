from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.world.controllers.workload_pods import COST, by_deletion_order, by_startup_order, deletion_cost
from fairlead.world.objects import stamp

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = 3600


def pod(
    name: str,
    *,
    node: str = "n",
    phase: str = "Running",
    ready_for_s: float | None = HOUR,
    age_s: float = HOUR,
    cost: str = "",
    restarts: int = 0,
    sidecar_restarts: int = 0,
) -> dict[str, Any]:
    conditions = []
    if ready_for_s is not None:
        since = stamp(NOW - timedelta(seconds=ready_for_s))
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "creationTimestamp": stamp(NOW - timedelta(seconds=age_s)),
            **({"annotations": {COST: cost}} if cost else {}),
        },
        "spec": {
            "initContainers": [{"name": "side", "restartPolicy": "Always"}],
            **({"nodeName": node} if node else {}),
        },
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{"name": "main", "restartCount": restarts}],
            "initContainerStatuses": [{"name": "side", "restartCount": sidecar_restarts}],
        },
    }


# Each row: what goes first, what goes later, although all that comes after in the order says otherwise.
TABLE = {
    "unassigned before assigned": (
        pod("later-by-all-else", node="", phase="Running", cost="100"),
        pod("a", phase="Pending", ready_for_s=None, cost="-100"),
    ),
    "pending before unknown": (
        pod("b", phase="Pending", cost="100"),
        pod("a", phase="Unknown", ready_for_s=None, cost="-100"),
    ),
    "unknown before running": (
        pod("b", phase="Unknown", cost="100"),
        pod("a", phase="Running", ready_for_s=None, cost="-100"),
    ),
    "not ready before ready": (
        pod("b", ready_for_s=None, cost="100"),
        pod("a", cost="-100", ready_for_s=1),
    ),
    "the cheaper before the dearer": (
        pod("b", cost="-1", ready_for_s=9 * HOUR),
        pod("a", cost="0", ready_for_s=1),
    ),
    "no cost counts as zero": (pod("b", cost="-5"), pod("a")),
    "ready for a shorter time before a longer one": (
        pod("b", ready_for_s=10, restarts=0),
        pod("a", ready_for_s=10 * HOUR, restarts=9),
    ),
    "more restarts before fewer": (
        pod("b", restarts=3, age_s=9 * HOUR),
        pod("a", restarts=2, age_s=1),
    ),
    "more restarts of sidecars before fewer": (
        pod("b", sidecar_restarts=3, age_s=9 * HOUR),
        pod("a", sidecar_restarts=2, age_s=1),
    ),
    "younger before older": (pod("b", age_s=10), pod("a", age_s=10 * HOUR)),
    "of the same age on a logarithmic scale, the lower uid": (pod("a", age_s=3700), pod("b", age_s=3600)),
}


@pytest.mark.parametrize("row", TABLE)
def test_a_replica_set_gives_up(row: str) -> None:
    first, later = TABLE[row]
    for given in ([first, later], [later, first]):
        assert by_deletion_order(given, [], NOW) == [first, later]


def test_a_replica_set_gives_up_pods_on_crowded_nodes_before_lonely_ones() -> None:
    crowded, lonely = pod("b", node="n1", ready_for_s=9 * HOUR), pod("a", node="n2", ready_for_s=1)
    neighbour = pod("c", node="n1")
    assert by_deletion_order([lonely, crowded], [lonely, crowded, neighbour], NOW) == [crowded, lonely]


def test_finished_neighbours_do_not_crowd_a_node() -> None:
    one, other = pod("a", node="n1", ready_for_s=10), pod("b", node="n2", ready_for_s=HOUR)
    over = pod("c", node="n2", phase="Succeeded")
    assert by_deletion_order([one, other], [one, other, over], NOW) == [one, other]


def test_cost_comes_before_crowding() -> None:
    cheap, crowded = pod("a", node="n2", cost="-1"), pod("b", node="n1")
    assert by_deletion_order([crowded, cheap], [cheap, crowded, pod("c", node="n1")], NOW) == [cheap, crowded]


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("+5", 0),
        ("05", 0),
        ("x", 0),
        ("", 0),
        ("2147483648", 0),
        ("2147483647", 2**31 - 1),
    ],
)
def test_a_cost_that_cannot_be_read_is_zero(text: str, cost: int) -> None:
    assert deletion_cost(pod("a", cost=text)) == cost


def test_a_job_ignores_deletion_cost() -> None:
    old, new = pod("a", cost="-100", ready_for_s=9 * HOUR), pod("b", cost="100", ready_for_s=1)
    assert by_startup_order([old, new]) == [new, old]
