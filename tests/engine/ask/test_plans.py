"""Plans as people and programs read them, and what bad input does to them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from fairlead import BadObject, Cluster
from fairlead.cli.plan import command
from support.units import budget, node, pod, workload


def plan(*objects: dict, **options):
    return Cluster.from_objects(objects, **options).plan()


def test_a_plan_says_what_is_bound_evicted_and_held():
    found = plan(
        node("n", cpu=2), pod("low", 2, on="n", priority=1), pod("high", 2, priority=5), pod("huge", 9)
    )
    assert found.binds == [("default/high", "n")]
    assert found.evictions == [("default/low", "default/high")]
    assert [hold.pod for hold in found.holds] == ["default/huge"]
    assert found.holds[0].reason == "0/1 nodes are available: 1 Insufficient cpu."


def test_entries_have_names():
    found = plan(node("n"), pod("a"), pod("b", 99))
    assert (found.binds[0].pod, found.binds[0].node) == ("default/a", "n")
    assert found.holds[0].pod == "default/b"


def test_plain_data_names_the_gang():
    found = plan(node("n"), pod("a", gang="g", minimum=2), pod("b", gang="g", minimum=2)).to_dict()
    assert found["binds"][0] == {"pod": "default/a", "node": "n", "gang": "default/g"}
    assert json.loads(json.dumps(found)) == found


def test_pods_without_a_uid_are_told_apart_by_name():
    things = [node("n"), pod("a"), pod("b")]
    for thing in things[1:]:
        del thing["metadata"]["uid"]
    assert dict(plan(*things).binds) == {"default/a": "n", "default/b": "n"}


def test_a_pod_on_an_unknown_node_is_left_alone():
    assert not plan(node("n"), pod("a", on="gone"))


def test_other_schedulers_pods_are_not_planned_unless_asked_for():
    theirs = pod("a", scheduler="default-scheduler")
    cluster = Cluster.from_objects([node("n"), theirs])
    assert not cluster.plan()
    assert dict(cluster.plan(scheduler_names=["default-scheduler"]).binds) == {"default/a": "n"}


def test_a_custom_resource_with_replicas_tells_the_size_of_its_gang():
    trainer = workload("Trainer", "t", replicas=3, gang="g")
    two = [pod(f"t-{index}", gang="g") for index in range(2)]
    assert not plan(node("n"), trainer, *two)
    assert len(plan(node("n"), trainer, *two, pod("t-2", gang="g")).binds) == 3


def test_room_that_a_victim_leaves_over_goes_to_the_next():
    found = plan(
        node("n", cpu=4),
        pod("low", 4, on="n", priority=1),
        pod("high", 1, priority=9),
        pod("next", 2, priority=0),
    )
    assert set(dict(found.binds)) == {"default/high", "default/next"}


def test_a_pod_that_may_not_preempt_profits_from_anothers_eviction():
    found = plan(
        node("n", cpu=4),
        pod("low", 4, on="n", priority=1),
        pod("shy", 2, priority=9, preemptionPolicy="Never"),
        pod("bold", 1, priority=5),
    )
    assert set(dict(found.binds)) == {"default/bold", "default/shy"}


def test_budgets_may_be_treated_as_best_effort():
    things = [
        node("n", cpu=1),
        pod("low", on="n", priority=1, labels={"app": "a"}),
        pod("high", priority=5),
        budget("b", {"app": "a"}, 0),
    ]
    assert not plan(*things)
    assert plan(*things, pdb="best-effort").evictions == [("default/low", "default/high")]


def test_exclusive_pods_take_a_node_each():
    found = plan(node("a", cpu=8), node("b", cpu=8), *(pod(f"p{i}") for i in range(3)), capacity="exclusive")
    assert sorted(dict(found.binds).values()) == ["a", "b"]
    assert len(found.holds) == 1


def test_an_exclusive_pod_keeps_others_away_by_annotation_alone():
    alone = pod("alone", priority=1, annotations={"fairlead.dev/capacity": "exclusive"})
    assert set(dict(plan(node("n", cpu=8), alone, pod("other")).binds)) == {"default/alone"}


def test_the_queue_position_tells_who_is_ahead_and_why_it_waits():
    cluster = Cluster.from_objects([node("n", cpu=1), pod("first", 2, priority=5), pod("second", 2)])
    position = cluster.queue_position("default/second")
    assert (position.position, position.ahead) == (2, ("default/first",))
    assert cluster.queue_position("default/first").to_dict()["position"] == 1


class TestBadInput:
    def test_a_pod_with_negative_requests_is_held_alone(self):
        bad = pod("bad", "-1")
        found = plan(node("n"), bad, pod("good"))
        assert dict(found.binds) == {"default/good": "n"}
        assert "negative" in dict(found.holds)["default/bad"]

    @pytest.mark.parametrize("quantity", ["lots", "1e999", "", "0x10", "9" * 400])
    def test_an_absurd_quantity_holds_its_pod_alone(self, quantity):
        bad = pod("bad")
        bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = quantity
        found = plan(node("n"), bad, pod("good"))
        assert dict(found.binds) == {"default/good": "n"}
        assert [hold.pod for hold in found.holds] == ["default/bad"]

    def test_an_unknown_operator_holds_its_pod_alone(self):
        term = {"matchExpressions": [{"key": "k", "operator": "Resembles", "values": ["v"]}]}
        bad = pod(
            "bad",
            affinity={
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": term}
                    ]
                }
            },
        )
        assert dict(plan(node("n"), bad, pod("good")).binds) == {"default/good": "n"}

    def test_a_gang_with_a_bad_member_is_held_and_the_rest_planned(self):
        gang = [pod("a", gang="g", minimum=2), pod("b", "-1", gang="g", minimum=2)]
        found = plan(node("n"), *gang, pod("good"))
        assert dict(found.binds) == {"default/good": "n"}
        assert {hold.pod for hold in found.holds} == {"default/a", "default/b"}

    def test_ten_thousand_labels_do_no_harm(self):
        labels = {f"key-{index}": "v" for index in range(10_000)}
        assert dict(plan(node("n"), pod("a", labels=labels), pod("b")).binds) == {
            "default/a": "n",
            "default/b": "n",
        }

    def test_owners_that_own_each_other_do_no_harm(self):
        one = {"kind": "Deployment", "name": "b", "uid": "uid-Deployment-b", "controller": True}
        two = {"kind": "Deployment", "name": "a", "uid": "uid-Deployment-a", "controller": True}
        owners = [
            workload("ReplicaSet", "a", gang="g", owner=one),
            workload("ReplicaSet", "b", gang="g", owner=two),
        ]
        assert len(plan(node("n"), *owners, pod("a", gang="g"), pod("b", gang="g")).binds) == 2

    def test_contradictory_minimums_wait_for_the_larger(self):
        gang = [pod("a", gang="g", minimum=1), pod("b", gang="g", minimum=3)]
        assert not plan(node("n"), *gang)

    @pytest.mark.parametrize("minimum", ["-3", "many", "1.5", "9" * 40])
    def test_a_minimum_that_makes_no_sense_is_as_none(self, minimum):
        marks = {"pod-group": "g", "pod-group-min-member": minimum}
        assert len(plan(node("n"), pod("a", annotations=marks)).binds) == 1

    def test_what_is_not_an_object_is_named(self):
        with pytest.raises(BadObject, match="kind"):
            plan({"metadata": {"name": "x"}})


class TestCommand:
    def run(self, tmp_path, things: list[dict], *options: str):
        file = tmp_path / "state.json"
        file.write_text(json.dumps(things))
        return CliRunner().invoke(command, ["-f", str(file), *options], catch_exceptions=False)

    def test_shows_a_table(self, tmp_path):
        done = self.run(tmp_path, [node("n", cpu=1), pod("a"), pod("b")])
        assert done.exit_code == 0
        assert [line.split()[:2] for line in done.output.splitlines()[:3]] == [
            ["ACTION", "POD"],
            ["bind", "default/a"],
            ["hold", "default/b"],
        ]
        assert done.output.splitlines()[-1] == "1 to bind, 0 to evict, 1 held"

    def test_gives_json(self, tmp_path):
        done = self.run(tmp_path, [node("n"), pod("a")], "-o", "json")
        assert json.loads(done.output)["binds"] == [{"pod": "default/a", "node": "n"}]

    def test_reads_standard_input(self):
        state = json.dumps({"kind": "List", "items": [node("n"), pod("a")]})
        done = CliRunner().invoke(command, ["-f", "-", "-o", "json"], input=state, catch_exceptions=False)
        assert json.loads(done.output)["binds"] == [{"pod": "default/a", "node": "n"}]

    def test_takes_scheduler_names(self, tmp_path):
        things = [node("n"), pod("a", scheduler="x"), pod("b", scheduler="y"), pod("c")]
        done = self.run(tmp_path, things, "-o", "json", "--scheduler-name", "x", "--scheduler-name", "y")
        assert [bind["pod"] for bind in json.loads(done.output)["binds"]] == ["default/a", "default/b"]

    def test_helps_with_an_example(self):
        done = CliRunner().invoke(command, ["--help"])
        assert "kubectl get nodes,pods" in done.output
