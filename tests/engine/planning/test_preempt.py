"""`Cluster.preempt`: where a pod could go if others left, and who."""

from __future__ import annotations

import pytest

from fairlead.engine.ask.cluster import Cluster
from fairlead.engine.planning.victims import EXACT_LIMIT
from support.units import budget, node, pod


def preempt(preemptor: dict, *objects: dict, pdb: str = "respect"):
    return Cluster.from_objects(objects, pdb=pdb).preempt(preemptor)


def test_the_lowest_top_priority_is_chosen():
    found = preempt(
        pod("p", priority=9),
        node("a", cpu=1),
        node("b", cpu=1),
        pod("x", on="a", priority=5),
        pod("y", on="b", priority=3),
    )
    assert (found.node, found.victims, found.pdb_violations) == ("b", ["default/y"], 0)


def test_fewer_victims_are_cheaper():
    found = preempt(
        pod("p", 2, priority=9),
        node("a", cpu=2),
        node("b", cpu=2),
        *(pod(f"x{i}", on="a", priority=3) for i in range(2)),
        pod("y", 2, on="b", priority=3),
    )
    assert (found.node, found.victims) == ("b", ["default/y"])


def test_a_smaller_set_is_found_where_reprieving_by_importance_misses_it():
    # Reprieving the most important first keeps `old` and takes two; evicting `old` alone is enough.
    found = preempt(
        pod("p", 2, priority=9),
        node("a", cpu=4),
        pod("old", 2, on="a", priority=3, started=1),
        pod("new1", 1, on="a", priority=3, started=5),
        pod("new2", 1, on="a", priority=3, started=6),
    )
    assert found.victims == ["default/old"]


def test_the_latest_start_breaks_the_last_tie():
    found = preempt(
        pod("p", priority=9),
        node("a", cpu=1),
        node("b", cpu=1),
        pod("x", on="a", priority=3, started=10),
        pod("y", on="b", priority=3, started=20),
    )
    assert found.node == "b"


def test_victims_are_listed_from_the_most_important():
    found = preempt(
        pod("p", 3, priority=9), node("a", cpu=3), *(pod(f"x{i}", on="a", priority=i) for i in range(3))
    )
    assert found.victims == ["default/x2", "default/x1", "default/x0"]


def test_priorities_that_are_not_lower_are_not_touched():
    found = preempt(pod("p", priority=5), node("a", cpu=1), pod("x", on="a", priority=5))
    assert (found.node, found.victims) == (None, [])


def test_a_node_that_would_not_fit_even_when_empty_is_no_candidate():
    found = preempt(pod("p", 2, priority=5), node("a", cpu=1), pod("x", on="a", priority=1))
    assert found.node is None


def test_a_node_with_an_untolerated_taint_is_no_candidate():
    tainted = node("a", cpu=1, taints=[{"key": "k", "effect": "NoSchedule"}])
    assert preempt(pod("p", priority=5), tainted, pod("x", on="a", priority=1)).node is None


def container(port: int = 0, **requests: str) -> list[dict]:
    """The containers of a pod that wants these, and a port of its node."""
    ports = [{"containerPort": port, "hostPort": port}] if port else []
    return [{"name": "c", "ports": ports, "resources": {"requests": requests}}]


def test_no_pod_leaves_a_node_where_not_even_all_of_them_would_help_however_many_they_are():
    found = preempt(
        pod("p", priority=5, containers=container(80, cpu="1")),
        node("a", cpu=EXACT_LIMIT + 2),
        pod("keeper", on="a", priority=9, containers=container(80, cpu="1")),
        *(pod(f"x{i}", on="a", priority=1) for i in range(EXACT_LIMIT + 1)),
    )
    assert (found.node, found.victims) == (None, [])


def test_every_pod_leaves_for_one_that_wants_its_node_to_itself():
    found = preempt(
        pod("p", priority=9, annotations={"fairlead.dev/capacity": "exclusive"}),
        node("a", cpu=4),
        *(pod(f"x{i}", on="a", priority=1) for i in range(2)),
    )
    assert (found.node, found.victims) == ("a", ["default/x0", "default/x1"])


def test_a_pod_that_has_nothing_of_what_is_missing_stays():
    gpu = {"cpu": "1", "example.com/gpu": "1"}
    found = preempt(
        pod("p", priority=9, containers=container(**gpu)),
        node("a", cpu=4, extended={"example.com/gpu": "1"}),
        pod("plain", on="a", priority=1),
        pod("gpu", on="a", priority=5, containers=container(**gpu)),
    )
    assert found.victims == ["default/gpu"]


