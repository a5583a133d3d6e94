"""The webhook's numbers."""

from __future__ import annotations

from fairlead.doors.metrics import DoorMetrics

_FROM_HALF_MS = tuple(0.0005 * 2**n for n in range(15))


class Metrics(DoorMetrics):
    """All metrics of one webhook."""

    def __init__(self) -> None:
        super().__init__()
        self.admissions = self._counter(
            "fairlead_admissions_total",
            "Reviews, by what became of them: patched, unchanged, malformed, unauthenticated, failed",
            "result",
        )
        self.admission_s = self._histogram(
            "fairlead_admission_duration_seconds", "From a review to its answer", _FROM_HALF_MS
        )
        self.slots = self._counter(
            "fairlead_slots_taken_total", "Slots taken, by policy and tier", "policy", "tier"
        )
        self.writes = self._counter("fairlead_ledger_writes_total", "Writes of ledgers, by outcome", "result")
        self.batch = self._histogram(
            "fairlead_ledger_batch_pods", "Pods whose slots one write took", (1, 2, 4, 8, 16, 32, 64, 128)
        )
