"""Random pods, sound and broken, shown to a real API server and to ours: both make the same of them.

A dry run goes through defaults, admission and validation and stores nothing.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster import Cluster, Host
from support.wire import Answer

pytestmark = pytest.mark.real

Object = dict[str, Any]


@pytest.fixture
def both(embedded_host: Host, real_host: Host) -> Iterator[tuple[Cluster, Cluster]]:
    clusters = Cluster(embedded_host), Cluster(real_host)
    yield clusters
    for cluster in clusters:
        cluster.close()


class Draw:
    """Random pods; `broken` is how likely each part is to be wrong."""

    def __init__(self, seed: int, broken: float) -> None:
        self.random = random.Random(seed)
        self.broken = broken

    def one(self, sound: list[Any], wrong: list[Any]) -> Any:
        return self.random.choice(wrong if self.random.random() < self.broken else sound)

    def maybe(self, chance: float = 0.4) -> bool:
        return self.random.random() < chance

    def several(self, make: Callable[[], Any], most: int = 2) -> list[Any]:
        return [make() for _ in range(self.random.randint(1, most))]

    def key(self) -> str:
        return str(
            self.one(["a", "example.com/a", "A_b.c"], ["", "a b", "-a", "Bad.Com/x", "/a", "x/y/z", "a" * 64])
        )

    def value(self) -> str:
        return str(self.one(["", "1", "a.b_c-d"], ["a b", "-a", "b" * 64]))

    def expression(self, *, node: bool) -> Object:
        made: Object = {
            "key": self.key(),
            "operator": self.one(["In", "NotIn", "Exists", "DoesNotExist"] + ["Gt", "Lt"] * node, ["", "Is"]),
        }
        if made["operator"] in ("In", "NotIn", "Gt", "Lt") or self.random.random() < self.broken:
            made["values"] = self.one([["1"]], [[], ["1", "2"]])
        return made

    def selector(self) -> Object:
        made: Object = {}
        if self.maybe():
            made["matchLabels"] = {self.key(): self.value()}
        if self.maybe():
            made["matchExpressions"] = self.several(lambda: self.expression(node=False))
        return made

    def node_term(self) -> Object:
        made: Object = {}
        if self.maybe(0.7):
            made["matchExpressions"] = self.several(lambda: self.expression(node=True))
        if self.maybe(0.2):
            field = {
                "key": self.one(["metadata.name"], ["metadata.uid"]),
                "operator": self.one(["In"], ["Exists"]),
            }
            made["matchFields"] = [{**field, "values": self.one([["n1"]], [[], ["a", "b"]])}]
        return made

    def pod_term(self) -> Object:
        made: Object = {"topologyKey": self.one(["zone"], ["", "a b"])}
        if self.maybe(0.7):
            made["labelSelector"] = self.selector()
        if self.maybe(0.2):
            made["namespaceSelector"] = self.selector()
        return made

    def affinity(self) -> Object:
        required, preferred = (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        )
        weight = [1, 50, 100], [0, 101]
        made: Object = {}
        if self.maybe():
            terms = self.one([self.several(self.node_term)], [[]])
            made["nodeAffinity"] = {required: {"nodeSelectorTerms": terms}}
            if self.maybe():
                made["nodeAffinity"][preferred] = [
                    {"weight": self.one(*weight), "preference": self.node_term()}
                ]
        for side in ("podAffinity", "podAntiAffinity"):
            if self.maybe(0.3):
                made[side] = {required: self.several(self.pod_term)}
            if self.maybe(0.2):
                made.setdefault(side, {})[preferred] = [
                    {"weight": self.one(*weight), "podAffinityTerm": self.pod_term()}
                ]
        return made

    def toleration(self) -> Object:
        made: Object = {"key": self.key(), "operator": self.one(["Exists"], ["Has", "Equal"])}
        if self.maybe():
            made["effect"] = self.one(["NoSchedule", "NoExecute", "PreferNoSchedule"], ["Never"])
        if (made.get("effect") == "NoExecute" and self.maybe()) or self.random.random() < self.broken / 2:
            made["tolerationSeconds"] = 5
        if self.random.random() < self.broken / 2:
            made["value"] = self.value()
        return made

    def spread(self) -> Object:
        made: Object = {
            "maxSkew": self.one([1, 3], [0, -1]),
            "topologyKey": self.one(["zone", "host"], [""]),
            "whenUnsatisfiable": self.one(["DoNotSchedule", "ScheduleAnyway"], ["", "Maybe"]),
        }
        if self.maybe(0.7):
            made["labelSelector"] = self.selector()
        if made["whenUnsatisfiable"] == "DoNotSchedule" and self.maybe():
            made["minDomains"] = self.one([1, 2], [0])
        return made

    def resources(self) -> Object:
        made: Object = {}
        cpu, memory = ["100m", "1", "0.5", 2], ["1Gi", "100M", "1024Mi", "2048Ki"]
        if self.maybe(0.7):
            made["requests"] = {"cpu": self.one(cpu, ["-1"]), "memory": self.random.choice(memory)}
        if self.maybe(0.3):
            made["limits"] = {
                "cpu": self.random.choice(["3", "4"]),
                "memory": self.random.choice(["2Gi", "4Gi"]),
            }
        if self.maybe(0.2):
            made.setdefault("limits", {})[self.one(["nvidia.com/gpu"], ["gpu"])] = 1
        return made

    def container(self, name: str) -> Object:
        made: Object = {"name": self.one([name], ["", "A", "a" * 64]), "image": self.one(["x", "x:1"], [""])}
        made["resources"] = self.resources()
        if self.maybe():
            made["ports"] = [
                {
                    "containerPort": self.one([80, 81], [0, 70000]),
                    "protocol": self.one(["TCP", "UDP"], ["HTTP"]),
                }
            ]
        if self.maybe(0.2):
            made["env"] = [{"name": self.one(["A"], [""]), "value": "1"}]
        return made

    def pod(self, name: str) -> Object:
        spec: Object = {
            "containers": [self.container(each) for each in ("a", "b")[: self.random.randint(1, 2)]]
        }
        if self.maybe(0.2):
            spec["initContainers"] = [self.container("i")]
        if self.maybe(0.3):
            spec["nodeSelector"] = {self.key(): self.value()}
        if self.maybe(0.3):
            spec["tolerations"] = self.several(self.toleration)
        if self.maybe(0.3):
            spec["affinity"] = self.affinity()
        if self.maybe(0.3):
            spec["topologySpreadConstraints"] = self.several(self.spread)
        if self.maybe(0.2):
            spec["restartPolicy"] = self.one(["Never", "OnFailure"], ["Often"])
        if self.maybe(0.2):
            spec["dnsPolicy"] = self.one(["Default"], ["Mine"])
        if self.maybe(0.2):
            spec["activeDeadlineSeconds"] = self.one([5], [0, 2**31])
        if self.maybe(0.2):
            spec["priorityClassName"] = self.one(["system-node-critical"], ["nope"])
        metadata: Object = {"name": self.one([name], ["Bad_Name", "a..b"])}
        if self.maybe(0.3):
            metadata["labels"] = {self.key(): self.value()}
        if self.maybe(0.3):
            metadata["annotations"] = {self.key(): "anything goes"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


# What mounts a service account's token into each pod has no counterpart in the embedded cluster.
_TOKEN = "kube-api-access-"


def stripped(answer: Answer) -> Object:
    body: Object = copy.deepcopy(answer.body)
    if answer.status >= 300:
        causes = (body.get("details") or {}).get("causes") or []
        causes.sort(key=json.dumps)  # Go's maps have no order, and neither have the complaints about them
        return {"status": answer.status, "reason": body.get("reason"), "causes": causes}
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace"):
        body["metadata"].pop(field, None)
    spec = body["spec"]
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            mounts = [each for each in container.pop("volumeMounts", []) if _TOKEN not in each["name"]]
            assert not mounts
    assert all(_TOKEN in volume["name"] for volume in spec.pop("volumes", []))
    return body


@pytest.mark.parametrize("broken", [0.0, 0.1], ids=["sound", "broken"])
def test_defaults_admission_and_validation_agree(
    both: tuple[Cluster, Cluster], count: Callable[[int, int], int], broken: float
) -> None:
    for seed in range(count(60, 1000)):
        body = Draw(seed, broken).pod(f"p{seed}")
        ours, real = (
            stripped(cluster.wire.request("POST", cluster.path("Pod"), body, dryRun="All"))
            for cluster in both
        )
        assert ours == real, json.dumps(body)