@pytest.mark.parametrize("others", [0, 2], ids=["alone", "beside-a-gang"])
def test_one_big_pod_leaves_instead_of_many_small_ones(others: int):
    """Putting pods back one by one, the longest running first, would keep the big one.

    Where only amounts count that is so for any number of pods; else the members of a gang are as one.
    """
    small = EXACT_LIMIT - 2 if others else EXACT_LIMIT + 2
    found = preempt(
        pod("p", small, priority=9),
        node("a", cpu=2 * small + others),
        pod("big", small, on="a", priority=3, started=1),
        *(pod(f"small{i:02}", on="a", priority=3, started=5) for i in range(small)),
        *(pod(f"member{i}", on="a", priority=3, started=5, gang="g", minimum=2) for i in range(others)),
    )
    assert found.victims == ["default/big"]


def test_a_lower_pod_whose_budget_allows_it_leaves_before_a_higher_one_without_a_budget():
    found = preempt(
        pod("p", priority=9),
        node("a", cpu=1),
        node("b", cpu=1),
        pod("x", on="a", priority=5),
        pod("y", on="b", priority=3, labels={"app": "y"}),
        budget("b", {"app": "y"}, 1),
    )
    assert (found.node, found.victims, found.pdb_violations) == ("b", ["default/y"], 0)


def test_a_whole_gang_leaves_before_as_many_pods_of_more_units():
    def members(of: str, number: int, on: str) -> list[dict]:
        return [pod(f"{of}{i}", on=on, priority=3, gang=of, minimum=number) for i in range(number)]

    found = preempt(
        pod("p", 3, priority=9),
        node("a", cpu=3),
        node("b", cpu=3),
        *members("two", 2, "a"),
        pod("one", on="a", priority=3),
        *members("three", 3, "b"),
    )
    assert (found.node, found.victims) == ("b", ["default/three0", "default/three1", "default/three2"])


def test_among_many_a_higher_pod_leaves_where_the_lowest_would_take_along_one_that_must_stay():
    found = preempt(
        pod("p", priority=5),
        node("a", cpu=EXACT_LIMIT + 1),
        node("b", cpu=1),
        *(pod(f"x{i:02}", on="a", priority=1) for i in range(EXACT_LIMIT)),
        pod("member", on="a", priority=0, gang="g", minimum=2),
        pod("must-stay", on="b", priority=9, gang="g", minimum=2),
    )
    assert found.node == "a"
    assert len(found.victims) == 1
    assert "/x" in found.victims[0]


def test_a_pod_that_never_preempts_gets_no_node():
    found = preempt(pod("p", priority=5, preemptionPolicy="Never"), node("a", cpu=1), pod("x", on="a"))
    assert found.node is None
    assert "Never" in found.reason


