"""Our own scheduler beside a cluster with nodes of two tiers; and a rebalancer, where pods are to return."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from support.admission import tiered
from support.cluster import Cluster
from support.rebalancing import Rebalanced
from support.scheduler import SchedulerProcess

__all__ = ["ByScheduler", "by_scheduler"]

Manifest = dict[str, Any]


class ByScheduler(Rebalanced):
    """The same corner, but it is our scheduler that sends pods to their tiers."""

    @property
    def scheduler(self) -> str:
        """Who the pods ask for."""
        return f"tiers-{self.cluster.namespace}"

    def policies(self, *policies: Manifest, cluster: bool = False, arguments: tuple[str, ...] = ()) -> None:
        """Start a scheduler that goes by these: from a file, or from the cluster."""
        if not cluster:
            self._file.write_text(yaml.safe_dump_all(policies))
            arguments = (*arguments, f"--policies={self._file}")
        self.placing = SchedulerProcess(
            self.cluster.kubeconfig,
            f"--scheduler-name={self.scheduler}",
            f"--system-namespace={self.corner.system}",
            *arguments,
        )
        self.doors.append(self.placing)
        self.placing.wait_for("synced")

    def running(self, *policies: Manifest) -> Any:
        """Scheduler and rebalancer, at work."""
        self.policies(*policies)
        door = self.start(f"--scheduler-name={self.scheduler}")
        door.wait_for("synced")
        return door

    def here(self, pods: Manifest | None = None) -> Manifest:
        return super().here({"schedulerName": self.scheduler} | (pods or {}))


@contextlib.contextmanager
def by_scheduler(cluster: Cluster, folder: Path) -> Iterator[ByScheduler]:
    """A corner that is tidied up, its doors ended, when the test is over."""
    with tiered(cluster) as corner:
        own = ByScheduler(corner, folder)
        try:
            yield own
        finally:
            for door in own.doors:
                door.close()
