"""Lanes go by what an action brings and by the events since: a pod or claim that changed meanwhile counts."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from fairlead.doors.scheduler.volumes import Volumes, VolumesNotBound
from fairlead.engine.core.actions import HoldPod, NominatePod, VolumesToBind
from fairlead.engine.core.events import Event, Gone, Seen
from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod
from fairlead.kube.storage import PersistentVolumeClaim
from support.scheduler import Shop, aside
from support.wire import PATIENCE_S
from support.writers import Writing, writing

WHY = "0/1 nodes are available"


async def waiting(ours: Shop) -> Pod:
    """A pod that waits, as the API shows it."""
    return convert(await aside(ours.add, "a"), Pod)


def changed(pod: Pod, **spec: Any) -> Seen:
    return Seen("Pod", msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **spec)))


def hold(pod: Pod) -> HoldPod:
    return HoldPod(pod.metadata.key, pod.metadata.uid, WHY, True, pod.metadata.key, pod)


async def idle(found: Writing) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await found.statuses.idle()


async def test_why_a_pod_waits_is_written_once(ours: Shop) -> None:
    pod = await waiting(ours)
    async with writing(ours) as found:
        found.statuses.hold(hold(pod))
        await idle(found)
        assert found.statuses.written == 1
        shown = convert(await aside(ours.cluster.get, "Pod", "a"), Pod)
        found.statuses.hold(msgspec.structs.replace(hold(pod), waiting=shown))
        await idle(found)
        assert found.statuses.written == 1, "it says so already"


@pytest.mark.parametrize("how", ["bound by another", "leaving", "gone", "placed"])
async def test_nothing_is_written_about_a_pod_that_does_not_wait_any_more(ours: Shop, how: str) -> None:
    pod = await waiting(ours)
    metadata = pod.metadata
    leaving = msgspec.structs.replace(metadata, deletion_timestamp=metadata.creation_timestamp)
    events: dict[str, Event] = {
        "bound by another": changed(pod, node_name="n"),
        "leaving": Seen("Pod", msgspec.structs.replace(pod, metadata=leaving)),
        "gone": Gone("Pod", metadata.namespace, metadata.name, metadata.uid),
    }
    async with writing(ours) as found:
        found.statuses.hold(hold(pod))
        if how == "placed":
            found.statuses.place(metadata.uid)
            found.statuses.told([changed(pod)])  # as the API shows it until it is bound
        else:
            found.statuses.told([events[how]])
        await idle(found)
        assert found.statuses.written == 0


async def test_a_nomination_is_cleared_though_the_pod_does_not_wait_any_more(ours: Shop) -> None:
    pod = await waiting(ours)
    key, uid = pod.metadata.key, pod.metadata.uid
    async with writing(ours) as found:
        found.statuses.nominate(NominatePod(key, uid, "n", pod))
        await idle(found)
        assert (await aside(ours.cluster.get, "Pod", "a"))["status"]["nominatedNodeName"] == "n"
        found.statuses.nominate(NominatePod(key, uid, ""))
        await idle(found)
        assert not (await aside(ours.cluster.get, "Pod", "a"))["status"].get("nominatedNodeName")


def claim(**more: Any) -> PersistentVolumeClaim:
    metadata = {"name": "c", "namespace": "default", "uid": "uid-c", **more.pop("metadata", {})}
    return convert({"metadata": metadata, "spec": more}, PersistentVolumeClaim)


BOUND = claim(metadata={"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, volumeName="v")
WANTED = VolumesToBind(("default/c",), (), (), {"default/c": claim()}, {})


class TestABindThatWaitsForVolumes:
    async def test_goes_on_once_its_claim_was_seen_bound(self, volumes: Volumes) -> None:
        volumes.follow(WANTED)
        waits = asyncio.create_task(volumes.bind(WANTED, "n"))
        await asyncio.sleep(0)
        assert not waits.done()
        volumes.told([Seen("PersistentVolumeClaim", BOUND)])
        await asyncio.wait_for(waits, PATIENCE_S)

    async def test_knows_what_was_seen_before_its_turn_came(self, volumes: Volumes) -> None:
        volumes.follow(WANTED)
        volumes.told([Seen("PersistentVolumeClaim", BOUND)])
        await asyncio.wait_for(volumes.bind(WANTED, "n"), PATIENCE_S)

    async def test_ends_when_its_claim_is_gone(self, volumes: Volumes) -> None:
        volumes.follow(WANTED)
        waits = asyncio.create_task(volumes.bind(WANTED, "n"))
        await asyncio.sleep(0)
        volumes.told([Gone("PersistentVolumeClaim", "default", "c", "uid-c")])
        with pytest.raises(VolumesNotBound, match="is gone"):
            await asyncio.wait_for(waits, PATIENCE_S)

    async def test_leaves_the_claim_to_another_pod_that_waits_for_it_too(self, volumes: Volumes) -> None:
        volumes.follow(WANTED)
        volumes.follow(WANTED)
        first = asyncio.create_task(volumes.bind(WANTED, "n"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(volumes.bind(WANTED, "n"))
        await asyncio.sleep(0)
        assert not second.done()
        volumes.told([Seen("PersistentVolumeClaim", BOUND)])
        await asyncio.wait_for(second, PATIENCE_S)


@pytest.fixture
async def volumes(ours: Shop) -> Any:
    async with writing(ours) as found:
        yield found.volumes
