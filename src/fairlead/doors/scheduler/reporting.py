"""What one session says about itself: log lines, events, metrics. One line per decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import structlog

from fairlead.client.clock import Clock
from fairlead.client.events import About, EventLane
from fairlead.doors.scheduler.metrics import Metrics
from fairlead.engine.core.actions import (
    Action,
    BindPod,
    EvictPod,
    HoldPod,
    MarkTiers,
    NominatePod,
    ReleasePod,
    Say,
    SparePod,
)
from fairlead.engine.core.events import BindFailed, Event, EvictFailed, Gone, Seen
from fairlead.engine.core.report import Report
from fairlead.engine.planning.steps import Steps
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known

_log = structlog.get_logger(__name__)

_POD = known("Pod")


class Reporting:
    """See the module. Remembers, for pods that wait, since when and how often they were tried."""

    def __init__(
        self, report: Report, events: EventLane, metrics: Metrics, clock: Clock, *, profile: str
    ) -> None:
        """`profile` is the scheduler's name as metrics have it."""
        self._report = report
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._since: dict[str, float] = {}
        self._tries: dict[str, int] = {}
        self._scheduled = metrics.attempts.labels("scheduled", profile)
        self._unschedulable = metrics.attempts.labels("unschedulable", profile)
        self._scheduled_s = metrics.attempt_s.labels("scheduled", profile)
        self._unschedulable_s = metrics.attempt_s.labels("unschedulable", profile)
        self._planning_s = metrics.extension_s.labels("Filter", "Success", profile)
        self._added = metrics.incoming.labels("active", "PodAdd")

    def turn(self, events: Sequence[Event], actions: Sequence[Action], took_s: float) -> Steps[None]:
        """One call of the core is over."""
        self._note(events)
        self._metrics.plan_s.observe(took_s)
        if not actions:
            return
        self._planning_s.observe(took_s)
        gangs = {one.unit for one in actions if isinstance(one, BindPod) and one.unit != one.pod}
        self._metrics.gangs_started.inc(len(gangs))
        # Without a unit it finishes what was counted before.
        victims = Counter(one.unit_id for one in actions if isinstance(one, EvictPod) and one.unit_id)
        for number in victims.values():
            self._metrics.preemptions.inc()
            self._metrics.victims.observe(number)
        for action in actions:
            yield 1
            if isinstance(action, HoldPod):
                self._held(action, took_s)
            elif isinstance(action, ReleasePod):
                self._metrics.gangs_released.inc()
                _log.warning("released", pod=action.pod, unit=action.unit, reason=action.message)
                self._tell(action.pod, action.uid, "GangIncomplete", action.message, warns=True)
            elif isinstance(action, NominatePod):
                _log.info("nominated", pod=action.pod, node=action.node)
            elif isinstance(action, SparePod):
                _log.info("spared", pod=action.pod)
            elif isinstance(action, MarkTiers):
                _log.info("tiers_marked", policy=action.policy, tiers=sorted(action.after))
            elif isinstance(action, Say):
                warns = action.type == "Warning"
                self._tell(action.pod, action.uid, action.reason, action.message, warns=warns)

    def bound(self, bind: BindPod, decided_at: float) -> None:
        """A bind is done."""
        now = self._clock.now()
        _log.info("bound", pod=bind.pod, node=bind.node)
        said = f"Successfully assigned {bind.pod} to {bind.node}"
        self._tell(bind.pod, bind.uid, "Scheduled", said, action="Binding")
        self._scheduled.inc()
        self._scheduled_s.observe(now - decided_at)
        tries = self._tries.pop(bind.uid, 0) + 1
        self._metrics.pod_attempts.observe(tries)
        since = self._since.pop(bind.uid, None)
        if since is not None:
            label = str(tries) if tries < 16 else "16+"
            self._metrics.sli_s.labels(label).observe(now - since)

    def evicted(self, evict: EvictPod) -> None:
        """An eviction was granted."""
        _log.info("evicted", pod=evict.pod, node=evict.node, unit=evict.unit, reason=evict.message)
        self._metrics.evictions.labels("granted").inc()
        self._tell(evict.pod, evict.uid, "Preempted", evict.message, action="Preempting")

    def refused(self, evict: EvictPod, message: str, final: bool) -> None:
        """An eviction was refused; if for good, the pods that wait for it get an event."""
        _log.info("eviction_refused", pod=evict.pod, unit=evict.unit, reason=message, final=final)
        if not final or not evict.unit_id:
            return
        text = f"cannot evict {evict.pod}: {message}"
        for pod, uid in evict.waiting or ():
            self._tell(pod, uid, "PreemptionRefused", text, warns=True)

    def _tell(
        self, pod: str, uid: str, reason: str, text: str, *, warns: bool = False, action: str = "Scheduling"
    ) -> None:
        """An event about a pod, in kube-scheduler's words."""
        namespace, _, name = pod.partition("/")
        about = About(_POD, name, namespace, uid)
        self._events.tell(about, reason, text, type="Warning" if warns else "Normal", action=action)

    def _failed(self, pod: str, uid: str, message: str) -> None:
        self._tell(pod, uid, "FailedScheduling", message, warns=True)

    def _held(self, hold: HoldPod, took_s: float) -> None:
        _log.info("held", pod=hold.pod, unit=hold.unit, reason=hold.message)
        self._tries[hold.uid] = self._tries.get(hold.uid, 0) + 1
        if hold.unschedulable:
            self._unschedulable.inc()
            self._unschedulable_s.observe(took_s)
            self._failed(hold.pod, hold.uid, hold.message)
        else:
            self._tell(hold.pod, hold.uid, hold.event_reason, hold.message)

    def _note(self, events: Sequence[Event]) -> None:
        is_taken_on = self._report.is_taken_on
        now = self._clock.now()
        for event in events:
            if isinstance(event, Seen) and isinstance(event.object, Pod):
                uid = event.object.metadata.uid
                if uid not in self._since and is_taken_on(uid):
                    self._since[uid] = now
                    self._added.inc()
            elif isinstance(event, Gone) and event.kind == "Pod":
                self._since.pop(event.uid, None)
                self._tries.pop(event.uid, None)
            elif isinstance(event, BindFailed):
                self._metrics.bind_failures.inc()
                if event.message:
                    self._failed(event.pod, event.uid, f"binding rejected: {event.message}")
            elif isinstance(event, EvictFailed):
                self._metrics.evictions.labels("refused").inc()
