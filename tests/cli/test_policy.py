"""``fairlead policy lint|test|crds``: what they print, and with which code they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.cli.policy import command
from fairlead.errors import BadInput, BadObject
from support.cluster import Cluster
from support.policies import ON_DEMAND, SPOT, plain_policy
from support.units import node, pod, workload

ROOT = Path(__file__).resolve().parents[2]
NODES = [
    *(node(f"spot-{n}", labels={"capacity": "spot"}) for n in range(3)),
    node("safe", labels={"capacity": "on-demand"}),
]


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """Writes documents to a file and says where."""

    def write(name: str, *documents: dict[str, Any]) -> str:
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(documents))
        return str(path)

    return write


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def deployment(name: str, replicas: int, *, namespace: str = "shop", **labels: str) -> dict[str, Any]:
    made = workload("Deployment", name, replicas=replicas, namespace=namespace)
    made["spec"]["template"]["metadata"] = {"labels": {"app": name, **labels}}
    return made


def rows(output: str) -> list[list[str]]:
    """The table's cells; cells are apart by two spaces at least."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in output.splitlines()]


class TestLint:
    def test_nothing_to_warn_of_ends_with_0(self, files: Any) -> None:
        done = run("lint", files("policy.yaml", plain_policy()))
        assert done.output == "1 policy looked at, without a state: 0 warnings, 0 notes\n"

    def test_notes_do_not_count_as_warnings(self, files: Any) -> None:
        done = run("lint", files("policy.yaml", plain_policy("web", SPOT)))
        assert "0 warnings, 1 note" in done.output

    def test_a_warning_ends_with_1(self, files: Any) -> None:
        done = run("lint", files("policy.yaml", plain_policy()), "-f", files("state.yaml", NODES[0]), code=1)
        assert "matches no node (capacity=on-demand)" in done.output

    @pytest.mark.parametrize("form", ["json", "yaml"])
    def test_other_forms_carry_the_same(self, files: Any, form: str) -> None:
        state = files("state.yaml", NODES[0])
        done = run("lint", files("policy.yaml", plain_policy()), "-f", state, "-o", form, code=1)
        (found,) = [one for one in yaml.safe_load(done.output) if one["severity"] == "warning"]
        assert (found["policy"], found["code"], found["about"]) == ("web", "no-node", "on-demand")

    def test_a_bad_policy_is_an_error_that_names_the_field(self, files: Any) -> None:
        bad = plain_policy(singleReplica="nowhere")
        with pytest.raises(BadObject, match=r"spec\.singleReplica: there is no tier 'nowhere'"):
            run("lint", files("policy.yaml", bad))

    def test_anything_but_policies_is_an_error(self, files: Any) -> None:
        with pytest.raises(BadInput, match="holds Node; only PlacementPolicy"):
            run("lint", files("policy.yaml", plain_policy(), NODES[0]))

    def test_a_state_from_two_places_is_an_error(self, files: Any) -> None:
        state = files("state.yaml", NODES[0])
        with pytest.raises(BadInput, match="not from both"):
            run("lint", files("policy.yaml", plain_policy()), "-f", state, "--kubeconfig", "config")


