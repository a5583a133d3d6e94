"""A standby knows what the leader knows, and does nothing with it until the lease is its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.doors.scheduler.configuration import merged
from fairlead.doors.scheduler.inbox import Latest
from fairlead.doors.scheduler.leading import Scheduler
from fairlead.engine.core.events import Gone, Seen
from fairlead.kube.workloads import PodGroup
from support.cluster_of import seen
from support.faults import Answer, Faithful, FaultProxy, RequestFault
from support.scheduler import Shop, aside
from support.units import node as a_node
from support.units import pod

LEASE = "fairlead-scheduler"


@dataclass
class Requests(Faithful):
    """Remembers every request; answers those for `withheld` (part of a path) with 503."""

    made: list[str] = field(default_factory=list)
    withheld: str = ""

    def on_request(self, method: str, path: str) -> RequestFault | None:
        self.made.append(f"{method} {path}")
        if self.withheld and self.withheld in path:
            return Answer(503, "ServiceUnavailable")
        return None

    @property
    def writes(self) -> list[str]:
        return [one for one in self.made if not one.startswith("GET ")]

    def listings(self, plural: str) -> int:
        return sum(f"/{plural}?" in one and "sendInitialEvents" in one for one in self.made)


def lease(ours: Shop, holder: str) -> dict[str, object]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": ours.cluster.namespace},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 3600},
    }


@asynccontextmanager
async def candidate(
    ours: Shop, requests: Requests, *, system_namespace: str = "", **flags: object
) -> AsyncIterator[Scheduler]:
    """A scheduler beside another that holds the lease, unless its lease is in a namespace of its own."""
    if not system_namespace:
        await aside(ours.cluster.create, lease(ours, "other"))
    fields = {"schedulerNames": [ours.scheduler], "leaderElection.retryPeriod": "200ms", **flags}
    upstream = kubeconfig.load(ours.cluster.kubeconfig)
    async with FaultProxy(upstream, requests) as proxy, Connection(proxy.target, in_flight=96) as connection:
        scheduler = Scheduler(
            Client(connection),
            merged({}, fields),
            system_namespace=system_namespace or ours.cluster.namespace,
        )
        running = asyncio.create_task(scheduler.run())
        try:
            yield scheduler
        finally:
            scheduler.stop()
            await running


def ready(scheduler: Scheduler) -> bool:
    return not any(scheduler.checks().values())


async def test_it_writes_nothing_and_takes_over_without_listing(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=4)
    await aside(ours.add, "before")
    requests = Requests()
    async with candidate(ours, requests) as standby:
        await aside(ours.cluster.wait, lambda: ready(standby), "the standby to be ready")
        made = await aside(ours.add, "after")
        await aside(ours.cluster.delete, "Pod", "before", gracePeriodSeconds=0)
        await aside(ours.cluster.gone, "Pod", "before")
        assert standby.session is not None
        assert not standby.session.core.state.pending
        assert not requests.writes
        listed = requests.listings("pods"), requests.listings("nodes")
        with capture_logs() as said:
            await aside(ours.cluster.patch, "Lease", LEASE, {"spec": {"holderIdentity": ""}})
            await aside(ours.bound, "after")
        assert (requests.listings("pods"), requests.listings("nodes")) == listed == (1, 1)
        binds = [one for one in requests.writes if one.endswith("/binding")]
        assert len(binds) == 1, binds
    assert made["metadata"]["name"] == "after"
    assert [line["event"] for line in said if line["event"] in ("lease_acquired", "synced")] == [
        "lease_acquired",
        "synced",
    ]


async def test_one_that_is_told_to_end_ends_without_having_led(ours: Shop):
    requests = Requests()
    async with candidate(ours, requests) as standby:
        await aside(ours.cluster.wait, lambda: ready(standby), "the standby to be ready")
        standby.reload(merged({}, {"schedulerNames": ["another"]}))
        first = standby.session
        await aside(
            ours.cluster.wait,
            lambda: standby.session not in (first, None) and ready(standby),
            "a new session",
        )
    assert not requests.writes
    held = await aside(ours.cluster.get, "Lease", LEASE)
    assert held["spec"]["holderIdentity"] == "other"


async def test_it_is_ready_once_everything_is_listed(ours: Shop):
    requests = Requests(withheld="/poddisruptionbudgets")
    async with candidate(ours, requests) as standby:
        await aside(
            ours.cluster.wait,
            lambda: standby.checks().get("caches") == "not listed yet: poddisruptionbudgets",
            "all but one to be listed",
        )
        assert standby.checks()["session"] == ""
        requests.withheld = ""
        await aside(ours.cluster.wait, lambda: ready(standby), "the standby to be ready")
        assert standby.checks() == {"session": "", "caches": ""}


async def test_a_leader_that_rebuilds_is_not_ready(ours: Shop):
    (node,) = await aside(ours.cluster.add_nodes, 1, cpu=4)
    # News that is on its way is no drift: only what the core lost is, and that at once.
    drift = {"drift.settle": "3s", "drift.tolerated": 0, "drift.interval": "200ms"}
    flags = {"leaderElection.enabled": False, "rebuild.delay": "1h", **drift}
    async with candidate(ours, Requests(), **flags) as leader:
        await aside(ours.cluster.wait, lambda: ready(leader), "the leader to be ready")
        assert leader.checks() == {"session": "", "caches": "", "core": ""}
        await aside(ours.add, "a")
        await aside(ours.bound, "a")
        assert leader.session is not None
        leader.session.core.handle([Gone("Node", "", node)], 0.0)
        await aside(ours.cluster.wait, lambda: leader.checks()["session"], "it to rebuild")
        assert not ready(leader)


async def test_a_leader_that_finds_the_lease_taken_says_so_and_stands_by(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=4)
    with capture_logs() as said:
        async with candidate(ours, Requests()) as scheduler:
            await aside(ours.cluster.patch, "Lease", LEASE, {"spec": {"holderIdentity": ""}})
            await aside(ours.add, "a")
            await aside(ours.bound, "a")
            taken = {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600}}
            await aside(ours.cluster.patch, "Lease", LEASE, taken)
            await aside(
                ours.cluster.wait, lambda: "core" not in scheduler.checks() and ready(scheduler), "a standby"
            )
    assert [line["reason"] for line in said if line["event"] == "lease_lost"] == [
        "the lease is held by other now"
    ]


async def test_the_namespace_of_its_lease_is_made_when_it_is_missing_and_never_looked_for(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=4)
    requests, name = Requests(), ours.cluster.unique("system")
    ours.cluster.owns(f"/api/v1/namespaces/{name}")
    async with candidate(ours, requests, system_namespace=name):
        await aside(ours.add, "a")
        await aside(ours.bound, "a")
        made = await aside(ours.cluster.wire.request, "GET", f"/api/v1/namespaces/{name}")
        assert made.status == 200
    assert not [one for one in requests.made if one.startswith(f"GET /api/v1/namespaces/{name}")]


class TestWhatIsKept:
    def test_is_the_latest_of_each_object_in_the_order_they_came(self):
        latest = Latest()
        first, second, again = seen(a_node("n", cpu=1)), seen(pod("p")), seen(a_node("n", cpu=2))
        latest.take([first, second])
        latest.take([again])
        assert len(latest) == 2
        assert latest.all() == [again, second]
        assert latest.all() == []

    def test_is_nothing_of_what_is_gone(self):
        latest = Latest()
        latest.take([seen(a_node("n")), Gone("Node", "", "n")])
        assert latest.all() == []

    def test_is_the_successor_when_the_deletion_of_the_one_before_comes_late(self):
        latest = Latest()
        later = seen(pod("p", uid="2"))
        latest.take([seen(pod("p", uid="1")), later, Gone("Pod", "default", "p", "1")])
        assert latest.all() == [later]

    @pytest.mark.parametrize("flavours", [("scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1")])
    def test_is_every_flavour_of_a_pod_group(self, flavours: tuple[str, ...]):
        latest = Latest()
        events = [Seen("PodGroup", PodGroup(api_version=flavour)) for flavour in flavours]
        latest.take(events)
        assert latest.all() == events
