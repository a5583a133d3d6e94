"""Whatever events led to it, a snapshot says of a cluster what one made from scratch says."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from fairlead import Cluster
from fairlead.engine import rules
from fairlead.engine.ask.objects import read, read_pod
from fairlead.engine.core.state import State
from fairlead.engine.planning.settings import Settings
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.errors import BadObject
from fairlead.kube.node import Node
from support.differential.states import NAMESPACES, generate
from support.units import node, pod, typed, workload


def tell(snapshot: Snapshot, thing: dict[str, Any]) -> None:
    found = read(thing)
    assert found is not None
    snapshot.put(*found)


def answers(ranking: Ranking, probes: list[dict[str, Any]]) -> list[Any]:
    snapshot, found = ranking.snapshot, []
    for probe in probes:
        cls = snapshot.class_of(read_pod(probe))
        verdicts = rules.verdicts(snapshot, cls)
        slot = ranking.choose(cls)
        found.append(
            (
                verdicts.message(),
                sorted(snapshot.nodes.name(one) for one in snapshot.nodes.slots() if verdicts.feasible[one]),
                snapshot.nodes.name(slot) if slot >= 0 else None,
            )
        )
    return found


def test_events_lead_where_a_fresh_start_leads(count: Callable[[int, int], int]) -> None:
    for seed in range(count(30, 300)):
        rng = random.Random(seed)
        state, other = generate(seed, 10), generate(seed + 10_000, 10)
        probes = state.pending + other.pending
        machines = [thing for thing in state.objects + other.objects if thing["kind"] == "Node"]
        nodes: dict[str, dict[str, Any]] = {}
        spaces = {name: dict(labels) for name, labels in NAMESPACES.items()}
        pods: dict[str, dict[str, Any]] = {}
        snapshot = Snapshot()
        ranking = Ranking(snapshot)
        held = [snapshot.class_of(read_pod(probe)) for probe in probes]
        for _ in range(60):
            step = rng.random()
            if step < 0.2:
                one = rng.choice(machines)
                nodes[one["metadata"]["name"]] = one
                tell(snapshot, one)
            elif step < 0.3 and nodes:
                name = rng.choice(list(nodes))
                snapshot.remove_node(name)
                del nodes[name]
            elif step < 0.75:
                one = rng.choice(state.placed + other.placed or [pod("x", on="n0")])
                found = read_pod({key: value for key, value in one.items() if key != "terminating"})
                pods[found.metadata.key] = one
                snapshot.put_pod(found)
            elif step < 0.9 and pods:
                key = rng.choice(list(pods))
                del pods[key]
                snapshot.remove_pod(key)
            else:
                name = rng.choice(list(spaces))
                spaces[name] = rng.choice([{"env": "prod"}, {"env": "dev"}, {}])
                labels = {"name": name, "labels": spaces[name]}
                tell(snapshot, {"kind": "Namespace", "metadata": labels})
        fresh = Cluster.from_objects(
            [
                *({"kind": "Namespace", "metadata": {"name": n, "labels": spaces[n]}} for n in spaces),
                *nodes.values(),
                *pods.values(),
            ]
        ).snapshot
        # Namespaces that were never told about have no labels in either.
        for name in spaces:
            if name not in snapshot.namespaces:
                fresh.remove_namespace(name)
        assert answers(ranking, probes) == answers(Ranking(fresh), probes), seed
        assert held


def test_a_pod_on_an_unknown_node_counts_when_the_node_comes() -> None:
    snapshot = Cluster.from_objects([pod("early", 3, on="late")]).snapshot
    slot = snapshot.put_node(typed_node(node("late", 4)))
    assert [placed.key for placed in snapshot.pods_on(slot)] == ["default/early"]
    assert not rules.fits(snapshot, snapshot.class_of(typed(pod("big", 2))), slot)


def test_a_removed_nodes_pods_come_back_with_it() -> None:
    snapshot = Cluster.from_objects([node("n1", 4), pod("a", 3, on="n1")]).snapshot
    snapshot.remove_node("n1")
    assert snapshot.nodes.count == 0
    slot = snapshot.put_node(typed_node(node("n1", 4)))
    assert snapshot.nodes.used[0, slot] == 3000


def test_a_slot_that_is_used_again_remembers_nothing() -> None:
    snapshot = Cluster.from_objects([node("old", 4, labels={"disk": "ssd"}), pod("a", 3, on="old")]).snapshot
    ranking = Ranking(snapshot)
    cls = snapshot.class_of(typed(pod("b", nodeSelector={"disk": "ssd"})))
    assert ranking.feasible(cls).any()
    first = snapshot.nodes.slot("old")
    snapshot.remove_node("old")
    slot = snapshot.put_node(typed_node(node("new", 4)))
    assert slot == first
    assert not snapshot.nodes.used[:, slot].any()
    assert not ranking.feasible(cls).any()


def test_a_node_that_cannot_be_read_changes_nothing() -> None:
    snapshot = Cluster.from_objects([node("n1", 4)]).snapshot
    with pytest.raises(BadObject, match=r"Node n1: status.allocatable.cpu: .* is not a quantity"):
        snapshot.put_node(typed_node(node("n1", "four")))
    assert snapshot.nodes.alloc[0, snapshot.nodes.slot("n1")] == 4000


def test_ties_go_by_name_whatever_the_order_of_arrival() -> None:
    names = [f"n{index}" for index in range(200)]
    for seed in range(5):
        random.Random(seed).shuffle(names)
        snapshot = Cluster.from_objects([node(name) for name in names]).snapshot
        ranked = sorted(names, key=lambda name: int(snapshot.nodes.rank[snapshot.nodes.slot(name)]))
        assert ranked == sorted(names)


def test_what_lower_priorities_use_is_kept_up_to_date() -> None:
    snapshot = Cluster.from_objects(
        [node("n1", 8), pod("low", 1, on="n1", priority=1), pod("high", 2, on="n1", priority=9)]
    ).snapshot
    slot = snapshot.nodes.slot("n1")
    assert snapshot.used_below(5)[0, slot] == 1000
    snapshot.put_pod(typed(pod("more", 3, on="n1", priority=2)))
    assert snapshot.used_below(5)[0, slot] == 4000
    assert snapshot.used_below(10)[0, slot] == 6000
    snapshot.remove_pod("default/low")
    assert snapshot.used_below(5)[0, slot] == 3000


def test_pods_on_a_node_come_by_priority_then_start_then_name() -> None:
    snapshot = Cluster.from_objects(
        [
            node("n1", 64),
            pod("late", on="n1", priority=1, started=20),
            pod("early", on="n1", priority=1, started=10),
            pod("b-high", on="n1", priority=5, started=30),
            pod("a-high", on="n1", priority=5, started=30),
        ]
    ).snapshot
    keys = [placed.key for placed in snapshot.pods_on(snapshot.nodes.slot("n1"))]
    assert keys == ["default/a-high", "default/b-high", "default/early", "default/late"]


def test_names_and_taints_that_never_come_back_are_forgotten() -> None:
    snapshot = Cluster.from_objects([node("stays", labels={"zone": "a"})]).snapshot
    ranking = Ranking(snapshot)
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
            ]
        }
    }
    cls = snapshot.class_of(typed(pod("x", labels={"app": "x"}, affinity=apart)))
    for index in range(1000):
        taint = {"key": "gone", "value": str(index), "effect": "NoSchedule"}
        snapshot.put_node(typed_node(node(f"n{index}", taints=[taint])))
        snapshot.put_pod(typed(pod(f"p{index}", on=f"n{index}", labels={"app": "x"})))
        feasible = ranking.feasible(cls)
        assert [snapshot.nodes.name(slot) for slot in snapshot.nodes.slots() if feasible[slot]] == ["stays"]
        snapshot.remove_pod(f"default/p{index}")
        snapshot.remove_node(f"n{index}")
    assert len(snapshot.nodes.column("kubernetes.io/hostname").values) < 200
    assert len(snapshot.nodes.taint_sets) < 200
    assert snapshot.nodes.capacity < 200


def typed_node(thing: dict[str, Any]) -> Node:
    found = read(thing)
    assert found is not None
    assert isinstance(found[1], Node)
    return found[1]


class TestEveryKindHasOneWayIn:
    def test_a_device_class_backs_the_resource_it_names_and_its_own(self) -> None:
        state = State(Settings())
        for take in (Snapshot(), state.snapshot):
            thing = {
                "kind": "DeviceClass",
                "metadata": {"name": "gpu"},
                "spec": {"extendedResourceName": "a.b/c"},
            }
            found = read(thing)
            assert found is not None
            if take is state.snapshot:
                state.seen(*found)
            else:
                take.put(*found)
            assert take.device_classes == {"a.b/c": "gpu", "deviceclass.resource.kubernetes.io/gpu": "gpu"}
            del thing["spec"]
            again = read(thing)
            assert again is not None
            take.put(*again)
            assert take.device_classes == {"deviceclass.resource.kubernetes.io/gpu": "gpu"}
            take.remove("DeviceClass", "", "gpu")
            assert take.device_classes == {}

    def test_a_deployment_is_no_owner_of_pods(self) -> None:
        snapshot, state = Snapshot(), State(Settings())
        found = read(workload("Deployment", "web", selector={"matchLabels": {"app": "web"}}))
        assert found is not None
        snapshot.put(*found)
        state.seen(*found)
        assert snapshot.spread_selectors.version == state.snapshot.spread_selectors.version == 0

    def test_what_is_put_can_be_removed(self) -> None:
        snapshot = Snapshot()
        things = [
            {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "a"}},
            {"kind": "Namespace", "metadata": {"name": "a", "labels": {"x": "y"}}},
            {
                "kind": "Service",
                "metadata": {"name": "s", "namespace": "a"},
                "spec": {"selector": {"a": "b"}},
            },
            node("n"),
            pod("p", on="n", namespace="a"),
        ]
        for thing in things:
            tell(snapshot, thing)
        assert snapshot.placed("a/p") is not None
        for thing in things:
            snapshot.remove(thing["kind"], thing["metadata"].get("namespace", ""), thing["metadata"]["name"])
        assert not snapshot.storage.claims
        assert not snapshot.namespaces
        assert not snapshot.nodes.count
        assert snapshot.placed("a/p") is None
        assert snapshot.spread_selectors.selector("a", {"a": "b"}, None).empty
