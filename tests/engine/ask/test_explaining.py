"""What the public API says of one pod."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import fairlead
from fairlead import BadInput, BadObject, Cluster
from fairlead.engine.ranking.ranking import Ranking
from support.units import budget, node, pod

LARGE = [{"key": "size", "value": "large", "effect": "NoSchedule"}]


def test_the_public_names_are_these_and_can_be_had() -> None:
    assert fairlead.__all__ == ["BadInput", "BadObject", "Cluster", "FairleadError", "__version__"]
    for name in fairlead.__all__:
        assert getattr(fairlead, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Custer'"):
        fairlead.Custer  # noqa: B018 (the access is the test)


def test_importing_fairlead_does_not_bring_numpy() -> None:
    code = "import sys, fairlead; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_feasible_nodes_are_sorted_and_the_others_have_reasons() -> None:
    cluster = Cluster.from_objects([node("c"), node("a"), node("b", 0)])
    found = cluster.explain(pod("x"))
    assert found.feasible == ["a", "c"]
    assert found.reasons == {"b": ["Insufficient cpu"]}
    assert found.rules == {"b": "NodeResourcesFit"}
    assert found.message is None


def test_an_explanation_is_plain_data_too() -> None:
    found = Cluster.from_objects([node("a", 0)]).explain(pod("x")).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["pod"] == "default/x"
    assert found["message"] == "0/1 nodes are available: 1 Insufficient cpu."


def test_objects_are_read_once_from_any_iterable_lists_opened() -> None:
    def once() -> Iterator[dict[str, Any]]:
        yield {"kind": "List", "items": [node("a"), {"kind": "NodeList", "items": [node("b")]}]}
        yield {"kind": "ConfigMap", "metadata": {"name": "passed-over"}}
        untyped = node("c")
        del untyped["kind"]
        yield {"kind": "NodeList", "items": [untyped]}

    assert Cluster.from_objects(once()).explain(pod("x")).feasible == ["a", "b", "c"]


def test_a_pod_that_is_there_is_explained_as_if_it_were_to_be_placed_now() -> None:
    cluster = Cluster.from_objects([node("a", 2), node("b", 2), pod("x", 2, on="a"), pod("y", 1, on="b")])
    found = cluster.explain("default/x")
    assert found.feasible == ["a"]
    assert cluster.explain("x") == found
    assert cluster.snapshot.placed("default/x") is not None


def test_which_scheduler_a_pod_asks_for_is_not_looked_at() -> None:
    cluster = Cluster.from_objects([node("a")])
    assert cluster.explain(pod("x", scheduler="somebody-else")).feasible == ["a"]


def test_nominated_pods_that_are_not_less_important_hold_their_room() -> None:
    objects = [node("a", 2), node("b", 2), pod("promised", 2, priority=5, nominated="a")]
    cluster = Cluster.from_objects(objects)
    assert cluster.explain(pod("x", 1, priority=5)).feasible == ["b"]
    assert cluster.explain(pod("x", 1, priority=6)).feasible == ["a", "b"]
    assert cluster.explain(pod("x", 3, priority=1)).message == "0/2 nodes are available: 2 Insufficient cpu."
    assert cluster.explain("default/promised").feasible == ["a", "b"]


def test_priority_classes_give_their_numbers() -> None:
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"}
    cluster = Cluster.from_objects(
        [
            node("a"),
            high,
            pod("x", priorityClassName="high"),
            pod("s", priorityClassName="system-node-critical"),
        ]
    )
    assert cluster.pods["default/x"].spec.priority == 10
    assert cluster.pods["default/x"].spec.preemption_policy == "Never"
    assert cluster.pods["default/s"].spec.priority == 2_000_001_000


def test_an_unknown_pod_is_named_and_its_likes_in_other_namespaces_too() -> None:
    cluster = Cluster.from_objects([pod("x", namespace="shop")])
    with pytest.raises(BadInput, match=r"pod default/x is not in the cluster; there is shop/x"):
        cluster.explain("x")


# What would help


def suggestions(objects: list[dict[str, Any]], asking: dict[str, Any]) -> list[str]:
    return Cluster.from_objects(objects).explain(asking).suggestions


def test_nothing_is_suggested_where_a_pod_fits() -> None:
    assert suggestions([node("a")], pod("x")) == []


def test_how_much_more_would_do_and_where() -> None:
    objects = [node("a", 2), node("b", 2), node("c", 2), node("d", 1)]
    assert suggestions(objects, pod("x", 4)) == ["2 more CPUs on any of 3 nodes (a, b, c)"]
    assert suggestions([node("a", 2, "1Gi")], pod("x", 1, memory="3Gi")) == ["2Gi more memory on a"]
    assert suggestions([node("a", pods=0)], pod("x")) == ["room for one more pod on a"]


def test_which_taints_to_tolerate() -> None:
    objects = [node("a", taints=LARGE), node("b", 0, taints=LARGE)]
    assert suggestions(objects, pod("x")) == ["tolerate size=large:NoSchedule on a"]


def test_which_label_is_missing_which_node_is_cordoned() -> None:
    assert suggestions([node("a")], pod("x", nodeSelector={"disk": "ssd"})) == ["the label disk=ssd on a"]
    assert suggestions([node("a", unschedulable=True)], pod("x")) == ["uncordon a"]


def test_how_uneven_it_would_have_to_be_allowed_to_be() -> None:
    zone = "topology.kubernetes.io/zone"
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": zone,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    web = {"labels": {"app": "web"}, "topologySpreadConstraints": spread}
    objects = [node("a", labels={zone: "a"}), node("b", 0, labels={zone: "b"}), pod("w", on="a", **web)]
    assert "maxSkew 2 over topology.kubernetes.io/zone on a" in suggestions(objects, pod("x", **web))


def test_whose_going_would_help_and_whether_they_would_have_to() -> None:
    objects = [node("n", 3), pod("a", 1, on="n", priority=5), pod("b", 1, on="n", priority=5)]
    asking = pod("x", 3, priority=5)
    assert suggestions(objects, asking)[-1] == (
        "preempting default/a, default/b on n would, but their priority is not lower"
    )
    assert suggestions(objects, pod("x", 3, priority=6))[-1] == "preempting default/a, default/b on n would"


def test_a_budget_that_does_not_allow_it_is_told_where_budgets_are_respected() -> None:
    web = {"labels": {"app": "web"}}
    objects = [node("n", 2), budget("b", {"app": "web"}, 0), pod("a", 2, on="n", **web)]
    asking = pod("x", 2, priority=5)
    assert suggestions(objects, asking)[-1] == (
        "preempting default/a on n would, but its budget does not allow it"
    )
    assert Cluster.from_objects(objects).preempt(asking).node is None
    anyway = Cluster.from_objects(objects, pdb="best-effort")
    assert anyway.explain(asking).suggestions[-1] == "preempting default/a on n would"
    free = [*objects, node("m", 2), pod("b", 2, on="m")]
    assert suggestions(free, asking)[-1] == "preempting default/b on m would"
    two = [node("n", 2), *objects[1:2], pod("a", 1, on="n", **web), pod("c", 1, on="n")]
    assert suggestions(two, asking)[-1] == (
        "preempting default/a, default/c on n would, but the budget of default/a does not allow it"
    )


def test_a_pod_that_may_not_preempt_is_not_promised_that_it_would() -> None:
    objects = [node("n", 2), pod("low", 2, on="n", priority=1)]
    never = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "patient"},
        "value": 9,
        "preemptionPolicy": "Never",
    }
    says_so = pod("x", 2, priority=9, preemptionPolicy="Never")
    by_class = pod("x", 2, priorityClassName="patient")
    for asking in (says_so, by_class):
        assert suggestions([*objects, never], asking)[-1] == (
            "preempting default/low on n would, but the pod may not preempt: its preemptionPolicy is Never"
        )
        assert Cluster.from_objects([*objects, never]).preempt(asking).node is None


def test_the_priority_that_counts_is_the_annotations_here_and_in_preemption() -> None:
    def with_priority(name: str, says: str, **more: Any) -> dict[str, Any]:
        return pod(name, 2, annotations={"priority": says}, **more)

    objects = [node("n", 2), with_priority("low", "10", on="n", priority=500)]
    for asking, allowed in (
        (with_priority("x", "100"), True),
        (with_priority("x", "7", priority=900), False),
    ):
        cluster = Cluster.from_objects(objects)
        why = "" if allowed else ", but the priority of default/low is not lower"
        assert cluster.explain(asking).suggestions[-1] == f"preempting default/low on n would{why}"
        assert cluster.preempt(asking).node == ("n" if allowed else None)


def test_system_pods_are_never_offered_as_victims() -> None:
    objects = [node("n", 2), pod("a", 2, on="n", priority=2_000_000_000)]
    assert suggestions(objects, pod("x", 2, priority=2_000_001_000))[-1].endswith("is not lower")


def test_an_absurd_request_gets_no_exact_advice() -> None:
    assert suggestions([node("n")], pod("x", "9E")) == ["a far smaller request for cpu on n"]


def test_a_gate_to_be_removed_is_named() -> None:
    assert suggestions([node("a")], pod("x", schedulingGates=[{"name": "quota"}])) == [
        "remove the scheduling gate quota"
    ]


# Bad input


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (node("n", "-1"), "Node n: status.allocatable.cpu: is negative"),
        (node("n", "many"), "Node n: status.allocatable.cpu: 'many' is not a quantity"),
        ({"metadata": {"name": "x"}}, "kind: is missing"),
        ({"kind": "Node", "metadata": {}}, "metadata.name: is missing"),
        ({"kind": "Node", "metadata": {"name": "n", "labels": ["a"]}}, "Node n: metadata.labels"),
        ({"kind": "PodList", "items": 5}, "PodList: items: is not a list"),
        ("just a string", "is not a Kubernetes object"),
    ],
)
def test_an_object_that_cannot_be_used_is_named(thing: Any, words: str) -> None:
    with pytest.raises(BadObject, match=words.replace(".", r"\.").replace("(", r"\(")):
        Cluster.from_objects([thing])


BAD_PODS = {
    "negative": pod("bad", "-1"),
    "nonsense": pod("bad", "lots"),
    "operator": pod(
        "bad",
        affinity={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "k",
                        "labelSelector": {
                            "matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]
                        },
                    }
                ]
            }
        },
    ),
    "shape": {"kind": "Pod", "metadata": {"name": "bad"}, "spec": {"containers": "none"}},
}


@pytest.mark.parametrize("bad", BAD_PODS.values(), ids=BAD_PODS.keys())
def test_a_pod_that_makes_no_sense_spoils_nothing_else(bad: dict[str, Any]) -> None:
    cluster = Cluster.from_objects([node("n"), bad, pod("good")])
    assert cluster.explain("default/good").feasible == ["n"]
    with pytest.raises(BadObject, match=r"Pod (default/)?bad: spec"):
        cluster.explain("default/bad")


def test_an_absurd_request_is_only_too_large() -> None:
    found = Cluster.from_objects([node("n")]).explain(pod("x", "9E", memory="8Ei"))
    assert found.message == "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."


def test_an_absurdly_large_node_is_only_large() -> None:
    cluster = Cluster.from_objects([node("n", "9E", "8Ei"), node("m")])
    assert cluster.explain(pod("x", 1, memory="1Gi")).feasible == ["m", "n"]
    snapshot = cluster.snapshot
    ranking = Ranking(snapshot)
    assert ranking.choose(snapshot.class_of(cluster.find(pod("x", 1))[0])) >= 0


def test_what_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {"kind": "List"}
    loop["items"] = [loop]
    with pytest.raises(BadObject, match="List: items: nested too deeply, or contains itself"):
        Cluster.from_objects([loop])
    inner: dict[str, Any] = {}
    inner["again"] = inner
    tangled = {"kind": "Node", "metadata": {"name": "n", "labels": inner}, "spec": {"taints": None}}
    with pytest.raises(BadObject, match="Node n: nested too deeply, or contains itself"):
        Cluster.from_objects([tangled])
    harmless = node("n")
    harmless["status"]["unread"] = inner
    assert Cluster.from_objects([harmless]).explain(pod("x")).feasible == ["n"]


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(BadInput, match="capacity: 'shared'"):
        Cluster.from_objects([], capacity="shared")
    with pytest.raises(BadInput, match="pdb: 'ignore'"):
        Cluster.from_objects([], pdb="ignore")
