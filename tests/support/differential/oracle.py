"""The real kube-scheduler as an oracle: a state goes onto a real API server, then it may decide.

The scheduler is started only when everything is there: it reads all of it before it looks at the first
pod, and takes the pods by priority, so that what it saw for each of them is known exactly. Failed pods
are not tried again while it runs. Its only extender is a `Listener`, which hears where each pod fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from fairlead.errors import ApiError
from fairlead.kube.resources import Resource
from fairlead.rig.api import Api
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.processes import wait_until
from support.differential.listener import Listener, listening

Object = dict[str, Any]
Given = TypeVar("Given")
Made = TypeVar("Made")

_RESOURCES = {
    resource.kind: resource
    for resource in (
        Resource("", "v1", "namespaces", "Namespace", namespaced=False),
        Resource("", "v1", "nodes", "Node", namespaced=False),
        Resource("", "v1", "pods", "Pod"),
        Resource("", "v1", "services", "Service"),
        Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
        Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False),
        Resource("apps", "v1", "replicasets", "ReplicaSet"),
        Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False),
        Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False),
        Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False),
        Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
        Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False),
        Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    )
}

# What would get in the way: they taint nodes, demand accounts, or keep what is to be deleted.
_APISERVER = (
    "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount,StorageObjectInUseProtection,Priority",
)
_SCHEDULER: Object = {
    "podInitialBackoffSeconds": 600,
    "podMaxBackoffSeconds": 600,
    "percentageOfNodesToScore": 100,
}
# Pods are not retried, and none is put onto a node that was found for one like it: each sees all nodes.
_GATES = ("SchedulerPopFromBackoffQ=false", "OpportunisticBatching=false")

# How many requests are sent at a time: a state has hundreds of objects.
_WRITERS = 4

_HEAVY = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "heavy"},
    "handler": "heavy",
    "overhead": {"podFixed": {"cpu": "155m", "memory": "33Mi"}},
}


@dataclass(frozen=True)
class Outcome:
    """Where the scheduler put a pod, or what it said; and, sorted, the nodes on which the pod fits."""

    node: str
    message: str
    feasible: list[str]


class Oracle:
    """A control plane on which one state after the other is judged."""

    def __init__(self, plane: ControlPlane, listener: Listener) -> None:
        self.plane = plane
        self.api = plane.api
        self.listener = listener
        self._writers = [self.api.another() for _ in range(_WRITERS)]
        self.create([_HEAVY])

    def create(self, things: Iterable[Object]) -> list[Object]:
        """Create objects with their status and begin the deletion of those that are marked ``terminating``.

        A generator makes nothing that the API server refuses: what is not judged proves nothing.
        """
        things = list(things)
        first = [thing for thing in things if thing["kind"] == "Namespace"]
        rest = [thing for thing in things if thing["kind"] != "Namespace"]
        return [*self._each(_create, first), *self._each(_create, rest)]

    def close(self) -> None:
        for api in self._writers:
            api.close()

    def _each(self, act: Callable[[Api, Given], Made], given: Sequence[Given]) -> list[Made]:
        """Do the same with each of many, in their order, each writer with its share of them."""

        def share(number: int) -> list[Made]:
            return [act(self._writers[number], one) for one in given[number::_WRITERS]]

        with ThreadPoolExecutor(_WRITERS) as threads:
            shares = list(threads.map(share, range(_WRITERS)))
        return [shares[index % _WRITERS][index // _WRITERS] for index in range(len(given))]

    def objects(self, kinds: list[str] | None = None) -> list[Object]:
        """Everything that is there, as the API server has it."""
        found = []
        for kind, resource in _RESOURCES.items():
            if kinds is None or kind in kinds:
                for item in self.api.get(resource.path())["items"]:
                    found.append({**item, "kind": kind, "apiVersion": resource.api_version})
        return found

    def outcomes(self, pods: list[Object]) -> dict[str, Outcome]:
        """Let the scheduler decide on pods that are there; by namespace/name."""
        wanted = {key_of(pod) for pod in pods}
        found: dict[str, Outcome] = {}

        def decided() -> bool:
            for pod in self.api.get(_RESOURCES["Pod"].path())["items"]:
                key = key_of(pod)
                if key in wanted and key not in found:
                    outcome = _outcome(pod, self.listener.feasible.get(key, []))
                    if outcome is not None:
                        found[key] = outcome
            return len(found) == len(wanted)

        self.schedule(decided, "kube-scheduler to decide on every pod")
        return found

    def schedule(self, decided: Callable[[], bool], what: str, *, gates: Sequence[str] = ()) -> None:
        """Run the scheduler until it has decided."""
        self.listener.forget()
        switches = f"--feature-gates={','.join((*_GATES, *gates))}"
        config = {**_SCHEDULER, "extenders": [self.listener.entry]}
        self.plane.start_scheduler(config, qps=5000, arguments=[switches])
        try:
            wait_until(decided, what, timeout_s=120)
        finally:
            self.plane.stop_program("kube-scheduler")

    def clear(self) -> None:
        """Delete what the state before left, all but namespaces and runtime classes."""
        kept = ("Namespace", "RuntimeClass")
        collections: dict[str, None] = {}
        held = []
        for thing in self.objects([kind for kind in _RESOURCES if kind not in kept]):
            resource = _RESOURCES[thing["kind"]]
            metadata = thing["metadata"]
            if metadata["name"] == "kubernetes" and thing["kind"] == "Service":
                continue
            if metadata.get("finalizers"):
                held.append(resource.path(metadata.get("namespace"), metadata["name"]))
            collections[resource.path(metadata.get("namespace"))] = None
        for event in self.api.get("/api/v1/events")["items"]:
            collections[f"/api/v1/namespaces/{event['metadata']['namespace']}/events"] = None
        self._each(_release, held)
        self._each(_delete, list(collections))


@contextmanager
def running_oracle() -> Iterator[Oracle]:
    """An oracle on a control plane of its own."""
    with listening() as listener, ControlPlane(apiserver_args=_APISERVER) as plane:
        oracle = Oracle(plane, listener)
        try:
            yield oracle
        finally:
            oracle.close()


def key_of(thing: Object) -> str:
    return f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"


def _create(api: Api, thing: Object) -> Object:
    body = {key: value for key, value in thing.items() if key != "terminating"}
    resource = _RESOURCES[body["kind"]]
    namespace = body["metadata"].get("namespace")
    name = body["metadata"]["name"]
    try:
        made = api.create(resource.path(namespace), body)
    except ApiError as error:
        # Namespaces stay from one state to the next.
        if error.code == 409 and body["kind"] == "Namespace":
            return thing
        raise AssertionError(f"the API server refused {body}: {error}") from error
    if "status" in body and body["kind"] != "Node":
        api.patch(resource.path(namespace, name, "status"), {"status": body["status"]})
    if thing.get("terminating"):
        api.request("DELETE", resource.path(namespace, name), {"gracePeriodSeconds": 0})
    return made


def _release(api: Api, path: str) -> None:
    api.patch(path, {"metadata": {"finalizers": None}})


def _delete(api: Api, path: str) -> None:
    api.request("DELETE", path, {"gracePeriodSeconds": 0})


def _outcome(pod: Object, feasible: list[str]) -> Outcome | None:
    status = pod.get("status", {})
    # A pod that waits for its volumes says where it is going before it is bound.
    node = pod["spec"].get("nodeName") or status.get("nominatedNodeName")
    if node:
        return Outcome(node, "", feasible)
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Outcome("", condition.get("message", ""), feasible)
    return None
