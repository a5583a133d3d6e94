"""What users of a priority and gang scheduler expect, each on the embedded and on the real cluster."""

from __future__ import annotations

import pytest

from support.scheduler import Shop

EXCLUSIVE = "--capacity=exclusive"


def priority_class(ours: Shop, name: str, value: int) -> str:
    made = ours.cluster.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": ours.cluster.unique(name)},
            "value": value,
        }
    )
    found = str(made["metadata"]["name"])
    # The API server's admission learns of a new class a moment after it was created.
    probe = ours.pod("probe", priority_class=found)
    ours.cluster.wait(
        lambda: ours.cluster.try_create(probe, dryRun="All").status == 201, f"class {found} to be known"
    )
    return found


class TestPriority:
    def test_the_highest_priority_gets_the_only_place(self, ours: Shop):
        ours.cluster.add_nodes(1)
        for name, priority in (("low", 1), ("high", 100), ("middle", 10)):
            ours.add(name, cpu=None, priority=priority)
        ours.run(EXCLUSIVE)
        found = ours.bound("high")
        assert ours.held("middle")["reason"] == "Unschedulable"
        assert found["low"] == found["middle"] == ""

    def test_the_annotation_counts_more_than_the_priority_class(self, ours: Shop):
        ours.cluster.add_nodes(1)
        ours.add("class", cpu=None, priority_class=priority_class(ours, "high", 1000))
        ours.add("both", cpu=None, priority=5, priority_class=priority_class(ours, "top", 2000))
        ours.run(EXCLUSIVE)
        assert ours.bound("class")["both"] == ""

    def test_a_pod_that_says_nothing_has_priority_zero(self, ours: Shop):
        ours.cluster.add_nodes(2)
        ours.add("silent", cpu=None)
        ours.add("below", cpu=None, priority=-1)
        ours.add("above", cpu=None, priority=1)
        ours.run(EXCLUSIVE)
        assert ours.bound("silent", "above")["below"] == ""


class TestOnePodPerNode:
    def test_each_pod_gets_a_node_of_its_own(self, ours: Shop):
        nodes = ours.cluster.add_nodes(2)
        ours.run(EXCLUSIVE)
        for name in ("a", "b"):
            ours.add(name, cpu=None)
        found = ours.bound("a", "b")
        assert sorted(found.values()) == sorted(nodes)

    def test_a_third_pod_waits_until_one_of_two_is_deleted(self, ours: Shop):
        ours.cluster.add_nodes(2)
        ours.run(EXCLUSIVE)
        for name in ("a", "b"):
            ours.add(name, cpu=None)
        freed = ours.bound("a", "b")["a"]
        ours.add("c", cpu=None)
        assert "kept" in ours.held("c")["message"] or "nodes are available" in ours.held("c")["message"]
        ours.cluster.delete("Pod", "a")
        assert ours.bound("c")["c"] == freed


class TestPreemption:
    def test_a_lower_pod_makes_room_and_is_told_by_whom(self, ours: Shop):
        ours.cluster.add_nodes(1)
        ours.run(EXCLUSIVE)
        ours.add("low", cpu=None, priority=1)
        ours.bound("low")
        ours.add("high", cpu=None, priority=100)
        assert "low" not in ours.bound("high")
        (event,) = ours.events("low", "Preempted")
        assert f"{ours.cluster.namespace}/high" in event["message"]

    def test_an_equal_pod_does_not(self, ours: Shop):
        ours.cluster.add_nodes(1)
        ours.run(EXCLUSIVE)
        ours.add("first", cpu=None, priority=7)
        ours.bound("first")
        ours.add("second", cpu=None, priority=7)
        ours.held("second")
        assert ours.nodes_of()["first"]

    def test_recreated_pods_wait_for_the_next_free_node(self, ours: Shop):
        ours.cluster.add_nodes(2)
        ours.run(EXCLUSIVE)
        ours.deployment("low", 2, cpu=None, priority=1)
        ours.running_of("low", 2)
        ours.add("high", cpu=None, priority=100)
        ours.bound("high")

        def recreated() -> bool:
            nodes = [node for name, node in ours.nodes_of().items() if name.startswith("low-")]
            return sorted(map(bool, nodes)) == [False, True]

        ours.cluster.wait(recreated, "one of two pods of the Deployment to be waiting again")
        ours.cluster.delete("Pod", "high")
        ours.running_of("low", 2)


