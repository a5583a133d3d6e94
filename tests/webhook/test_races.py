"""Several replicas at once: nobody is given a slot twice, and no slot is left out."""

from __future__ import annotations

import itertools
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from fairlead.policy.names import LEDGERS
from fairlead.policy.slots.ledger import Ledger
from support.admission import SLOT, TIER, Manifest, Tiered, exact
from support.door import DoorProcess
from support.manifests import pod

NAMES = ("one", "two", "three", "four")

# A rebalancer that lets no reason to move a pod pass.
HURRY = {"minPodAge": "0s", "perMinute": 600, "stabilize": "0s"}


def admitted(replica: DoorProcess) -> int:
    """How many pods it says it gave slots to."""
    return sum(line["pods"] for line in replica.log("admitted"))


def at_once(call: Callable[[str], Any]) -> None:
    with ThreadPoolExecutor(len(NAMES)) as pool:
        list(pool.map(call, NAMES))


def scale_all(corner: Tiered, number: int) -> None:
    """All Deployments in one go, each over a connection of its own."""

    def scale(name: str) -> None:
        wire = corner.cluster.host.wire()
        body = {"spec": {"replicas": number}}
        path = corner.cluster.path("Deployment", name)
        wire.request("PATCH", path, body, content_type="application/merge-patch+json").ok()
        wire.close()

    at_once(scale)


@pytest.mark.slow
def test_two_hundred_pods_at_once_are_off_by_none(corner: Tiered, count: Callable[[int, int], int]) -> None:
    corner.nodes(spot=2, on_demand=2)
    corner.run(replicas=2)
    for name in NAMES:
        corner.deploy(name, 0)
    for round_ in range(count(2, 20)):
        scale_all(corner, 50)
        for name in NAMES:
            assert corner.settled(name, 50) == exact(50), (round_, name)
        slots = [[int(one["metadata"]["annotations"][SLOT]) for one in corner.pods(name)] for name in NAMES]
        assert [sorted(held) for held in slots] == [list(range(1, 51))] * 4
        scale_all(corner, 0)
        for name in NAMES:
            corner.settled(name, 0)
    assert all(admitted(replica) for replica in corner.replicas), "both took part"


@pytest.mark.slow
def test_a_replica_killed_in_the_middle_costs_nobody_a_slot(
    corner: Tiered, count: Callable[[int, int], int]
) -> None:
    number = count(20, 50)
    more = number + 10
    corner.nodes()
    corner.run(corner.policy(rebalance=HURRY), replicas=2, arguments=("--failure-policy=Fail",))
    for name in NAMES:
        corner.deploy(name, 0)
    # One watch for all: an API server hangs up on who does not keep up with it.
    with corner.watching(*NAMES) as moments, corner.rebalancing() as rebalancer:
        rebalancer.wait_for("synced")
        scale_all(corner, number)
        doomed = corner.replicas[0]
        corner.cluster.wait(lambda: admitted(doomed) >= number // 2, "some to be admitted by it")
        doomed.signal(signal.SIGKILL)
        for name in NAMES:
            assert corner.settled(name, number) == exact(number), name
        # Who is left goes on from what the dead one had given away.
        scale_all(corner, more)
        for name in NAMES:
            assert corner.settled(name, more) == exact(more), name
        safe = on_demand_once_all_ready(corner, moments(), number)
    for name in NAMES:
        assert safe[name], f"{name} was seen with all of its pods Ready"
        assert min(safe[name]) >= exact(number)["on-demand"], name


def on_demand_once_all_ready(
    corner: Tiered, moments: Iterator[list[Manifest]], number: int
) -> dict[str, list[int]]:
    """How many served on on-demand, at each moment since so many pods of a workload were Ready."""
    found: dict[str, list[int]] = {name: [] for name in NAMES}
    for pods in moments:
        for name in NAMES:
            now = corner.serving([one for one in pods if one["metadata"]["labels"]["app"] == name])
            if found[name] or now.total() >= number:
                found[name].append(now["on-demand"])
    return found


@pytest.mark.slow
def test_where_failures_are_ignored_what_slipped_through_is_adopted(
    corner: Tiered, count: Callable[[int, int], int]
) -> None:
    number = count(30, 60)
    corner.nodes()
    corner.run(replicas=2)
    corner.deploy("web", 0)
    corner.scale("web", number)
    corner.cluster.wait(lambda: sum(map(admitted, corner.replicas)) >= 10, "some to be admitted")
    for replica in corner.replicas:
        replica.signal(signal.SIGKILL)
    corner.cluster.wait(lambda: len(corner.pods("web")) == number, "all pods, some without a slot")
    corner.balancer.ports.clear()
    corner.add_replica(*corner.arguments)

    def kept() -> Counter[str] | None:
        for ledger in corner.cluster.list(LEDGERS)["items"]:
            entries = Ledger.from_object(ledger).entries
            if {one.pod for one in entries} >= {one["metadata"]["name"] for one in corner.pods("web")}:
                return Counter(one.tier for one in entries if one.pod)
        return None

    counted = corner.cluster.wait(kept, "every pod to be in the ledger")
    assert counted == corner.settled("web", number)


@pytest.mark.slow
def test_where_failures_are_ignored_the_rebalancer_mends_what_slipped_through(
    corner: Tiered, count: Callable[[int, int], int]
) -> None:
    number = count(25, 50)
    corner.nodes()
    corner.run(corner.policy(rebalance=HURRY), replicas=2)
    for name in NAMES:
        corner.deploy(name, 0)
    scale_all(corner, number)
    doomed = corner.replicas[0]
    corner.cluster.wait(lambda: admitted(doomed) >= 10, "some to be admitted by it")
    doomed.signal(signal.SIGKILL)
    split = {name: corner.settled(name, number) for name in NAMES}

    with ExitStack() as stack:
        watched = {name: stack.enter_context(corner.watching(name)) for name in NAMES}
        stack.enter_context(corner.rebalancing())
        for name in NAMES:
            corner.cluster.wait(
                lambda name=name: corner.is_settled(name, number, exact(number)), f"{name} to be mended"
            )
        for name, moments in watched.items():
            least = min(split[name]["on-demand"], exact(number)["on-demand"])
            assert min((corner.serving(pods)["on-demand"] for pods in moments()), default=least) >= least


def test_while_nobody_answers_the_failure_policy_decides(corner: Tiered) -> None:
    corner.run(arguments=("--failure-policy=Fail",))
    corner.replicas[0].kill()
    corner.cluster.try_create(pod("refused")).refused(500, "InternalError")

    corner.balancer.ports.clear()
    corner.add_replica(*corner.arguments)
    made = corner.cluster.create(pod("admitted"))
    assert made["metadata"]["annotations"][TIER] == "on-demand"


def test_a_replica_that_ends_in_order_loses_no_call(corner: Tiered) -> None:
    corner.run(replicas=2, arguments=("--failure-policy=Fail",))
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(corner.replicas[0].stop)
        # As a Service does when a pod is on its way out: no new connections, the open ones are left alone.
        del corner.balancer.ports[0]
        for number in itertools.count():
            made = corner.cluster.create(pod(f"p{number}"))
            assert TIER in made["metadata"]["annotations"]
            if ended.done():
                break
        assert ended.result() == 0
