"""What is predicted is what then happens on a real control plane: counted by workload, revision and tier."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.engine.planning.settings import Settings
from fairlead.feed.cluster_objects import read_objects
from fairlead.rig import build
from fairlead.rig.arguments import KUBECTL_ENV
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.nodes import ready_nodes
from fairlead.rig.processes import wait_until
from fairlead.simulation.changes import APART, apply_all
from fairlead.simulation.cluster_copy import ClusterCopy, Original
from fairlead.simulation.cluster_copy import load as load_original
from fairlead.simulation.contents import REBALANCER, SCHEDULER, WEBHOOK, Contents, components_seen
from fairlead.simulation.whatif import Question, play
from fairlead.world.objects import condition
from fairlead.world.schema.resources import PODS
from fairlead.world.store import Change
from support.balancer import Balancer
from support.door import DoorProcess
from support.foretold import PRIORITIES, Case, apply, case, choose, coverage, observed, predicted
from support.pauses import pause
from support.rig import programs

pytestmark = [pytest.mark.real, pytest.mark.slow]

SEED = 7
QUIET_S = 25.0
# The controller manager collects pods of nodes that are gone after forty seconds, at its next look.
AT_LEAST_S = 80.0
AT_MOST_S = 400.0
# From this many cases on, what must be among them is counted.
ALL = 50


class Pods:
    """Every state of every pod, from the start on."""

    def __init__(self, plane: ControlPlane, file: Path) -> None:
        self._file = file
        self._out = file.open("wb")
        kubectl = build.binary("kubectl")
        env = {**os.environ, **KUBECTL_ENV, "KUBECONFIG": str(plane.kubeconfig)}
        self._process = subprocess.Popen(
            [kubectl, "get", "pods", "-A", "--watch", "--output-watch-events", "-o", "json"],
            stdout=self._out,
            env=env,
        )

    def events(self) -> list[dict[str, Any]]:
        """All so far."""
        decoder, text, at, found = json.JSONDecoder(), self._file.read_text(), 0, []
        while at < len(text):
            try:
                event, at = decoder.raw_decode(text, at)
            except ValueError:
                break  # the last one is being written
            found.append(event)
            while at < len(text) and text[at].isspace():
                at += 1
        return found

    def settle(self, at_least_s: float) -> float:
        """Wait until nothing has changed for a while; the seconds that it took.

        While a preemption is under way that is longer: a nominated pod may wait for its next try.
        """
        began = changed = time.monotonic()
        size, looked_at, enough_s = self._file.stat().st_size, -1, QUIET_S
        while True:
            pause(1.0)
            now = time.monotonic()
            if self._file.stat().st_size != size:
                size, changed = self._file.stat().st_size, now
            if now - began >= at_least_s and now - changed >= QUIET_S:
                if looked_at != size:
                    looked_at, enough_s = size, (3 if self._making_room() else 1) * QUIET_S
                if now - changed >= enough_s:
                    return now - began
            assert now - began < AT_MOST_S, "the cluster never came to rest"

    def _making_room(self) -> bool:
        """Whether a pod is leaving, or waits for room that it was promised."""
        last = {event["object"]["metadata"]["uid"]: event for event in self.events()}
        return any(
            "deletionTimestamp" in event["object"]["metadata"]
            or (
                event["object"]["status"].get("nominatedNodeName")
                and not event["object"]["spec"].get("nodeName")
            )
            for event in last.values()
            if event["type"] != "DELETED"
        )

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._out.close()


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[ControlPlane, Pods]]:
    """A control plane with all our components but the extender."""
    programs("kube-scheduler", "kwok", "kubectl")
    with ControlPlane() as plane:
        plane.start_controller_manager()
        plane.start_kwok()
        plane.start_scheduler(qps=500)
        for name, value in PRIORITIES.items():
            body = {"metadata": {"name": name}, "value": value}
            apply(plane, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **body}, "")
        system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fairlead-system"}}
        apply(plane, system, "")
        with Balancer() as balancer:
            door = DoorProcess(
                plane.kubeconfig,
                "serve",
                "--doors=scheduler,webhook,rebalance",
                "--listen=127.0.0.1:0",
                f"--url={balancer.url}",
                "--register",
            )
            pods = Pods(plane, folder / "pods.json")
            try:
                (said,) = door.wait_for("listening")
                balancer.ports.append(int(said["url"].rpartition(":")[2]))
                door.wait_for("registered")
                yield plane, pods
            finally:
                pods.close()
                door.close()


async def contents_of(plane: ControlPlane) -> Contents:
    async with Connection(load(plane.kubeconfig)) as connection:
        read = await read_objects(Client(connection))
    assert read.unread == {}
    at, settings = datetime.now(UTC), Settings()
    objects = tuple(read.plain)
    return Contents(objects, at, settings, components_seen(objects, at, settings))


def begin(plane: ControlPlane, one: Case) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one.namespace}}
    apply(plane, namespace, "")
    for node in one.nodes:
        apply(plane, node, "")
    if one.policy is not None:
        apply(plane, one.policy, "")


def fill(plane: ControlPlane, one: Case) -> None:
    for item in one.objects:
        apply(plane, item, one.namespace)


def do(plane: ControlPlane, one: Case) -> None:
    for number, step in enumerate(one.steps):
        if number:
            time.sleep(APART.total_seconds())  # as far apart as they are in the prediction
        step(plane)


def test_what_is_predicted_happens(
    tmp_path: Path, count: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    cases = [case(number, SEED) for number in range(count(10, 50))]
    with cluster(tmp_path) as (plane, pods), ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda one: begin(plane, one), cases))
        names = {node["metadata"]["name"] for one in cases for node in one.nodes}
        wait_until(
            lambda: ready_nodes(plane.api, untainted=True) >= names, "the nodes to be Ready", timeout_s=120
        )
        list(pool.map(lambda one: fill(plane, one), cases))
        pods.settle(30.0)
        at_rest = len(pods.events())
        before = _there(cases, pods.events())
        for one in cases:
            choose(one, SEED, list(before[one.namespace].values()))
        contents = asyncio.run(contents_of(plane))
        assert contents.components == {SCHEDULER, WEBHOOK, REBALANCER}
        original = load_original(contents)
        foretold = {}
        for one in cases:
            found = play(contents, question_of(one), original)
            known = {
                pod["metadata"]["labels"].get("pod-template-hash", "")
                for pod in before[one.namespace].values()
            }
            foretold[one.namespace] = predicted(found, one.namespace, known)
        list(pool.map(lambda one: do(plane, one), cases))
        pods.settle(AT_LEAST_S)
        history = pods.events()
    wrong, came = [], []
    for one in cases:
        mine = [event for event in history if event["object"]["metadata"]["namespace"] == one.namespace]
        earlier = [e for e in history[:at_rest] if e["object"]["metadata"]["namespace"] == one.namespace]
        tiers = {
            node["metadata"]["name"]: node["metadata"]["labels"][f"tier-{one.number}"]
            for node in (*one.nodes, *one.added)
        }
        later = mine[len(earlier) :]
        seen = observed(one, [*_states(earlier), *later], before[one.namespace], tiers)
        came.append((one, seen))
        if different := foretold[one.namespace].differences(seen):
            wrong.append(f"{one.name}: {'; '.join(different)}")
            sys.stderr.write(
                "\n".join([wrong[-1], *_told(contents, original, one, _states(earlier), later), ""])
            )
    kept = f"{len(cases) - len(wrong)} of {len(cases)}"
    table = list(coverage(came))
    lines = [
        f"as foretold: {kept}",
        *(f"{what}: {number}, at least {least}" for what, number, least in table),
    ]
    sys.stderr.write("\n".join([*lines, *wrong, ""]))
    for what, number, _ in table:
        record_property(what, number)
    record_property("as foretold", kept)
    assert len(wrong) <= len(cases) // 25, "\n".join(wrong)
    if len(cases) >= ALL:
        short = [f"{what}: {number} of {least}" for what, number, least in table if number < least]
        assert not short, "\n".join(short)


def question_of(one: Case) -> Question:
    return Question(one.changes, one.policies, timedelta(seconds=90), timedelta(minutes=20))


def _there(cases: Iterable[Case], events: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pods of each case by UID, as they are after these events."""
    found: dict[str, dict[str, Any]] = {one.namespace: {} for one in cases}
    for event in events:
        pod = event["object"]
        of = found.get(pod["metadata"]["namespace"])
        if of is not None:
            if event["type"] == "DELETED":
                of.pop(pod["metadata"]["uid"], None)
            else:
                of[pod["metadata"]["uid"]] = pod
    return found