class TestGangs:
    def test_a_gang_with_room_starts_whole(self, ours: Shop):
        nodes = ours.cluster.add_nodes(3)
        ours.run(EXCLUSIVE)
        for name in ("a", "b", "c"):
            ours.add(name, cpu=None, gang="g", minimum=3)
        found = ours.bound("a", "b", "c")
        assert sorted(found.values()) == sorted(nodes)

    def test_a_gang_makes_room_for_all_its_members(self, ours: Shop):
        ours.cluster.add_nodes(3)
        ours.run(EXCLUSIVE)
        for name in ("x", "y"):
            ours.add(name, cpu=None, priority=1)
        ours.bound("x", "y")
        for name in ("a", "b", "c"):
            ours.add(name, cpu=None, gang="g", minimum=3, priority=50)
        found = ours.bound("a", "b", "c")
        assert "x" not in found
        assert "y" not in found

    def test_a_gang_without_room_starts_nobody_and_marks_all_unschedulable(self, ours: Shop):
        ours.cluster.add_nodes(2)
        ours.run(EXCLUSIVE)
        for name in ("a", "b", "c"):
            ours.add(name, cpu=None, gang="g", minimum=3)
        for name in ("a", "b", "c"):
            assert "gang" in ours.held(name)["message"]
        assert set(ours.nodes_of().values()) == {""}

    def test_an_incomplete_gang_holds_nobody_up_and_is_not_marked(self, ours: Shop):
        ours.cluster.add_nodes(2)
        ours.run(EXCLUSIVE)
        ours.add("a", cpu=None, gang="g", minimum=2, priority=100)
        ours.events("a", "WaitingForGang")
        ours.add("alone", cpu=None)
        assert ours.bound("alone")["a"] == ""
        assert not ours.cluster.get("Pod", "a")["status"].get("conditions")
        ours.add("b", cpu=None, gang="g", minimum=2, priority=100)
        ours.bound("a", "b")

    @pytest.mark.slow
    def test_a_gang_split_over_three_deployments_waits_for_the_third(self, ours: Shop):
        ours.cluster.add_nodes(3)
        ours.run(EXCLUSIVE)
        with ours.cluster.wire.watch(ours.cluster.path("Pod")) as watch:
            for name in ("one", "two", "three"):
                ours.deployment(name, 1, cpu=None, gang="g")
            for name in ("one", "two", "three"):
                ours.running_of(name, 1)
            created = 0
            for _ in range(3):
                seen = watch.until(
                    lambda event: event["type"] == "ADDED" or "nodeName" in event["object"]["spec"]
                )
                assert seen[-1]["type"] == "ADDED", "bound before all were there"
                created += 1
        assert created == 3


@pytest.mark.slow
class TestRestart:
    def test_what_runs_stays_and_what_waits_is_placed(self, ours: Shop):
        ours.cluster.add_nodes(2)
        first = ours.run(EXCLUSIVE)
        ours.add("a", cpu=None)
        before = ours.bound("a")["a"]
        assert first.stop() == 0
        ours.add("b", cpu=None)
        ours.run(EXCLUSIVE)
        found = ours.bound("a", "b")
        assert found["a"] == before != found["b"]

    def test_a_preemptor_and_its_victims_survive(self, ours: Shop):
        ours.cluster.add_nodes(1)
        first = ours.run(EXCLUSIVE)
        ours.add("low", cpu=None, priority=1, terminationGracePeriodSeconds=3)
        ours.bound("low")
        ours.add("high", cpu=None, priority=9)
        first.wait_for("nominated")
        first.kill()
        ours.run(EXCLUSIVE)
        assert "low" not in ours.bound("high")
