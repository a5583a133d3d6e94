"""What the embedded cluster's scheduler makes of an extender's answers."""

from __future__ import annotations

import pytest

from fairlead.policy.names import DELETION_COST, PASSED_ON_ANNOTATION
from support.placed import Placed
from support.policies import policy
from support.worlds import asking, events, status


def test_a_pod_that_waits_for_its_tier_is_told_so_and_nudged_when_it_is_passed_on() -> None:
    cluster = Placed(policy(fallback={"after": "2m"}), door="extender", spot=0, on_demand=1)
    cluster.deployment("web", 2)
    cluster.after(10)
    (waiting,) = (pod for pod in cluster.pods("web") if not pod["spec"].get("nodeName"))
    said = (
        "0/1 nodes are available: 1 node(s) outside tier spot of placement policy web. no new claims to "
        "deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    assert said in events(cluster.world, "FailedScheduling")
    assert PASSED_ON_ANNOTATION not in waiting["metadata"].get("annotations", {})
    cluster.after(120)
    (passed,) = (pod for pod in cluster.pods("web") if pod["metadata"]["uid"] == waiting["metadata"]["uid"])
    assert passed["metadata"]["annotations"][PASSED_ON_ANNOTATION].startswith("spot ")
    assert passed["spec"]["nodeName"] == "d1"


def test_the_users_own_deletion_cost_stands() -> None:
    cluster = Placed(policy(), door="extender")
    cluster.deployment("web", 2, annotations={DELETION_COST: "7"})
    cluster.after(10)
    assert [pod["metadata"]["annotations"][DELETION_COST] for pod in cluster.pods("web")] == ["7", "7"]
    assert sorted(cluster.slots("web")) == [1, 2]


def test_pods_are_spread_over_the_zones_of_their_tier() -> None:
    tier = {"name": "spot", "nodes": {"capacity": "spot"}, "spread": ["zone"]}
    cluster = Placed(policy("web", tier), door="extender", spot=4, on_demand=0)
    for number in range(1, 5):
        zone = "a" if number < 4 else "b"
        cluster.world.patch("Node", f"s{number}", {"metadata": {"labels": {"zone": zone}}})
    cluster.deployment("web", 4)
    cluster.after(10)
    assert [pod["spec"]["nodeName"] for pod in cluster.pods("web")].count("s4") == 2


@pytest.mark.parametrize("enforce", ["required", "preferred"])
def test_others_leave_only_where_their_room_is_of_use(enforce: str) -> None:
    cluster = Placed(policy(enforce=enforce), door="extender", spot=1, on_demand=1, cpu=1)
    for value in (1, 5, 10):
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        cluster.world.create({**made, "metadata": {"name": f"p{value}"}})
    for name, node, priority in (("dear", "d1", "p5"), ("cheap", "s1", "p1")):
        cluster.world.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "kube-system"},
                "spec": asking("600m", priorityClassName=priority, nodeName=node),
            }
        )
    cluster.after(10)
    cluster.deployment("web", 1, cpu="600m", priorityClassName="p10")
    cluster.after(60)
    assert cluster.split("web") == ({"on-demand": 1} if enforce == "required" else {"spot": 1})
    assert len(events(cluster.world, "Preempted")) == 1
    assert not status(cluster.world, "Pod", cluster.pods("web")[0]["metadata"]["name"]).get(
        "nominatedNodeName"
    )
