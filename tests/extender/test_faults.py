"""What happens to pods when a tier, or the extender itself, goes away under kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission import exact
from support.extender import Extended

pytestmark = pytest.mark.real

# Long enough that nothing in these tests can come of waiting for it.
NEVER = {"after": "1h"}


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
    corner.replicas[0].wait_for("marks_written", 2)
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
    corner.replicas[0].wait_for("marks_written")

    corner.deploy("late", 4, pods=corner.here(_asking("500m")))
    assert corner.settled("late", 4) == {"on-demand": 4}
    assert len(corner.replicas[0].log("passed_on")) == len(said)


@pytest.mark.slow
def test_a_marked_tier_takes_pods_again_as_soon_as_there_is_room(corner: Extended) -> None:
    corner.nodes(1, 0, cpu=1)
    corner.nodes(0, 2)
    corner.run(corner.policy(fallback={"after": "2s", "coolDown": "2s"}))
    corner.deploy("web", 6, pods=corner.here(_asking("500m")))
    assert corner.settled("web", 6) == {"on-demand": 4, "spot": 2}
    corner.replicas[0].wait_for("marks_written")
    corner.marked("web")
    corner.scale("web", 1)
    assert corner.settled("web", 1) == {"on-demand": 1}

    # There is room on spot again: pods that fit are let in, and once one came after the cool-down all are.
    def free() -> bool:
        corner.cluster.wire.request("DELETE", corner.cluster.path("Deployment", "try"))
        corner.cluster.wait(lambda: not corner.pods("try"), "the last try to be gone")
        corner.deploy("try", 3)
        return (
            corner.settled("try", 3)["spot"] > 0 and not corner.replicas[0].log("marks_written")[-1]["marks"]
        )

    corner.cluster.wait(free, "a pod to be let in on spot, and the mark to be taken away")


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

    corner.free("fairlead-extender")
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
