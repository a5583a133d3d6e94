"""What is inside of the core stays there: others feed it events, carry out actions and read its report."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairlead
from fairlead.engine.core.actions import BindPod, EvictPod, HoldPod, NominatePod, VolumesToBind
from fairlead.engine.core.core import Core
from fairlead.engine.planning.settings import Settings
from support.cluster_of import Running, running, seen
from support.units import node, pod

ROOT = Path(fairlead.__file__).parent
BENCHMARKS = ROOT.parent.parent / "benchmarks"
PUBLIC = {"actions", "core", "events", "kinds", "recording", "report"}
"""The modules of `engine.core` that those outside of the engine may import."""
INSIDE = {"_state", "_service"}


def sources(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def imported(tree: ast.AST) -> Iterator[str]:
    for one in ast.walk(tree):
        if isinstance(one, ast.Import):
            yield from (name.name for name in one.names)
        elif isinstance(one, ast.ImportFrom) and one.module:
            yield one.module
            yield from (f"{one.module}.{name.name}" for name in one.names)


def test_only_the_engine_imports_more_of_the_core_than_its_edge() -> None:
    found = {
        (str(path), name)
        for path in sources(ROOT, BENCHMARKS)
        if not path.is_relative_to(ROOT / "engine")
        for name in imported(ast.parse(path.read_text()))
        if name.startswith("fairlead.engine.core.") and name.split(".")[3] not in PUBLIC
    }
    assert found == set()


def test_nobody_outside_of_the_core_reads_what_it_knows() -> None:
    found = [
        f"{path}:{one.lineno}"
        for path in sources(ROOT, BENCHMARKS, ROOT.parent.parent / "tests" / "support")
        if not path.is_relative_to(ROOT / "engine" / "core")
        for one in ast.walk(ast.parse(path.read_text()))
        if isinstance(one, ast.Attribute) and one.attr in INSIDE
        if not (isinstance(one.value, ast.Name) and one.value.id == "self")
    ]
    assert found == []


def test_a_core_shows_its_settings_and_its_report_and_nothing_else() -> None:
    assert {name for name in vars(Core()) if not name.startswith("_")} == {"settings", "report"}


# What lanes go by comes with the actions


def claim(name: str, **status: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": status,
    }


LATE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "example.com/made",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def with_volume(name: str, claim_name: str) -> dict:
    return pod(name, 1, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}])


def test_a_bind_brings_the_claims_that_it_waits_for() -> None:
    world = running().add(node("n"), LATE, claim("c"), with_volume("a", "c"), pod("plain"))
    binds = {action.pod: action.volumes for action in world.log if isinstance(action, BindPod)}
    wanted = binds["default/a"]
    assert isinstance(wanted, VolumesToBind)
    assert wanted.claims == wanted.provision == ("default/c",)
    assert wanted.known_claims["default/c"].metadata.uid == "uid-c"
    assert not binds["default/plain"]


def test_a_bind_whose_claims_are_bound_waits_for_none() -> None:
    bound = claim("c", phase="Bound")
    bound["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    bound["spec"]["volumeName"] = "v"
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
    }
    world = running().add(node("n"), LATE, bound, volume, with_volume("a", "c"))
    (bind,) = [action for action in world.log if isinstance(action, BindPod)]
    assert not bind.volumes


def test_what_is_said_of_a_waiting_pod_brings_the_pod() -> None:
    world = running().add(node("n", 1), pod("low", 1), pod("high", 1, priority=9), pod("big", 9))
    waiting = {
        (type(action), action.pod): action.waiting
        for action in world.log
        if isinstance(action, HoldPod | NominatePod)
    }
    assert {key: found.metadata.key for key, found in waiting.items() if found} == {
        (HoldPod, "default/big"): "default/big",
        (HoldPod, "default/low"): "default/low",
    }


def gang_for_which_one_leaves() -> Running:
    world = running()
    world.leaves_at_once = False
    world.add(node("n", 2), pod("low", 1))
    return world.add(*(pod(name, 1, priority=9, gang="g", minimum=2) for name in ("a", "b")))


def test_an_eviction_brings_the_pods_that_wait_for_it() -> None:
    world = gang_for_which_one_leaves()
    (evict,) = [action for action in world.log if isinstance(action, EvictPod)]
    assert evict.waiting == (("default/a", "uid-default-a"), ("default/b", "uid-default-b"))


# Budgets, as they are just before evictions are sent


def budget(name: str, allowed: int) -> dict:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "low"}}},
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(("pdb", "kept"), [("respect", ("one",)), ("best-effort", None)])
def test_a_victim_whose_budget_is_spent_since_the_decision_is_protected(pdb, kept) -> None:
    world = running(Settings(pdb=pdb))
    world.add(node("n", 1), budget("one", 1), pod("low", 1, labels={"app": "low"}))
    (evict,) = [
        action
        for action in world.tell(*map(seen, [pod("high", 1, priority=9)]))
        if isinstance(action, EvictPod)
    ]
    assert world.core.protected([evict]) is None
    world.tell(seen(budget("one", 0)))
    found = world.core.protected([evict])
    assert (found and found.budgets) == kept


def test_a_victim_under_two_budgets_is_protected_whatever_they_allow() -> None:
    world = running(Settings(pdb="best-effort"))
    world.add(node("n", 1), pod("low", 1, labels={"app": "low"}))
    (evict,) = [
        action for action in world.tell(seen(pod("high", 1, priority=9))) if isinstance(action, EvictPod)
    ]
    world.tell(seen(budget("one", 5)), seen(budget("two", 5)))
    found = world.core.protected([evict])
    assert found is not None
    assert (found.evict, found.budgets) == (evict, ("one", "two"))


# A pod recreated under its name


def test_a_pod_recreated_unseen_takes_the_place_of_the_one_before_everywhere() -> None:
    world = running().add(node("n", 1), pod("a", 1))
    assert world.core.report.node_of("default/a") == "n"
    other = pod("a", 9)
    other["metadata"]["uid"] = "another"
    world.add(other)
    report = world.core.report
    assert (report.uid_of("default/a"), report.node_of("default/a"), report.pending) == ("another", "", 1)
    world.add(pod("b", 1))
    assert world.bound == {"default/b": "n"}, "its room is free"


def test_numbers_are_of_pods_by_what_they_wait_for() -> None:
    gated = pod("gated", 1, schedulingGates=[{"name": "later"}])
    world = running().add(node("n", 1), pod("a", 1), pod("big", 9), gated)
    counts = world.core.report.counts()
    assert (counts.active, counts.unschedulable, counts.gated, counts.assumed) == (0, 1, 1, 0)
    world.tell(seen(node("m", 1)), seen(pod("c", 1)))
    assert world.core.report.counts().assumed == 1
