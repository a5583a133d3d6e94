"""What the examples are there to show, as `fairlead plan` sees it on clusters of several sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from support.command import run_command
from support.examples import EXAMPLES, FILES, Obj, nodes, pods_of, read, workloads

GANGS = [name for name in FILES if name.startswith("gang-")]


def plan(tmp_path: Path, name: str, on_nodes: int, pods: list[Obj] | None = None) -> dict[str, str]:
    """Each pod of an example, by name, with its node or, held, ""."""
    state = tmp_path / "state.yaml"
    made = pods_of(read(name)) if pods is None else pods
    state.write_text(yaml.safe_dump_all([*nodes(on_nodes), *made]))
    done = run_command("plan", "-f", state, "-f", EXAMPLES / name, "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["evictions"] == []
    placed = {one["pod"]: one["node"] for one in found["binds"]} | {one["pod"]: "" for one in found["holds"]}
    return {key.partition("/")[2]: node for key, node in sorted(placed.items())}


def bound(found: dict[str, str]) -> list[str]:
    return [name for name, node in found.items() if node]


@pytest.mark.parametrize("name", FILES)
def test_every_pod_asks_for_fairlead_and_has_a_node_to_itself_where_it_requests_nothing(name: str) -> None:
    owners = workloads(read(name))
    assert owners
    for owner in owners:
        template = owner["spec"]["template"]
        assert template["spec"]["schedulerName"] == "fairlead"
        if not any(one.get("resources") for one in template["spec"]["containers"]):
            assert template["metadata"]["annotations"]["fairlead.dev/capacity"] == "exclusive"


class TestPriorities:
    gang = ["group-a-0", "group-a-1", "group-a-2"]

    def test_five_nodes_run_everything(self, tmp_path: Path) -> None:
        found = plan(tmp_path, "priorities.yaml", 5)
        assert bound(found) == [*self.gang, "high-0", "low-0"]
        assert len(set(found.values())) == 5

    def test_on_four_the_low_priority_pod_waits(self, tmp_path: Path) -> None:
        assert bound(plan(tmp_path, "priorities.yaml", 4)) == [*self.gang, "high-0"]

    def test_on_three_the_gang_waits_whole_and_holds_nobody_back(self, tmp_path: Path) -> None:
        assert bound(plan(tmp_path, "priorities.yaml", 3)) == ["high-0", "low-0"]

    def test_on_one_the_highest_priority_runs(self, tmp_path: Path) -> None:
        assert bound(plan(tmp_path, "priorities.yaml", 1)) == ["high-0"]


class TestSplitGang:
    members = ["leader-0", "parameters-0", "worker-0"]

    def test_it_starts_whole(self, tmp_path: Path) -> None:
        assert bound(plan(tmp_path, "split-gang.yaml", 3)) == self.members

    def test_it_does_not_start_in_part(self, tmp_path: Path) -> None:
        found = plan(tmp_path, "split-gang.yaml", 2)
        assert list(found) == self.members
        assert bound(found) == []

    @pytest.mark.parametrize("late", members)
    def test_whoever_is_late_is_waited_for(self, tmp_path: Path, late: str) -> None:
        pods = [one for one in pods_of(read("split-gang.yaml")) if one["metadata"]["name"] != late]
        found = plan(tmp_path, "split-gang.yaml", 3, pods)
        assert list(found) == [name for name in self.members if name != late]
        assert bound(found) == []


class TestExclusiveNodes:
    def test_nobody_shares_a_node_with_those_that_asked_for_one(self, tmp_path: Path) -> None:
        found = plan(tmp_path, "exclusive-nodes.yaml", 3)
        assert len(bound(found)) == 4
        alone = {found["alone-0"], found["alone-1"]}
        assert len(alone) == 2
        assert {found["sharing-0"], found["sharing-1"]}.isdisjoint(alone)

    def test_the_rule_is_said_in_words_that_autoscalers_know(self) -> None:
        (owner,) = [
            one for one in workloads(read("exclusive-nodes.yaml")) if one["metadata"]["name"] == "alone"
        ]
        template = owner["spec"]["template"]
        assert "fairlead.dev/exclusive" in template["metadata"]["labels"]
        (term,) = template["spec"]["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        assert term["topologyKey"] == "kubernetes.io/hostname"
        assert term["namespaceSelector"] == {}


@pytest.mark.parametrize("name", GANGS)
class TestTheFieldsOwnSpellings:
    def test_the_gang_starts_whole(self, tmp_path: Path, name: str) -> None:
        assert len(bound(plan(tmp_path, name, 3))) == 3

    def test_the_gang_does_not_start_in_part(self, tmp_path: Path, name: str) -> None:
        found = plan(tmp_path, name, 2)
        assert len(found) == 3
        assert bound(found) == []

    def test_it_waits_for_the_minimum_that_its_podgroup_states(self, tmp_path: Path, name: str) -> None:
        found = plan(tmp_path, name, 3, pods_of(read(name))[:2])
        assert len(found) == 2
        assert bound(found) == []


def test_all_three_spellings_are_there() -> None:
    assert GANGS == ["gang-coscheduling.yaml", "gang-kubernetes.yaml", "gang-volcano.yaml"]
