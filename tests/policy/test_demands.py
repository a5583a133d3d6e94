"""What budgets demand of a group: one answer, whoever asks and whichever pod was touched last."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.decode import convert
from fairlead.kube.workloads import PodDisruptionBudget
from fairlead.policy.demands import Alike, Makeup, alike, demand_of_group, tiers_of_group
from fairlead.policy.rule import Demand
from support.members import a_deployment
from support.pictured import Picture
from support.policies import policy
from support.units import budget

TIERS = (
    {"name": "spot", "nodes": {"capacity": "spot"}, "volatile": True},
    {"name": "safe", "nodes": {"capacity": "on-demand"}, "min": "pdb"},
)
SHARED = policy("p", *TIERS, groupBy="policy")
OWN = policy("p", *TIERS)


def protects(name: str, app: str, **spec: int | str) -> PodDisruptionBudget:
    selector = {"matchLabels": {"app": app}}
    data = {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector, **spec}}
    return convert(data, PodDisruptionBudget)


def some(app: str, pods: int, replicas: int | None = None, **labels: str) -> Alike:
    return Alike(replace(a_deployment(replicas), name=app), {"app": app, **labels}, pods)


def test_in_a_group_of_one_workload_the_budgets_words_stand() -> None:
    found = demand_of_group(OWN, "default", [some("web", 4)], [protects("b", "web", minAvailable="50%")])
    assert found == Demand(min_percent=50)


def test_the_tiers_of_such_a_group_know_the_desired_number() -> None:
    tiers = tiers_of_group(OWN, "default", [some("web", 3, 10)], [protects("b", "web", maxUnavailable=1)])
    assert [tiers.of_slot(slot) for slot in range(1, 11)] == [1] * 9 + [0]


def test_what_budgets_demand_of_those_who_share_a_group_adds_up() -> None:
    budgets = [protects("a", "app", minAvailable=3), protects("b", "db", maxUnavailable=1)]
    pods = [some("web", 4), some("app", 6), some("db", 3)]
    # 2 of the four that nobody protects, 3, and 2.
    assert demand_of_group(SHARED, "default", pods, budgets) == Demand(min_available=7)


def test_pods_without_a_budget_count_as_one_workload() -> None:
    pods = [some(f"job-{number}", 1) for number in range(20)]
    assert demand_of_group(SHARED, "default", pods, []) == Demand(min_available=6)


def test_a_budget_over_several_workloads_is_asked_once() -> None:
    pods = [
        replace(some("shop", 5), labels={"app": "shop"}),
        replace(some("canary", 5), labels={"app": "shop"}),
    ]
    budget = protects("b", "shop", maxUnavailable=1)
    assert demand_of_group(SHARED, "default", pods, [budget]) == Demand(min_available=9)


def test_pods_that_are_wanted_count_although_they_are_not_there_yet() -> None:
    budget = protects("b", "web", minAvailable="50%")
    old, new = some("web", 8, 10, v="1"), some("web", 1, 10, v="2")
    assert demand_of_group(SHARED, "default", [old, new], [budget]) == Demand(min_available=5)


def test_without_min_pdb_nobody_asks() -> None:
    assert (
        demand_of_group(policy(), "default", [some("web", 4)], [protects("b", "web", minAvailable=4)])
        == Demand()
    )


kinds = st.lists(
    st.builds(
        some,
        st.sampled_from("abc"),
        st.integers(1, 5),
        st.none() | st.integers(0, 9),
        v=st.sampled_from("xy"),
    ),
    max_size=6,
)


@given(kinds, st.lists(st.sampled_from("abc"), max_size=3, unique=True), st.randoms(use_true_random=False))
def test_the_order_of_pods_and_budgets_does_not_matter(
    pods: list[Alike], apps: list[str], rng: random.Random
) -> None:
    budgets = [protects(f"on-{app}", app, minAvailable=2) for app in apps]
    found = demand_of_group(SHARED, "default", pods, budgets)
    rng.shuffle(pods)
    rng.shuffle(budgets)
    assert demand_of_group(SHARED, "default", pods, budgets) == found


@given(st.lists(st.tuples(st.sampled_from("pqrs"), st.none() | st.sampled_from("ab"), st.sampled_from("xy"))))
def test_a_makeup_kept_pod_by_pod_is_that_of_all_pods_at_once(
    steps: list[tuple[str, str | None, str]],
) -> None:
    makeup, there = Makeup(), {}
    for pod, app, label in steps:
        if app is None:
            makeup.drop(pod)
            there.pop(pod, None)
        else:
            there[pod] = some(app, 1, v=label)
            makeup.put(pod, there[pod].workload, there[pod].labels)
    at_once = alike((one.workload, one.labels) for one in there.values())
    key = lambda one: (one.workload.name, sorted(one.labels.items()))  # noqa: E731 (short)
    assert sorted(makeup.alike(lambda pod: there[pod].workload), key=key) == sorted(at_once, key=key)
    assert len(makeup) == len(there)


def test_labels_that_differ_from_pod_to_pod_do_not_tell_pods_apart() -> None:
    numbered = [some("db", 1, **{"apps.kubernetes.io/pod-index": str(number)}) for number in range(3)]
    assert [one.pods for one in alike((one.workload, one.labels) for one in numbered)] == [3]


PLACED = [("web", "s1"), ("web", "s1"), ("web", "d1"), ("app", "d1"), ("app", "d1"), ("app", "d2")]


@pytest.mark.parametrize("last", ["web", "app"])
def test_a_target_does_not_follow_the_pod_that_was_touched_last(last: str) -> None:
    picture = Picture(policy("web", *TIERS, groupBy={"label": "team"}))
    kept = budget("app", {"app": "app"}, 0)
    kept["spec"]["minAvailable"] = 3
    picture.add(kept)
    drawn = []
    for number, (app, on) in enumerate(PLACED, 1):
        made = picture.web(f"{app}-{number}", on)
        made["metadata"]["labels"] |= {"app": app, "team": "one"}
        drawn.append(made)
    picture.deployment(6).add(*drawn)
    picture.add(*(made for made in drawn if made["metadata"]["labels"]["app"] == last))
    picture.rests()
