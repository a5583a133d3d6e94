"""Units: what is placed as a whole, one pod or one gang, and how pods become units.

A gang that has not started is one unit; the members of one that has are units of their own. The subtle
thing is what a gang's unit places: as many members as it lacks to its minimum, whichever of them fit. Those
beyond that are units of their own once it has started, and come after every unit that waits for its minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairlead.engine.gangs import Gang, created_at
from fairlead.engine.membership import shown
from fairlead.engine.order import QueueOrder, Rank, Stage, rank
from fairlead.kube.pod import Pod

__all__ = ["Unit", "gang_unit", "pod_unit"]


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


def pod_unit(pod: Pod, priority: int, order: QueueOrder, gang: str = "", stage: Stage = Stage.WAITS) -> Unit:
    """The unit of a pod on its own, in a gang that has started or in none."""
    since = created_at(pod.metadata)
    place = rank(
        priority=priority,
        stage=stage,
        size=1,
        created=since,
        name=f"{pod.metadata.key}/{pod.metadata.uid}",
        order=order,
    )
    return Unit(f"pod:{pod.metadata.uid}", pod.metadata.key, (pod,), 1, priority, since, place, gang)


def gang_unit(gang: Gang, priority: Callable[[Pod], int], order: QueueOrder) -> Unit:
    """The unit of a gang that has not started (or only in part)."""
    lowest = min(priority(pod) for pod in (*gang.pending, *gang.running))
    since = min(created_at(pod.metadata) for pod in gang.pending)
    place = rank(
        priority=lowest,
        stage=Stage.RUNS if gang.running else Stage.WAITS,
        size=max(gang.needed, 1),
        created=since,
        name=gang.name,
        order=order,
    )
    name = shown(gang.name)
    return Unit(f"gang:{gang.name}", name, gang.pending, gang.needed, lowest, since, place, gang.name)
