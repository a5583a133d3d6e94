"""NodePorts: a host port can be taken once per address; no address, or 0.0.0.0, is every address."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.engine.rules.reasons import PortTaken
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return bool(cls.facts.ports)


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    taken = np.zeros(snapshot.nodes.capacity, np.bool_)
    for port in cls.facts.ports:
        for tally in snapshot.classes.port_users(port):
            taken |= tally.counts > 0
    yield Finding(PortTaken(), taken)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    return not any(
        tally.counts[slot] > 0 for port in cls.facts.ports for tally in snapshot.classes.port_users(port)
    )