def test_a_pod_whose_victims_are_leaving_its_nominated_node_gets_no_other():
    leaving = pod("x", on="a", priority=1, terminating=True)
    objects = [
        pod("p", priority=5, nominated="a"),
        node("a", cpu=1),
        node("b", cpu=1),
        leaving,
        pod("y", on="b", priority=0),
    ]
    assert preempt(*objects).node == "b"
    leaving["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    ]
    assert preempt(*objects).node is None


def test_nominated_pods_of_equal_or_higher_priority_are_respected():
    objects = [
        node("a", cpu=1),
        node("b", cpu=1),
        pod("x", on="a", priority=1),
        pod("y", on="b", priority=2),
        pod("other", priority=5, nominated="a"),
    ]
    assert preempt(pod("p", priority=5), *objects).node == "b"
    assert preempt(pod("p", priority=6), *objects).node == "a"


def test_which_scheduler_a_pod_asks_for_is_not_looked_at():
    victim = pod("x", on="a", priority=1, scheduler="default-scheduler")
    found = preempt(pod("p", priority=5, scheduler="other"), node("a", cpu=1), victim)
    assert found.victims == ["default/x"]


def test_a_pod_of_the_cluster_is_named():
    objects = [node("a", cpu=1), pod("x", on="a", priority=1), pod("p", priority=5)]
    assert Cluster.from_objects(objects).preempt("default/p").victims == ["default/x"]


def test_a_pod_that_fits_needs_nobody_to_leave():
    found = preempt(pod("p", priority=5), node("a", cpu=2), pod("x", on="a", priority=1))
    assert (found.node, found.victims) == (None, [])


class TestBudgets:
    web = {"app": "web"}

    def test_are_respected_by_default(self):
        found = preempt(
            pod("p", priority=9),
            node("a", cpu=1),
            node("b", cpu=1),
            pod("x", on="a", priority=1, labels=self.web),
            pod("y", on="b", priority=5),
            budget("pdb", self.web, allowed=0),
        )
        assert (found.node, found.victims) == ("b", ["default/y"])

    def test_forbid_when_there_is_nothing_else(self):
        objects = [node("a", cpu=1), pod("x", on="a", labels=self.web), budget("pdb", self.web, allowed=0)]
        assert preempt(pod("p", priority=9), *objects).node is None
        found = preempt(pod("p", priority=9), *objects, pdb="best-effort")
        assert (found.victims, found.pdb_violations) == (["default/x"], 1)

    def test_count_what_really_leaves_not_who_might_have(self):
        # Both are protected and one may go: evicting the large one alone breaks nothing.
        found = preempt(
            pod("p", 3, priority=9),
            node("a", cpu=4),
            pod("small", 1, on="a", priority=5, labels=self.web),
            pod("large", 3, on="a", priority=1, labels=self.web),
            budget("pdb", self.web, allowed=1),
        )
        assert (found.victims, found.pdb_violations) == (["default/large"], 0)

    def test_of_another_namespace_or_without_a_selector_protect_nobody(self):
        empty = budget("empty", {}, allowed=0)
        other = budget("other", self.web, allowed=0, namespace="other")
        found = preempt(
            pod("p", priority=9), node("a", cpu=1), pod("x", on="a", labels=self.web), empty, other
        )
        assert found.victims == ["default/x"]

    def test_do_not_count_pods_that_the_api_server_has_counted(self):
        pdb = budget("pdb", self.web, allowed=0, disrupted=("x",))
        found = preempt(pod("p", priority=9), node("a", cpu=1), pod("x", on="a", labels=self.web), pdb)
        assert (found.victims, found.pdb_violations) == (["default/x"], 0)


class TestGangs:
    def test_leave_whole_when_they_would_fall_below_their_minimum(self):
        gang = [pod(f"g{i}", on=f"n{i}", priority=1, gang="g", minimum=3) for i in range(3)]
        found = preempt(pod("p", priority=9), *(node(f"n{i}", cpu=1) for i in range(3)), *gang)
        assert sorted(found.victims) == ["default/g0", "default/g1", "default/g2"]

    def test_cost_what_all_of_them_cost(self):
        gang = [pod(f"g{i}", on=f"n{i}", priority=1, gang="g", minimum=2) for i in range(2)]
        found = preempt(
            pod("p", priority=9),
            *(node(f"n{i}", cpu=1) for i in range(3)),
            *gang,
            pod("x", on="n2", priority=1),
        )
        assert found.victims == ["default/x"]

    def test_give_members_above_their_minimum(self):
        gang = [pod(f"g{i}", on="n", priority=1, gang="g", minimum=2) for i in range(3)]
        assert len(preempt(pod("p", priority=9), node("n", cpu=3), *gang).victims) == 1

    def test_stay_when_a_member_elsewhere_is_not_lower(self):
        gang = [
            pod("g0", on="a", priority=1, gang="g", minimum=2),
            pod("g1", on="b", priority=9, gang="g", minimum=2),
        ]
        assert preempt(pod("p", priority=5), node("a", cpu=1), node("b", cpu=1), *gang).node is None


class TestOtherRules:
    def test_a_host_port_is_freed(self):
        def with_port(name: str, **more) -> dict:
            one = pod(name, "100m", **more)
            one["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
            return one

        found = preempt(
            with_port("p", priority=5),
            node("a"),
            with_port("x", on="a", priority=1),
            pod("y", on="a", priority=1),
        )
        assert found.victims == ["default/x"]

    def test_anti_affinity_is_resolved(self):
        apart = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                    }
                ]
            }
        }
        found = preempt(
            pod("p", priority=5, affinity=apart),
            node("a"),
            pod("x", on="a", priority=1, labels={"app": "web"}),
            pod("y", on="a", priority=1),
        )
        assert found.victims == ["default/x"]

    @pytest.mark.parametrize(("skew", "expected"), [(1, ["default/x0"]), (5, [])])
    def test_spreading_is_resolved_where_victims_are_in_the_way(self, skew, expected):
        spread = [
            {
                "maxSkew": skew,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ]
        web = {"app": "web"}
        found = preempt(
            pod("p", "100m", priority=5, labels=web, topologySpreadConstraints=spread),
            node("a"),
            node("b", taints=[{"key": "k", "effect": "NoSchedule"}]),
            pod("x0", "100m", on="a", priority=1, labels=web),
        )
        assert found.victims == expected
