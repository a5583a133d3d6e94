"""Placement policies through our own scheduler, beside a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.policy.names import POLICIES
from support.admission import exact
from support.cluster import Cluster
from support.command import run_command
from support.policies import add_policy, serve_policies
from support.rebalancing import PACE
from support.scheduled_tiers import ByScheduler, by_scheduler

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


def test_policies_of_the_cluster_come_and_go_while_it_runs(corner: ByScheduler):
    corner.corner.nodes()
    serve_policies(corner.cluster)
    corner.policies(cluster=True)
    corner.deploy("before", 4)
    assert corner.corner.settled("before", 4).total() == 4
    own = corner.corner
    made = add_policy(corner.cluster, own.policy("web", own.tier("on-demand", max=2), own.tier("spot")))
    corner.placing.wait_for("policy_accepted")
    corner.deploy("web", 5)
    assert corner.corner.settled("web", 5) == {"on-demand": 2, "spot": 3}
    tiers = {one["metadata"]["annotations"]["fairlead.dev/policy"] for one in corner.corner.pods("web")}
    assert tiers == {made["metadata"]["name"]}


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
    done = run_command("replay", record, "--output=json")
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
