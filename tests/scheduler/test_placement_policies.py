"""Placement policies through our own scheduler, beside a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.policy.names import POLICIES
from support.admission import exact
from support.cluster import Cluster
from support.manifests import budget, stateful_set
from support.policies import add_policy, serve_policies
from support.rebalancing import PACE
from support.scheduled_tiers import ByScheduler, by_scheduler
from support.workloads import is_ready

Manifest = dict[str, Any]

# Longer than any test: what happens within one did not wait for it, and nobody tries a tier without nodes.
NEVER = {"after": "1h", "coolDown": "1h"}


@pytest.fixture
def corner(cluster: Cluster, tmp_path: Path) -> Iterator[ByScheduler]:
    """The test's own nodes and scheduler, on each kind of cluster."""
    with by_scheduler(cluster, tmp_path) as own:
        yield own


def off_spot(corner: ByScheduler, least: int | str, **spec: Any) -> Manifest:
    """A policy that keeps so many pods off spot, and lets nobody wait for a tier."""
    own = corner.corner
    tiers = (own.tier("spot", volatile=True), own.tier("on-demand", min=least))
    return own.policy("web", *tiers, rebalance=PACE, **{"fallback": NEVER, **spec})


def least_ready(moments: Iterator[list[Manifest]]) -> int:
    """The lowest number of Ready pods, not on their way out, at any moment."""
    return min(
        sum(is_ready(one) and "deletionTimestamp" not in one["metadata"] for one in pods) for pods in moments
    )


def test_three_of_ten_are_on_demand_and_the_split_follows_every_scaling(corner: ByScheduler):
    corner.corner.nodes()
    corner.policies(corner.corner.policy())
    corner.deploy("web", 10)
    for number in (10, 25, 4, 17, 1, 10):
        corner.corner.scale("web", number)
        assert corner.corner.settled("web", number) == exact(number)


def test_slots_of_the_webhook_are_the_schedulers(corner: ByScheduler):
    corner.corner.nodes()
    governing = corner.corner.policy()
    corner.corner.run(governing, arguments=(f"--scheduler-name={corner.scheduler}",))
    corner.policies(governing)
    corner.deploy("web", 10)
    for number in (10, 3, 12):
        corner.corner.scale("web", number)
        assert corner.corner.settled("web", number) == exact(number)
    pods = corner.corner.pods("web")
    assert all("fairlead.dev/slot-token" in one["metadata"]["annotations"] for one in pods)
    assert not any("affinity" in one["spec"] for one in pods)
    slots = sorted(int(one["metadata"]["annotations"]["fairlead.dev/slot"]) for one in pods)
    assert slots == list(range(1, 13))


def test_a_stateful_sets_ordinals_are_its_slots(corner: ByScheduler):
    corner.corner.nodes()
    corner.policies(corner.corner.policy())
    corner.cluster.create(stateful_set("db", 5, pods=corner.corner.here({"schedulerName": corner.scheduler})))
    assert corner.corner.settled("db", 5) == exact(5)
    slots = {one["metadata"]["name"]: one["metadata"]["annotations"] for one in corner.corner.pods("db")}
    assert [slots[f"db-{n}"]["fairlead.dev/slot"] for n in range(5)] == ["1", "2", "3", "4", "5"]


@pytest.mark.slow
def test_a_rollout_never_takes_on_demand_below_the_min(corner: ByScheduler):
    corner.corner.nodes()
    corner.policies(corner.corner.policy())
    corner.deploy("web", 10)
    assert corner.corner.settled("web", 10) == exact(10)
    with corner.corner.watching("web") as moments:
        template = {"spec": {"template": {"metadata": {"annotations": {"rolled": "out"}}}}}
        corner.cluster.patch("Deployment", "web", template)
        corner.cluster.wait(
            lambda: (
                all("rolled" in one["metadata"]["annotations"] for one in corner.corner.pods("web"))
                and corner.corner.is_settled("web", 10, exact(10))
            ),
            "the rollout to be over",
        )
        # A pod that is new is not Ready at once: what is missing is never more than what is yet to come.
        assert min(corner.corner.serving(pods)["on-demand"] for pods in moments()) >= 2


def test_policies_of_the_cluster_come_and_go_while_it_runs(corner: ByScheduler):
    corner.corner.nodes()
    serve_policies(corner.cluster)
    corner.policies(cluster=True)
    corner.deploy("before", 4)
    assert corner.corner.settled("before", 4).total() == 4
    own = corner.corner
    made = add_policy(corner.cluster, own.policy("web", own.tier("on-demand", max=2), own.tier("spot")))
    corner.placing.wait_for("policy")
    corner.deploy("web", 5)
    assert corner.corner.settled("web", 5) == {"on-demand": 2, "spot": 3}
    tiers = {one["metadata"]["annotations"]["fairlead.dev/policy"] for one in corner.corner.pods("web")}
    assert tiers == {made["metadata"]["name"]}


