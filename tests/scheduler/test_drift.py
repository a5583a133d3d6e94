"""What the scheduler knows is compared with the API, and repaired object by object."""

from __future__ import annotations

import msgspec

from fairlead.doors.scheduler.session import Session
from fairlead.engine.core.events import Gone
from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod
from support.faults import Answer, Drop, Faithful, RequestFault, Script
from support.scheduler import Shop, aside, in_process

# Tests before this one may still be tidied up after: what is on its way to us for so long was not lost.
SETTLE = "3s"


async def test_a_pod_whose_creation_the_watch_never_showed_is_found_and_placed(ours: Shop):
    await aside(ours.cluster.add_nodes, 1)
    async with in_process(ours, drift__settle=0) as running:
        plan = Script(frames=[("/api/v1/pods?", Drop())])
        running.ledger.plan = plan
        await aside(ours.add, "a")
        await aside(ours.cluster.wait, lambda: not plan.frames, "the frame to be dropped")
        assert running.scheduler.session is not None
        drift = running.scheduler.session.drift
        assert await drift.compare() >= 1
        await aside(ours.bound, "a")
    text = running.scheduler.metrics().decode()
    assert 'fairlead_drift_total{kind="Pod"}' in text


async def test_a_pod_whose_end_the_watch_never_showed_is_forgotten(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=1)
    async with in_process(ours, drift__settle=SETTLE) as running:
        await aside(ours.add, "a")
        await aside(ours.bound, "a")
        session = running.scheduler.session
        assert session is not None
        key = f"{ours.cluster.namespace}/a"
        await aside(ours.cluster.delete, "Pod", "a", gracePeriodSeconds=0)
        await aside(ours.cluster.gone, "Pod", "a")
        await aside(ours.cluster.wait, lambda: not session.core.report.uid_of(key), "the end to be seen")
        assert await drift_of(session) == 0


async def drift_of(session: Session) -> int:
    return await session.drift.compare()


async def at_rest(ours: Shop, session: Session, pod: str) -> None:
    """Wait until a pod runs, so that it changes no more, and the core knows: news would undo a loss."""

    def runs() -> bool:
        return bool(ours.cluster.get("Pod", pod)["status"]["phase"] == "Running")

    await aside(ours.cluster.wait, runs, f"{pod} to run")
    await drift_of(session)


async def test_a_pod_that_the_core_lost_is_told_to_it_again(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=1)
    async with in_process(ours, drift__settle=SETTLE) as running:
        made = await aside(ours.add, "a")
        await aside(ours.bound, "a")
        session = running.scheduler.session
        assert session is not None
        namespace = ours.cluster.namespace
        await at_rest(ours, session, "a")
        session.core.handle([Gone("Pod", namespace, "a", made["metadata"]["uid"])], 0.0)
        assert await drift_of(session) == 1
        await aside(
            ours.cluster.wait,
            lambda: session.core.report.node_of(f"{namespace}/a"),
            "the pod to be counted again",
        )
        assert await drift_of(session) == 0


class ByNameRefused(Faithful):
    """Nodes may be listed and watched; read one by one they may not."""

    def on_request(self, method: str, path: str) -> RequestFault | None:
        return Answer(403, "Forbidden") if path.startswith("/api/v1/nodes/") else None


async def test_repairs_need_no_more_rights_than_watching(ours: Shop):
    (node,) = await aside(ours.cluster.add_nodes, 1, cpu=1)
    async with in_process(ours, ByNameRefused(), drift__settle=0) as running:
        session = running.scheduler.session
        assert session is not None
        await aside(ours.add, "a")
        await aside(ours.bound, "a")
        session.core.handle([Gone("Node", "", node)], 0.0)
        assert await drift_of(session) >= 1
        report = session.core.report
        await aside(ours.cluster.wait, lambda: report.has_node(node), "the node to be known again")


async def test_too_much_of_it_lists_everything_anew(ours: Shop):
    (node,) = await aside(ours.cluster.add_nodes, 1, cpu=4)
    flags = {"drift__settle": SETTLE, "drift__tolerated": 0, "drift__interval": "200ms", "rebuild__delay": 0}
    async with in_process(ours, **flags) as running:
        await aside(ours.add, "a")
        await aside(ours.bound, "a")
        first = running.scheduler.session
        assert first is not None
        first.core.handle([Gone("Node", "", node)], 0.0)  # its heartbeats are no news that would undo it

        def rebuilt() -> bool:
            session = running.scheduler.session
            return session is not None and session is not first and session.synced

        await aside(ours.cluster.wait, rebuilt, "a new session")
        await aside(ours.add, "b")
        await aside(ours.bound, "b")
    assert 'fairlead_rebuilds_total{reason="drift"} 1.0' in running.scheduler.metrics().decode()


async def test_a_defect_of_the_core_lists_everything_anew(ours: Shop):
    await aside(ours.cluster.add_nodes, 1, cpu=4)
    async with in_process(ours, rebuild__delay=0, rebuild__interval=0) as running:
        first = running.scheduler.session
        assert first is not None
        # What a defect might leave behind: the core believes a pod placed that it has never seen.
        made = convert(ours.pod("a") | {"kind": "Pod"}, Pod)
        metadata = msgspec.structs.replace(made.metadata, namespace=ours.cluster.namespace)
        first.core._state.snapshot.assume(msgspec.structs.replace(made, metadata=metadata), 0)
        await aside(ours.add, "a")
        await aside(ours.bound, "a")
        assert running.scheduler.session is not first