class TestTest:
    def test_more_pods_than_can_be_numbered_are_counted_all_the_same(self, files: Any) -> None:
        state = files("state.yaml", deployment("web", 2_000_000_000))
        done = run("test", files("policy.yaml", plain_policy()), "-f", state)
        assert "spot 1400000000, on-demand 600000000" in done.output
        assert "too many pods for a ledger" in done.output

    def test_each_workload_is_told_its_tiers(self, files: Any) -> None:
        policy = files("policy.yaml", plain_policy(match={"namespaces": ["shop"]}, singleReplica="on-demand"))
        state = files(
            "state.yaml",
            *NODES,
            deployment("web", 10),
            deployment("one", 1),
            deployment("other", 3, namespace="bank"),
            workload("StatefulSet", "db", replicas=5, namespace="shop"),
        )
        found = rows(run("test", policy, "-f", state).output)
        assert found[1:-1] == [
            ["bank", "Deployment/other", "-", "3", "-", "-"],
            ["shop", "Deployment/one", "web", "1", "spot 0, on-demand 1", "-", "single replica"],
            ["shop", "Deployment/web", "web", "10", "spot 7, on-demand 3", "-"],
            ["shop", "StatefulSet/db", "web", "5", "spot 3, on-demand 2", "-"],
        ]
        assert found[-1] == ["3 of 4 workloads governed"]

    def test_slots_are_shown_on_demand(self, files: Any) -> None:
        policy = files("policy.yaml", plain_policy())
        done = run("test", policy, "-f", files("state.yaml", deployment("web", 10)), "--slots")
        assert "on-demand 1,4,7; spot 2-3,5-6,8-10" in done.output

    def test_where_pods_are_now_stands_beside_it(self, files: Any) -> None:
        owner = {"kind": "ReplicaSet", "name": "web-1", "uid": "uid-ReplicaSet-web-1", "controller": True}
        above = {"kind": "Deployment", "name": "web", "uid": "uid-Deployment-web", "controller": True}
        pods = [
            pod(f"web-{n}", namespace="shop", on="spot-0", owner=owner | {"apiVersion": "apps/v1"})
            for n in range(3)
        ]
        state = files(
            "state.yaml",
            *NODES,
            deployment("web", 3),
            workload(
                "ReplicaSet", "web-1", replicas=3, namespace="shop", owner=above | {"apiVersion": "apps/v1"}
            ),
            *pods,
        )
        found = rows(run("test", files("policy.yaml", plain_policy()), "-f", state).output)
        assert found[1] == [
            *("shop", "Deployment/web", "web", "3", "spot 2, on-demand 1"),
            *("spot 3, on-demand 0", "1 misplaced now"),
        ]
        assert len(found) == 3, "the ReplicaSet is its Deployment's"

    def test_pods_that_nobody_owns_are_workloads_of_their_own(self, files: Any) -> None:
        policy = files("policy.yaml", plain_policy(singleReplica="on-demand"))
        found = rows(run("test", policy, "-f", files("state.yaml", pod("alone", namespace="shop"))).output)
        assert found[1][:5] == ["shop", "Pod/alone", "web", "1", "spot 0, on-demand 1"]

    def test_pods_beyond_every_max_wait(self, files: Any) -> None:
        policy = files("policy.yaml", plain_policy("web", SPOT | {"max": 2}))
        done = run("test", policy, "-f", files("state.yaml", deployment("web", 5)))
        assert "3 beyond every max: wait" in done.output

    def test_workloads_of_one_group_share_its_slots(self, files: Any) -> None:
        burst = plain_policy(
            "burst", {"name": "base", "max": 4}, {"name": "burst", "names": ["virtual"]}, groupBy="policy"
        )
        state = files("state.yaml", deployment("a", 3), deployment("b", 3))
        found = yaml.safe_load(run("test", files("p.yaml", burst), "-f", state, "-o", "json").output)
        assert [one["tiers"] for one in found] == [{"base": 3, "burst": 0}, {"base": 1, "burst": 2}]
        assert {one["group"] for one in found} == {"*"}

    def test_who_loses_an_overlap_is_said(self, files: Any) -> None:
        policies = files("p.yaml", plain_policy("all"), plain_policy("shop", match={"namespaces": ["shop"]}))
        done = run("test", policies, "-f", files("state.yaml", deployment("web", 2)))
        assert "also matched by all" in done.output

    def test_json_has_every_slot_and_why(self, files: Any) -> None:
        state = files("state.yaml", deployment("web", 2))
        policy = files("policy.yaml", plain_policy("web", SPOT, ON_DEMAND))
        (found,) = json.loads(run("test", policy, "-f", state, "-o", "json").output)
        assert found["slots"] == [
            {"slot": 1, "tier": "on-demand", "why": "rule"},
            {"slot": 2, "tier": "spot", "why": "rule"},
        ]

    def test_system_pods_are_no_policys_business(self, files: Any) -> None:
        state = files("state.yaml", deployment("dns", 2, namespace="kube-system"))
        assert "0 of 1 workload governed" in run("test", files("p.yaml", plain_policy()), "-f", state).output


def test_the_definitions_are_printed_as_a_stream() -> None:
    found = [one for one in yaml.safe_load_all(run("crds").output) if one]
    assert {one["metadata"]["name"] for one in found} == {
        "placementledgers.fairlead.dev",
        "placementpolicies.fairlead.dev",
    }


def test_a_cluster_is_looked_at_as_a_file_is(cluster: Cluster, files: Any) -> None:
    cluster.add_nodes(labels={"capacity": cluster.namespace})
    here = SPOT | {"nodes": {"capacity": cluster.namespace}}
    policy = files("policy.yaml", plain_policy("web", here, ON_DEMAND | {"nodes": {"capacity": "nowhere"}}))
    done = run("lint", policy, "--kubeconfig", str(cluster.kubeconfig), "-o", "json", code=1)
    assert [one["about"] for one in json.loads(done.output) if one["code"] == "no-node"] == ["on-demand"]


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_the_example_of_the_help_text_works(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run("lint", "examples/spot/policy.yaml", "-o", form)
    run("test", "examples/spot/policy.yaml", "-f", "examples/spot/workloads.yaml", "-o", form)
