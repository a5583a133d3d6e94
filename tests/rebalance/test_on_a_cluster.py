"""Nothing to be had, burst and back, replicas that end: webhook and rebalancer beside a cluster."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from support.admission import TIER
from support.manifests import budget, deployment
from support.rebalancing import PACE, Rebalanced, least_ready
from support.wire import PATIENCE_S

Manifest = dict[str, Any]

# Longer than any test: what happens within one did not wait for it, and nobody tries a lost tier.
NEVER = {"after": "1h", "coolDown": "10m"}


def spot_and_on_demand(corner: Rebalanced, **spec: Any) -> Manifest:
    """A policy that keeps what a budget demands off spot."""
    own = corner.corner
    tiers = (own.tier("spot", volatile=True), own.tier("on-demand", min="pdb"))
    return own.policy("web", *tiers, rebalance=PACE, **{"fallback": NEVER, **spec})


@pytest.mark.slow
def test_all_spot_lost_never_takes_two_workloads_below_the_budget_they_share(corner: Rebalanced) -> None:
    own = corner.corner
    own.nodes()
    corner.cluster.create(budget("shop", {"app": "shop"}, maxUnavailable=2))
    corner.running(spot_and_on_demand(corner))
    for part in ("web", "canary"):
        labels = {"app": "shop", "part": part}
        made = deployment(part, 4, spec={"selector": {"matchLabels": labels}}, pods=own.here())
        made["spec"]["template"]["metadata"]["labels"] = labels
        corner.cluster.create(made)
    corner.lies("shop", spot=2, on_demand=6)

    with own.watching("shop") as moments:
        corner.lose(*corner.nodes("spot"))
        corner.lies("shop", on_demand=8)
        own.nodes(spot=2, on_demand=0)
        corner.lies("shop", spot=2, on_demand=6)
        assert least_ready(moments()) >= 6


@pytest.mark.slow
def test_where_no_spot_can_be_had_pods_go_on_demand_and_return_when_it_can(corner: Rebalanced) -> None:
    corner.corner.nodes(spot=0)
    # It takes a second for Unschedulable to be a second old.
    door = corner.running(spot_and_on_demand(corner, fallback={"after": "2s", "coolDown": "5m"}))
    corner.corner.deploy("web", 5)
    corner.lies("web", on_demand=5)
    # More than three where the webhook admits a replacement before it hears of the mark.
    door.wait_for("passed_on", 3)

    corner.corner.nodes(spot=1, on_demand=0)
    corner.lies("web", spot=3, on_demand=2)
    corner.cluster.wait(
        lambda: len(corner.events("PassedOn")) == len(door.log("passed_on")),
        "it to be said who was passed on",
    )
    corner.cluster.wait(lambda: len(corner.events("Rebalanced")) == 3, "three to be said to be brought back")
    assert {(one["tier"], one["to"]) for one in door.log("moved")} == {("on-demand", "spot")}


def test_a_workload_that_spot_could_never_take_does_not_close_it_for_others(corner: Rebalanced) -> None:
    own = corner.corner
    own.nodes(on_demand=0)
    own.nodes(spot=0, cpu=128)
    tiers = own.tier("spot", volatile=True), own.tier("on-demand", min=1)
    patient = {"after": "1s", "coolDown": "10m"}
    door = corner.running(own.policy("web", *tiers, rebalance=PACE, fallback=patient))
    picky = {"nodeSelector": {"test": corner.cluster.namespace, "capacity": "on-demand"}}
    large = {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "100"}}}]}
    corner.deploy("large", 2, pods=large)
    corner.deploy("picky", 3, pods=picky)
    corner.lies("large", on_demand=2)
    corner.lies("picky", on_demand=3)
    own.deploy("web", 3)
    corner.lies("web", spot=2, on_demand=1)
    assert not door.log("marks_written")


def test_no_pod_is_given_up_for_spot_that_nothing_can_bring(corner: Rebalanced) -> None:
    own = corner.corner
    own.nodes(spot=0)
    tiers = own.tier("spot", volatile=True), own.tier("on-demand", min=1)
    quick = {"after": "1s", "coolDown": "1s"}
    door = corner.running(own.policy("web", *tiers, rebalance=PACE, fallback=quick))
    own.deploy("web", 2)
    corner.lies("web", on_demand=2)
    why = "tier spot has no node, and nothing is known that would bring one"
    corner.cluster.wait(lambda: why in corner.tell(), "the cool-down to be over")
    assert not door.log("moved")


@pytest.mark.slow
def test_pods_return_from_burst_to_base_one_at_a_time(corner: Rebalanced) -> None:
    own = corner.corner
    own.nodes(spot=1, on_demand=2)
    base = own.tier("base", max=4) | {"nodes": {"test": corner.cluster.namespace, "capacity": "on-demand"}}
    burst = {"name": "burst", "names": corner.nodes("spot")}
    corner.running(own.policy("burst", base, burst, groupBy="policy", rebalance=PACE))
    own.deploy("one", 4)
    corner.lies("one", on_demand=4)
    own.deploy("two", 3)
    corner.lies("two", spot=3)

    with own.watching("two") as moments:
        own.scale("one", 1)
        corner.lies("two", on_demand=3)
        assert least_ready(moments()) == 2


@pytest.mark.slow
def test_a_dry_run_says_what_would_be_moved_and_why_and_moves_nothing(corner: Rebalanced) -> None:
    own = corner.corner
    own.nodes(spot=1)
    corner.policies(spot_and_on_demand(corner))
    corner.cordon(*corner.nodes("spot"))
    own.deploy("web", 5)
    said = corner.cluster.wait(lambda: told(corner, "pass on", 3), "three to be passed on")
    assert "leave alone" in said
    assert "its last schedulable node was cordoned" in said
    assert said.count("pass on") == 3

    def passed_on() -> bool:
        # Who changed in that moment, or came before the webhook heard of the mark, is left to another pass.
        door = corner.start("--once")
        assert door.ended() == 0, door.text()
        pods = own.pods("web")
        return len(pods) == 5 and {one["metadata"]["annotations"][TIER] for one in pods} == {"on-demand"}

    corner.cluster.wait(passed_on, "all to be passed on")
    corner.lies("web", on_demand=5)
    for name in corner.nodes("spot"):
        corner.cluster.patch("Node", name, {"spec": {"unschedulable": None}})

    said = corner.cluster.wait(lambda: told(corner, "move ", 1), "a move to be planned")
    assert "tier on-demand has 5 pods where the rule has 2; there is room on" in said
    corner.lies("web", on_demand=5)
    assert json.loads(corner.tell("--output=json"))["moves"][0]["to_tier"] == "spot"


@pytest.mark.slow
def test_a_second_replica_takes_over_when_the_first_is_killed(corner: Rebalanced) -> None:
    own = corner.corner
    own.nodes(spot=1)
    first = corner.running(spot_and_on_demand(corner))
    second = corner.start()
    own.deploy("web", 5)
    corner.lies("web", spot=3, on_demand=2)

    first.signal(signal.SIGTERM)
    assert first.ended() == 0, first.text()
    second.wait_for("synced")
    corner.lose(*corner.nodes("spot"))
    corner.lies("web", on_demand=5)
    assert not first.log("moved")


@pytest.mark.slow
def test_spot_that_is_lost_while_nobody_leads_is_given_up_by_who_takes_over(corner: Rebalanced) -> None:
    corner.corner.nodes()
    first = corner.running(spot_and_on_demand(corner))
    corner.corner.deploy("web", 10)
    corner.lies("web", spot=7, on_demand=3)
    corner.start().wait_for("observing")

    first.kill()
    corner.lose(*corner.nodes("spot"))
    corner.corner.free("fairlead-rebalancer")
    corner.lies("web", on_demand=10)


@pytest.mark.slow
def test_a_rebalancer_killed_between_two_moves_is_carried_on_by_the_next(corner: Rebalanced) -> None:
    own = corner.corner
    own.nodes(spot=1)
    first = corner.running(spot_and_on_demand(corner))
    corner.cluster.create(budget("web", {"app": "web"}, minAvailable=4))
    own.deploy("web", 8)
    corner.lies("web", spot=4, on_demand=4)
    corner.lose(*corner.nodes("spot"))
    corner.lies("web", on_demand=8)

    with own.watching("web") as moments:
        own.nodes(spot=1, on_demand=0)
        first.wait_for("moved")
        first.kill()
        own.free("fairlead-rebalancer")
        second = corner.start()
        corner.lies("web", spot=4, on_demand=4)
        assert least_ready(moments()) >= 4
    assert second.stop() == 0, second.text()


def test_a_standby_ends_at_once_and_no_port_is_opened_unless_asked_for(corner: Rebalanced) -> None:
    corner.write(spot_and_on_demand(corner))
    leader = corner.start()
    leader.wait_for("synced")
    assert not listening(leader.pid)
    standby = corner.start("--listen=127.0.0.1:0")
    (said,) = standby.wait_for("listening")
    assert len(listening(standby.pid)) == 1
    corner.cluster.wait(lambda: answer(f"{said['url']}/readyz")[0] == 200, "the standby to be ready")
    assert "fairlead_rebalance_waiting_groups" in answer(f"{said['url']}/metrics")[1]
    assert standby.stop() == 0, standby.text()
    assert not standby.log("leading")


def told(corner: Rebalanced, what: str, number: int) -> str:
    """What a dry run says, once it says this so often; a pod may be yet to come."""
    said = corner.tell()
    return said if said.count(what) >= number else ""


def answer(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def listening(pid: int) -> set[str]:
    """The sockets on which a process waits for connections."""
    own = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed since
            own.add(os.readlink(path))
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
    ]
    return {row[9] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own}
