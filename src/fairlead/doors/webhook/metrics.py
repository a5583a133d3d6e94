"""The webhook's numbers."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import generate_latest

__all__ = ["Metrics"]

_FROM_HALF_MS = tuple(0.0005 * 2**n for n in range(15))


class Metrics:
    """All metrics of one webhook."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry(auto_describe=False)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=self.registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, buckets=buckets, registry=self.registry)

        self.admissions = counter(
            "fairlead_admissions_total",
            "Reviews, by what became of them: patched, unchanged, malformed, unauthenticated, failed",
            "result",
        )
        self.admission_s = histogram(
            "fairlead_admission_duration_seconds", "From a review to its answer", _FROM_HALF_MS
        )
        self.slots = counter(
            "fairlead_slots_taken_total", "Slots taken, by policy and tier", "policy", "tier"
        )
        self.writes = counter("fairlead_ledger_writes_total", "Writes of ledgers, by outcome", "result")
        self.batch = histogram(
            "fairlead_ledger_batch_pods", "Pods whose slots one write took", (1, 2, 4, 8, 16, 32, 64, 128)
        )

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
