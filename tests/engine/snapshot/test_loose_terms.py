"""Terms whose selectors demand no label outright: exact up to a limit, safe beyond it, and never costly."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from fairlead import Cluster
from fairlead.engine import rules
from fairlead.engine.ask.objects import read_pod
from fairlead.engine.core.core import Core
from fairlead.engine.ranking import preferences
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.snapshot import loose_terms
from fairlead.engine.snapshot.loose_terms import TERMS_MAX
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.decode import convert
from fairlead.kube.selectors import Requirement
from fairlead.kube.workloads import Namespace
from support.cluster_of import seen
from support.loose import REQUIRED, apart, has, loose_pod, not_in, would_rather_be_apart
from support.units import EPOCH, node, pod

NAMESPACES = ("red", "blue")
KEYS, VALUES = ("app", "team", "tier"), ("a", "b", "c")


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a selector's expression was compared with labels."""
    number = [0]
    admits = Requirement.admits

    def counting(self: Requirement, labels: dict[str, str]) -> bool:
        number[0] += 1
        return admits(self, labels)

    monkeypatch.setattr(Requirement, "admits", counting)
    return number


@pytest.mark.parametrize("ours", [True, False], ids=["waiting", "bound by another scheduler"])
def test_a_pod_event_costs_the_same_however_many_such_pods_there_are(
    comparisons: list[int], ours: bool
) -> None:
    core = Core()
    core.handle([seen(node(f"n{index}", 64)) for index in range(10)], EPOCH.timestamp())
    costs = []
    for index in range(240):
        wishes = apart(*(not_in(f"{index}-{term}") for term in range(20)))
        where = {} if ours else {"on": f"n{index % 10}", "scheduler": "other"}
        arriving = pod(f"p{index}", "10m", labels={"id": str(index)}, **wishes, **where)
        before = comparisons[0]
        core.handle([seen(arriving)], EPOCH.timestamp() + index)
        costs.append(comparisons[0] - before)
    assert sum(costs[120:]) <= sum(costs[:120])
    assert max(costs[120:]) <= 20 * 20


@pytest.mark.parametrize("wishes", [apart, would_rather_be_apart])
def test_pods_in_other_namespaces_are_not_compared_with_such_terms(
    comparisons: list[int], wishes: Callable[..., dict[str, Any]]
) -> None:
    core = Core()
    core.handle([seen(node(f"n{index}", 64)) for index in range(3)], EPOCH.timestamp())
    for index in range(100):
        there = pod(f"p{index}", "10m", on=f"n{index % 3}", **wishes(not_in(f"v{index}")))
        core.handle([seen(there)], EPOCH.timestamp())
    before = comparisons[0]
    for index in range(10):
        core.handle([seen(pod(f"p{index}", namespace="other", labels={"id": "x"}))], EPOCH.timestamp())
    assert comparisons[0] == before


def a_selector(rng: random.Random) -> dict[str, Any]:
    expressions = []
    for _ in range(rng.choice((1, 1, 2))):
        operator = rng.choice(("In", "NotIn", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": sorted(rng.sample(VALUES, 2))} if operator in ("In", "NotIn") else {}
        expressions.append({"key": rng.choice(KEYS), "operator": operator, **values})
    return {"matchExpressions": expressions}


def a_term(rng: random.Random) -> dict[str, Any]:
    term: dict[str, Any] = {
        "topologyKey": rng.choice(("kubernetes.io/hostname", "zone")),
        "labelSelector": a_selector(rng),
    }
    match rng.randrange(6):
        case 0:
            term["namespaces"] = list(NAMESPACES)
        case 1:
            term["namespaceSelector"] = {"matchLabels": {"env": "x"}}
    return term


def a_template(rng: random.Random) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    for kind, chance in (("podAffinity", 0.2), ("podAntiAffinity", 0.6)):
        required = [a_term(rng) for _ in range(rng.choice((1, 2)))] if rng.random() < chance else []
        preferred = [{"weight": rng.choice((1, 20)), "podAffinityTerm": a_term(rng)} for _ in range(2)]
        affinity[kind] = {
            REQUIRED: required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred if rng.random() < 0.4 else [],
        }
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": a_selector(rng),
    }
    return {
        "namespace": rng.choice(NAMESPACES),
        "labels": {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.6},
        "affinity": affinity,
        "topologySpreadConstraints": [constraint] if rng.random() < 0.4 else [],
    }


def answers(snapshot: Snapshot, templates: list[dict[str, Any]]) -> list[Any]:
    """Everything that is decided about a pod of each template."""
    found = []
    for index, template in enumerate(templates):
        cls = snapshot.class_of(read_pod(pod(f"asked-{index}", "100m", **template)))
        verdicts = rules.verdicts(snapshot, cls)
        liked = preferences.total(
            preferences.concerning(snapshot, cls), snapshot, cls, snapshot.nodes.alive.copy()
        )
        found.append(
            (
                {snapshot.nodes.name(slot): str(verdicts.reasons(slot)) for slot in snapshot.nodes.slots()},
                [bool(rules.fits(snapshot, cls, slot)) for slot in snapshot.nodes.slots()],
                [int(liked[slot]) for slot in snapshot.nodes.slots()],
            )
        )
    return found


def test_what_followed_events_answers_like_what_was_made_from_scratch(
    monkeypatch: pytest.MonkeyPatch, count: Callable[[int, int], int]
) -> None:
    """With logs and caches so short that all ways of catching up are gone."""
    monkeypatch.setattr(loose_terms, "_LOG_KEPT", 6)
    monkeypatch.setattr(loose_terms, "_VIEWS_KEPT", 5)
    monkeypatch.setattr("fairlead.engine.snapshot.registry._COUNTS_KEPT", 256)
    for seed in range(count(8, 100)):
        rng = random.Random(seed)
        templates = [a_template(rng) for _ in range(8)]
        nodes = [node(f"n{index}", 64, labels={"zone": f"z{index % 3}"}) for index in range(6)]
        namespaces = {name: {"env": rng.choice("xy")} for name in NAMESPACES}
        pods: dict[str, dict[str, Any]] = {}
        followed = Cluster.from_objects(nodes).snapshot
        for step in range(30):
            match rng.randrange(5):
                case 0 if pods:
                    name = rng.choice(sorted(pods))
                    followed.remove_pod(f"{pods.pop(name)['metadata']['namespace']}/{name}")
                case 1:
                    name = rng.choice(NAMESPACES)
                    namespaces[name] = {"env": rng.choice("xy")}
                case _:
                    where = f"n{rng.randrange(6)}"
                    there = pod(f"p{step}", "100m", on=where, scheduler="other", **rng.choice(templates))
                    pods[f"p{step}"] = there
                    followed.put_pod(read_pod(there))
            labelled = [
                {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}}
                for name, labels in namespaces.items()
            ]
            for each in labelled:
                followed.put_namespace(convert(each, Namespace))
            if rng.random() < 0.5:
                fresh = Cluster.from_objects([*nodes, *labelled, *pods.values()]).snapshot
                asked = rng.sample(templates, 3)
                assert answers(followed, asked) == answers(fresh, asked), (seed, step)
                with followed.trial():
                    for placed in list(followed.all_placed())[:3]:
                        followed.forget(placed.key)
                    answers(followed, asked)
                assert answers(followed, asked) == answers(fresh, asked), (seed, step)


