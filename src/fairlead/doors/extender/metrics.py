"""The extender's numbers."""

from __future__ import annotations

from fairlead.doors.metrics import DoorMetrics

_FROM_QUARTER_MS = tuple(0.00025 * 2**n for n in range(15))


class Metrics(DoorMetrics):
    """All metrics of one extender."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self._counter(
            "fairlead_extender_calls_total",
            "Calls of kube-scheduler, by verb and by what became of them: "
            "answered, refused (no node of the tier), ungoverned, malformed, "
            "unauthenticated, unready, failed",
            "verb",
            "result",
        )
        self.call_s = self._histogram(
            "fairlead_extender_call_duration_seconds", "From a call to its answer", _FROM_QUARTER_MS, "verb"
        )
        self.never_called = self._gauge(
            "fairlead_extender_never_called",
            "1 while this replica is the one that answers and no scheduler has ever called",
        )
        self.last_call = self._gauge(
            "fairlead_extender_last_call_timestamp_seconds", "When a scheduler last called; 0: never"
        )
        self.leading = self._gauge("fairlead_extender_leading", "1 in the one replica that answers")
        self.assumed = self._gauge(
            "fairlead_extender_assumed_slots",
            "Slots given to pods whose outcome the watch has yet to show",
        )
        self.waiting = self._gauge("fairlead_extender_waiting_pods", "Pods that asked and have no node yet")
        self.passed_on = self._counter(
            "fairlead_extender_passed_on_total",
            "Pods that a tier passed on, by policy and tier",
            "policy",
            "tier",
        )
