"""Several replicas: one works, and whatever happens to it, nothing is done twice or by halves."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.scheduler import SchedulerProcess, Shop

pytestmark = pytest.mark.slow

TERMS = """
apiVersion: fairlead.dev/v1alpha1
kind: FairleadConfiguration
leaderElection: {leaseDuration: 4s, renewDeadline: 2s, retryPeriod: 500ms}
"""


@pytest.fixture
def replica(ours: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], SchedulerProcess]]:
    """Starts replicas that compete for one lease, with times that a test can wait for."""
    file = tmp_path_factory.mktemp("configuration") / "fairlead.yaml"
    file.write_text(TERMS)
    return lambda: ours.run(f"--config={file}", elect=True)


def backlog(ours: Shop, pods: int, gangs: int) -> list[str]:
    """Create single pods and gangs of three, quickly; their names."""
    made = [ours.pod(f"p{index}", cpu="10m") for index in range(pods)]
    made += [
        ours.pod(f"g{gang}-{member}", cpu="10m", gang=f"g{gang}", minimum=3)
        for gang in range(gangs)
        for member in range(3)
    ]

    def create(share: list[dict[str, Any]]) -> None:
        wire = ours.cluster.host.wire()
        for one in share:
            wire.request("POST", ours.cluster.path("Pod"), one).ok()
        wire.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, [made[lane::4] for lane in range(4)]))
    return [one["metadata"]["name"] for one in made]


def test_a_killed_leader_is_followed_and_nothing_is_bound_twice(
    ours: Shop, replica: Callable[[], SchedulerProcess], count: Callable[[int, int], int]
):
    ours.cluster.add_nodes(4, cpu=64, pods=1000)
    pods = count(200, 2000)
    names = backlog(ours, pods - 30, 10)
    leader = replica()
    leader.wait_for("lease_acquired")
    follower = replica()
    with ours.cluster.wire.watch(ours.cluster.path("Pod")) as watch:
        leader.wait_for("bound", len(names) // 10)
        leader.kill()
        follower.wait_for("lease_acquired")
        ours.bound(*names)
        nodes: dict[str, str] = {}
        while len(nodes) < len(names):
            seen = watch.next()["object"]
            node = seen["spec"].get("nodeName")
            if node:
                assert nodes.setdefault(seen["metadata"]["name"], node) == node
    assert not follower.log("bind_failed")


def test_a_leader_that_stood_still_past_its_lease_sends_nothing_more(
    ours: Shop, replica: Callable[[], SchedulerProcess]
):
    ours.cluster.add_nodes(1, cpu=4)
    leader = replica()
    leader.wait_for("synced")
    leader.signal(signal.SIGSTOP)
    follower = replica()
    follower.wait_for("synced")
    ours.add("a")
    ours.bound("a")
    leader.signal(signal.SIGCONT)
    leader.wait_for("lease_lost")
    ours.add("b")
    ours.bound("b")
    assert not leader.log("bound")
    assert {line["pod"].partition("/")[2] for line in follower.wait_for("bound", 2)} == {"a", "b"}


def test_a_leader_that_is_told_to_end_hands_over_at_once(ours: Shop, replica: Callable[[], SchedulerProcess]):
    ours.cluster.add_nodes(1, cpu=4)
    leader = replica()
    leader.wait_for("synced")
    follower = replica()
    ours.add("a")
    ours.bound("a")
    assert leader.stop() == 0
    lease = ours.cluster.get("Lease", "fairlead-scheduler")
    follower.wait_for("lease_acquired")
    assert lease["spec"]["leaseDurationSeconds"] in (1, 4)
    ours.add("b")
    ours.bound("b")


def test_a_changed_file_counts_without_a_restart(ours: Shop, tmp_path_factory: pytest.TempPathFactory):
    file = tmp_path_factory.mktemp("configuration") / "fairlead.yaml"
    head = "apiVersion: fairlead.dev/v1alpha1\nkind: FairleadConfiguration\n"
    file.write_text(head + "capacity: exclusive\n")
    ours.cluster.add_nodes(1, cpu=4)
    process = ours.run(f"--config={file}")
    ours.add("a")
    ours.bound("a")
    ours.add("b")
    ours.held("b")
    file.write_text(head + "capacity: nonsense\n")
    process.signal(signal.SIGHUP)
    assert "capacity" in process.wait_for("configuration_refused")[0]["reason"]
    file.write_text(head + "capacity: resources\n")
    process.signal(signal.SIGHUP)
    ours.bound("b")
    assert process.stop() == 0