def others(number: int, *, each: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Placed pods of another scheduler on node a, with loose terms that speak of no pod."""
    return [loose_pod(f"other-{index}", each, on="a", scheduler="other", **more) for index in range(number)]


def feasible(*things: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    return Cluster.from_objects([node("a", 64, pods=1000), node("b", 64), *things]).explain(asked).feasible


@pytest.mark.parametrize("each", [1, 4])
def test_up_to_the_limit_terms_of_placed_pods_speak_only_of_whom_they_mean(each: int) -> None:
    there = others(TERMS_MAX // each, each=each)
    assert feasible(*there, asked=pod("x")) == ["a", "b"]
    meant = pod("x", labels={"other-3-0": ""})
    assert feasible(*there, asked=meant) == ["b"]


def test_beyond_the_limit_placed_pods_repel_every_pod_of_their_namespace_and_no_other() -> None:
    there = others(TERMS_MAX + 1)
    assert feasible(*there, asked=pod("x")) == ["b"]
    assert feasible(*there, asked=pod("x", namespace="elsewhere")) == ["a", "b"]


def test_beyond_the_limit_terms_that_name_namespaces_repel_pods_of_those() -> None:
    named = pod("q", on="a", scheduler="other", **apart(has("q"), namespaces=["named"]))
    there = [*others(TERMS_MAX), named]
    for namespace, found in (("named", ["b"]), ("default", ["b"]), ("elsewhere", ["a", "b"])):
        assert feasible(*there, asked=pod("x", namespace=namespace)) == found


def test_beyond_the_limit_terms_that_select_namespaces_repel_every_pod() -> None:
    selecting = apart(has("q"), namespaceSelector={"matchLabels": {"team": "none"}})
    there = [*others(TERMS_MAX), pod("q", on="a", scheduler="other", **selecting)]
    assert feasible(*there, asked=pod("x", namespace="elsewhere")) == ["b"]


def test_one_term_less_and_they_speak_only_of_whom_they_mean_again() -> None:
    there = [node("a", 64, pods=1000), node("b", 64), *others(TERMS_MAX + 1)]
    snapshot = Cluster.from_objects(there).snapshot
    cls = snapshot.class_of(read_pod(pod("x")))
    a = snapshot.nodes.slot("a")
    assert not rules.fits(snapshot, cls, a)
    with snapshot.trial():
        snapshot.forget("default/other-7")
        assert rules.fits(snapshot, cls, a)
    assert not rules.fits(snapshot, cls, a)
    snapshot.remove_pod("default/other-7")
    assert rules.fits(snapshot, cls, a)


def test_what_holds_beyond_the_limit_does_not_depend_on_the_order_of_arrival() -> None:
    there = others(TERMS_MAX + 20)
    known = pod("x", **apart(has("other-3-0")))
    asked = [pod("x"), pod("x", labels={"other-3-0": ""}), loose_pod("x", 1), known]
    for seed in range(3):
        random.Random(seed).shuffle(there)
        cluster = Cluster.from_objects([node("a", 64, pods=1000), node("b", 64), *there])
        found = [(found.feasible, found.message) for found in map(cluster.explain, asked)]
        assert [nodes for nodes, _ in found] == [["b"], ["b"], [], ["b"]]
        assert "more than 256 distinct" in str(found[2][1])


def test_beyond_the_limit_preferences_of_placed_pods_do_not_count() -> None:
    def preferring(number: int) -> list[dict[str, Any]]:
        return [
            pod(f"p{index}", "10m", on="a", scheduler="other", **would_rather_be_apart(not_in(f"v{index}")))
            for index in range(number)
        ]

    for number, expected in ((TERMS_MAX, "b"), (TERMS_MAX + 1, "a")):
        cluster = Cluster.from_objects([node("a", 640, "6400Gi", 1000), node("b", 2), *preferring(number)])
        cls = cluster.snapshot.class_of(read_pod(pod("x")))
        assert cluster.snapshot.nodes.name(Ranking(cluster.snapshot).choose(cls)) == expected
