"""What may be known of a core from outside: for metrics, logs, and the comparison with the API.

Numbers, and answers about single objects by name. Nothing is copied and nothing can be changed through it;
asking about one object is a look or two into a table, so a line per decision or a scrape costs next to
nothing. In the middle of a turn only answers about single objects make sense.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from fairlead.engine.gangs.membership import shown
from fairlead.engine.planning.budgets import Budgets
from fairlead.engine.planning.placement import group
from fairlead.engine.planning.preemption import Preemption
from fairlead.engine.planning.preemption_gangs import offer_to_gang
from fairlead.engine.planning.priority import UNTOUCHABLE
from fairlead.engine.ranking.runs import place_run

if TYPE_CHECKING:
    from fairlead.engine.core.serving import Service
    from fairlead.engine.gangs.gangs import Gang
    from fairlead.engine.planning.room import Reservation
    from fairlead.engine.planning.units import Unit
    from fairlead.engine.policies.planned_pod import Sent
    from fairlead.kube.pod import Pod


@dataclass(frozen=True, slots=True)
class Counts:
    """How many pods wait, by what for; how many were given a node that the API does not show yet.

    `leaving` are units whose victims are leaving; their pods are in no queue.
    """

    active: int = 0
    backoff: int = 0
    unschedulable: int = 0
    gated: int = 0
    leaving: int = 0
    assumed: int = 0


class Report:
    """See the module. One per core, for as long as that lives; what it says is always the latest."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._state = service.state

    # Numbers

    def counts(self) -> Counts:
        """How many pods wait, counted line by line."""
        active = backoff = unschedulable = 0
        for line in self._service.queue.lines():
            pods = sum(len(unit.members) for unit in line.units)
            if line.verdict:
                unschedulable += pods
            elif line.retry_at:
                backoff += pods
            else:
                active += pods
        leaving = sum(1 for _ in self._service.evictions)
        state = self._state
        return Counts(active, backoff, unschedulable, len(state.gated), leaving, len(state.assumed))

    @property
    def pending(self) -> int:
        """How many of our pods wait for a node."""
        return len(self._state.pending)

    # Pods

    def uid_of(self, pod: str) -> str:
        """The UID of the pod with that name (``namespace/name``), or ""."""
        return self._state.uid_of(pod)

    def node_of(self, pod: str) -> str:
        """The node that a pod takes room on, bound or assumed; "" for none."""
        placed = self._state.snapshot.placed(pod)
        return placed.node if placed is not None else ""

    def is_taken_on(self, uid: str) -> bool:
        """Whether a pod is ours to bind: it waits, or its bind is under way."""
        return uid in self._state.pending or uid in self._state.assumed

    def sent(self, uid: str) -> Sent | None:
        """Where a waiting pod is sent by its placement policy, and why; None: none governs it."""
        return self._state.book.sent.get(uid)

    def waiting(self) -> list[str]:
        """The pods that wait in the queue, in order."""
        return [pod.metadata.key for unit in self._service.queue.units() for pod in unit.members]

    def gated(self) -> list[str]:
        """The pods that wait for their scheduling gates."""
        return [pod.metadata.key for pod in self._state.gated.values()]

    def held(self) -> list[tuple[str, str, str]]:
        """(pod, why, unit) of every pod that is held, in order of name."""
        return self._service.holds.all()

    def held_by(self, uid: str) -> frozenset[str]:
        """The rules for which a pod is held, as far as it was rules."""
        return self._service.holds.rules(uid)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Objects that could not be used, and why, in order of name."""
        return iter(sorted(self._state.unusable.items()))

    # What was promised

    def promised(self) -> dict[str, str]:
        """The pods that were promised a node, and which."""
        return {pod: nomination.node for pod, nomination in self._state.room.nominations.items()}

    def reservations(self) -> Mapping[int, Reservation]:
        """What is kept free for units that have waited long, by priority."""
        return MappingProxyType(self._state.room.reservations)

    # Gangs and budgets

    def gang(self, name: str) -> Gang | None:
        """A gang as it is now, by its key."""
        return self._state.gangs.get(name)

    def gang_of(self, pod: Pod) -> str:
        """The key of the gang that a pod says it is of, or ""."""
        return self._state.gangs.declared(pod)

    def disruptions_allowed(self, pod: Pod) -> dict[str, int]:
        """The budgets that protect a pod: how many more pods each lets go once all evictions are done."""
        budgets = self._state.budgets
        return {budget.metadata.name: budgets.allowed(budget) for budget in budgets.of(pod)}

    # Whether it agrees with the API

    def has_pod(self, pod: str, node: str) -> bool:
        """Whether a pod is known as the API has it: on `node`, or with "" on none that the API must know of.

        One that cannot be used is not asked for more.
        """
        state = self._state
        if f"Pod {pod}" in state.unusable:
            return True
        uid = state.uid_of(pod)
        placed = state.snapshot.placed(pod)
        if node:
            return bool(uid) and placed is not None and placed.node == node
        # Without a node it may be one that we gave one, or promised one.
        return bool(uid) and (placed is None or uid in state.assumed or pod in state.room.nominations)

    def has_node(self, name: str) -> bool:
        """Whether a node is known, or known not to be usable."""
        return self._state.snapshot.nodes.slot(name) >= 0 or f"Node {name}" in self._state.unusable

    def placed(self) -> Iterator[str]:
        """All pods that take room."""
        return (placed.key for placed in self._state.snapshot.all_placed())

    def nodes(self) -> Iterator[str]:
        """All nodes that are used."""
        nodes = self._state.snapshot.nodes
        return (nodes.name(slot) for slot in np.flatnonzero(nodes.alive).tolist())


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Where a waiting pod stands: its unit, its place in the queue, what is ahead, what holds it back.

    The pods that hold a unit back are found by asking preemption as if no pod were protected: no priority,
    budget or scheduler name spares any but system pods. They are named, not evicted.

    `position` counts from 1; 0 while the unit is not in the queue. `ahead` are units' names, in order.

    `fitting` are the members (``namespace/name``) that would find room now if they went alone, `held_back_by`
    pods without which all would, and `waits_for` pods that were told to leave. `attempts` is how often units
    like it were tried in a row, `retry_at` when they are tried again though nothing happens (0: not before
    something does).
    """

    unit: str
    members: int
    position: int
    ahead: tuple[str, ...]
    message: str
    waits_for: tuple[str, ...] = ()
    fitting: tuple[str, ...] = ()
    held_back_by: tuple[str, ...] = ()
    attempts: int = 0
    retry_at: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "unit": self.unit,
            "members": self.members,
            "position": self.position,
            "ahead": list(self.ahead),
            "message": self.message,
            "waitsFor": list(self.waits_for),
            "fitting": list(self.fitting),
            "heldBackBy": list(self.held_back_by),
            "attempts": self.attempts,
            "retryAt": self.retry_at,
        }


