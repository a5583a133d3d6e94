"""Pods are of one class exactly if no rule can tell them apart."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from fairlead import Cluster
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.snapshot.snapshot import Snapshot
from support.units import node, pod, typed


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    snapshot = Snapshot()
    return snapshot.class_of(typed(one)) is snapshot.class_of(typed(other))


ORDINAL = "apps.kubernetes.io/pod-index"
GANG = "pod-group"


def test_name_uid_priority_and_image_make_no_difference() -> None:
    one = pod("a", containers=[{"name": "x", "image": "one", "resources": {"requests": {"cpu": "1"}}}])
    other = pod(
        "b",
        priority=7,
        containers=[{"name": "y", "image": "two", "resources": {"requests": {"cpu": "1000m"}}}],
    )
    assert same(one, other)


@pytest.mark.parametrize(
    "difference",
    [
        {"namespace": "other"},
        {"labels": {"app": "other"}},
        {"cpu": 2},
        {"nodeSelector": {"disk": "ssd"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"schedulingGates": [{"name": "wait"}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"hostNetwork": True, "hostUsers": False},
        {"annotations": {"fairlead.dev/capacity": "exclusive"}},
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]},
        {"workloadRef": {"name": "training", "podGroup": "workers"}},
    ],
    ids=lambda difference: next(iter(difference)),
)
def test_what_a_rule_reads_makes_a_difference(difference: dict[str, Any]) -> None:
    assert not same(pod("a", labels={"app": "web"}), pod("a", **{"labels": {"app": "web"}, **difference}))


@pytest.mark.parametrize("label", [ORDINAL, GANG])
def test_an_ordinal_or_a_gang_makes_no_difference_while_nobody_reads_it(label: str) -> None:
    assert same(pod("a", labels={label: "0"}), pod("b", labels={label: "1"}))


@pytest.mark.parametrize("label", [ORDINAL, GANG])
def test_an_ordinal_or_a_gang_makes_a_difference_once_a_selector_reads_it(label: str) -> None:
    snapshot = Cluster.from_objects(
        [node("n1"), node("n2"), pod("s-0", on="n1", labels={"app": "s", label: "0"})]
    ).snapshot
    ranking = Ranking(snapshot)
    before = snapshot.class_of(typed(pod("s-1", labels={"app": "s", label: "1"})))
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {label: "0"}}}
    apart = pod(
        "x",
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    )
    cls = snapshot.class_of(typed(apart))
    assert not before.live
    feasible = ranking.feasible(cls)
    assert [bool(feasible[snapshot.nodes.slot(name)]) for name in ("n1", "n2")] == [False, True]
    zero = snapshot.class_of(typed(pod("s-0b", labels={"app": "s", label: "0"})))
    one = snapshot.class_of(typed(pod("s-1", labels={"app": "s", label: "1"})))
    assert zero is not one


def test_classes_and_tallies_that_nobody_holds_are_gone() -> None:
    snapshot = Cluster.from_objects([node("n1", 64)]).snapshot
    for index in range(50):
        label = {"app": f"a{index}"}
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": label}}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        snapshot.put_pod(typed(pod(f"p{index}", on="n1", labels=label, affinity=apart)))
    for index in range(50):
        snapshot.remove_pod(f"default/p{index}")
    # At once: nothing of them is in a cycle that only the garbage collector would take apart.
    assert not list(snapshot.classes.all())


def test_pods_of_one_template_share_their_spec() -> None:
    snapshot = Cluster.from_objects([node("n1", 64), node("n2", 64)]).snapshot
    one, other = typed(pod("a", on="n1")), typed(pod("b", on="n2"))
    assert one.spec is not other.spec
    specs = []
    for each in (one, other):
        placed = snapshot.put_pod(each)
        assert placed is not None
        specs.append(placed.pod.spec)
    assert specs[0] is specs[1]
    assert specs[0] == msgspec.structs.replace(one.spec, node_name="")


def test_ten_thousand_labels_are_no_problem() -> None:
    rng = random.Random(0)
    labels = {f"key-{index}": str(rng.random()) for index in range(10_000)}
    cluster = Cluster.from_objects([node("n1"), pod("a", on="n1", labels=labels)])
    assert cluster.explain(pod("b", labels=labels)).feasible == ["n1"]
