"""Which of the feasible nodes is best."""

from __future__ import annotations

from typing import Any

from fairlead import Cluster
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.ranking.runs import place_run
from fairlead.engine.snapshot.snapshot import Snapshot
from support.units import node, pod, typed

ZONE = "topology.kubernetes.io/zone"
WEB = {"matchLabels": {"app": "web"}}


def chosen(objects: list[dict[str, Any]], asking: dict[str, Any], *, pack: bool = False) -> str:
    snapshot: Snapshot = Cluster.from_objects(objects).snapshot
    ranking = Ranking(snapshot)
    ranking.basis.pack = pack
    return snapshot.nodes.name(ranking.choose(snapshot.class_of(typed(asking))))


def test_the_emptier_node_is_better() -> None:
    assert chosen([node("a", 8), node("b", 8), pod("p", 2, on="a")], pod("x")) == "b"


def test_packing_prefers_the_fuller_node() -> None:
    assert chosen([node("a", 8), node("b", 8), pod("p", 2, on="b")], pod("x"), pack=True) == "b"


def test_of_equals_the_first_by_name() -> None:
    assert chosen([node("c"), node("a"), node("b")], pod("x")) == "a"


def test_pods_that_ask_for_nothing_spread_too() -> None:
    assert chosen([node("a"), node("b"), pod("p", 0, on="a", containers=[{"name": "c"}])], pod("x", 0)) == "b"


def test_balance_between_cpu_and_memory_is_better_than_none() -> None:
    # On both nodes half of one resource is gone; on b the pod evens it out.
    objects = [
        node("a", 8, "8Gi"),
        node("b", 8, "8Gi"),
        pod("p", 4, on="a", memory="1Mi"),
        pod("q", "1m", on="b", memory="4Gi"),
    ]
    assert chosen(objects, pod("x", 2, memory="1Mi")) == "b"


def test_preferred_node_affinity_outweighs_a_little_less_room() -> None:
    preferred = [
        {
            "weight": 1,
            "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
        }
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    objects = [node("a"), node("b", labels={"disk": "ssd"}), pod("p", on="b")]
    assert chosen(objects, pod("x", affinity=affinity)) == "b"


def test_a_soft_taint_is_avoided_unless_tolerated() -> None:
    taint = {"key": "slow", "value": "yes", "effect": "PreferNoSchedule"}
    objects = [node("a", taints=[taint]), node("b"), pod("p", on="b")]
    assert chosen(objects, pod("x")) == "b"
    assert chosen(objects, pod("x", tolerations=[{"key": "slow", "operator": "Exists"}])) == "a"


def preferring(kind: str) -> dict[str, Any]:
    term = {"weight": 50, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": WEB}}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def zoned() -> list[dict[str, Any]]:
    return [node("a", labels={ZONE: "a"}), node("b", labels={ZONE: "b"})]


def test_preferred_affinity_draws_and_preferred_anti_affinity_pushes() -> None:
    there = pod("w", "10m", on="b", labels={"app": "web"})
    assert chosen([*zoned(), there], pod("x", affinity=preferring("podAffinity"))) == "b"
    there = pod("w", "10m", on="a", labels={"app": "web"})
    assert chosen([*zoned(), there], pod("x", affinity=preferring("podAntiAffinity"))) == "b"


def test_the_preferences_of_pods_that_are_there_count_too() -> None:
    there = pod("w", "10m", on="b", affinity=preferring("podAffinity"))
    assert chosen([*zoned(), there], pod("x", labels={"app": "web"})) == "b"


def test_soft_spreading_prefers_the_emptier_zone() -> None:
    soft = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": WEB}]
    objects = [*zoned(), node("a2", labels={ZONE: "a"}), pod("w", "1m", on="a2", labels={"app": "web"})]
    objects.append(pod("other", 1, on="b"))
    assert chosen(objects, pod("x", labels={"app": "web"}, topologySpreadConstraints=soft)) == "b"


def test_pods_of_one_owner_spread_over_hosts_and_zones_unasked() -> None:
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": WEB},
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    web = {"labels": {"app": "web"}, "owner": owner}
    objects = [*zoned(), node("a2", labels={ZONE: "a"}), pod("w", "1m", on="a", **web), pod("o", 1, on="b")]
    # By room alone a2 is best; a2 is in the zone where one of them is already.
    assert chosen(objects, pod("x", **web)) == "a2"
    assert chosen([*objects, replica_set], pod("x", **web)) == "b"


def test_pods_of_one_service_spread_unasked() -> None:
    service = {"kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}
    objects = [*zoned(), node("a2", labels={ZONE: "a"}), pod("w", "1m", on="a", labels={"app": "web"})]
    objects.append(pod("o", 1, on="b"))
    assert chosen([*objects, service], pod("x", labels={"app": "web"})) == "b"


def test_a_long_run_on_unequal_nodes_is_still_chosen_one_by_one() -> None:
    soft = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": WEB}]
    objects = [node("big", 64, labels={ZONE: "a"}), node("small", 20, labels={ZONE: "b"}), node("none", 40)]
    snapshot = Cluster.from_objects(objects).snapshot
    ranking = Ranking(snapshot)
    pods = [
        typed(pod(f"p{i}", "700m", labels={"app": "web"}, topologySpreadConstraints=soft)) for i in range(90)
    ]
    cls = snapshot.class_of(pods[0])
    with snapshot.trial():
        expected = []
        for one in pods:
            expected.append(ranking.choose(cls))
            snapshot.assume(one, expected[-1], cls=cls)
    assert place_run(ranking, cls, pods) == expected
