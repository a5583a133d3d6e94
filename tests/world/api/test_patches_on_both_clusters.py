"""Random patches and applied configurations, put to a real API server and to ours: the same comes out.

PodTemplates have every interesting list of a pod and no controller that would write in between.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairlead.kube.resources import Resource
from support.cluster import Cluster, Host
from support.wire import Answer

pytestmark = pytest.mark.real

Object = dict[str, Any]
TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")


@pytest.fixture
def both(embedded_host: Host, real_host: Host) -> Iterator[tuple[Cluster, Cluster]]:
    clusters = Cluster(embedded_host), Cluster(real_host)
    yield clusters
    for cluster in clusters:
        cluster.close()


class Draw:
    """Random parts of pod specs; the same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, of: str | list[Any]) -> list[Any]:
        return self.random.sample(list(of), self.random.randint(0, len(of)))

    def maybe(self, chance: float = 0.4) -> bool:
        return self.random.random() < chance

    def container(self, name: str, *, whole: bool) -> Object:
        made: Object = {"name": name}
        if whole or self.maybe():
            made["image"] = self.random.choice(["x:1", "y:2"])
        if self.maybe():
            made["env"] = [{"name": each, "value": self.random.choice("12")} for each in self.some("ABCD")]
        if self.maybe():
            made["ports"] = [{"containerPort": port} for port in self.some([80, 81, 82])]
        if self.maybe():
            made["resources"] = {"requests": {"cpu": self.random.choice(["100m", "1000m"])}}
        if self.maybe():
            made["command"] = self.some("abc")
        return made

    def spec(self, *, whole: bool) -> Object:
        made: Object = {}
        if whole or self.maybe(0.8):
            names = ["a", *self.some("bc")] if whole else self.some("abc")
            made["containers"] = [self.container(name, whole=whole) for name in names]
        if self.maybe():
            made["tolerations"] = [{"key": key, "operator": "Exists"} for key in self.some("xyz")]
        if self.maybe():
            made["nodeSelector"] = {key: self.random.choice("12") for key in self.some("mn")}
        if self.maybe():
            made["volumes"] = [
                {"name": f"v{number}", **self.random.choice([{"emptyDir": {}}, {"hostPath": {"path": "/p"}}])}
                for number in self.some([1, 2])
            ]
        if self.maybe():
            made["hostAliases"] = [{"ip": f"10.0.0.{last}", "hostnames": ["h"]} for last in self.some([1, 2])]
        if self.maybe():
            made["imagePullSecrets"] = [{"name": f"s{number}"} for number in self.some([1, 2, 3])]
        if self.maybe():
            made["terminationGracePeriodSeconds"] = self.random.choice([0, 5, 30])
        return made

    def template(self, name: str) -> Object:
        labels = {key: self.random.choice("12") for key in self.some("lm")}
        return {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": name, "labels": labels},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": self.spec(whole=True)},
        }

    def strategic(self) -> Object:
        """A patch with the directives that clients send."""
        spec = self.spec(whole=False)
        for container in spec.get("containers", []):
            if self.maybe(0.15):
                container["$patch"] = "delete"
            for variable in container.get("env", []):
                if self.maybe(0.2):
                    variable["$patch"] = "delete"
        if self.maybe(0.3) and "containers" in spec:
            named = [container["name"] for container in spec["containers"]]
            order = [*named, *(name for name in "abc" if name not in named)]
            spec["$setElementOrder/containers"] = [{"name": name} for name in order]
        if self.maybe(0.1):
            spec["tolerations"] = None
        labels = {key: self.random.choice(["1", None]) for key in self.some("lm")}
        return {"metadata": {"labels": labels}, "template": {"spec": spec}}


def stripped(answer: Answer) -> Object:
    """What must be the same: all but what names the one object and who wrote it."""
    body: Object = copy.deepcopy(answer.body)
    if answer.status < 300:
        for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace"):
            body["metadata"].pop(field, None)
        return body
    return {"status": answer.status, "reason": body.get("reason"), "message": body.get("message")}


def agree(both: tuple[Cluster, Cluster], what: Object, put: Callable[[Cluster], Answer]) -> None:
    ours, real = (stripped(put(cluster)) for cluster in both)
    assert ours == real, json.dumps(what)


def test_strategic_patches_have_the_same_outcome(
    both: tuple[Cluster, Cluster], count: Callable[[int, int], int]
) -> None:
    for seed in range(count(40, 400)):
        draw = Draw(seed)
        name = f"t{seed}"
        body = draw.template(name)
        agree(both, body, lambda on, body=body: on.wire.request("POST", on.path(TEMPLATES), body))
        for _ in range(3):
            patch = draw.strategic()
            agree(both, patch, lambda on, p=patch, n=name: on.try_patch(TEMPLATES, n, p, "strategic"))


def test_applied_configurations_have_the_same_outcome(
    both: tuple[Cluster, Cluster], count: Callable[[int, int], int]
) -> None:
    for seed in range(count(40, 400)):
        draw = Draw(seed)
        name = f"a{seed}"
        for _ in range(4):
            body = draw.template(name)
            agree(
                both,
                body,
                lambda on, b=body, n=name: on.try_patch(
                    TEMPLATES, n, b, "apply", fieldManager="m", force=True
                ),
            )
            if draw.maybe():
                patch = {"metadata": {"labels": {"z": draw.random.choice("12")}}}
                agree(both, patch, lambda on, p=patch, n=name: on.try_patch(TEMPLATES, n, p, "merge"))
