"""Gangs whose pods a custom resource makes: its scale says how many there will be."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from fairlead.doors.scheduler.recording import replay, segments_of
from fairlead.engine.gangs.gangs import Gang
from fairlead.kube.resources import Resource
from support.custom import custom_resource, gadget
from support.faults import Answer, Faithful, RequestFault
from support.scheduler import InProcess, Manifest, Shop, aside, in_process

SCALED = {
    "status": {},
    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
}
AT_ONCE = {"gangs__settle": 0}


def make(ours: Shop, resource: Resource, name: str, **body: Any) -> Manifest:
    path = ours.cluster.path(resource)
    return ours.cluster.wire.request("POST", path, gadget(resource, name, **body)).ok()  # type: ignore[no-any-return]


class Owner:
    """A custom resource with a scale, and the pods that its controller would make for a gang."""

    def __init__(self, ours: Shop, replicas: int, *, name: str = "train") -> None:
        ours.cluster.add_nodes(1, cpu=16)
        self._ours = ours
        self.resource = custom_resource(ours.cluster, subresources=SCALED)
        self.made = make(ours, self.resource, name, spec={"size": replicas})

    def pod(self, name: str) -> None:
        made = self._ours.pod(name, gang="train")
        made["metadata"]["ownerReferences"] = [self.reference()]
        self._ours.cluster.create(made)

    def reference(self) -> Manifest:
        metadata = self.made["metadata"]
        said = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, "controller": True}
        return {**said, "name": metadata["name"], "uid": metadata["uid"]}

    def scale(self, replicas: int) -> None:
        self._ours.cluster.patch(self.resource, self.made["metadata"]["name"], {"spec": {"size": replicas}})


async def seen(ours: Shop, running: InProcess, present: int, minimum: int | None = None) -> Gang:
    """The gang, once the scheduler sees so many members (and that it needs so many)."""

    def look() -> Gang | None:
        session = running.scheduler.session
        gang = session.core.report.gang(f"{ours.cluster.namespace}/train") if session else None
        if gang is None or gang.present != present:
            return None
        return gang if minimum is None or gang.minimum == minimum else None

    found = await aside(ours.cluster.wait, look, f"a gang with {present} members")
    assert found is not None
    return found


async def test_it_waits_for_as_many_as_the_scale_says(ours: Shop, tmp_path: Path):
    owner = await aside(Owner, ours, 3)
    for name in ("a", "b"):
        await aside(owner.pod, name)
    # The two are older than any gang waits to settle: only the scale tells that they are not all.
    async with in_process(ours, record__file=str(tmp_path / "recording"), **AT_ONCE) as running:
        assert (await seen(ours, running, 2)).minimum == 3
        await aside(ours.events, "a", "WaitingForGang")
        assert not any((await aside(ours.nodes_of)).values())
        await aside(owner.pod, "c")
        await aside(ours.bound, "a", "b", "c")
    found = replay(segments_of(tmp_path / "recording"))
    assert found.difference is None
    assert found.actions


async def test_a_scale_that_changes_is_followed(ours: Shop):
    owner = await aside(Owner, ours, 5)
    await aside(owner.pod, "a")
    async with in_process(ours, **AT_ONCE) as running:
        assert (await seen(ours, running, 1)).minimum == 5
        await aside(owner.scale, 3)
        await seen(ours, running, 1, minimum=3)
        await aside(owner.scale, 2)
        await aside(owner.pod, "b")
        await aside(ours.bound, "a", "b")


async def test_all_owners_of_the_gang_count(ours: Shop):
    first, second = await aside(Owner, ours, 1), await aside(Owner, ours, 2, name="second")
    await aside(first.pod, "a")
    async with in_process(ours, gangs__settle="5s") as running:
        await aside(second.pod, "b")
        assert (await seen(ours, running, 2, minimum=3)).needed == 3
        await aside(second.pod, "c")
        await aside(ours.bound, "a", "b", "c")


@dataclass
class NoScale(Faithful):
    """The API server lets nobody read scales."""

    asked: list[str] = field(default_factory=list)

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if not path.partition("?")[0].endswith("/scale"):
            return None
        self.asked.append(path)
        return Answer(403, "Forbidden")


async def test_a_scale_that_may_not_be_read_is_reported_once_and_the_members_are_counted(ours: Shop):
    owners = [await aside(Owner, ours, 3), await aside(Owner, ours, 3, name="other")]
    for index, owner in enumerate(owners):
        await aside(owner.pod, f"p{index}")
    plan = NoScale()
    with capture_logs() as said:
        async with in_process(ours, plan, **AT_ONCE):
            await aside(ours.bound, "p0", "p1")
    assert len(plan.asked) == 2
    (refused,) = [line for line in said if line["event"] == "scale_refused"]
    assert refused["owner"].startswith(f"Gadget.{owners[0].resource.group}")


async def test_a_kind_without_a_scale_is_not_asked_for_one(ours: Shop):
    owner = await aside(Owner, ours, 3)
    plain = await aside(custom_resource, ours.cluster)
    made = await aside(make, ours, plain, "plain")
    owner.resource, owner.made = plain, made
    await aside(owner.pod, "a")
    plan = NoScale()
    async with in_process(ours, plan, **AT_ONCE):
        await aside(ours.bound, "a")
    assert not plan.asked


async def test_an_owner_that_goes_is_forgotten(ours: Shop):
    owner = await aside(Owner, ours, 3)
    orphan: dict[str, Any] = {"propagationPolicy": "Orphan"}
    await aside(owner.pod, "a")
    async with in_process(ours, **AT_ONCE) as running:
        assert (await seen(ours, running, 1)).minimum == 3
        await aside(ours.cluster.delete, owner.resource, "train", **orphan)
        await aside(ours.bound, "a")


async def test_a_declared_size_needs_no_scale(ours: Shop):
    owner = await aside(Owner, ours, 3)
    made = ours.pod("a", gang="train", minimum=1)
    made["metadata"]["ownerReferences"] = [owner.reference()]
    await aside(ours.cluster.create, made)
    plan = NoScale()
    async with in_process(ours, plan, **AT_ONCE):
        await aside(ours.bound, "a")
    assert not plan.asked
