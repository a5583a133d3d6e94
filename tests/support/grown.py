"""Clusters that start without nodes and grow those that a file of node groups describes.

Three autoscalers do it: the embedded cluster's in virtual time, and on the real control plane Karpenter and,
where there is one, Cluster Autoscaler, each configured by nothing but what ``fairlead nodegroups`` prints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from fairlead.engine.planning.settings import Settings
from fairlead.nodegroups.file import read_file
from fairlead.rig import build
from fairlead.rig.processes import wait_until
from fairlead.world.autoscaler import Pacing
from fairlead.world.fairlead_scheduler import Fairlead
from support.autoscaled import karpenter_host
from support.cluster import Cluster, EmbeddedHost, Host, RealHost
from support.command import run_command
from support.rig import programs
from support.scheduler import shop
from support.virtual_host import VirtualHost
from support.wire import PATIENCE_S

__all__ = ["AUTOSCALERS", "Grower", "fairlead"]


def fairlead(*arguments: str | Path, code: int = 0) -> str:
    """What a command of ours prints; it must end well, or with this code."""
    done = run_command(*arguments, timeout=8 * PATIENCE_S)
    assert done.returncode == code, (
        f"{' '.join(done.args)} ended with {done.returncode}: {done.stdout}{done.stderr}"
    )
    return done.stdout


class Grower(ABC):
    """An autoscaler, for one file of node groups after the other."""

    @abstractmethod
    def growing(self, groups: Path) -> AbstractContextManager[Host]:
        """A cluster that grows nodes of these groups and, from zero, has none yet."""

    @abstractmethod
    def scheduling(self, cluster: Cluster) -> AbstractContextManager[str]:
        """Fairlead's scheduler at work; gives the ``schedulerName`` of its pods."""

    @abstractmethod
    def close(self) -> None:
        """End it, and its cluster."""


class InVirtualTime(Grower):
    """The embedded autoscaler, as patient as Cluster Autoscaler is: minutes cost nothing."""

    @contextmanager
    def growing(self, groups: Path) -> Iterator[Host]:
        host = VirtualHost(groups=read_file(groups.read_text(), groups.name), autoscaler=Pacing())
        try:
            yield host
        finally:
            host.stop()

    @contextmanager
    def scheduling(self, cluster: Cluster) -> Iterator[str]:
        host = cluster.host
        assert isinstance(host, EmbeddedHost)
        settings = Settings(scheduler_names=("fairlead",))
        own = host.on_loop(lambda: Fairlead(host.world.api, host.world.clock, settings))
        try:
            yield "fairlead"
        finally:
            host.on_loop(own.close)

    def close(self) -> None:
        """Its clusters have ended with their stories."""


class OnTheRealOne(Grower):
    """An autoscaler beside the real control plane, which all its stories share."""

    def __init__(self, host: RealHost) -> None:
        self.host = host

    @contextmanager
    def growing(self, groups: Path) -> Iterator[Host]:
        plane = self.host.plane
        printed = self._print(groups)
        plane.kubectl("apply", "-f", "-", stdin=printed)
        try:
            self._begin()
            yield self.host
        finally:
            self._end()
            plane.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", stdin=printed)
            # The next story starts at zero, however this one ended.
            plane.kubectl("delete", "nodes", "--all", "--wait=false")
            wait_until(
                lambda: not plane.api.get("/api/v1/nodes")["items"],
                "all nodes to go",
                timeout_s=4 * PATIENCE_S,
            )

    @contextmanager
    def scheduling(self, cluster: Cluster) -> Iterator[str]:
        with shop(cluster) as own:
            own.run()
            yield own.scheduler

    def close(self) -> None:
        self.host.stop()

    @abstractmethod
    def _print(self, groups: Path) -> str:
        """All that configures the autoscaler."""

    def _begin(self) -> None:
        """Let it act on what it was given."""

    def _end(self) -> None:
        """Let it act no more."""


class Karpenter(OnTheRealOne):
    """Karpenter takes NodePools as they come."""

    def __init__(self) -> None:
        programs("kubectl")
        super().__init__(karpenter_host())

    def _print(self, groups: Path) -> str:
        return fairlead("nodegroups", "karpenter", "--provider", "kwok", "-f", groups)


class ClusterAutoscaler(OnTheRealOne):
    """Cluster Autoscaler's KWOK provider reads its groups once, when it starts."""

    def __init__(self) -> None:
        if build.cluster_autoscaler() is None:
            pytest.skip("FAIRLEAD_CLUSTER_AUTOSCALER names no program")
        programs("kubectl")
        super().__init__(RealHost())

    def _print(self, groups: Path) -> str:
        return fairlead("nodegroups", "kwok", "-f", groups)

    def _begin(self) -> None:
        self.host.plane.start_cluster_autoscaler()

    def _end(self) -> None:
        if "cluster-autoscaler" in self.host.plane.programs:
            self.host.plane.stop_program("cluster-autoscaler")


AUTOSCALERS: dict[str, Callable[[], Grower]] = {
    "embedded": InVirtualTime,
    "karpenter": Karpenter,
    "cluster-autoscaler": ClusterAutoscaler,
}
