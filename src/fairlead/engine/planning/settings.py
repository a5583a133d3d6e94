"""What the planner and the core can be told to do differently."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairlead.engine.planning.priority import PriorityAnnotation

QueueOrder = Literal["smallest", "fifo"]
RankingOrder = Literal["spread", "pack"]


class Settings(msgspec.Struct, frozen=True):
    """Defaults are what a cluster gets that says nothing. Times in seconds."""

    scheduler_names: tuple[str, ...] = ("fairlead",)
    # Only pods of these namespaces are placed (empty: of all); the others are counted all the same.
    namespaces: tuple[str, ...] = ()
    # Whether pods of other schedulers may be evicted too.
    preempt_others: bool = False
    pdb: Literal["respect", "best-effort"] = "respect"
    capacity: Literal["resources", "exclusive"] = "resources"
    order: QueueOrder = "smallest"
    # Which of the feasible nodes is best: those with much room, or those that are full already.
    ranking: RankingOrder = "spread"
    priority_annotation: PriorityAnnotation = PriorityAnnotation()
    settle_s: float = 5.0
    reserve_after_s: float = 600.0
    # The first retry of a held unit that an event may have helped, and the longest; as kube-scheduler's.
    backoff_s: float = 1.0
    backoff_max_s: float = 10.0
    # How long victims may take to leave before their unit gives up what it was promised.
    preemption_timeout_s: float = 300.0
    # How long a gang may be bound only in part before those that a controller recreates are released.
    commit_timeout_s: float = 60.0
    # How long to wait before asking again for an eviction that a budget refused.
    eviction_retry_s: float = 5.0
