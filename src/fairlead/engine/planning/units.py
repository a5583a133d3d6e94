"""Units: what is placed as a whole, one pod or one gang, and how pods become units.

A gang that has not started is one unit; the members of one that has are units of their own. The subtle
thing is what a gang's unit places: as many members as it lacks to its minimum, whichever of them fit. Those
beyond that are units of their own once it has started, and come after every unit that waits for its minimum.

The order in which units are served (`rank`): priority, highest first; at equal priority what (partly) runs
before what waits, and every unit's minimum before members of any gang beyond its minimum; then smaller first,
then oldest, then name, which is unique, so that the order is total and the same in every run.
``queue.order: fifo`` swaps size and age: no unit overtakes by being small.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fairlead.engine.gangs.gangs import Gang, created_at
from fairlead.engine.gangs.membership import shown
from fairlead.engine.planning.settings import QueueOrder
from fairlead.kube.pod import Pod

# Sorts like the order above; opaque otherwise.
Rank = tuple[int, int, float, float, str]


class Stage(IntEnum):
    """What is served first at equal priority."""

    RUNS = 0
    """A gang that partly runs, or a member that replaces one that a running gang has lost."""
    WAITS = 1
    """A unit that waits for its start."""
    EXTRA = 2
    """A member beyond the minimum of its running gang."""


def rank(
    *, priority: int, stage: Stage, size: int, created: float, name: str, order: QueueOrder = "smallest"
) -> Rank:
    """Where a unit stands; lower is served first.

    >>> small, old = dict(size=1, created=9.0, name="a"), dict(size=3, created=1.0, name="b")
    >>> rank(priority=0, stage=Stage.WAITS, **small) < rank(priority=0, stage=Stage.WAITS, **old)
    True
    >>> fifo = dict(priority=0, stage=Stage.WAITS, order="fifo")
    >>> rank(**fifo, **small) < rank(**fifo, **old)
    False
    """
    if order == "fifo":
        return (-priority, int(stage), created, float(size), name)
    return (-priority, int(stage), float(size), created, name)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A unit that waits. `id` is stable while it waits; `name` is what messages call it.

    `needed` of `members` are placed at once, or none. `gang` is the gang's key, also for a single member of
    one that has started. `since` is when it began to wait.
    """

    id: str
    name: str
    members: tuple[Pod, ...]
    needed: int
    priority: int
    since: float
    rank: Rank
    gang: str = ""

    @property
    def whole(self) -> bool:
        """Whether it is a gang that starts together, rather than one pod."""
        return self.id.startswith("gang:")

    @property
    def partly_runs(self) -> bool:
        """Whether it is a gang of which some members are bound: it is finished before others start."""
        return self.whole and self.rank[1] == Stage.RUNS

    @property
    def may_preempt(self) -> bool:
        """Whether others may be evicted for it: one member that says Never speaks for all."""
        return all(pod.spec.preemption_policy != "Never" for pod in self.members)

    @property
    def deadline_s(self) -> int | None:
        """How long it runs at most once started, None when that is not known."""
        longest = 0
        for pod in self.members:
            if pod.spec.active_deadline_seconds is None:
                return None
            longest = max(longest, pod.spec.active_deadline_seconds)
        return longest


def pod_unit(pod: Pod, order: QueueOrder, gang: str = "", stage: Stage = Stage.WAITS) -> Unit:
    """The unit of a pod on its own, in a gang that has started or in none."""
    key, uid, priority, since = pod.metadata.key, pod.metadata.uid, _priority(pod), created_at(pod.metadata)
    place = rank(priority=priority, stage=stage, size=1, created=since, name=f"{key}/{uid}", order=order)
    return Unit(f"pod:{uid}", key, (pod,), 1, priority, since, place, gang)


def gang_unit(gang: Gang, order: QueueOrder) -> Unit:
    """The unit of a gang that has not started (or only in part)."""
    name, members = gang.name, gang.pending
    lowest = min(map(_priority, (*members, *gang.running)))
    since = min(created_at(pod.metadata) for pod in members)
    stage, size = Stage.RUNS if gang.running else Stage.WAITS, max(gang.needed, 1)
    place = rank(priority=lowest, stage=stage, size=size, created=since, name=name, order=order)
    return Unit(f"gang:{name}", shown(name), members, gang.needed, lowest, since, place, name)


def units_of(gang: Gang, order: QueueOrder) -> list[Unit]:
    """What waits of a gang: the gang, or the members one by one once it has started."""
    if not has_started(gang):
        return [gang_unit(gang, order)] if gang.pending else []
    stages = (Stage.RUNS if index < gang.healing else Stage.EXTRA for index in range(len(gang.pending)))
    return [pod_unit(pod, order, gang.name, stage) for pod, stage in zip(gang.pending, stages, strict=True)]


def has_started(gang: Gang) -> bool:
    """Whether its pending members are placed one by one: it has started and is not leaving."""
    return (gang.latched or (bool(gang.running) and not gang.needed)) and not gang.evicted


def _priority(pod: Pod) -> int:
    """What its spec says, which the core has replaced by what counts."""
    return pod.spec.priority or 0
