"""Where pods end up, whoever sends them to their tiers: exactly where the rule says, at every quiet point."""

from __future__ import annotations

import pytest

from support.admission import SLOT, exact
from support.manifests import stateful_set
from support.rebalancing import Rebalanced
from support.workloads import rolled_out


def test_a_single_replica_goes_on_demand_and_ten_are_split_three_to_seven(corner: Rebalanced) -> None:
    corner.corner.nodes()
    corner.policies(corner.corner.policy())
    corner.deploy("one", 1)
    corner.deploy("ten", 10)

    assert corner.corner.settled("one", 1) == {"on-demand": 1}
    assert corner.corner.settled("ten", 10) == {"on-demand": 3, "spot": 7}


def test_a_single_replica_has_a_tier_of_its_own_where_no_min_asks_for_it(corner: Rebalanced) -> None:
    own = corner.corner
    own.nodes()
    corner.policies(own.policy("web", own.tier("spot"), own.tier("on-demand"), singleReplica="on-demand"))
    corner.deploy("one", 1)
    corner.deploy("two", 2)

    assert own.settled("one", 1) == {"on-demand": 1}
    assert own.settled("two", 2) == {"spot": 2}


def test_a_stateful_set_has_its_ordinals_for_slots(corner: Rebalanced) -> None:
    own = corner.corner
    own.nodes()
    corner.policies(own.policy())
    corner.cluster.create(stateful_set("db", 5, pods=corner.here()))

    assert own.settled("db", 5) == {"on-demand": 2, "spot": 3}
    own.marked("db", 5)
    slots = {one["metadata"]["name"]: one["metadata"]["annotations"][SLOT] for one in own.pods("db")}
    assert slots == {f"db-{ordinal}": str(ordinal + 1) for ordinal in range(5)}


@pytest.mark.slow
def test_at_every_quiet_point_of_scaling_the_split_is_exact(corner: Rebalanced) -> None:
    own = corner.corner
    own.nodes()
    corner.policies(own.policy())
    corner.deploy("web", 10)
    assert own.settled("web", 10) == exact(10)

    for number in (50, 4, 20, 1, 10, 0):
        own.marked("web")
        own.scale("web", number)
        assert own.settled("web", number) == exact(number), number


@pytest.mark.slow
def test_while_a_rollout_surges_the_min_is_held_at_every_moment(corner: Rebalanced) -> None:
    own = corner.corner
    own.nodes()
    corner.policies(own.policy())
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "30%", "maxUnavailable": 0}}
    corner.deploy("web", 10, strategy=rolling)
    assert own.settled("web", 10) == exact(10)
    own.marked("web")

    with own.watching("web") as moments:
        for image in ("second", "third"):
            template = {"spec": {"containers": [{"name": "main", "image": image}]}}
            corner.cluster.patch("Deployment", "web", {"spec": {"template": template}}, "strategic")
            rolled_out(corner.cluster, "web", 10)
            assert own.settled("web", 10) == exact(10)
            own.marked("web")
        seen = [own.serving(pods)["on-demand"] for pods in moments()]

    assert len(seen) > 40
    assert min(seen) >= 3
