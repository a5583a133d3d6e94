"""Resources and label keys that no node has: the same verdicts, and no room or time taken for them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from fairlead.engine import rules
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod

GPU = "example.com/gpu"

Count = Callable[[int, int], int]


def a_node(name: str, labels: dict[str, str] | None = None, **more: str) -> Node:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10", **more}
    meta = {"name": name, "labels": labels or {}}
    return convert({"metadata": meta, "status": {"allocatable": allocatable}}, Node)


def a_pod(name: str, requests: dict[str, str] | None = None, **spec: Any) -> Pod:
    container = {"name": "c", "resources": {"requests": requests or {}}}
    return convert(
        {"metadata": {"name": name, "namespace": "a"}, "spec": {"containers": [container], **spec}}, Pod
    )


class TestResources:
    def test_a_resource_that_no_node_has_takes_no_row(self) -> None:
        snapshot = Snapshot()
        slot = snapshot.put_node(a_node("n1"))
        rows = len(snapshot.nodes.alloc)
        cls = snapshot.class_of(a_pod("p", {f"x.io/r{i}": "1" for i in range(500)}))
        assert len(snapshot.nodes.alloc) == len(snapshot.nodes.used) == rows

        texts = sorted(str(reason) for reason in rules.verdicts(snapshot, cls).reasons(slot))
        assert len(texts) == 500
        assert texts[0] == "Insufficient x.io/r0"

    def test_it_is_insufficient_and_beyond_the_help_of_evictions(self) -> None:
        snapshot = Snapshot()
        slot = snapshot.put_node(a_node("n1"))
        verdicts = rules.verdicts(snapshot, snapshot.class_of(a_pod("p", {GPU: "1"})))
        assert verdicts.message() == f"0/1 nodes are available: 1 Insufficient {GPU}."
        assert verdicts.unresolvable[slot]

    def test_the_first_node_that_has_it_fits_the_class_that_asks_for_it(self) -> None:
        snapshot = Snapshot()
        ranking = Ranking(snapshot)
        snapshot.put_node(a_node("n1"))
        pod = a_pod("p", {GPU: "2"})
        assert not ranking.feasible(snapshot.class_of(pod)).any()
        slot = snapshot.put_node(a_node("n2", **{GPU: "2"}))
        assert ranking.choose(snapshot.class_of(pod)) == slot

    def test_what_placed_pods_take_of_it_counts_once_the_node_has_it(self) -> None:
        snapshot = Snapshot()
        snapshot.put_node(a_node("n1"))
        snapshot.put_pod(a_pod("held", {GPU: "2"}, nodeName="n1"))
        slot = snapshot.put_node(a_node("n1", **{GPU: "3"}))
        assert rules.fits(snapshot, snapshot.class_of(a_pod("one", {GPU: "1"})), slot)
        assert not rules.fits(snapshot, snapshot.class_of(a_pod("two", {GPU: "2"})), slot)
        snapshot.remove_pod("a/held")
        assert rules.fits(snapshot, snapshot.class_of(a_pod("two", {GPU: "2"})), slot)

    def test_thousands_of_huge_amounts_of_it_do_not_wrap_around(self) -> None:
        snapshot = Snapshot()
        slot = snapshot.put_node(a_node("n1"))
        asked = {f"x.io/r{i}": "36028797018963968" for i in range(300)}
        snapshot.put_pod(a_pod("held", asked, nodeName="n1"))
        assert not rules.fits(snapshot, snapshot.class_of(a_pod("other", {"x.io/other": "1"})), slot)

    def test_nodes_with_a_resource_of_their_own_each_do_not_add_a_row_at_a_time(self) -> None:
        snapshot = Snapshot()
        ranking = Ranking(snapshot)
        shapes = set()
        for index in range(300):
            snapshot.put_node(a_node(f"n{index}", **{f"x.io/r{index}": "1"}))
            shapes.add(len(snapshot.nodes.alloc))
        assert len(shapes) < 40
        for index in (0, 150, 299):
            cls = snapshot.class_of(a_pod("p", {f"x.io/r{index}": "1"}))
            assert snapshot.nodes.name(ranking.choose(cls)) == f"n{index}"


class TestResourcesThatNodesHad:
    def test_their_rows_are_used_again(self) -> None:
        snapshot = Snapshot()
        ranking = Ranking(snapshot)
        snapshot.put_node(a_node("n", **{GPU: "1"}))
        for index in range(500):
            snapshot.put_node(a_node("changing", **{f"x.io/r{index}": "1"}))
            if index % 3:
                snapshot.remove_node("changing")
        assert len(snapshot.nodes.alloc) < 20
        cls = snapshot.class_of(a_pod("p", {GPU: "1"}))
        assert snapshot.nodes.name(ranking.choose(cls)) == "n"

    def test_who_asks_for_one_is_not_given_what_has_its_row_now(self) -> None:
        snapshot = Snapshot()
        ranking = Ranking(snapshot)
        snapshot.put_node(a_node("n", **{GPU: "1"}))
        asked = a_pod("p", {GPU: "1"})
        cls = snapshot.class_of(asked)
        snapshot.remove_node("n")
        for index in range(20):
            snapshot.put_node(a_node("n", **{f"x.io/r{index}": "8"}))
        assert not ranking.feasible(cls if cls.live else snapshot.class_of(asked)).any()

    def test_the_verdicts_are_those_of_a_snapshot_that_never_had_them(self, count: Count) -> None:
        for seed in range(count(20, 200)):
            rng = random.Random(seed)
            snapshot = Snapshot()
            nodes: dict[str, Node] = {}
            pods: dict[str, Pod] = {}
            names = [f"x.io/r{index}" for index in range(30)]
            kept = [snapshot.class_of(a_pod("waits", {name: "1"})) for name in names[:5]]
            for step in range(60):
                snapshot.used_below(1)
                name = f"n{rng.randrange(4)}"
                if rng.random() < 0.4 and name in nodes:
                    del nodes[name]
                    snapshot.remove_node(name)
                else:
                    has = {resource: str(rng.randrange(4)) for resource in rng.sample(names, 3)}
                    nodes[name] = a_node(name, **has)
                    snapshot.put_node(nodes[name])
                if rng.random() < 0.5:
                    asked = {rng.choice(names): "1", "cpu": "1"}
                    pod = a_pod(f"p{step}", asked, nodeName=f"n{rng.randrange(4)}")
                    pods[pod.metadata.key] = pod
                    snapshot.put_pod(pod)
                elif pods and rng.random() < 0.5:
                    gone = rng.choice(list(pods))
                    del pods[gone]
                    snapshot.remove_pod(gone)
            fresh = Snapshot()
            for node in nodes.values():
                fresh.put_node(node)
            for pod in pods.values():
                fresh.put_pod(pod)
            assert len(kept) == 5  # classes that wait all along
            for resource in (*names, "cpu"):
                asking = a_pod("waits", {resource: "1"})
                answers = []
                both = resource in snapshot.nodes.resources and resource in fresh.nodes.resources
                for one in (snapshot, fresh):
                    verdicts = rules.verdicts(one, one.class_of(asking))
                    below = one.used_below(1)[one.nodes.row(resource)]
                    answers.append(
                        {
                            one.nodes.name(slot): (
                                [str(reason) for reason in verdicts.reasons(slot)],
                                bool(verdicts.unresolvable[slot]),
                                int(below[slot]) if both else 0,
                            )
                            for slot in one.nodes.slots()
                        }
                    )
                assert answers[0] == answers[1], (seed, resource)


class TestLabelKeys:
    def test_a_key_that_no_node_has_is_not_kept(self) -> None:
        snapshot = Snapshot()
        for index in range(100):
            snapshot.put_node(a_node(f"n{index}", {"zone": "a"}))
        selector = {f"k{index}": "v" for index in range(1000)}
        verdicts = rules.verdicts(snapshot, snapshot.class_of(a_pod("p", nodeSelector=selector)))
        assert verdicts.message() == (
            "0/100 nodes are available: 100 node(s) didn't match Pod's node affinity/selector."
        )
        assert not snapshot.nodes._columns

    def test_unknown_keys_answer_as_on_a_node_without_them(self) -> None:
        snapshot = Snapshot()
        ranking = Ranking(snapshot)
        for index in range(40):
            snapshot.put_node(a_node(f"n{index}", {"zone": "a" if index % 2 else "b"}))

        def number(*expressions: dict[str, Any]) -> int:
            terms = [
                {"matchExpressions": [one, {"key": "zone", "operator": "Exists"}]} for one in expressions
            ]
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            pod = a_pod("p", affinity={"nodeAffinity": required})
            return int(ranking.feasible(snapshot.class_of(pod)).sum())

        assert number({"key": "nope", "operator": "Exists"}) == 0
        assert number({"key": "nope", "operator": "DoesNotExist"}) == 40
        assert number({"key": "nope", "operator": "NotIn", "values": ["x"]}) == 40
        assert number({"key": "nope", "operator": "Gt", "values": ["1"]}) == 0
        assert (
            number({"key": "nope", "operator": "Exists"}, {"key": "zone", "operator": "In", "values": ["a"]})
            == 20
        )

    def test_a_key_that_appears_later_is_seen(self) -> None:
        snapshot = Snapshot()
        ranking = Ranking(snapshot)
        for index in range(30):
            snapshot.put_node(a_node(f"n{index}"))
        pod = a_pod("p", nodeSelector={"disk": "ssd"})
        cls = snapshot.class_of(pod)
        assert not ranking.feasible(cls).any()
        slot = snapshot.put_node(a_node("n7", {"disk": "ssd"}))
        assert ranking.choose(cls) == slot
        spread = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
        apart = snapshot.class_of(a_pod("q", topologySpreadConstraints=[spread]))
        assert not ranking.feasible(apart).any()
        slot = snapshot.put_node(a_node("n8", {"rack": "r1"}))
        assert ranking.choose(apart) == slot

    def test_the_few_nodes_left_by_one_key_are_asked_for_the_others(self) -> None:
        snapshot = Snapshot()
        ranking = Ranking(snapshot)
        for index in range(60):
            labels = {"zone": "a" if index < 5 else "b", "n": str(index), "every": "one"}
            snapshot.put_node(a_node(f"n{index}", labels))
        pod = a_pod("p", nodeSelector={"a-zone": "a"} | {"zone": "a", "n": "3", "every": "one"})
        assert not ranking.feasible(snapshot.class_of(pod)).any()
        pod = a_pod("p", nodeSelector={"zone": "a", "n": "3", "every": "one"})
        assert snapshot.nodes.name(ranking.choose(snapshot.class_of(pod))) == "n3"
