"""The same corner of a cluster behind each door: who sends pods to their tiers is all that differs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from fairlead.rig.processes import free_ports
from support.cluster import Cluster, Host, RealHost
from support.extender import calling, extended
from support.rebalancing import Rebalanced, rebalanced
from support.scheduled_tiers import by_scheduler

__all__ = ["Behind", "behind"]


@dataclass(frozen=True, slots=True)
class Behind:
    """A door that is in use on a host; `corner` makes corners behind it."""

    host: Host
    corner: Callable[[Cluster, Path], AbstractContextManager[Rebalanced]]


@contextlib.contextmanager
def behind(door: str, host: Host) -> Iterator[Behind]:
    """Have a host use this door, for as long as the block lasts."""
    if door == "webhook":
        yield Behind(host, rebalanced)
    elif door == "scheduler":
        yield Behind(host, by_scheduler)
    else:
        assert isinstance(host, RealHost), "only kube-scheduler itself asks an extender"
        (port,) = free_ports(1)
        with calling(host.plane, port):
            yield Behind(host, lambda cluster, folder: _by_extender(cluster, folder, port))


@contextlib.contextmanager
def _by_extender(cluster: Cluster, folder: Path, port: int) -> Iterator[Rebalanced]:
    with extended(cluster, port) as corner, contextlib.closing(Rebalanced(corner, folder)) as own:
        yield own
