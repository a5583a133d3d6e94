"""A budget over several workloads lets go once what it lets go, however they are grouped."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.decode import convert
from fairlead.kube.workloads import Job, PodDisruptionBudget, Workload
from fairlead.policy.groups.member import GroupKey, group_of
from fairlead.policy.rule.demands import Alike, Sharing, tiers_of_group
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Tiers
from fairlead.policy.rule.workloads import name_of
from support.members import a_deployment
from support.pictured import Picture
from support.policies import policy
from support.units import workload

TIERS = (
    {"name": "spot", "nodes": {"capacity": "spot"}, "volatile": True},
    {"name": "safe", "nodes": {"capacity": "on-demand"}, "min": "pdb"},
)
OWN = policy("p", *TIERS)
BY_LABEL = policy("p", *TIERS, groupBy={"label": "team"})
TOGETHER = policy("p", *TIERS, groupBy="policy")


def budget(name: str = "shop", app: str = "shop", **spec: Any) -> PodDisruptionBudget:
    selector = {"matchLabels": {"app": app}}
    data = {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector, **spec}}
    return convert(data, PodDisruptionBudget)


@dataclass(frozen=True)
class Made:
    """A Deployment that wants and has so many pods."""

    name: str
    pods: int
    created: float = 0.0
    team: str = ""
    app: str = "shop"

    @property
    def labels(self) -> dict[str, str]:
        return {"app": self.app} | ({"team": self.team} if self.team else {})

    @property
    def alike(self) -> Alike:
        return Alike(replace(a_deployment(self.pods), name=self.name), self.labels, self.pods)

    def object(self, kind: str = "Deployment", **more: Any) -> dict[str, Any]:
        made = workload(kind, self.name, replicas=self.pods, created=self.created, **more)
        made["spec"]["template"]["metadata"]["labels"] = self.labels
        return made


def known(*made: Made) -> Sharing:
    sharing = Sharing()
    for one in made:
        sharing.seen("Deployment", convert(one.object(), Workload))
    return sharing


def groups(used: PlacementPolicy, *made: Made) -> dict[GroupKey, list[Alike]]:
    found: dict[GroupKey, list[Alike]] = {}
    for one in made:
        found.setdefault(group_of(used, one.alike.workload, one.labels), []).append(one.alike)
    return found


def tiers(used: PlacementPolicy, budgets: list[PodDisruptionBudget], *made: Made) -> dict[str, Tiers]:
    sharing = known(*made)
    return {
        key.name: tiers_of_group(used, "default", like, budgets, sharing)
        for key, like in groups(used, *made).items()
    }


def on_spot(used: PlacementPolicy, budgets: list[PodDisruptionBudget], *made: Made) -> dict[str, int]:
    """How many pods of each group the rule has on spot."""
    of = tiers(used, budgets, *made)
    return {
        key.name: of[key.name].split(sum(one.pods for one in like))[0]
        for key, like in groups(used, *made).items()
    }


WEB, CANARY = Made("web", 5, created=10), Made("canary", 5, created=20)


class TestWhoHasIt:
    def test_the_oldest_workload_has_what_may_be_unavailable(self) -> None:
        found = on_spot(OWN, [budget(maxUnavailable=2)], WEB, CANARY)
        assert found == {"Deployment/web": 2, "Deployment/canary": 0}

    def test_of_those_made_in_the_same_second_the_name_decides(self) -> None:
        found = on_spot(OWN, [budget(maxUnavailable=2)], replace(WEB, created=20), CANARY)
        assert found == {"Deployment/web": 0, "Deployment/canary": 2}

    def test_of_a_percentage_each_has_its_part_and_only_the_oldest_what_rounding_gives(self) -> None:
        found = on_spot(OWN, [budget(maxUnavailable="50%")], WEB, CANARY)
        assert found == {"Deployment/web": 3, "Deployment/canary": 2}

    def test_it_stays_with_a_workload_that_is_scaled_to_nothing(self) -> None:
        found = on_spot(OWN, [budget(maxUnavailable=2)], replace(WEB, pods=0), CANARY)
        assert found["Deployment/canary"] == 0

    def test_it_passes_to_the_next_when_the_oldest_is_gone(self) -> None:
        sharing, shared = known(WEB, CANARY), budget(maxUnavailable=2)
        assert sharing.under(shared) == ("Deployment/web", "Deployment/canary")
        assert sharing.gone("Deployment", "default", "web")
        assert sharing.under(shared) == ("Deployment/canary",)

    def test_a_workload_alone_under_its_budget_has_all_of_it(self) -> None:
        other = replace(CANARY, app="bank")
        found = on_spot(OWN, [budget(maxUnavailable=2)], WEB, other)
        assert found["Deployment/web"] == 2

    def test_a_workload_that_nobody_has_seen_yet_is_the_youngest(self) -> None:
        shared = budget(maxUnavailable=2)
        found = tiers_of_group(OWN, "default", [WEB.alike], [shared], known(CANARY))
        assert found.split(5)[0] == 0

    def test_a_number_that_must_be_available_is_kept_by_each(self) -> None:
        found = on_spot(OWN, [budget(minAvailable=2)], WEB, CANARY)
        assert found == {"Deployment/web": 3, "Deployment/canary": 3}

    def test_groups_by_label_have_the_shares_of_their_workloads(self) -> None:
        made = [replace(WEB, team="a"), replace(CANARY, team="b"), Made("third", 4, 30, team="a")]
        assert on_spot(BY_LABEL, [budget(maxUnavailable=2)], *made) == {"team=a": 2, "team=b": 0}

    def test_a_group_of_all_of_them_is_asked_once(self) -> None:
        assert on_spot(TOGETHER, [budget(maxUnavailable="50%")], WEB, CANARY) == {"*": 5}

    def test_within_a_group_pods_under_a_further_budget_do_not_get_it_again(self) -> None:
        more = replace(CANARY, team="b")
        budgets = [budget(maxUnavailable=2), teams("b", minAvailable=0)]
        assert on_spot(TOGETHER, budgets, WEB, more) == {"*": 2}


class TestWhoIsKnown:
    def test_replica_sets_of_deployments_are_not_counted_beside_them(self) -> None:
        sharing = known(WEB)
        owner = {"kind": "Deployment", "name": "web", "uid": "u", "apiVersion": "apps/v1", "controller": True}
        made = replace(WEB, name="web-1").object("ReplicaSet", owner=owner)
        assert not sharing.seen("ReplicaSet", convert(made, Workload))
        assert sharing.under(budget()) == ("Deployment/web",)

    def test_a_rollout_is_known_by_its_replica_sets_and_comes_after_the_others(self) -> None:
        sharing = known(CANARY)
        api = "argoproj.io/v1alpha1"
        owner = {"kind": "Rollout", "name": "web", "uid": "u", "apiVersion": api, "controller": True}
        for number in (1, 2):
            made = replace(WEB, name=f"web-{number}").object("ReplicaSet", owner=owner)
            assert sharing.seen("ReplicaSet", convert(made, Workload))
        assert sharing.under(budget()) == ("Deployment/canary", "Rollout.argoproj.io/web")

    def test_jobs_are_not(self) -> None:
        assert not Sharing().seen("Job", convert(WEB.object("Job"), Job), "batch/v1")

    def test_labels_and_selectors_that_change_are_heard(self) -> None:
        sharing, shared = known(WEB, CANARY), budget()
        assert len(sharing.under(shared)) == 2
        assert not sharing.seen("Deployment", convert(WEB.object(), Workload))
        assert sharing.seen("Deployment", convert(replace(WEB, app="bank").object(), Workload))
        assert sharing.under(shared) == ("Deployment/canary",)
        assert sharing.under(budget(app="bank")) == ("Deployment/web",)


made = st.lists(
    st.builds(
        Made,
        st.sampled_from("abcdef"),
        st.integers(0, 12),
        st.integers(0, 3).map(float),
        st.sampled_from(["", "x", "y"]),
        st.sampled_from(["shop", "shop", "bank"]),
    ),
    max_size=6,
    unique_by=lambda one: one.name,
)
amounts = st.one_of(st.integers(0, 15), st.integers(0, 100).map(lambda number: f"{number}%"))
said = st.tuples(st.sampled_from(["minAvailable", "maxUnavailable"]), amounts).map(lambda one: dict([one]))
used = st.sampled_from([OWN, BY_LABEL, TOGETHER])


def teams(team: str, **spec: Any) -> PodDisruptionBudget:
    selector = {"matchLabels": {"team": team}}
    data = {"metadata": {"name": f"team-{team}", "namespace": "default"}}
    return convert(data | {"spec": {"selector": selector, **spec}}, PodDisruptionBudget)


def healthy(shared: PodDisruptionBudget, pods: int) -> int:
    """How many of so many expected pods the disruption controller wants."""
    least, most = shared.spec.min_available, shared.spec.max_unavailable
    amount = least if least is not None else most
    number = amount if isinstance(amount, int) else -(-int(str(amount).rstrip("%")) * pods // 100)
    return number if least is not None else pods - number


class TestLosingAllSpot:
    @given(made, said, said)
    def test_never_goes_below_what_budgets_demand_of_all_their_workloads(
        self, made: list[Made], first: dict[str, Any], second: dict[str, Any]
    ) -> None:
        budgets = [budget(**first), teams("x", **second)]
        spot = on_spot(OWN, budgets, *made)
        for one in budgets:
            under = [each for each in made if name_of(each.alike.workload) in known(*made).under(one)]
            pods = sum(each.pods for each in under)
            lost = sum(spot[name_of(each.alike.workload)] for each in under)
            assert pods - lost >= min(pods, healthy(one, pods))

    @given(used, made, said)
    def test_never_goes_below_in_groups_of_any_kind(
        self, used: PlacementPolicy, made: list[Made], said: dict[str, Any]
    ) -> None:
        made = [replace(one, app="shop") for one in made]
        pods, lost = sum(one.pods for one in made), sum(on_spot(used, [budget(**said)], *made).values())
        assert pods - lost >= min(pods, healthy(budget(**said), pods))

    @given(used, made, said, said, st.randoms(use_true_random=False))
    def test_the_order_in_which_things_are_told_does_not_matter(
        self,
        used: PlacementPolicy,
        made: list[Made],
        first: dict[str, Any],
        second: dict[str, Any],
        rng: random.Random,
    ) -> None:
        budgets = [budget(**first), teams("x", **second)]
        found = on_spot(used, budgets, *made)
        rng.shuffle(made)
        rng.shuffle(budgets)
        assert on_spot(used, budgets, *made) == found

    @given(made, said, st.integers(0, 5), st.integers(0, 12))
    def test_scaling_one_workload_takes_nothing_from_another(
        self, made: list[Made], first: dict[str, Any], which: int, pods: int
    ) -> None:
        if not made:
            return
        before = on_spot(OWN, [budget(**first)], *made)
        scaled = made[which % len(made)]
        after = on_spot(
            OWN, [budget(**first)], *(replace(one, pods=pods) if one is scaled else one for one in made)
        )
        assert {name: number for name, number in before.items() if not name.endswith(scaled.name)} == {
            name: number for name, number in after.items() if not name.endswith(scaled.name)
        }


@pytest.mark.parametrize("first", ["web", "canary"])
def test_the_rebalancer_moves_who_has_no_share_whoever_it_heard_of_first(first: str) -> None:
    picture = Picture(OWN)
    shared = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "shop"}}, "maxUnavailable": 1},
        "status": {"disruptionsAllowed": 1},
    }
    picture.add(shared)
    both = sorted((Made("web", 2, 10), Made("canary", 2, 20)), key=lambda one: one.name != first)
    for one in both:
        owner = {"kind": "Deployment", "name": one.name, "uid": f"uid-Deployment-{one.name}"}
        deployment = one.object() | {"status": {"updatedReplicas": 2}}
        owner |= {"apiVersion": "apps/v1", "controller": True}
        picture.add(deployment, workload("ReplicaSet", f"{one.name}-1", replicas=2, owner=owner))
        of = {"kind": "ReplicaSet", "name": f"{one.name}-1", "uid": f"uid-ReplicaSet-{one.name}-1"}
        of |= {"apiVersion": "apps/v1", "controller": True}
        for slot, on in enumerate(("d1", "s1"), 1):
            pod = picture.web(f"{one.name}-{slot}", on, slot=slot, owner=of)
            pod["metadata"]["labels"]["app"] = "shop"
            picture.add(pod)
    assert picture.move().pod == "default/canary-2"
