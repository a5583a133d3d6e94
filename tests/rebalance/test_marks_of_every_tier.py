"""Where every tier is marked, pods take room wherever there is some, and one tries what may be tried."""

from __future__ import annotations

import pytest

from support.placed import Door, Placed
from support.policies import policy

QUICK = {"minPodAge": "1m", "perMinute": 6, "stabilize": "1m"}
DOORS: tuple[Door, ...] = ("webhook", "extender", "scheduler", "webhook and scheduler")
ON_DEMAND = ("d1", "d2", "d3")


def full_on_demand(door: Door) -> Placed:
    """Seven pods on spot nodes and three on on-demand ones, which others have filled up otherwise."""
    cluster = Placed(policy(rebalance=QUICK, fallback={"after": "2m"}), door=door)
    cluster.world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    cluster.deployment("web", 10, cpu="1")
    cluster.after(60)
    assert cluster.split("web") == {"on-demand": 3, "spot": 7}
    for node in ON_DEMAND:
        container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "6500m"}}}
        cluster.world.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"full-{node}", "namespace": "other"},
                "spec": {"nodeName": node, "containers": [container]},
            }
        )
    cluster.after(10)
    return cluster


def make_room(cluster: Placed) -> None:
    for node in ON_DEMAND:
        cluster.world.delete("Pod", f"full-{node}", "other")


@pytest.mark.parametrize("door", DOORS)
def test_pods_that_wait_take_the_room_that_the_other_tier_has_again(door: Door) -> None:
    cluster = full_on_demand(door)
    cluster.lose("s1", "s2", "s3")
    cluster.after(20 * 60)
    assert cluster.split("web")[""] == 7, "neither tier takes them"
    make_room(cluster)
    cluster.after(2 * 3600)
    assert cluster.split("web") == {"on-demand": 10}


@pytest.mark.parametrize("door", DOORS)
def test_a_mark_of_last_week_does_not_keep_pods_from_the_only_tier_that_is_left(door: Door) -> None:
    cluster = full_on_demand(door)
    cluster.lose("s1", "s2", "s3")
    cluster.after(20 * 60)
    for name in ("s4", "s5", "s6"):
        cluster.add_node(name, "spot")
    cluster.after(3600)
    assert cluster.split("web") == {"on-demand": 3, "spot": 7}
    make_room(cluster)
    cluster.after(7 * 86400)
    cluster.lose("s4", "s5", "s6")
    cluster.after(15 * 60)
    assert cluster.split("web") == {"on-demand": 10}


def test_no_pod_is_deleted_again_and_again_while_no_tier_has_room() -> None:
    cluster = full_on_demand("webhook")
    cluster.lose("s1", "s2", "s3")
    cluster.after(20 * 60)
    before = len(cluster.placement.done)
    cluster.after(6 * 3600)
    assert cluster.split("web")[""] == 7
    # Cool-downs last half an hour by now; after each, one pod is sent to try, and is told of the outcome.
    assert len(cluster.placement.done) - before <= 3 * 12 + 2