def _told(
    contents: Contents,
    original: Original,
    one: Case,
    states: list[dict[str, Any]],
    later: list[dict[str, Any]],
) -> Iterator[str]:
    """What happened to the pods of a case, on the cluster and as predicted: that explains a difference."""
    yield f"  {', '.join(question_of(one).texts)}"
    for node in one.nodes:
        meta = node["metadata"]
        tier = meta["labels"][f"tier-{one.number}"]
        yield f"  node {meta['name']}: {node['status']['allocatable']['cpu']} CPU, {tier}"
    for item in one.objects:
        spec = item["spec"].get("template", {}).get("spec", {})
        requests = [each["resources"]["requests"] for each in spec.get("containers", ())]
        what = (spec.get("priorityClassName"), spec.get("schedulerName"), item["spec"].get("replicas"))
        yield f"  {item['kind']} {item['metadata']['name']}: {requests} {what}"
    marks = contents.marks().get(one.namespace)
    if marks:
        yield f"  marks: {marks.to_plain()}"
    yield "  on the cluster:"
    yield from _lines([*states, *later], len(states))
    yield "  predicted:"
    copy = ClusterCopy(contents.with_policies(one.policies), original)
    events: list[dict[str, Any]] = []

    def changed(change: Change) -> None:
        if change.resource == PODS and change.object["metadata"]["namespace"] == one.namespace:
            passed = (copy.clock.now() - copy.begin).total_seconds()
            events.append({"type": change.type, "object": change.object, "after": passed})

    stop = copy.world.store.subscribe(changed)
    try:
        apply_all(copy, one.changes)
        copy.settle(question_of(one).quiet, question_of(one).limit)
    finally:
        stop()
        copy.close()
    yield from _lines([*states, *events], len(states))


def _lines(events: list[dict[str, Any]], begin: int) -> Iterator[str]:
    last: dict[str, tuple[Any, ...]] = {}
    for number, event in enumerate(events):
        pod = event["object"]
        meta, status = pod["metadata"], pod.get("status") or {}
        disrupted = condition(pod, "DisruptionTarget") or {}
        state = (
            event["type"] if event["type"] == "DELETED" else "",
            pod["spec"].get("nodeName", ""),
            status.get("phase", ""),
            status.get("nominatedNodeName", ""),
            "leaving" if meta.get("deletionTimestamp") else "",
            disrupted.get("reason", ""),
        )
        if last.get(meta["uid"]) != state:
            last[meta["uid"]] = state
            when = f"{event['after']:7.2f} s" if "after" in event else ""
            if number >= begin or event["type"] != "DELETED":
                when = "at rest" if number < begin else when
                yield f"    {when} {meta['name']} {' '.join(filter(None, state))}"


def _states(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last event of each pod that is there: what happened before is not the changes' doing."""
    last: dict[str, dict[str, Any]] = {}
    for event in events:
        uid = event["object"]["metadata"]["uid"]
        if event["type"] == "DELETED":
            last.pop(uid, None)
        else:
            last[uid] = event
    return list(last.values())