@pytest.mark.slow
def test_all_spot_lost_at_once_never_takes_a_workload_below_its_budget(corner: ByScheduler):
    corner.corner.nodes()
    corner.running(off_spot(corner, "pdb"))
    corner.cluster.create(budget("web", {"app": "web"}, minAvailable=4))
    corner.deploy("web", 10)
    corner.lies("web", spot=6, on_demand=4)
    with corner.corner.watching("web") as moments:
        corner.lose(*corner.nodes("spot"))
        corner.lies("web", on_demand=10)
        corner.corner.nodes(spot=2, on_demand=0)
        corner.lies("web", spot=6, on_demand=4)
        assert least_ready(moments()) >= 4


@pytest.mark.slow
def test_spot_lost_during_a_rollout_leaves_what_the_budget_demands(corner: ByScheduler):
    corner.corner.nodes()
    corner.running(off_spot(corner, "pdb"))
    corner.cluster.create(budget("web", {"app": "web"}, minAvailable=4))
    rolling = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 3}}}
    corner.deploy("web", 10, **rolling)
    corner.lies("web", spot=6, on_demand=4)
    with corner.corner.watching("web") as moments:
        template = {"spec": {"template": {"metadata": {"annotations": {"rolled": "out"}}}}}
        corner.cluster.patch("Deployment", "web", template)
        corner.cluster.wait(
            lambda: any("rolled" in one["metadata"]["annotations"] for one in corner.corner.pods("web")),
            "the rollout to begin",
        )
        corner.lose(*corner.nodes("spot"))
        corner.lies("web", on_demand=10)
        assert least_ready(moments()) >= 4


@pytest.mark.slow
def test_without_a_budget_ready_never_drops_below_the_min(corner: ByScheduler):
    corner.corner.nodes()
    corner.running(off_spot(corner, "30%"))
    corner.deploy("web", 10)
    corner.lies("web", spot=7, on_demand=3)
    with corner.corner.watching("web") as moments:
        corner.lose(*corner.nodes("spot"))
        corner.lies("web", on_demand=10)
        assert least_ready(moments()) >= 3


@pytest.mark.slow
def test_nodes_that_are_cordoned_and_then_drained_by_somebody_else(corner: ByScheduler):
    corner.corner.nodes()
    corner.running(off_spot(corner, "pdb"))
    corner.cluster.create(budget("web", {"app": "web"}, minAvailable=4))
    corner.deploy("web", 10)
    corner.lies("web", spot=6, on_demand=4)
    with corner.corner.watching("web") as moments:
        doomed = corner.nodes("spot")
        corner.cordon(*doomed)
        corner.drain(*doomed)
        corner.lies("web", on_demand=10)
        for name in doomed:
            corner.cluster.delete("Node", name)
        corner.corner.nodes(spot=2, on_demand=0)
        corner.lies("web", spot=6, on_demand=4)
        assert least_ready(moments()) >= 4


def test_where_a_tier_has_no_room_pods_move_on_without_being_deleted(corner: ByScheduler):
    corner.corner.nodes(spot=1, cpu=2)
    fallback = {"after": "2s", "coolDown": "5m"}
    spread = {"resources": {"requests": {"cpu": "1"}}, "name": "main", "image": "image"}
    corner.policies(off_spot(corner, 1, fallback=fallback))
    pods = {"schedulerName": corner.scheduler, "containers": [spread]}
    corner.corner.deploy("web", 5, pods=pods)
    with corner.corner.watching("web") as moments:
        corner.lies("web", spot=2, on_demand=3)
        names = {one["metadata"]["name"] for each in moments() for one in each}
    assert len(names | {one["metadata"]["name"] for one in corner.corner.pods("web")}) == 5
    (marked,) = corner.placing.wait_for("tiers_marked")
    assert marked["tiers"] == ["spot"]


def test_a_recording_under_policies_replays_to_the_byte(corner: ByScheduler, tmp_path: Path):
    corner.corner.nodes(spot=1)
    record = tmp_path / "record"
    corner.policies(off_spot(corner, 1), arguments=(f"--record={record}",))
    corner.deploy("web", 6)
    corner.lies("web", spot=5, on_demand=1)
    corner.lose(*corner.nodes("spot"))
    corner.lies("web", on_demand=6)
    assert corner.placing.stop() == 0
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "replay", str(record), "--output=json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["agrees"]


def test_the_marks_of_the_scheduler_are_in_the_policys_status(corner: ByScheduler):
    corner.corner.nodes(spot=1)
    serve_policies(corner.cluster)
    made = add_policy(corner.cluster, off_spot(corner, 1, fallback={"after": "1h", "coolDown": "10m"}))
    name = made["metadata"]["name"]
    corner.policies(cluster=True)
    corner.cordon(*corner.nodes("spot"))

    def marks() -> Manifest:
        found = corner.cluster.wire.request("GET", POLICIES.path(None, name)).ok()
        return found.get("status", {}).get("marks") or {}  # type: ignore[no-any-return]

    assert corner.cluster.wait(marks, "the tier to be marked")["spot"]["interrupted"]
