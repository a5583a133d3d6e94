"""StatefulSets: two revisions may be a state and not a rollout, and ordinals number both."""

from __future__ import annotations

from typing import Any

import pytest

from support.pictured import Picture
from support.units import workload


def strayed(*revisions: str, updated: int = 0, current: str = "1", **spec: Any) -> Picture:
    """Set ``db`` of three pods on demand where the rule wants one there and two on spot."""
    picture = Picture()
    made = workload("StatefulSet", "db", replicas=3, **spec)
    made["status"] = {
        "currentRevision": f"db-{current}",
        "updateRevision": "db-2",
        "updatedReplicas": updated,
    }
    picture.add(made)
    for ordinal, revision in enumerate(revisions):
        pod = picture.web(f"db-{ordinal}", "d1", slot=ordinal + 1)
        owner = {"kind": "StatefulSet", "name": "db", "uid": "uid-StatefulSet-db", "apiVersion": "apps/v1"}
        pod["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        pod["metadata"]["labels"] = {"app": "db", "controller-revision-hash": f"db-{revision}"}
        picture.add(pod)
    return picture


def test_a_rollout_is_waited_for_even_before_its_first_pod() -> None:
    assert strayed("1", "1", "1").waits() == "StatefulSet default/db is being rolled out"
    assert strayed("1", "2", "2", updated=2).waits() == "StatefulSet default/db is being rolled out"


@pytest.mark.parametrize(
    "strategy",
    [{"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}, {"type": "OnDelete"}],
    ids=["partition", "on-delete"],
)
def test_a_set_that_keeps_two_revisions_is_rebalanced(strategy: Any) -> None:
    picture = strayed("1", "1", "2", updated=1, updateStrategy=strategy)
    move = picture.move()
    assert (move.pod, move.to_tier) == ("default/db-2", "spot")


def test_a_partition_that_is_not_rolled_out_yet_is_waited_for() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    assert "rolled out" in strayed("1", "1", "2", updated=1, updateStrategy=strategy).waits()


def test_a_set_whose_rollout_is_over_is_rebalanced() -> None:
    assert strayed("2", "2", "2", updated=3, current="2").move().pod == "default/db-2"
