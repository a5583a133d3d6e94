"""Owner references that name nothing: any user writes them, and nothing is asked or remembered for ever."""

from __future__ import annotations

import asyncio
import json
import tracemalloc

import pytest

from fairlead.client.api import Client
from fairlead.client.config import Server, Target
from fairlead.client.connection import JSON, Connection
from fairlead.engine.core.events import Gone, Seen
from fairlead.feed import scales as scales_module
from fairlead.feed.owners import OwnerReader
from fairlead.feed.references import is_valid
from fairlead.feed.scales import Scales
from fairlead.kube.meta import OwnerReference
from support.units import pod, typed
from support.virtual_loop import VirtualLoop, pass_by, run_virtually

KINDS = 1000
FORGED = [
    {"apiVersion": "../../api/v1"},
    {"apiVersion": "a/b/v1"},
    {"apiVersion": "x" * 300 + ".io/v1"},
    {"apiVersion": "example.com/v1?a=b"},
    {"kind": "Thing/../Other"},
    {"kind": "K" * 100},
    {"kind": ""},
    {"name": ".."},
    {"name": "a/b"},
    {"name": "n" * 300},
    {"uid": "u" * 1000},
]


class Nothing(Client):
    """An API server that serves none of the kinds that it is asked for."""

    def __init__(self) -> None:
        super().__init__(Connection(Target(Server("http://nowhere.invalid"))))
        self.asked: list[str] = []

    async def read(self, path: str, *, accept: str = JSON) -> bytes:
        self.asked.append(path)
        return json.dumps({"resources": []}).encode()


def owned(name: str, /, **owner: str) -> Seen:
    reference = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "a", "uid": f"uid-{name}"} | owner
    return Seen("Pod", typed(pod(name, gang="g", owner=reference | {"controller": True})))


@pytest.mark.parametrize("forged", FORGED)
def test_a_reference_that_can_name_no_object_is_asked_for_nowhere(forged: dict[str, str]) -> None:
    async def story(loop: VirtualLoop) -> None:
        apis = Nothing()
        seen = owned("a-0", **forged)
        assert await Scales(apis, lambda _: True, loop.clock).before([seen]) == []
        await OwnerReader(apis, clock=loop.clock).learn(seen.object.metadata, "default")
        assert apis.asked == []

    run_virtually(story)


@pytest.mark.parametrize(
    "reference",
    [
        OwnerReference("Rollout", "web", "u", "argoproj.io/v1alpha1"),
        OwnerReference("Node", "ip-10-0-0-1.ec2.internal", "u", "v1"),
        OwnerReference("PyTorchJob", "a.b-c", "", "kubeflow.org/v1"),
        OwnerReference("ReplicaSet", "web-5d8", "5f3c9ab0-0000-4000-8000-000000000000", "apps/v1"),
    ],
)
def test_a_reference_to_what_may_exist_is_valid(reference: OwnerReference) -> None:
    assert is_valid(reference)


def test_kinds_without_pods_are_forgotten() -> None:
    async def story(loop: VirtualLoop) -> None:
        scales = Scales(Nothing(), lambda _: True, loop.clock)

        async def tell(_: object) -> None:
            """The core is not part of this."""

        running = asyncio.create_task(scales.run(tell))
        kept = []
        for turn in range(4):
            names = [f"a-{turn}-{number}" for number in range(KINDS)]
            for name in names:
                await scales.before([owned(name, kind="K" + name.replace("-", "x"))])
            await scales.before([Gone("Pod", "default", name, f"uid-{name}") for name in names])
            await pass_by(KINDS)  # ten owners are looked at again every half second
            kept.append(held())
        running.cancel()
        assert kept[-1] < 2 * kept[0], f"bytes after each thousand kinds: {kept}"

    tracemalloc.start()
    try:
        run_virtually(story)
    finally:
        tracemalloc.stop()


def held() -> int:
    """Bytes that were allocated by the module, and are still held."""
    only = tracemalloc.Filter(True, scales_module.__file__)
    return sum(one.size for one in tracemalloc.take_snapshot().filter_traces([only]).statistics("filename"))
