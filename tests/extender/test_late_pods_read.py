"""How often pods are read whose patience is over: by requests that are counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, cast

import yaml

from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.client.config import load
from fairlead.doors.extender.causes import AT_ONCE, Causes
from fairlead.engine.planning.tier_fit import TierFit
from fairlead.errors import NotFound, Unreachable
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.resources import Resource
from fairlead.policy.names import SLOT_ANNOTATION
from fairlead.policy.tiers.fallback import Blame, Waiter
from fairlead.rig.processes import free_ports
from support.cluster import Cluster
from support.door import DoorProcess, kubeconfig_of
from support.extender import extended
from support.faults import Faithful, FaultProxy, RequestFault
from support.manifests import pod as manifest
from support.policies import policy
from support.units import node, pod

SPOT = 0
HUGE = {"nodeSelector": {"disk": "of-gold"}}


class Reading:
    """Late pods of a tier whose nodes have 8 CPUs, read through a client that counts; time is set by hand."""

    def __init__(self, **cpus: int) -> None:
        self.now = 0.0
        self.reads: Counter[str] = Counter()
        self.fails: Exception | None = None
        self.fit = TierFit(policy())
        self.fit.node("s1", convert(node("s1", 8, labels={"capacity": "spot"}), Node))
        self.pods = {name: convert(pod(name, cpu), Pod) for name, cpu in cpus.items()}
        self.causes = Causes(Clock(now=lambda: self.now))

    async def get(self, resource: Resource, name: str, namespace: str, *, kind: type[Pod]) -> Pod:
        self.reads[name] += 1
        if self.fails is not None:
            raise self.fails
        return self.pods[name]

    def waiter(self, name: str) -> Waiter:
        uid = self.pods[name].metadata.uid
        return Waiter(uid, f"default/{name}", SPOT, uid, 0.0)

    def look(self, *trying: str) -> dict[str, Blame]:
        """What is said of each pod."""
        late = [self.waiter(name) for name in self.pods]
        tokens = {self.pods[name].metadata.uid for name in trying}
        found, self.left = asyncio.run(self.causes.of(cast(Client, self), self.fit, late, tokens))
        return {name: found[one.metadata.uid] for name, one in self.pods.items()}


def test_a_pod_that_says_nothing_of_its_tier_is_read_once_in_minutes() -> None:
    reading = Reading(a=9, b=10)
    for _ in range(100):
        assert reading.look() == {"a": "pod", "b": "pod"}
        reading.now += 1
    assert reading.reads == {"a": 1, "b": 1}
    reading.now += 300
    reading.look()
    assert reading.reads == {"a": 2, "b": 2}, "it may have changed"


def test_one_look_reads_few_pods_and_the_next_goes_on() -> None:
    number = 2 * AT_ONCE + 1
    reading = Reading(**{f"p{index}": 9 for index in range(number)})
    for looks in (1, 2, 3):
        reading.look()
        assert reading.reads.total() == min(looks * AT_ONCE, number)
        assert reading.left is (looks < 3)
    assert set(reading.look().values()) == {"pod"}
    assert set(reading.reads.values()) == {1}


def test_of_a_full_tier_one_pod_is_enough() -> None:
    reading = Reading(a=1, b=1, c=1)
    assert list(reading.look().values()).count("tier") == 1
    assert reading.reads.total() == 1


def test_the_pod_that_tries_a_tier_is_read_before_all_others() -> None:
    reading = Reading(**{f"p{index:02}": 9 for index in range(AT_ONCE)}, tries=1)
    assert reading.look("tries")["tries"] == "tier"
    assert reading.reads == {"tries": 1}


def test_a_pod_that_could_not_be_read_is_read_again_before_long() -> None:
    reading = Reading(a=9)
    reading.fails = Unreachable("away")
    for _ in range(10):
        assert reading.look() == {"a": "unknown"}
        reading.now += 0.9
    assert reading.reads == {"a": 1}
    reading.now, reading.fails = 10.0, None
    assert reading.look() == {"a": "pod"}


def test_a_pod_that_is_gone_is_not_read_again() -> None:
    reading = Reading(a=9)
    reading.fails = NotFound(404, "NotFound", "a is gone")
    for _ in range(20):
        assert reading.look() == {"a": "unknown"}
        reading.now += 10
    assert reading.reads == {"a": 1}


def test_pods_that_no_longer_wait_are_forgotten() -> None:
    reading = Reading(a=9, b=9)
    reading.look()
    reading.causes.keep({reading.pods["b"].metadata.uid})
    reading.look()
    assert reading.reads == {"a": 2, "b": 1}


async def test_a_running_extender_reads_late_pods_once_however_often_it_looks(
    cluster: Cluster, tmp_path: Path
) -> None:
    reads: Counter[str] = Counter()

    class Counting(Faithful):
        def on_request(self, method: str, path: str) -> RequestFault | None:
            name = path.partition("?")[0].rpartition("/pods/")[2]
            if method == "GET" and name.startswith("late-"):
                reads[name] += 1
            return None

    (port,) = free_ports(1)

    def play(proxy: FaultProxy) -> None:
        with extended(cluster, port) as corner:
            corner.nodes(1, 1)
            (tmp_path / "policies.yaml").write_text(
                yaml.safe_dump(corner.policy(groupBy="policy", fallback={"after": "1s"}))
            )
            process = DoorProcess(
                kubeconfig_of(proxy.url, tmp_path),
                "extender",
                f"--listen=127.0.0.1:{port}",
                f"--policies={tmp_path / 'policies.yaml'}",
                f"--system-namespace={corner.system}",
            )
            corner.replicas.append(process)
            process.wait_for("answering")

            def ask(name: str, offered: list[str], **spec: Any) -> None:
                made = cluster.create(manifest(name, spec={"schedulerName": "nobody"} | spec))
                body = {"Pod": made, "Nodes": None, "NodeNames": offered}
                assert corner.post("filter", body)[0] == 200

            for number in range(3):
                ask(f"late-{number}", [], **HUGE)
            cluster.wait(lambda: len(reads) == 3, "each to be read")
            for number in range(8):
                # A slot is written by the look that follows, which has asked about late pods before.
                name, (target,) = f"soon-{number}", corner.of_tier("on-demand")
                ask(name, [target])
                binding = {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": name},
                    "target": {"name": target},
                }
                cluster.wire.request("POST", cluster.path("Pod", name, "binding"), binding).ok()
                cluster.wait(
                    lambda name=name: (
                        SLOT_ANNOTATION in cluster.get("Pod", name)["metadata"].get("annotations", {})
                    ),
                    f"the slot of {name}",
                )

    async with FaultProxy(load(str(cluster.kubeconfig)), Counting()) as proxy:
        await asyncio.to_thread(play, proxy)
    assert max(reads.values()) <= 2, "once for each of two tiers"
