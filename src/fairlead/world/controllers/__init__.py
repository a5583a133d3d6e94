"""Controllers as pure functions: a view of the cluster and the time in, writes out.

Belongs here: what kube-controller-manager does, one controller per module (those of nodes in one),
and what they share.
Does not belong here: carrying writes out, waiting, reading a clock (see world/runner.py).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from fairlead.world.controllers.daemonset import DaemonSetController
from fairlead.world.controllers.deployment import DeploymentController
from fairlead.world.controllers.disruption import DisruptionController
from fairlead.world.controllers.garbage_collector import GarbageCollector
from fairlead.world.controllers.job import JobController
from fairlead.world.controllers.node_lifecycle import (
    NODE_GRACE,
    NodeLifecycleController,
    PodGCController,
    TaintEvictionController,
)
from fairlead.world.controllers.replicaset import ReplicaSetController
from fairlead.world.controllers.service_accounts import NamespaceFurnisher
from fairlead.world.controllers.statefulset import StatefulSetController
from fairlead.world.controllers.volumes import EphemeralVolumeController, VolumeController
from fairlead.world.controllers.writes import Controller

__all__ = ["standard"]


def standard(
    last_heartbeat: Callable[[str], datetime | None] = lambda node: None, node_grace: timedelta = NODE_GRACE
) -> list[Controller]:
    """The controllers of a cluster; `last_heartbeat` says since when a node is silent."""
    return [
        DeploymentController(),
        ReplicaSetController(),
        StatefulSetController(),
        DaemonSetController(),
        JobController(),
        DisruptionController(),
        GarbageCollector(),
        NamespaceFurnisher(),
        NodeLifecycleController(last_heartbeat, node_grace),
        TaintEvictionController(),
        PodGCController(),
        VolumeController(),
        EphemeralVolumeController(),
    ]
