"""Where pods end up when nothing but the webhook knows of tiers: kube-scheduler is as it always was."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from support.admission import TIER, Tiered, exact
from support.custom import custom_resource
from support.manifests import budget, job, owned_by, pod, scheduled_pod
from support.workloads import rolled_out


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
