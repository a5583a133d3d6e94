"""The examples of policies: taken by the API server as they are, and splitting as their documents say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.engine.ask.objects import opened, read
from fairlead.policy.report.lint import lint
from fairlead.policy.report.preview import Preview, State, preview
from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.model import PlacementPolicy, read_policies
from fairlead.rig.nodes import node_object
from support.cluster import Cluster
from support.examples import EXAMPLES
from support.policies import serve_policies

FOLDERS = ("spot", "burst", "extender")
FILES = [path for folder in FOLDERS for path in sorted((EXAMPLES / folder).glob("*.yaml"))]


def documents(*names: str) -> list[dict[str, Any]]:
    return [one for name in names for one in yaml.safe_load_all((EXAMPLES / name).read_text()) if one]


def policies(folder: str) -> tuple[PlacementPolicy, ...]:
    return read_policies(documents(f"{folder}/policy.yaml"))


def state(*names: str) -> State:
    made = State()
    for thing in opened(documents(*names)):
        found = read(thing)
        if found is not None:
            made.add(*found, thing)
    return made


def with_nodes(folder: str, made: State) -> State:
    """The state with the workers of the example's kind cluster, and its virtual node if it has one."""
    workers = [one for one in documents(f"{folder}/kind.yaml")[0]["nodes"] if one["role"] == "worker"]
    nodes = [node_object(f"worker-{n}", labels=one.get("labels")) for n, one in enumerate(workers)]
    if (EXAMPLES / folder / "virtual-node.yaml").exists():
        nodes += documents(f"{folder}/virtual-node.yaml")
    for node in nodes:
        found = read(node)
        assert found is not None
        made.add(*found, node)
    return made


def by_name(found: list[Preview]) -> dict[str, dict[str, int]]:
    return {one.subject.workload.name: one.counts for one in found}


@pytest.mark.parametrize("folder", ["spot", "extender"])
def test_one_replica_is_on_demand_and_of_ten_three_are(folder: str) -> None:
    found = by_name(preview(Policies(policies(folder)), state(f"{folder}/workloads.yaml")))
    assert found == {"single": {"spot": 0, "on-demand": 1}, "web": {"spot": 7, "on-demand": 3}}


def test_of_twenty_jobs_ten_burst() -> None:
    found = preview(Policies(policies("burst")), state("burst/jobs.yaml"))
    assert len(found) == 20
    assert sum(one.counts["base"] for one in found) == sum(one.counts["burst"] for one in found) == 10


@pytest.mark.parametrize(
    ("folder", "workloads"), [("spot", "spot/workloads.yaml"), ("burst", "burst/jobs.yaml")]
)
def test_there_is_nothing_to_warn_of_on_the_examples_own_nodes(folder: str, workloads: str) -> None:
    found = lint(policies(folder), with_nodes(folder, state(workloads)))
    assert [one for one in found if one.severity == "warning"] == []


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.stem != "kind"],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_an_api_server_takes_it_as_it_is(cluster: Cluster, path: Path) -> None:
    serve_policies(cluster)
    # A dry run makes no namespace that the rest of the file could be in.
    text = "---\n".join(
        yaml.safe_dump({**one, "metadata": {**one["metadata"], "namespace": cluster.namespace}})
        for one in yaml.safe_load_all(path.read_text())
        if one["kind"] != "Namespace"
    )
    done = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr
