"""What the rebalancer counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import generate_latest

__all__ = ["Metrics"]


class Metrics:
    """All metrics of one rebalancer."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.moves = Counter(
            "fairlead_rebalance_moves_total",
            "Pods evicted to be made anew in a better tier",
            ("policy", "from", "to"),
            registry=self.registry,
        )
        self.refused = Counter(
            "fairlead_rebalance_refused_total",
            "Evictions that the API server refused",
            ("policy",),
            registry=self.registry,
        )
        self.passed_on = Counter(
            "fairlead_fallback_passed_on_total",
            "Pending pods deleted because their tier did not take them",
            ("policy", "tier"),
            registry=self.registry,
        )
        self.waiting = Gauge(
            "fairlead_rebalance_waiting_groups",
            "Groups whose pods are not where they belong and must wait",
            registry=self.registry,
        )

    def text(self) -> bytes:
        """As Prometheus reads them."""
        return generate_latest(self.registry)
