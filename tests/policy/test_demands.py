"""What budgets demand of a group: one answer, whoever asks and whichever pod was touched last."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.decode import convert
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.selectors import LabelSelector, matches
from fairlead.kube.workloads import PodDisruptionBudget
from fairlead.policy.rule.demands import Alike, Makeup, Sharing, demand_of_group, tiers_of_group
from fairlead.policy.rule.split import Demand
from fairlead.policy.rule.workloads import demand_of
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
    found = demand_of_group(
        OWN, "default", [some("web", 4)], [protects("b", "web", minAvailable="50%")], Sharing()
    )
    assert found == Demand(min_percent=50)


def in_other_words(budget: PodDisruptionBudget, selector: LabelSelector | None) -> PodDisruptionBudget:
    return msgspec.structs.replace(budget, spec=msgspec.structs.replace(budget.spec, selector=selector))


def of_web(*budgets: PodDisruptionBudget, pods: int = 4) -> Demand:
    return demand_of_group(OWN, "default", [some("web", pods)], budgets, Sharing())


@pytest.mark.parametrize(
    ("said", "demand"),
    [
        ({"minAvailable": 2}, Demand(min_available=2)),
        ({"minAvailable": "40%"}, Demand(min_percent=40)),
        ({"maxUnavailable": 1}, Demand(max_unavailable=1)),
        ({"maxUnavailable": "25%"}, Demand(max_unavailable_percent=25)),
    ],
)
def test_a_budget_is_found_by_the_pods_labels(said: dict[str, Any], demand: Demand) -> None:
    assert of_web(protects("b", "web", **said)) == demand


def test_budgets_of_other_pods_and_namespaces_demand_nothing() -> None:
    elsewhere = protects("a", "web", minAvailable=5)
    elsewhere = msgspec.structs.replace(elsewhere, metadata=ObjectMeta(name="a", namespace="bank"))
    nobodys = in_other_words(protects("c", "web", minAvailable=5), None)
    assert of_web(elsewhere, protects("b", "db", minAvailable=5), nobodys) == Demand()


def test_an_empty_selector_protects_every_pod_of_the_namespace() -> None:
    everybodys = in_other_words(protects("all", "db", minAvailable=5), LabelSelector())
    assert of_web(everybodys) == Demand(min_available=5)


def test_of_several_budgets_the_one_that_demands_most_counts() -> None:
    both = [protects("a", "web", minAvailable=4), protects("b", "web", minAvailable="50%")]
    assert of_web(*both, pods=6) == Demand(min_available=4)
    assert of_web(*both, pods=20) == Demand(min_percent=50)


def test_the_tiers_of_such_a_group_know_the_desired_number() -> None:
    tiers = tiers_of_group(
        OWN, "default", [some("web", 3, 10)], [protects("b", "web", maxUnavailable=1)], Sharing()
    )
    assert [tiers.of_slot(slot) for slot in range(1, 11)] == [1] * 9 + [0]


def test_what_is_demanded_of_those_who_share_a_group_adds_up() -> None:
    budgets = [protects("a", "app", minAvailable=1)]
    pods = [some("web", 10), some("app", 8)]
    # 3 of the ten that nobody protects, and more than the one that the budget asks for: all but 7 of 18.
    assert demand_of_group(SHARED, "default", pods, budgets, Sharing()) == Demand(min_available=11)
    budgets = [protects("a", "app", minAvailable=5)]
    # The three of ten, and five of eight: no more than three may go, of all.
    assert demand_of_group(SHARED, "default", pods, budgets, Sharing()) == Demand(min_available=15)


@pytest.mark.parametrize("said", [{"minAvailable": 0}, {"maxUnavailable": 2}, {"maxUnavailable": "100%"}])
def test_a_budget_that_can_spare_all_of_its_pods_keeps_nobody_elses(said: dict[str, Any]) -> None:
    pods = [some("web", 98), some("app", 2)]
    found = demand_of_group(SHARED, "default", pods, [protects("a", "app", **said)], Sharing())
    assert found == Demand(min_available=30)


def test_a_pod_that_is_yet_to_come_counts_once() -> None:
    old, new = some("web", 4, 10, v="1"), some("web", 4, 10, v="2")
    kept = protects("b", "web", maxUnavailable=1)
    selector = LabelSelector(match_labels={"v": "2"})
    found = demand_of_group(SHARED, "default", [old, new], [in_other_words(kept, selector)], Sharing())
    assert found == Demand(min_available=9)


def test_no_more_are_let_go_than_every_budget_could_spare() -> None:
    budgets = [protects("a", "app", minAvailable=3), protects("b", "db", maxUnavailable=1)]
    pods = [some("web", 4), some("app", 6), some("db", 3)]
    # Whichever pod is not kept might be one of the database's, which can spare one.
    assert demand_of_group(SHARED, "default", pods, budgets, Sharing()) == Demand(min_available=12)


said = st.fixed_dictionaries({"minAvailable": st.integers(0, 7)}) | st.fixed_dictionaries(
    {"maxUnavailable": st.integers(0, 3)}
)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 6), min_size=1),
    st.dictionaries(st.sampled_from("abc"), said),
    st.none() | said,
)
def test_whichever_pods_of_a_group_are_lost_no_budget_is_broken(
    sizes: dict[str, int], each: dict[str, Any], over_all: Any
) -> None:
    pods = [some(app, number) for app, number in sizes.items()]
    budgets = [protects(f"on-{app}", app, **words) for app, words in each.items()]
    if over_all is not None:
        budgets.append(in_other_words(protects("all", "", **over_all), LabelSelector()))
    demand = demand_of_group(SHARED, "default", pods, budgets, Sharing())
    number = sum(sizes.values())

    def holds(kept: int) -> bool:
        """Whether every budget holds, whichever pods are lost."""
        for one in budgets:
            under = sum(sizes[app] for app in sizes if matches(one.spec.selector, {"app": app}))
            left = under - min(number - kept, under)
            wanted = demand_of(one)
            assert wanted is not None
            if left < wanted.of(under):
                return False
        return True

    kept = demand.of(number)
    assert holds(kept)
    if over_all is None:
        parts = [of_web(protects("b", "web", **each[app]), pods=sizes[app]) for app in sizes if app in each]
        together = sum(part.of(sizes[app]) for part, app in zip(parts, filter(each.get, sizes), strict=True))
        together += Demand().of(sum(sizes[app] for app in sizes if app not in each))
        assert kept == max(together, next(least for least in range(number + 1) if holds(least)))


def test_pods_without_a_budget_count_as_one_workload() -> None:
    pods = [some(f"job-{number}", 1) for number in range(20)]
    assert demand_of_group(SHARED, "default", pods, [], Sharing()) == Demand(min_available=6)


def test_a_budget_over_several_workloads_is_asked_once() -> None:
    pods = [
        replace(some("shop", 5), labels={"app": "shop"}),
        replace(some("canary", 5), labels={"app": "shop"}),
    ]
    budget = protects("b", "shop", maxUnavailable=1)
    assert demand_of_group(SHARED, "default", pods, [budget], Sharing()) == Demand(min_available=9)


def test_pods_that_are_wanted_count_although_they_are_not_there_yet() -> None:
    budget = protects("b", "web", minAvailable="50%")
    old, new = some("web", 8, 10, v="1"), some("web", 1, 10, v="2")
    assert demand_of_group(SHARED, "default", [old, new], [budget], Sharing()) == Demand(min_available=5)


def test_without_min_pdb_nobody_asks() -> None:
    budgets = [protects("b", "web", minAvailable=4)]
    assert tiers_of_group(policy(), "default", [some("web", 4)], budgets, Sharing()).demand == Demand()


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
    found = demand_of_group(SHARED, "default", pods, budgets, Sharing())
    rng.shuffle(pods)
    rng.shuffle(budgets)
    assert demand_of_group(SHARED, "default", pods, budgets, Sharing()) == found


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
    kept = makeup.alike(lambda pod: there[pod].workload)
    at_once = Counter((one.workload.name, one.labels["v"]) for one in there.values())
    assert {(one.workload.name, one.labels["v"]): one.pods for one in kept} == at_once
    assert (len(kept), len(makeup)) == (len(at_once), len(there))


def test_labels_that_differ_from_pod_to_pod_do_not_tell_pods_apart() -> None:
    numbered = [some("db", 1, **{"apps.kubernetes.io/pod-index": str(number)}) for number in range(3)]
    makeup = Makeup()
    for number, one in enumerate(numbered):
        makeup.put(str(number), one.workload, one.labels)
    assert [one.pods for one in makeup.alike(lambda pod: numbered[int(pod)].workload)] == [3]


PLACED = [("web", "s1"), ("web", "s1"), ("web", "d1"), ("app", "d1"), ("app", "d1"), ("app", "d2")]


@pytest.mark.parametrize("last", ["web", "app"])
def test_a_target_does_not_follow_the_pod_that_was_touched_last(last: str) -> None:
    picture = Picture(policy("web", *TIERS, groupBy={"label": "team"}))
    kept = budget("app", {"app": "app"}, 0)
    kept["spec"]["minAvailable"] = 1
    picture.add(kept)
    drawn = []
    for number, (app, on) in enumerate(PLACED, 1):
        made = picture.web(f"{app}-{number}", on)
        made["metadata"]["labels"] |= {"app": app, "team": "one"}
        drawn.append(made)
    picture.deployment(6).add(*drawn)
    picture.add(*(made for made in drawn if made["metadata"]["labels"]["app"] == last))
    picture.rests()
