"""``fairlead burst`` beside a cluster: three nodes, a virtual one, and how pods lie over them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from fairlead.doors.webhook.registration import CONFIGURATION
from fairlead.kube.resources import known
from fairlead.world.kubelet import RUN_FOR
from support.balancer import Balancer
from support.cluster import Cluster
from support.door import DoorProcess
from support.manifests import deployment, job, pod
from support.moments import recording
from support.workloads import is_ready

__all__ = ["Bursting", "bursting", "is_living"]

Manifest = dict[str, Any]

_TAINT = {"key": "virtual-kubelet.io/provider", "value": "test", "effect": "NoSchedule"}
# The one is read by KWOK, the other by the embedded kubelet.
_LONG = {"pod-complete.stage.kwok.x-k8s.io/delay": "1h", RUN_FOR: "1h"}

# KWOK ends a pod at once whatever its grace, and the finalizer keeps it; our own kubelet makes it a finished
# one then, so where it is to be terminating and nothing else, the kubelet must use up the grace.
_STAY = "fairlead.test/stay"
_LINGERS_S = 3600


class Bursting:
    """A test's own corner: three base nodes, a virtual node, and burst processes of its own."""

    def __init__(self, cluster: Cluster, via: str, balancer: Balancer) -> None:
        self.cluster = cluster
        self.via = via
        self.balancer = balancer
        self.home = cluster.namespace
        self.scheduler = f"burst-{self.home}" if via == "scheduler" else "default-scheduler"
        self.doors: list[DoorProcess] = []
        self._lingering: list[str] = []
        self.system = cluster.add_namespace()
        cluster.namespace = self.home

    def nodes(self, *, base: int = 3, cpu: int = 32) -> str:
        """Base nodes and the virtual one, whose name is returned."""
        self.cluster.add_nodes(base, cpu=cpu, pods=200, labels={"kind": "base"})
        return self.virtual()

    def virtual(self, cpu: int = 1000, taints: tuple[Manifest, ...] = (_TAINT,)) -> str:
        """One more virtual node."""
        labels = {"type": "virtual-kubelet", "kind": "virtual"}
        (name,) = self.cluster.add_nodes(1, cpu=cpu, pods=1000, taints=list(taints), labels=labels)
        return name

    def run(self, node: str, value: int, *arguments: str, wait: bool = True) -> DoorProcess:
        """Start ``fairlead burst`` in the test's way, for the test's namespace unless told otherwise."""
        if not {"-A", "--all-namespaces"} & set(arguments):
            arguments = (f"--namespace={self.home}", *arguments)
        if self.via == "webhook":
            self.cluster.owns(known("MutatingWebhookConfiguration").path(None, CONFIGURATION))
            arguments = (*arguments, "--listen=127.0.0.1:0", f"--url={self.balancer.url}")
        else:
            arguments = (*arguments, f"--scheduler-name={self.scheduler}")
        door = DoorProcess(
            self.cluster.kubeconfig,
            "burst",
            f"--burst-node={node}",
            f"--burst-value={value}",
            f"--via={self.via}",
            f"--system-namespace={self.system}",
            *arguments,
        )
        self.doors.append(door)
        if wait:
            self._wait(door)
        return door

    def _wait(self, door: DoorProcess) -> None:
        if self.via == "webhook":
            (said,) = door.wait_for("listening")
            self.balancer.ports.append(int(said["url"].rpartition(":")[2]))
        door.wait_for("synced", 2)
        if self.via == "webhook":
            self.cluster.wait(
                lambda: (
                    "fairlead.dev/tier"
                    in self.cluster.create(pod("probe"), dryRun="All")["metadata"].get("annotations", {})
                ),
                "pods to be given a tier",
            )

    def deploy(
        self, name: str, replicas: int, *, labels: dict[str, str] | None = None, lingers: bool = False
    ) -> None:
        """A Deployment of small pods for our nodes; those that linger stay terminating to the test's end."""
        made = deployment(name, replicas, pods=self._spec())
        metadata = made["spec"]["template"]["metadata"]
        metadata["labels"] |= labels or {}
        if lingers:
            metadata["finalizers"] = [_STAY]
            made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = _LINGERS_S
            self._lingering.append(name)
        self.cluster.create(made)

    def scale(self, name: str, replicas: int) -> None:
        self.cluster.patch("Deployment", name, {"spec": {"replicas": replicas}})

    def job(self, name: str, *, long: bool = True) -> None:
        """A Job of one pod; one that is not long is over at once."""
        made = job(name, pods=self._spec())
        annotations = _LONG if long else {}
        made["spec"]["template"]["metadata"] = {"labels": {"app": "jobs"}, "annotations": annotations}
        self.cluster.create(made)

    def pod(self, name: str, **spec: Any) -> None:
        """A bare pod."""
        self.cluster.create(pod(name, spec=self._spec() | spec, labels={"app": name}))

    def _spec(self) -> Manifest:
        return {
            "schedulerName": self.scheduler,
            "nodeSelector": {"test": self.home},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "100m"}}}],
        }

    def lies(self, app: str, *, namespace: str = "", **split: int) -> list[Manifest]:
        """Wait until pods with this label, none of them finished, are all Ready and lie like this."""
        wanted = Counter({kind: number for kind, number in split.items() if number})

        def look() -> list[Manifest] | None:
            items = self.living(app, namespace=namespace)
            fine = len(items) == wanted.total() and all(map(is_ready, items))
            return [*items, {}] if fine and self.split(items) == wanted else None

        try:
            found = self.cluster.wait(look, f"{app} to lie {dict(wanted)}")
        except AssertionError as error:
            now = dict(self.split(self.living(app, namespace=namespace)))
            said = "\n".join(door.text() for door in self.doors)
            raise AssertionError(f"{error}; they lie {now}:\n{said}") from None
        assert found is not None
        return found[:-1]

    def watching(self, *apps: str) -> AbstractContextManager[Callable[[], Iterator[list[Manifest]]]]:
        """Record from here on what becomes of these pods; call it to be told, moment by moment."""
        return recording(self.cluster, *apps)

    def leaving(self, app: str) -> list[Manifest]:
        """Pods with this label that are on their way out but, so far, run."""
        items = self.cluster.list("Pod", labelSelector=f"app={app}")["items"]
        return [
            one
            for one in items
            if "deletionTimestamp" in one["metadata"] and one["status"].get("phase") == "Running"
        ]

    def living(self, app: str, *, namespace: str = "") -> list[Manifest]:
        """Pods with this label that are neither finished nor on their way out."""
        items = self.cluster.list("Pod", namespace=namespace, labelSelector=f"app={app}")["items"]
        return [one for one in items if is_living(one)]

    def split(self, items: list[Manifest]) -> Counter[str]:
        """Pods per kind of node."""
        selector = f"test={self.home}"
        kinds = {
            one["metadata"]["name"]: one["metadata"]["labels"]["kind"]
            for one in self.cluster.list("Node", labelSelector=selector)["items"]
        }
        return Counter(kinds.get(one["spec"].get("nodeName", ""), "none") for one in items)

    def held(self, name: str) -> str:
        """Wait until a pod is said to be unschedulable; what is said."""

        def look() -> str:
            for one in self.cluster.get("Pod", name)["status"].get("conditions", []):
                if one["type"] == "PodScheduled" and one["status"] == "False":
                    return str(one["message"])
            return ""

        return self.cluster.wait(look, f"{name} to be held")

    def release(self) -> None:
        """Let go of pods that linger: a namespace is not gone before they are."""
        for name in self._lingering:
            self.cluster.delete("Deployment", name)

        def gone() -> bool:
            left = [
                one["metadata"]
                for name in self._lingering
                for one in self.cluster.list("Pod", labelSelector=f"app={name}")["items"]
            ]
            for one in left:
                # Not before its owner's end: another would be made in its place. It may be gone by now, too.
                if "deletionTimestamp" in one:
                    self.cluster.try_patch("Pod", one["name"], {"metadata": {"finalizers": None}})
                    self.cluster.try_delete("Pod", one["name"], gracePeriodSeconds=0)
            return not left

        self.cluster.wait(gone, "pods that linger to be gone")


def is_living(one: Manifest) -> bool:
    """Whether a pod is neither finished nor on its way out."""
    return "deletionTimestamp" not in one["metadata"] and one["status"].get("phase") not in (
        "Succeeded",
        "Failed",
    )


@contextlib.contextmanager
def bursting(cluster: Cluster, via: str) -> Iterator[Bursting]:
    """A corner whose processes are ended when the test is over."""
    with Balancer() as balancer:
        own = Bursting(cluster, via, balancer)
        try:
            yield own
        finally:
            for door in own.doors:
                door.close()
            own.release()
