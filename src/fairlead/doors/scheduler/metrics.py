"""Numbers for dashboards: kube-scheduler's names where they mean the same, ``fairlead_*`` for the rest.

Counted where things happen; what is a matter of state (which pods are pending) is queried at each scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from fairlead.engine.core.report import Counts, Report

_FROM_1_MS = tuple(0.001 * 2**n for n in range(15))
_FROM_10_MS = tuple(0.01 * 2**n for n in range(20))
_TENTHS_OF_MS = tuple(0.0001 * 2**n for n in range(12))


class Metrics(Collector):
    """All metrics of one process; `watch` says whose report the state is read from."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=self.registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

        self.attempts = counter(
            "scheduler_schedule_attempts_total", "Attempts to schedule pods", "result", "profile"
        )
        self.attempt_s = histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency (planning and binding)",
            _FROM_1_MS,
            "result",
            "profile",
        )
        self.pod_attempts = histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts it took to schedule a pod",
            (1, 2, 4, 8, 16),
        )
        self.sli_s = histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From when a pod was first seen to when it was bound",
            _FROM_10_MS,
            "attempts",
        )
        self.preemptions = counter("scheduler_preemption_attempts_total", "Attempts to make room")
        self.victims = histogram(
            "scheduler_preemption_victims", "Victims per preemption", (1, 2, 4, 8, 16, 32, 64)
        )
        self.incoming = counter(
            "scheduler_queue_incoming_pods_total", "Pods added to the queue", "queue", "event"
        )
        self.extension_s = histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Planning latency",
            _TENTHS_OF_MS,
            "extension_point",
            "status",
            "profile",
        )
        self.plan_s = histogram(
            "fairlead_plan_duration_seconds", "One call of the core", (*_TENTHS_OF_MS, 0.5, 1.0, 5.0)
        )
        self.gangs_started = counter("fairlead_gangs_started_total", "Gangs whose binds were asked for")
        self.gangs_released = counter("fairlead_gang_members_released_total", "Members of gangs given up")
        self.evictions = counter("fairlead_evictions_total", "Evictions", "result")
        self.bind_failures = counter("fairlead_bind_failures_total", "Binds that came to nothing")
        self.drift = counter(
            "fairlead_drift_total", "Differences found between what we know and the API", "kind"
        )
        self.rebuilds = counter("fairlead_rebuilds_total", "Times that everything was listed again", "reason")
        self.leader = Gauge("fairlead_leader", "Whether this process leads", registry=self.registry)
        self._report: Report | None = None
        self._writes: Callable[[], int] = lambda: 0
        self.registry.register(self)

    def watch(self, report: Report | None, waiting: Callable[[], int] = lambda: 0) -> None:
        """Read the state from this report from now on; `waiting` counts writes that wait or are under way."""
        self._report = report
        self._writes = waiting

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What is a matter of state."""
        pending = GaugeMetricFamily(
            "scheduler_pending_pods", "Pending pods, by the queue that they are in", labels=["queue"]
        )
        counts = self._report.counts() if self._report is not None else Counts()
        for queue in ("active", "backoff", "unschedulable", "gated"):
            pending.add_metric([queue], getattr(counts, queue))
        yield pending
        yield GaugeMetricFamily(
            "fairlead_units_waiting_for_victims", "Units whose victims are leaving", value=counts.leaving
        )
        yield GaugeMetricFamily(
            "fairlead_assumed_pods",
            "Pods that were given a node that the API does not show yet",
            value=counts.assumed,
        )
        yield GaugeMetricFamily(
            "fairlead_writes_waiting", "Writes that wait or are under way", value=self._writes()
        )
