"""The extender's numbers."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

__all__ = ["Metrics"]

_FROM_QUARTER_MS = tuple(0.00025 * 2**n for n in range(15))


class Metrics:
    """All metrics of one extender."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry(auto_describe=False)
        self.calls = Counter(
            "fairlead_extender_calls_total",
            "Calls of kube-scheduler, by verb and by what became of them: "
            "answered, refused (no node of the tier), ungoverned, malformed, "
            "unauthenticated, unready, failed",
            ("verb", "result"),
            registry=self.registry,
        )
        self.call_s = Histogram(
            "fairlead_extender_call_duration_seconds",
            "From a call to its answer",
            ("verb",),
            buckets=_FROM_QUARTER_MS,
            registry=self.registry,
        )
        self.never_called = Gauge(
            "fairlead_extender_never_called",
            "1 while this replica is the one that answers and no scheduler has ever called",
            registry=self.registry,
        )
        self.last_call = Gauge(
            "fairlead_extender_last_call_timestamp_seconds",
            "When a scheduler last called; 0: never",
            registry=self.registry,
        )
        self.leading = Gauge(
            "fairlead_extender_leading", "1 in the one replica that answers", registry=self.registry
        )
        self.assumed = Gauge(
            "fairlead_extender_assumed_slots",
            "Slots given to pods whose outcome the watch has yet to show",
            registry=self.registry,
        )
        self.waiting = Gauge(
            "fairlead_extender_waiting_pods", "Pods that asked and have no node yet", registry=self.registry
        )
        self.passed_on = Counter(
            "fairlead_extender_passed_on_total",
            "Pods that a tier passed on, by policy and tier",
            ("policy", "tier"),
            registry=self.registry,
        )

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
