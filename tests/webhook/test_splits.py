"""Where pods end up when nothing but the webhook knows of tiers: kube-scheduler is as it always was."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from support.admission import SLOT, TIER, Tiered, exact
from support.custom import custom_resource
from support.manifests import budget, job, owned_by, pod, scheduled_pod, stateful_set
from support.workloads import rolled_out


def test_a_single_replica_goes_on_demand(corner: Tiered) -> None:
    corner.nodes()
    corner.run()
    corner.deploy("one", 1)

    assert corner.settled("one", 1) == {"on-demand": 1}


def test_thirty_percent_of_ten_is_exactly_three(corner: Tiered) -> None:
    corner.nodes()
    corner.run()
    corner.deploy("ten", 10)

    assert corner.settled("ten", 10) == {"on-demand": 3, "spot": 7}


@pytest.mark.parametrize(
    ("least", "split"),
    [
        pytest.param("100%", {"on-demand": 6}, id="all on demand"),
        pytest.param(0, {"spot": 6}, id="all on spot"),
        pytest.param(2, {"on-demand": 2, "spot": 4}, id="partly on demand"),
    ],
)
def test_the_min_decides_how_many_are_safe(corner: Tiered, least: Any, split: dict[str, int]) -> None:
    corner.nodes()
    corner.run(corner.policy("web", corner.tier("spot"), corner.tier("on-demand", min=least)))
    corner.deploy("six", 6)

    assert corner.settled("six", 6) == split


def test_a_single_replica_has_a_tier_of_its_own_where_no_min_asks_for_it(corner: Tiered) -> None:
    corner.nodes()
    corner.run(corner.policy("web", corner.tier("spot"), corner.tier("on-demand"), singleReplica="on-demand"))
    corner.deploy("one", 1)
    corner.deploy("two", 2)

    assert corner.settled("one", 1) == {"on-demand": 1}
    assert corner.settled("two", 2) == {"spot": 2}


def test_a_stateful_set_has_its_ordinals_for_slots(corner: Tiered) -> None:
    corner.nodes()
    corner.run()
    corner.cluster.create(stateful_set("db", 5, pods=corner.here()))

    assert corner.settled("db", 5) == {"on-demand": 2, "spot": 3}
    slots = {one["metadata"]["name"]: one["metadata"]["annotations"][SLOT] for one in corner.pods("db")}
    assert slots == {f"db-{ordinal}": str(ordinal + 1) for ordinal in range(5)}


@pytest.mark.slow
def test_at_every_quiet_point_of_scaling_the_split_is_exact(corner: Tiered) -> None:
    corner.nodes()
    corner.run(replicas=2)
    corner.deploy("web", 10)
    assert corner.settled("web", 10) == exact(10)

    for number in (50, 4, 20, 1, 10, 0):
        corner.scale("web", number)
        assert corner.settled("web", number) == exact(number), number


@pytest.mark.slow
def test_while_a_rollout_surges_the_min_is_held_at_every_moment(corner: Tiered) -> None:
    corner.nodes()
    corner.run(replicas=2)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "30%", "maxUnavailable": 0}}
    corner.deploy("web", 10, strategy=rolling)
    assert corner.settled("web", 10) == exact(10)

    with corner.watching("web") as moments:
        for image in ("second", "third"):
            template = {"spec": {"containers": [{"name": "main", "image": image}]}}
            corner.cluster.patch("Deployment", "web", {"spec": {"template": template}}, "strategic")
            rolled_out(corner.cluster, "web", 10)
            assert corner.settled("web", 10) == exact(10)
        seen = [corner.serving(pods)["on-demand"] for pods in moments()]

    assert len(seen) > 40
    assert min(seen) >= 3


@pytest.mark.slow
def test_a_jump_in_the_middle_of_a_rollout_ends_exact(corner: Tiered) -> None:
    corner.nodes()
    corner.run(replicas=2)
    corner.deploy("web", 6)
    assert corner.settled("web", 6) == exact(6)

    for number, image in ((30, "second"), (3, "third"), (17, "fourth")):
        template = {"spec": {"containers": [{"name": "main", "image": image}]}}
        spec = {"replicas": number, "template": template}
        corner.cluster.patch("Deployment", "web", {"spec": spec}, "strategic")
        rolled_out(corner.cluster, "web", number)
        assert corner.settled("web", number) == exact(number), number


def test_pods_of_a_job_and_bare_pods_are_governed_too(corner: Tiered) -> None:
    corner.nodes()
    corner.run()
    corner.cluster.create(scheduled_pod("bare", labels={"app": "bare"}, spec=corner.here()))
    # Nobody places the Job's pods, or the first would be done, and its slot free, before the last is made.
    corner.cluster.create(job("four", spec={"parallelism": 4, "completions": 4}))

    def made() -> list[dict[str, Any]] | None:
        items = corner.cluster.list("Pod", labelSelector="job-name=four")["items"]
        return items if len(items) == 4 else None

    items = corner.cluster.wait(made, "the job's pods")
    assert items is not None
    assert Counter(one["metadata"]["annotations"][TIER] for one in items) == exact(4)
    assert corner.settled("bare", 1) == {"on-demand": 1}


def test_a_custom_resource_is_single_when_its_scale_says_so(corner: Tiered) -> None:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    gadgets = custom_resource(corner.cluster, subresources={"status": {}, "scale": paths})
    corner.run(corner.policy("web", corner.tier("spot"), corner.tier("on-demand"), singleReplica="on-demand"))
    for number, tier in ((1, "on-demand"), (3, "spot")):
        gadget = {
            "apiVersion": gadgets.api_version,
            "kind": gadgets.kind,
            "metadata": {"name": f"of-{number}"},
            "spec": {"replicas": number},
        }
        owner = corner.cluster.wire.request("POST", corner.cluster.path(gadgets), gadget).ok()
        made = corner.cluster.create(pod(f"p{number}", ownerReferences=[owned_by(owner, controller=True)]))
        assert made["metadata"]["annotations"][TIER] == tier


def test_a_budget_says_how_many_must_be_safe(corner: Tiered) -> None:
    corner.nodes()
    # Before it runs, so that it knows them: budgets are watched apart from what is admitted.
    corner.cluster.create(budget("web", {"app": "web"}, minAvailable=6))
    corner.cluster.create(budget("all-but", {"app": "all-but"}, maxUnavailable="50%"))
    corner.run(corner.policy("web", corner.tier("spot", volatile=True), corner.tier("on-demand", min="pdb")))
    corner.deploy("web", 10)
    corner.deploy("all-but", 5)
    corner.deploy("without", 10)

    assert corner.settled("web", 10) == {"on-demand": 6, "spot": 4}
    assert corner.settled("all-but", 5) == {"on-demand": 2, "spot": 3}
    assert corner.settled("without", 10) == exact(10)


def test_daemon_set_pods_and_those_of_other_namespaces_are_left_alone(corner: Tiered) -> None:
    corner.nodes()
    corner.run()
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agents", "uid": "u", "controller": True}
    made = corner.cluster.create(pod("agent", ownerReferences=[owner]), dryRun="All")
    assert "annotations" not in made["metadata"]

    own = corner.cluster.namespace
    elsewhere = corner.cluster.add_namespace()
    corner.cluster.namespace = own
    made = corner.cluster.create(pod("a", namespace=elsewhere), dryRun="All")
    assert "annotations" not in made["metadata"]
