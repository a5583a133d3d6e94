"""Webhook replicas beside a cluster, nodes in two tiers, and how pods lie over them."""

from __future__ import annotations

import base64
import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import yaml

from fairlead.doors.webhook.registration import CONFIGURATION
from fairlead.kube.resources import known
from support.balancer import Balancer
from support.cluster import Cluster
from support.door import DoorProcess
from support.manifests import deployment, pod
from support.moments import recording
from support.policies import plain_policy
from support.workloads import is_ready

Manifest = dict[str, Any]

TIER = "fairlead.dev/tier"
SLOT = "fairlead.dev/slot"


class Tiered:
    """A test's own corner: spot and on-demand nodes, a policy over them, webhook replicas before them."""

    def __init__(self, cluster: Cluster, balancer: Balancer) -> None:
        self.cluster = cluster
        self.balancer = balancer
        self.replicas: list[DoorProcess] = []
        self._files = tempfile.TemporaryDirectory(prefix="fairlead-tiered-")
        self.arguments: tuple[str, ...] = ()
        self._tier_of: dict[str, str] = {}
        own = cluster.namespace
        self.system = cluster.add_namespace()
        cluster.namespace = own

    @property
    def folder(self) -> Path:
        """For files that go with the test."""
        return Path(self._files.name)

    def tier(self, name: str, **more: Any) -> Manifest:
        """A tier whose nodes are this test's only."""
        return {"name": name, "nodes": {"test": self.cluster.namespace, "capacity": name}, **more}

    def policy(self, name: str = "web", *tiers: Manifest, **spec: Any) -> Manifest:
        """Spot first, 30% on demand unless told otherwise; for the test's namespace only."""
        own = tiers or (self.tier("spot", volatile=True), self.tier("on-demand", min="30%"))
        spec.setdefault("match", {"namespaces": [self.cluster.namespace]})
        return plain_policy(name, *own, **spec)

    def nodes(self, spot: int = 2, on_demand: int = 2, **shape: Any) -> None:
        """Roomy nodes of both tiers."""
        shape = {"cpu": 64, "pods": 500} | shape
        for tier, number in (("spot", spot), ("on-demand", on_demand)):
            if number:
                for name in self.cluster.add_nodes(number, labels={"capacity": tier}, **shape):
                    self._tier_of[name] = tier

    def run(
        self, *policies: Manifest, replicas: int = 1, wait: bool = True, arguments: tuple[str, ...] = ()
    ) -> None:
        """Start replicas with these policies in a file, registered, and wait until the cluster calls them."""
        file = self.folder / "policies.yaml"
        file.write_text(yaml.safe_dump_all(policies or (self.policy(),)))
        self.cluster.owns(known("MutatingWebhookConfiguration").path(None, CONFIGURATION))
        self.arguments = (f"--policies={file}", *arguments)
        for _ in range(replicas):
            self.add_replica(*self.arguments)
        if wait:
            self.called()

    def add_replica(self, *arguments: str) -> DoorProcess:
        replica = DoorProcess(
            self.cluster.kubeconfig,
            "webhook",
            "--listen=127.0.0.1:0",
            f"--url={self.balancer.url}",
            f"--system-namespace={self.system}",
            "--register",
            *arguments,
        )
        self.replicas.append(replica)
        (said,) = replica.wait_for("listening")
        self.balancer.ports.append(int(said["url"].rpartition(":")[2]))
        replica.wait_for("synced")
        return replica

    def called(self) -> None:
        """Wait until the API server calls us: it learns of registrations by a watch."""
        self.cluster.wait(
            lambda: (
                TIER in self.cluster.create(pod("probe"), dryRun="All")["metadata"].get("annotations", {})
            ),
            "pods to be given a tier",
        )

    def trusted(self) -> bytes:
        """The authorities that the API server trusts, as registered."""
        return trusted_by(self.cluster.get("MutatingWebhookConfiguration", CONFIGURATION))

    def deploy(self, name: str, replicas: int, *, pods: Manifest | None = None, **spec: Any) -> Manifest:
        """A Deployment whose pods end at once and stay on this test's nodes."""
        made = deployment(name, replicas, spec=spec, pods=self.here(pods))
        return self.cluster.create(made)

    def here(self, pods: Manifest | None = None) -> Manifest:
        own = {"nodeSelector": {"test": self.cluster.namespace}, "terminationGracePeriodSeconds": 0}
        return own | (pods or {})

    def scale(self, name: str, replicas: int, kind: str = "Deployment") -> None:
        self.cluster.patch(kind, name, {"spec": {"replicas": replicas}})

    def pods(self, app: str) -> list[Manifest]:
        """The pods of a workload that are not on their way out."""
        items = self.cluster.list("Pod", labelSelector=f"app={app}")["items"]
        return [item for item in items if "deletionTimestamp" not in item["metadata"]]

    def settled(self, app: str, number: int) -> Counter[str]:
        """Wait until exactly so many pods are there and Ready; how many of them lie in each tier."""

        def look() -> list[Manifest] | None:
            items = self.cluster.list("Pod", labelSelector=f"app={app}")["items"]
            return [*items, {}] if len(items) == number and all(map(is_ready, items)) else None

        found = self.cluster.wait(look, f"{number} ready pods of {app}")
        assert found is not None
        return self.split(found[:-1])

    def is_settled(self, app: str, number: int, split: dict[str, int]) -> bool:
        """Whether exactly so many pods are there, all Ready, and lie as they should."""
        items = self.cluster.list("Pod", labelSelector=f"app={app}")["items"]
        return len(items) == number and all(map(is_ready, items)) and self.split(items) == split

    def marked(self, app: str, number: int | None = None) -> None:
        """Wait until a workload's pods carry their slots, on which scaling down depends."""

        def look() -> bool:
            pods = self.pods(app)
            return (number is None or len(pods) == number) and all(
                SLOT in one["metadata"].get("annotations", {}) for one in pods
            )

        self.cluster.wait(look, f"the slots of {app}")

    def free(self, lease: str) -> None:
        """Take the lease of a killed replica away: how long others wait for its end is not the story here."""
        self.cluster.wire.request("DELETE", known("Lease").path(self.system, lease)).ok()

    @contextlib.contextmanager
    def rebalancing(self) -> Iterator[DoorProcess]:
        """A rebalancer with the webhook's policies, inside the block."""
        process = DoorProcess(
            self.cluster.kubeconfig,
            "rebalance",
            f"--system-namespace={self.system}",
            *(one for one in self.arguments if one.startswith("--policies=")),
        )
        try:
            yield process
        finally:
            process.close()

    def split(self, pods: list[Manifest]) -> Counter[str]:
        """How many pods lie on the nodes of each tier."""
        return Counter(self._tier_of[one["spec"]["nodeName"]] for one in pods if one["spec"].get("nodeName"))

    def watching(self, *apps: str) -> AbstractContextManager[Callable[[], Iterator[list[Manifest]]]]:
        """Record from here on what becomes of workloads' pods; call it to be told, moment by moment."""
        return recording(self.cluster, *apps)

    def serving(self, pods: list[Manifest]) -> Counter[str]:
        """How many pods that are Ready, and not on their way out, lie in each tier."""
        return self.split(
            [one for one in pods if is_ready(one) and "deletionTimestamp" not in one["metadata"]]
        )

    def close(self) -> None:
        path = known("MutatingWebhookConfiguration").path(None, CONFIGURATION)
        self.cluster.wire.request("DELETE", path)
        for replica in self.replicas:
            replica.close()
        self._files.cleanup()


@contextlib.contextmanager
def tiered(cluster: Cluster) -> Iterator[Tiered]:
    """A corner that is tidied up, its webhooks unregistered and ended, when the test is over."""
    with Balancer() as balancer:
        own = Tiered(cluster, balancer)
        try:
            yield own
        finally:
            own.close()


def trusted_by(configuration: Manifest) -> bytes:
    """The authorities that a registration names."""
    return base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"])


def exact(number: int) -> dict[str, int]:
    """What the rule says for 30% on demand and the rest on spot."""
    safe = -(-3 * number // 10)
    return {tier: pods for tier, pods in (("on-demand", safe), ("spot", number - safe)) if pods}
