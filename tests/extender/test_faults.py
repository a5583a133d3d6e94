"""What happens to pods when a tier, or the extender itself, goes away under kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission import exact
from support.extender import Extended
from support.manifests import budget
from support.workloads import rolled_out

pytestmark = pytest.mark.real

# Long enough that nothing in these tests can come of waiting for it.
NEVER = {"after": "1h"}


def test_all_spot_lost_at_once_sends_replacements_on_demand_at_once(corner: Extended) -> None:
    corner.nodes()
    corner.run(corner.policy(fallback=NEVER))
    corner.deploy("web", 10)
    assert corner.settled("web", 10) == exact(10)

    corner.lose("spot")
    corner.until_split("web", {"on-demand": 10})


@pytest.mark.slow
def test_losing_all_spot_never_takes_a_workload_below_its_budget(corner: Extended) -> None:
    corner.nodes()
    safe = corner.tier("on-demand", min="pdb")
    corner.run(corner.policy("web", corner.tier("spot", volatile=True), safe, fallback=NEVER))
    corner.cluster.create(budget("web", {"app": "web"}, minAvailable=6))
    corner.deploy("web", 10)
    assert corner.settled("web", 10) == {"on-demand": 6, "spot": 4}
    corner.marked("web")

    with corner.watching("web") as moments:
        corner.lose("spot")
        corner.until_split("web", {"on-demand": 10})
        ready = [sum(corner.serving(pods).values()) for pods in moments()]

    assert len(ready) > 4
    assert min(ready) >= 6


@pytest.mark.slow
def test_losing_all_spot_during_a_rollout_never_takes_a_workload_below_its_budget(corner: Extended) -> None:
    corner.nodes()
    safe = corner.tier("on-demand", min="pdb")
    corner.run(corner.policy("web", corner.tier("spot", volatile=True), safe, fallback=NEVER))
    corner.cluster.create(budget("web", {"app": "web"}, minAvailable=6))
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
    corner.deploy("web", 10, strategy=rolling)
    assert corner.settled("web", 10) == {"on-demand": 6, "spot": 4}
    corner.marked("web")

    with corner.watching("web") as moments:
        template = {"spec": {"containers": [{"name": "main", "image": "second"}]}}
        corner.cluster.patch("Deployment", "web", {"spec": {"template": template}}, "strategic")
        corner.cluster.wait(
            lambda: any(one["spec"]["containers"][0]["image"] == "second" for one in corner.pods("web")),
            "the rollout to begin",
        )
        corner.lose("spot")
        rolled_out(corner.cluster, "web", 10)
        corner.until_split("web", {"on-demand": 10})
        ready = [sum(corner.serving(pods).values()) for pods in moments()]

    assert min(ready) >= 6


@pytest.mark.slow
def test_without_a_budget_ready_never_drops_below_the_min(corner: Extended) -> None:
    corner.nodes()
    corner.run(corner.policy(fallback=NEVER))
    corner.deploy("web", 10)
    assert corner.settled("web", 10) == exact(10)
    corner.marked("web")

    with corner.watching("web") as moments:
        corner.lose("spot")
        corner.until_split("web", {"on-demand": 10})
        ready = [sum(corner.serving(pods).values()) for pods in moments()]

    assert min(ready) >= 3


@pytest.mark.slow
def test_when_spot_returns_pods_come_back_and_never_below_their_budget(corner: Extended) -> None:
    corner.nodes()
    quick = {"minPodAge": "0s", "perMinute": 600, "stabilize": "0s"}
    safe = corner.tier("on-demand", min="pdb")
    volatile = corner.tier("spot", volatile=True)
    corner.run(
        corner.policy("web", volatile, safe, fallback={"after": "1h", "coolDown": "1s"}, rebalance=quick)
    )
    corner.rebalance()
    corner.cluster.create(budget("web", {"app": "web"}, minAvailable=6))
    corner.deploy("web", 10)
    assert corner.settled("web", 10) == {"on-demand": 6, "spot": 4}
    corner.marked("web")

    with corner.watching("web") as moments:
        corner.lose("spot")
        corner.until_split("web", {"on-demand": 10})
        corner.nodes(2, 0)
        corner.until_split("web", {"on-demand": 6, "spot": 4})
        ready = [sum(corner.serving(pods).values()) for pods in moments()]

    assert min(ready) >= 6


@pytest.mark.slow
def test_cordoned_and_drained_spot_is_left_alone_until_it_returns(corner: Extended) -> None:
    corner.nodes()
    corner.run(corner.policy(fallback=NEVER))
    corner.deploy("web", 10)
    assert corner.settled("web", 10) == exact(10)
    corner.marked("web")

    with corner.watching("web") as moments:
        corner.cordon("spot", True)
        for one in corner.pods("web"):
            if one["spec"]["nodeName"] in corner.of_tier("spot"):
                corner.cluster.delete("Pod", one["metadata"]["name"])
        corner.until_split("web", {"on-demand": 10})
        safe = [corner.serving(pods)["on-demand"] for pods in moments()]
    assert min(safe) >= 3

    corner.cordon("spot", False)
    corner.replicas[0].wait_for("marks", 2)
    corner.deploy("new", 10)
    assert corner.settled("new", 10) == exact(10)


@pytest.mark.slow
def test_a_full_tier_passes_pods_on_after_they_waited_and_new_ones_at_once(corner: Extended) -> None:
    corner.nodes(1, 0, cpu=1)
    corner.nodes(0, 2)
    corner.run(corner.policy(fallback={"after": "4s", "coolDown": "10m"}))
    corner.deploy("web", 10, pods=corner.here(_asking("500m")))

    # Two fit on spot; the others were refused, waited, and were passed on.
    assert corner.settled("web", 10) == {"on-demand": 8, "spot": 2}
    said = corner.replicas[0].log("passed_on")
    assert {one["tier"] for one in said} == {"spot"}
    assert 1 <= len(said) <= 5
    corner.replicas[0].wait_for("marks")

    corner.deploy("late", 4)
    assert corner.settled("late", 4) == {"on-demand": 4}
    assert len(corner.replicas[0].log("passed_on")) == len(said)


@pytest.mark.slow
def test_a_mark_ends_when_a_pod_gets_a_place_in_the_tier_again(corner: Extended) -> None:
    corner.nodes(1, 0, cpu=1)
    corner.nodes(0, 2)
    corner.run(corner.policy(fallback={"after": "2s", "coolDown": "2s"}))
    corner.deploy("web", 6, pods=corner.here(_asking("500m")))
    assert corner.settled("web", 6) == {"on-demand": 4, "spot": 2}
    corner.replicas[0].wait_for("marks")
    corner.marked("web")
    corner.scale("web", 1)
    assert corner.settled("web", 1) == {"on-demand": 1}

    # There is room on spot again; after the cool-down one pod is let in, and then all.
    def free() -> bool:
        corner.cluster.wire.request("DELETE", corner.cluster.path("Deployment", "try"))
        corner.cluster.wait(lambda: not corner.pods("try"), "the last try to be gone")
        corner.deploy("try", 3)
        return corner.settled("try", 3)["spot"] > 0

    corner.cluster.wait(free, "a pod to be let in on spot")
    corner.cluster.wait(lambda: not corner.replicas[0].log("marks")[-1]["marks"], "the mark to be taken away")


@pytest.mark.slow
def test_kube_scheduler_goes_on_without_the_extender_and_obeys_again_when_it_is_back(
    corner: Extended,
) -> None:
    corner.nodes()
    corner.run()
    corner.deploy("web", 10)
    assert corner.settled("web", 10) == exact(10)

    corner.replicas[0].kill()
    corner.deploy("alone", 6)
    assert sum(corner.settled("alone", 6).values()) == 6

    corner.start()
    corner.deploy("again", 10)
    assert corner.settled("again", 10) == exact(10)


def test_a_pod_that_needs_room_takes_it_from_lower_ones_of_its_own_tier_only(corner: Extended) -> None:
    corner.nodes(1, 1, cpu=2)
    corner.run(corner.policy("web", corner.tier("spot"), corner.tier("on-demand"), match=_matching("web")))
    for value, name in ((10, "low"), (100, "high")):
        corner.cluster.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": corner.cluster.unique(name)},
                "value": value,
            }
        )
    low = _asking("1500m") | {"priorityClassName": corner.cluster.unique("low")}
    corner.deploy("low", 2, pods=corner.here(low))
    assert corner.settled("low", 2) == {"spot": 1, "on-demand": 1}
    high = _asking("1") | {"priorityClassName": corner.cluster.unique("high")}
    corner.deploy("web", 1, pods=corner.here(high))

    assert corner.settled("web", 1) == {"spot": 1}
    assert corner.serving(corner.pods("low"))["on-demand"] == 1


def _asking(cpu: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "image", "resources": {"requests": {"cpu": cpu}}}]}


def _matching(app: str) -> dict[str, Any]:
    return {"labels": {"app": app}}
