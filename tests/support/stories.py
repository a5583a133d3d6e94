"""A scheduler at work on a thread of this process, and gangs in the words that stories use.

A story knows that something did *not* happen once a pod that asks for nothing, created later, is bound
(`Story.meanwhile`): pods are watched in order, so what follows from earlier ones has been decided by then.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from fairlead.kube.resources import Resource
from support.cluster import Cluster
from support.faults import Plan
from support.scheduler import InProcess, Shop, in_process
from support.wire import PATIENCE_S
from support.workloads import pods_of

__all__ = ["COSCHEDULING", "VOLCANO", "Story"]

Manifest = dict[str, Any]

COSCHEDULING = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
VOLCANO = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")

# A unit that an event may have helped is tried again at once: stories do not wait for backoff.
_AT_ONCE = {"queue__backoff": "10ms", "queue__backoffMax": "10ms"}


class Story(Shop):
    """A test's own corner of a cluster, in which a scheduler works for as long as a block lasts."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._witnesses = itertools.count(1)

    @contextmanager
    def scheduled(self, plan: Plan | None = None, **flags: Any) -> Iterator[InProcess]:
        """Run a scheduler beside the block; `flags` are fields of its configuration (``section__field``)."""
        started: Future[InProcess] = Future()
        loop = asyncio.new_event_loop()
        over = asyncio.Event()

        async def live() -> None:
            async with in_process(self, plan, **(_AT_ONCE | flags)) as running:
                started.set_result(running)
                await over.wait()

        def run() -> None:
            try:
                loop.run_until_complete(live())
            except BaseException as error:
                if started.done():
                    raise
                started.set_exception(error)
            finally:
                loop.close()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        running = started.result(2 * PATIENCE_S)
        try:
            yield running
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join(PATIENCE_S)

    # What people do

    def gang(self, name: str, number: int, *, minimum: int | None = None, **more: Any) -> list[str]:
        """Create bare members NAME-0, NAME-1, …, of which `minimum` (all of them) start together."""
        names = [f"{name}-{index}" for index in range(number)]
        for each in names:
            self.add(each, gang=name, minimum=minimum or number, **more)
        return names

    def deployed(
        self,
        name: str,
        replicas: int,
        *,
        minimum: int | None = None,
        strategy: Manifest | None = None,
        **more: Any,
    ) -> None:
        """Create a Deployment whose pods are one gang; without a minimum its replicas say how many start."""
        marks = {} if minimum is None else {"pod-group-min-member": str(minimum)}
        self.deployment(name, replicas, gang=name, annotations=marks, **more)
        if strategy is not None:
            self.cluster.patch("Deployment", name, {"spec": {"strategy": strategy}})

    def edit(self, deployment: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """Change the pods that a Deployment asks for."""
        template = {"metadata": {"annotations": annotations or {}}, "spec": spec}
        self.cluster.patch("Deployment", deployment, {"spec": {"template": template}})

    def serve(self, *kinds: Resource) -> None:
        """Make the cluster serve these kinds of PodGroup; they stay, because all tests may share them."""
        for kind in kinds:
            made = self.cluster.try_create(_definition(kind))
            assert made.status in (201, 409), made.body
            path = self.cluster.path(kind)
            self.cluster.wait(
                lambda path=path: self.cluster.wire.request("GET", path).status == 200,
                f"{kind.group} to be served",
            )

    def pod_group(self, kind: Resource, name: str, minimum: int) -> None:
        """Create a PodGroup of a kind that is served."""
        made = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name},
            "spec": {"minMember": minimum},
        }
        self.cluster.wire.request("POST", self.cluster.path(kind), made).ok()

    def priority_class(self, name: str, value: int, **more: Any) -> str:
        """Create a PriorityClass, and wait until the API server lets pods use it; its name."""
        made = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": self.cluster.unique(name)},
            "value": value,
            **more,
        }
        found = str(self.cluster.create(made)["metadata"]["name"])
        probe = self.pod("probe", priority_class=found)
        self.cluster.wait(
            lambda: self.cluster.try_create(probe, dryRun="All").status == 201, f"class {found} to be known"
        )
        return found

    def cordon(self, node: str, *, on: bool = True) -> None:
        """Close a node to new pods, or open it again, and wait until the scheduler knows."""
        # Nodes are watched apart from pods: a pod that comes later may be decided about earlier.
        self.cluster.patch("Node", node, {"spec": {"unschedulable": on}})

        def known() -> bool:
            probe = f"witness-{next(self._witnesses)}"
            self.add(probe, cpu=None, priority=-1, nodeSelector={"kubernetes.io/hostname": node})
            decided = self.cluster.wait(lambda: self._decided(probe), f"{probe} to be bound or held")
            self.cluster.delete("Pod", probe)
            return decided == ("held" if on else "bound")

        self.cluster.wait(known, f"the scheduler to know whether {node} is open")

    def _decided(self, pod: str) -> str:
        found = self.cluster.get("Pod", pod)
        if found["spec"].get("nodeName"):
            return "bound"
        conditions = found["status"].get("conditions", [])
        return "held" if any(one["type"] == "PodScheduled" for one in conditions) else ""

    def evict(self, pod: str) -> None:
        """Ask for a pod's eviction, as ``kubectl drain`` does."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        self.cluster.wire.request("POST", self.cluster.path("Pod", pod, "eviction"), body).ok()

    # What is seen

    def meanwhile(self) -> set[str]:
        """The pods that have a node once the scheduler has decided about everything created before."""
        # The second proves that binds which were sent with the first have been answered too.
        for _ in range(2):
            witness = f"witness-{next(self._witnesses)}"
            self.add(witness, cpu=None, priority=-1)
            self.bound(witness)
        return {name for name, node in self.nodes_of().items() if node and not name.startswith("witness-")}

    def marked(self, names: Iterable[str]) -> dict[str, str]:
        """Why each of these is Unschedulable, in the terms of autoscalers; "" for one that is not."""
        found = {}
        for name in names:
            conditions = self.cluster.get("Pod", name)["status"].get("conditions", [])
            told = [
                one["message"]
                for one in conditions
                if (one["type"], one["status"], one.get("reason"))
                == ("PodScheduled", "False", "Unschedulable")
            ]
            found[name] = told[0] if told else ""
        return found

    def said(self, name: str) -> str:
        """All that events say about a pod."""
        items = self.cluster.list("Event", fieldSelector=f"involvedObject.name={name}")["items"]
        return "\n".join(one["message"] for one in items)

    def uids(self, app: str) -> dict[str, str]:
        """UID and node ("" for none) of a workload's pods that are to stay."""
        return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in pods_of(self.cluster, app)}

    def waiting(self, app: str, number: int) -> dict[str, str]:
        """Wait until a workload has so many pods, none with a node; their UIDs."""

        def look() -> dict[str, str] | None:
            found = self.uids(app)
            return found if len(found) == number and not any(found.values()) else None

        found = self.cluster.wait(look, f"{number} pods of {app} to wait")
        assert found is not None
        return found


def _definition(kind: Resource) -> Manifest:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": kind.plural, "singular": "podgroup"},
            "versions": [{"name": kind.version, "served": True, "storage": True, "schema": schema}],
        },
    }
