"""What the rebalancer counts."""

from __future__ import annotations

from fairlead.doors.metrics import DoorMetrics


class Metrics(DoorMetrics):
    """All metrics of one rebalancer."""

    def __init__(self) -> None:
        super().__init__()
        self.moves = self._counter(
            "fairlead_rebalance_moves_total",
            "Pods evicted to be recreated in a better tier",
            "policy",
            "from",
            "to",
        )
        self.refused = self._counter(
            "fairlead_rebalance_refused_total", "Evictions that the API server refused", "policy"
        )
        self.passed_on = self._counter(
            "fairlead_fallback_passed_on_total",
            "Pending pods deleted because their tier did not take them",
            "policy",
            "tier",
        )
        self.waiting = self._gauge(
            "fairlead_rebalance_waiting_groups",
            "Groups whose pods are not where they belong and must wait",
        )
