"""A rebalancer beside a cluster whose pods a webhook steers, and what befalls their nodes."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from support.admission import Tiered, tiered
from support.cluster import Cluster
from support.command import run_command
from support.door import DoorProcess
from support.workloads import is_ready

__all__ = ["PACE", "Rebalanced", "least_ready", "rebalanced"]

Manifest = dict[str, Any]

# Fast enough to be watched, slow enough to be one at a time.
PACE = {"minPodAge": "1s", "perMinute": 600, "stabilize": "1s"}


class Rebalanced:
    """A corner with nodes of two tiers, a webhook and a rebalancer that read the same file of policies."""

    def __init__(self, corner: Tiered, folder: Path) -> None:
        self.corner = corner
        self.cluster = corner.cluster
        self.doors: list[DoorProcess] = []
        self._lost: list[str] = []
        self._file = folder / "rebalanced.yaml"

    def close(self) -> None:
        """End the doors."""
        for door in self.doors:
            door.close()

    def write(self, *policies: Manifest) -> None:
        """Write the file."""
        self._file.write_text(yaml.safe_dump_all(policies))

    def policies(self, *policies: Manifest) -> None:
        """Write the file, and start a webhook that reads it."""
        self.write(*policies)
        self.corner.run(*policies)

    def start(self, *arguments: str) -> DoorProcess:
        """Start a rebalancer."""
        return self.door("rebalance", *arguments)

    def door(self, command: str, *arguments: str, kubeconfig: Path | None = None) -> DoorProcess:
        """Start a door that reads the file."""
        door = DoorProcess(
            kubeconfig or self.cluster.kubeconfig,
            command,
            f"--policies={self._file}",
            f"--system-namespace={self.corner.system}",
            *arguments,
        )
        self.doors.append(door)
        return door

    def here(self, pods: Manifest | None = None) -> Manifest:
        """Where and by whom pods are to be placed."""
        return self.corner.here(pods)

    def deploy(self, name: str, replicas: int, *, pods: Manifest | None = None, **spec: Any) -> None:
        """A Deployment of such pods."""
        self.corner.deploy(name, replicas, pods=self.here(pods), **spec)

    def running(self, *policies: Manifest) -> DoorProcess:
        """Door and rebalancer, at work."""
        self.policies(*policies)
        door = self.start()
        door.wait_for("synced")
        return door

    def nodes(self, tier: str) -> list[str]:
        """The names of a tier's nodes."""
        selector = f"test={self.cluster.namespace},capacity={tier}"
        return [one["metadata"]["name"] for one in self.cluster.list("Node", labelSelector=selector)["items"]]

    def lose(self, *names: str) -> None:
        """The nodes are gone, and so are, as when the cluster's garbage is collected, their pods."""
        for name in names:
            self.cluster.delete("Node", name)
        self._lost += names
        self.bury()

    def bury(self) -> None:
        """Collect the garbage once more: a scheduler may bind pods to nodes it does not know to be gone."""
        for item in self.cluster.list("Pod")["items"]:
            if item["spec"].get("nodeName") in self._lost:
                self.cluster.try_delete("Pod", item["metadata"]["name"], gracePeriodSeconds=0)

    def cordon(self, *names: str) -> None:
        for name in names:
            self.cluster.patch("Node", name, {"spec": {"unschedulable": True}})

    def drain(self, *names: str) -> None:
        """Somebody evicts the nodes' pods, each as soon as budgets allow."""
        left = [
            item["metadata"]["name"]
            for item in self.cluster.list("Pod")["items"]
            if item["spec"].get("nodeName") in names
        ]
        for name in left:
            path = self.cluster.path("Pod", name, "eviction")
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            self.cluster.wait(
                lambda path=path, body=body: self.cluster.wire.request("POST", path, body).status != 429,
                f"{name} to be evicted",
            )

    def events(self, reason: str) -> list[Manifest]:
        """What was said about pods."""
        items: list[Manifest] = self.cluster.list("Event", fieldSelector=f"reason={reason}")["items"]
        return items

    def tell(self, *arguments: str) -> str:
        """What ``rebalance --dry-run`` says."""
        done = run_command(
            *("rebalance", "--dry-run", f"--kubeconfig={self.cluster.kubeconfig}"),
            *(f"--policies={self._file}", f"--system-namespace={self.corner.system}", *arguments),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lies(self, app: str, **split: int) -> list[Manifest]:
        """Wait until the workload's pods are Ready and lie over the tiers like this."""
        wanted = Counter({name.replace("_", "-"): number for name, number in split.items()})

        def look() -> list[Manifest] | None:
            if self._lost:
                self.bury()
            items = self.corner.pods(app)
            fine = len(items) == wanted.total() and all(map(is_ready, items))
            return items if fine and self.corner.split(items) == wanted else None

        try:
            found = self.cluster.wait(look, f"{app} to lie {dict(wanted)}")
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *self._story(app)])) from None
        assert found is not None
        return found

    def _story(self, app: str) -> list[str]:
        """What somebody wants to know who sees that it did not come to be."""
        pods = [
            f"{one['metadata']['name']} on {one['spec'].get('nodeName')}, {one['status'].get('phase')}, "
            f"{one['metadata'].get('annotations')}"
            for one in self.corner.pods(app)
        ]
        return [*pods, *(door.text() for door in (*self.doors, *self.corner.replicas))]


@contextlib.contextmanager
def rebalanced(cluster: Cluster, folder: Path) -> Iterator[Rebalanced]:
    """A corner that is tidied up, its doors ended, when the test is over."""
    with tiered(cluster) as corner, contextlib.closing(Rebalanced(corner, folder)) as own:
        yield own


def least_ready(moments: Iterator[list[Manifest]]) -> int:
    """The lowest number of Ready pods, not on their way out, at any moment."""
    return min(
        sum(is_ready(one) and "deletionTimestamp" not in one["metadata"] for one in pods) for pods in moments
    )
