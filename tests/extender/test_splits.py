"""Where pods end up when kube-scheduler asks the extender: the same as with any other door."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission import SLOT, exact
from support.extender import Extended
from support.manifests import scheduled_pod

pytestmark = pytest.mark.real

COST = "controller.kubernetes.io/pod-deletion-cost"


def test_bare_pods_are_governed_and_other_namespaces_are_not(corner: Extended) -> None:
    corner.nodes()
    corner.run()
    corner.cluster.create(scheduled_pod("bare", labels={"app": "bare"}, spec=corner.here()))

    assert corner.settled("bare", 1) == {"on-demand": 1}
    here = corner.here()
    own = corner.cluster.namespace
    corner.cluster.add_namespace()
    corner.cluster.create(scheduled_pod("free", labels={"app": "free"}, spec=here))
    assert sum(corner.settled("free", 1).values()) == 1
    corner.cluster.namespace = own


def test_a_restarted_extender_goes_on_where_the_last_one_was(corner: Extended) -> None:
    corner.nodes()
    corner.run()
    corner.deploy("web", 5)
    assert corner.settled("web", 5) == exact(5)
    corner.marked("web")
    before = slots(corner)
    assert corner.replicas[0].stop() == 0
    corner.start()
    corner.scale("web", 12)

    assert corner.settled("web", 12) == exact(12)
    corner.marked("web")
    assert before.items() <= slots(corner).items()


def test_the_users_own_deletion_cost_stands(corner: Extended) -> None:
    corner.nodes()
    corner.run()
    made = corner.deployment("web", 2)
    made["spec"]["template"]["metadata"]["annotations"] = {COST: "7"}
    corner.cluster.create(made)
    corner.settled("web", 2)
    corner.marked("web")

    assert {one["metadata"]["annotations"][COST] for one in corner.pods("web")} == {"7"}


def test_pods_are_spread_over_the_zones_of_their_tier(corner: Extended) -> None:
    spot = corner.tier("spot", spread=["topology.kubernetes.io/zone"])
    for zone in ("a", "b", "c"):
        corner.nodes(1, 0, labels={"topology.kubernetes.io/zone": zone})
    # A roomy node more in one zone: without the spread it would draw the pods.
    corner.nodes(2, 0, cpu=500, labels={"topology.kubernetes.io/zone": "a"})
    corner.run(corner.policy("web", spot))
    corner.deploy("web", 9, pods=corner.here({"topologySpreadConstraints": []}))
    corner.settled("web", 9)

    zones: dict[str, int] = {}
    for one in corner.pods("web"):
        node = corner.cluster.get("Node", one["spec"]["nodeName"])
        zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        zones[zone] = zones.get(zone, 0) + 1
    assert max(zones.values()) - min(zones.values()) <= 1, zones


def test_what_is_only_preferred_is_followed_while_there_is_room_and_never_waited_for(
    corner: Extended,
) -> None:
    corner.nodes(1, 1, cpu=2)
    corner.run(
        corner.policy("web", corner.tier("spot", max=2), corner.tier("on-demand"), enforce="preferred")
    )
    container = {"name": "main", "image": "image", "resources": {"requests": {"cpu": "500m"}}}
    corner.deploy("web", 4, pods=corner.here({"containers": [container]}))
    assert corner.settled("web", 4) == {"spot": 2, "on-demand": 2}
    # On demand is full before its turn: the rest goes where there is room.
    corner.scale("web", 8)
    assert corner.settled("web", 8) == {"spot": 4, "on-demand": 4}


def test_kube_scheduler_says_which_tier_a_pod_waits_for(corner: Extended) -> None:
    corner.nodes(0, 2)
    corner.run(corner.policy("web", corner.tier("spot"), corner.tier("on-demand", min=1)))
    corner.deploy("web", 2)

    def told() -> str:
        for one in corner.pods("web"):
            for condition in one.get("status", {}).get("conditions", []):
                if condition["type"] == "PodScheduled" and "tier" in condition.get("message", ""):
                    return str(condition["message"])
        return ""

    said = corner.cluster.wait(told, "a pod that waits for its tier")
    assert "2 node(s) outside tier spot of placement policy web" in said


def slots(corner: Extended) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["metadata"]["annotations"].get(SLOT) for one in corner.pods("web")}


@pytest.mark.real
def test_the_real_kube_scheduler_puts_one_pod_on_each_node_and_holds_the_rest(corner: Extended) -> None:
    corner.nodes(0, 4)
    corner.run(corner.policy("tenants", corner.tier("on-demand", exclusive=True)))
    corner.deploy("web", 7)

    def refused() -> int:
        conditions = [one["status"].get("conditions", []) for one in corner.pods("web")]
        return sum(
            "node(s) in use where a pod has" in one.get("message", "") for c in conditions for one in c
        )

    corner.cluster.wait(lambda: refused() == 3, "three pods to be held, and told why")
    nodes = [one["spec"]["nodeName"] for one in corner.pods("web") if "nodeName" in one["spec"]]
    assert sorted(nodes) == sorted(corner.of_tier("on-demand"))
    # A node that is free again is taken by one of them.
    first = next(one for one in corner.pods("web") if "nodeName" in one["spec"])
    corner.scale("web", 6)
    corner.cluster.delete("Pod", first["metadata"]["name"], gracePeriodSeconds=0)
    corner.cluster.wait(
        lambda: (
            sorted(one["spec"].get("nodeName", "") for one in corner.pods("web"))
            == ["", "", *sorted(corner.of_tier("on-demand"))]
        ),
        "the node to be taken again",
    )