def queue_position(service: Service, pod: str) -> QueuePosition | None:
    """The queue position of a pod by ``namespace/name``, None when it does not wait."""
    state = service.state
    uid = state.uid_of(pod)
    if uid not in state.pending and uid not in state.gated:
        return None
    if uid in state.gated:
        gates = ", ".join(gate.name for gate in state.gated[uid].spec.scheduling_gates)
        return QueuePosition(pod, 1, 0, (), f"waiting for scheduling gates: {gates}")
    gang = state.gangs.name_of(uid)
    for unit_id in (f"pod:{uid}", f"gang:{gang}"):
        wait = service.evictions.get(unit_id)
        if wait is not None:
            leaving = tuple(sorted(victim.key for victim in wait.victims.values()))
            message = "waiting for pods to leave"
            return QueuePosition(wait.unit.name, len(wait.unit.members), 0, (), message, leaving)
        if unit_id in service.queue:
            units = service.queue.units()
            index = next(i for i, unit in enumerate(units) if unit.id == unit_id)
            ahead = tuple(unit.name for unit in units[:index])
            unit = units[index]
            line = service.queue.line_of(unit_id)
            return QueuePosition(
                unit.name,
                len(unit.members),
                index + 1,
                ahead,
                service.holds.told(uid),
                fitting=_fitting(service, unit),
                held_back_by=_held_back_by(service, unit),
                attempts=line.attempts if line is not None else 0,
                retry_at=line.retry_at if line is not None and line.verdict is None else 0.0,
            )
    return QueuePosition(shown(gang) or pod, 1, 0, (), service.holds.told(uid))


def _fitting(service: Service, unit: Unit) -> tuple[str, ...]:
    snapshot = service.state.snapshot
    found: list[str] = []
    with snapshot.trial():
        for each in group(service.state.room, unit.members):
            slots = place_run(service.state.room.ranking, each.cls, each.pods)
            found += [pod.metadata.key for pod, slot in zip(each.pods, slots, strict=True) if slot >= 0]
    return tuple(sorted(found))


def _held_back_by(service: Service, unit: Unit) -> tuple[str, ...]:
    state = service.state
    search = Preemption(state.room, state.gangs, Budgets(), respect=False)
    groups = group(state.room, unit.members)
    with state.room.seen_by(unit.id, UNTOUCHABLE):
        offer = offer_to_gang(search, UNTOUCHABLE, groups, unit.needed, mask=None)
    return tuple(sorted(victim.key for victim in offer.victims)) if offer is not None else ()
