"""Input that is odd, contradictory or hostile: named or held by itself, and nothing vanishes."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead import BadInput, BadObject, Cluster, FairleadError
from fairlead.engine.ask import cluster_plan
from fairlead.kube.decode import call_it
from support.units import budget, node, pod, pod_group, workload


def planned(*objects: dict[str, Any], **options: Any) -> tuple[dict[str, str], dict[str, str]]:
    found = Cluster.from_objects(objects, **options).plan()
    return dict(found.binds), dict(found.holds)


def foreign(thing: dict[str, Any], api_version: str) -> dict[str, Any]:
    return {**thing, "apiVersion": api_version}


class TestAPodThatMakesNoSense:
    @pytest.mark.parametrize(
        "spec",
        [
            {"priority": 10**30},
            {"activeDeadlineSeconds": 10**30},
            {"containers": []},
            {"containers": [{"name": "c", "resources": {"requests": {"memory": 10**30}}}]},
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "Bogus"}]},
        ],
    )
    def test_is_held_alone(self, spec: dict[str, Any]) -> None:
        binds, holds = planned(node("n"), pod("good"), pod("bad", **spec))
        assert binds == {"default/good": "n"}
        assert list(holds) == ["default/bad"]
        assert holds["default/bad"].startswith("Pod ")

    def test_holds_the_gang_that_was_counted_with_it(self) -> None:
        for bad in (pod("b", "-1", gang="g"), pod("b", gang="g", priority=2**40)):
            binds, holds = planned(node("n"), pod("a", gang="g"), bad, pod("other"))
            assert binds == {"default/other": "n"}
            told, _, why = holds["default/a"].partition("; 1 cannot be used: ")
            assert told == "gang default/g: 1 of 2 members are there"
            assert why == holds["default/b"]
            assert "Pod" in holds["default/b"]

    def test_holds_the_gang_in_every_spelling(self) -> None:
        group = {"schedulingGroup": {"podGroupName": "g"}}
        binds, _ = planned(node("n"), pod("a", **group), pod("b", priority=2**40, **group))
        assert binds == {}

    def test_does_not_hold_a_gang_that_has_enough_without_it(self) -> None:
        members = [pod(name, gang="g", minimum=2) for name in ("a", "b")]
        binds, _ = planned(node("n"), *members, pod("c", gang="g", minimum=2, priority=2**40))
        assert sorted(binds) == ["default/a", "default/b"]

    def test_each_is_reported_though_they_have_one_name(self) -> None:
        bad: dict[str, Any] = {"kind": "Pod", "metadata": {}, "spec": {}}
        _, holds = planned(node("n"), bad, bad)
        assert list(holds) == ["default/(no name)", "default/(no name) (2)"]


class TestKindsOfOtherGroups:
    def test_another_groups_node_is_not_a_node(self) -> None:
        other = {"kind": "Node", "metadata": {"name": "n", "namespace": "longhorn-system"}}
        binds, _ = planned(node("n"), foreign(other, "longhorn.io/v1beta2"), pod("a"))
        assert binds == {"default/a": "n"}

    def test_nor_are_its_pods_services_and_jobs_ours(self) -> None:
        things = [{"kind": kind, "metadata": {"name": "x"}, "spec": 7} for kind in ("Pod", "Service", "Job")]
        binds, holds = planned(node("n"), pod("a"), *(foreign(thing, "example.com/v1") for thing in things))
        assert (binds, holds) == ({"default/a": "n"}, {})

    def test_a_typed_list_says_the_group_of_its_items(self) -> None:
        other = {"kind": "NodeList", "apiVersion": "longhorn.io/v1", "items": [{"metadata": {"name": "n"}}]}
        binds, _ = planned(node("n"), other, pod("a"))
        assert binds == {"default/a": "n"}

    def test_pod_groups_come_from_three_groups(self) -> None:
        for api, marks in (
            ("scheduling.x-k8s.io/v1alpha1", {"gang": "g"}),
            ("scheduling.volcano.sh/v1beta1", {"annotations": {"scheduling.volcano.sh/group-name": "g"}}),
            ("scheduling.k8s.io/v1beta1", {"schedulingGroup": {"podGroupName": "g"}}),
        ):
            _, holds = planned(node("n"), pod_group("g", 2, api), pod("a", **marks))
            assert holds == {"default/a": "gang default/g: 1 of 2 members are there"}
        binds, _ = planned(node("n"), pod_group("g", 2, "example.com/v1"), pod("a", gang="g"))
        assert binds == {"default/a": "n"}

    def test_another_groups_workload_counts_beside_the_one_of_the_same_name(self) -> None:
        ours = workload("StatefulSet", "w", gang="g")
        theirs = {**foreign(ours, "apps.kruise.io/v1beta1"), "metadata": {**ours["metadata"], "uid": "other"}}
        _, holds = planned(node("n"), ours, theirs, pod("a", gang="g"))
        assert holds == {"default/a": "gang default/g: 1 of 2 members are there"}


class TestNothingVanishes:
    def test_two_pods_with_one_uid_are_both_planned(self) -> None:
        binds, _ = planned(node("n"), pod("a", uid="u"), pod("b", uid="u"))
        assert binds == {"default/a": "n", "default/b": "n"}

    def test_two_pods_with_one_uid_both_count_where_they_are(self) -> None:
        _, holds = planned(node("n", 2), pod("a", uid="u", on="n"), pod("b", uid="u", on="n"), pod("c"))
        assert list(holds) == ["default/c"]

    def test_pods_that_leave_their_name_to_the_api_server_are_told_apart(self) -> None:
        things = [pod("a-1"), *(pod("") for _ in range(3))]
        for thing in things[1:]:
            del thing["metadata"]["name"], thing["metadata"]["uid"]
            thing["metadata"]["generateName"] = "a-"
        binds, _ = planned(node("n"), *things)
        assert sorted(binds) == ["default/a-1", "default/a-2", "default/a-3", "default/a-4"]

    def test_a_plan_that_does_not_come_to_rest_says_so(self) -> None:
        cluster = Cluster.from_objects([node("n"), pod("a")])
        with pytest.raises(FairleadError, match="does not come to rest"):
            cluster_plan.planned(cluster, scheduler_names=("fairlead",), now=None, rounds=1)


class TestOtherObjects:
    @pytest.mark.parametrize("kind", ["PodDisruptionBudget", "ReplicaSet", "Deployment"])
    def test_a_selector_with_an_unknown_operator_is_named(self, kind: str) -> None:
        thing = budget("x", {}, 0) if kind == "PodDisruptionBudget" else workload(kind, "x")
        thing["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
        with pytest.raises(BadObject, match=rf"{call_it(thing)}: spec\.selector\.app: 'Near'"):
            Cluster.from_objects([thing])

    def test_lists_that_share_lists_are_opened_once(self) -> None:
        inner: dict[str, Any] = {"kind": "List", "items": [node("n"), pod("a")]}
        for _ in range(7):
            inner = {"kind": "List", "items": [inner] * 50}
        assert planned(inner)[0] == {"default/a": "n"}


class TestArguments:
    def test_scheduler_names_are_a_list_of_names(self) -> None:
        cluster = Cluster.from_objects([node("n"), pod("a")])
        for names in ("fairlead", None, 5, [7]):
            with pytest.raises(BadInput, match="scheduler_names"):
                cluster.plan(scheduler_names=names)  # type: ignore[arg-type]  # that is the point

    def test_now_is_a_number(self) -> None:
        cluster = Cluster.from_objects([node("n"), pod("a")])
        for now in ("x", float("nan"), float("inf"), True):
            with pytest.raises(BadInput, match="now"):
                cluster.plan(now=now)  # type: ignore[arg-type]  # that is the point

    def test_objects_are_an_iterable_of_objects(self) -> None:
        for objects in (None, 5, "abc", node("n")):
            with pytest.raises(BadInput, match="objects"):
                Cluster.from_objects(objects)  # type: ignore[arg-type]  # that is the point
