"""A standby knows what the leader knows, and does nothing with it until the lease is its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from structlog.testing import capture_logs

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.doors.process import Context
from fairlead.doors.scheduler.configuration import merged
from fairlead.doors.scheduler.door import SchedulerDoor
from fairlead.doors.scheduler.inbox import Inbox
from fairlead.doors.scheduler.watching import Watching
from fairlead.engine.core.events import Event, Gone, Seen, Unread
from fairlead.feed.policies import LivePolicies
from fairlead.feed.scales import Scales
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from support.faults import Answer, Faithful, FaultProxy, RequestFault
from support.scheduler import Shop, aside
from support.wire import PATIENCE_S

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
) -> AsyncIterator[SchedulerDoor]:
    """A scheduler beside another that holds the lease, unless its lease is in a namespace of its own."""
    if not system_namespace:
        await aside(ours.cluster.create, lease(ours, "other"))
    fields = {"schedulerNames": [ours.scheduler], "leaderElection.retryPeriod": "200ms", **flags}
    upstream = kubeconfig.load(ours.cluster.kubeconfig)
    async with FaultProxy(upstream, requests) as proxy, Connection(proxy.target, in_flight=96) as connection:
        client = Client(connection)
        namespace = system_namespace or ours.cluster.namespace
        context = Context(client, LivePolicies(client, cluster=False), namespace, client.rng)
        scheduler = SchedulerDoor(context, merged({}, fields))
        following = asyncio.create_task(context.follow())
        running = asyncio.create_task(scheduler.run())
        try:
            yield scheduler
        finally:
            scheduler.stop()
            await running
            following.cancel()
            await asyncio.wait((following,))


def ready(scheduler: SchedulerDoor) -> bool:
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
        assert not standby.session.core.report.pending
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
        standby.use(merged({}, {"schedulerNames": ["another"]}))
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


@asynccontextmanager
async def watching(ours: Shop, inbox: Inbox) -> AsyncIterator[Watching]:
    """What a standby watches, once everything is listed."""
    async with ours.cluster.client() as client, asyncio.TaskGroup() as group:
        context = Context(client, LivePolicies(client, cluster=False), ours.cluster.namespace, client.rng)
        scales = Scales(client, lambda pod: True, context.clock)
        found = Watching(client, context.watches, inbox, scales, rng=client.rng)
        tasks = [group.create_task(part) for part in (context.follow(), found.run())]
        await found.synced()
        yield found
        for task in tasks:
            task.cancel()


def objects(ours: Shop, events: list[Event]) -> dict[str, Event]:
    """What is told of nodes and pods of the test's own, by name."""
    found: dict[str, Event] = {}
    for event in events:
        thing = event.object if isinstance(event, Seen) else getattr(event, "pod", None)
        if isinstance(thing, Node | Pod) and (
            isinstance(thing, Node) or thing.metadata.namespace == ours.cluster.namespace
        ):
            found[thing.metadata.name] = event
    return found


class TestWhatALeaderBeginsWith:
    async def test_is_every_object_as_it_is_now_nodes_first(self, ours: Shop):
        await aside(ours.add, "gone")
        await aside(ours.add, "stays")
        inbox = Inbox()
        async with watching(ours, inbox) as found:
            (node,) = await aside(ours.cluster.add_nodes, 1)
            await aside(ours.cluster.patch, "Pod", "stays", {"metadata": {"labels": {"new": "yes"}}})
            await aside(ours.cluster.delete, "Pod", "gone", gracePeriodSeconds=0)
            await aside(ours.cluster.gone, "Pod", "gone")

            def known() -> dict[str, Event] | None:
                known = objects(ours, found.known())
                return known if node in known and "gone" not in known else None

            told = await aside(ours.cluster.wait, known, "the standby to see it")
            assert told is not None
            assert [name for name in told if name in (node, "stays")] == [node, "stays"]
            stays = told["stays"]
            assert isinstance(stays, Seen)
            assert isinstance(stays.object, Pod)
            assert stays.object.metadata.labels["new"] == "yes"

    async def test_goes_on_in_the_inbox_and_before_it_nothing_is_there(self, ours: Shop):
        inbox = Inbox()
        async with watching(ours, inbox) as found:
            await aside(ours.add, "before")
            await aside(ours.cluster.wait, lambda: "before" in _pods(ours, found), "the pod to be seen")
            assert not inbox.take()
            found.known()
            await aside(ours.add, "after")
            told: dict[str, Event] = {}
            async with asyncio.timeout(PATIENCE_S):
                while "after" not in told:
                    await inbox.wait(None)
                    told |= objects(ours, inbox.take())
            assert "before" not in told

    async def test_is_what_can_be_made_out_of_a_pod_that_was_never_read(self, ours: Shop):
        for name in ("bad", "gone"):
            await aside(ours.add, name, gang="g", minimum=3)
            no_time = {"status": {"startTime": "0000-01-01T00:00:00Z"}}
            await aside(ours.cluster.patch, "Pod", name, no_time, "merge", "status")
        async with watching(ours, Inbox()) as found:
            await aside(ours.cluster.delete, "Pod", "gone", gracePeriodSeconds=0)
            await aside(ours.cluster.wait, lambda: _pods(ours, found) == {"bad"}, "one to go")
            (event,) = [one for name, one in objects(ours, found.known()).items() if name in ("bad", "gone")]
            assert isinstance(event, Unread)
            assert event.pod.metadata.annotations["pod-group"] == "g"


def _pods(ours: Shop, found: Watching) -> set[str]:
    """The test's pods that the watch shows, readable or not."""
    (view,) = [reflector.view for resource, reflector in found if resource.kind == "Pod"]
    keys = (key.partition("/") for key in view.versions())
    return {name for namespace, _, name in keys if namespace == ours.cluster.namespace}
