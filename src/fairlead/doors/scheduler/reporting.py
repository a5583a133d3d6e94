"""What one session says about itself: log lines, events, metrics. One line per decision."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from prometheus_client import Histogram

from fairlead.client.clock import Clock
from fairlead.doors.scheduler.binder import Bound
from fairlead.doors.scheduler.herald import Herald
from fairlead.doors.scheduler.metrics import Metrics
from fairlead.engine.core.actions import (
    Action,
    BindPod,
    EvictPod,
    HoldPod,
    MarkTiers,
    NominatePod,
    ReleasePod,
    SparePod,
)
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import BindFailed, Event, EvictFailed, Gone, Seen
from fairlead.engine.steps import Steps
from fairlead.kube.pod import Pod

__all__ = ["Reporting"]

_log = structlog.get_logger(__name__)


class Reporting:
    """See the module. Remembers, for pods that wait, since when and how often they were tried."""

    def __init__(self, core: Core, herald: Herald, metrics: Metrics, clock: Clock) -> None:
        self._core = core
        self._herald = herald
        self._metrics = metrics
        self._clock = clock
        self._since: dict[str, float] = {}
        self._tries: dict[str, int] = {}
        profile = core.settings.scheduler_names[0]
        self._scheduled = metrics.attempts.labels("scheduled", profile)
        self._unschedulable = metrics.attempts.labels("unschedulable", profile)
        self._scheduled_s = metrics.attempt_s.labels("scheduled", profile)
        self._unschedulable_s = metrics.attempt_s.labels("unschedulable", profile)
        self._planning_s = metrics.extension_s.labels("Filter", "Success", profile)
        self._added = metrics.incoming.labels("active", "PodAdd")
        self._by_tries: dict[int, Histogram] = {}

    def turn(self, events: Sequence[Event], actions: Sequence[Action], took_s: float) -> Steps[None]:
        """One call of the core is over."""
        self._note(events)
        self._metrics.plan_s.observe(took_s)
        if not actions:
            return
        self._planning_s.observe(took_s)
        gangs: dict[str, None] = {}
        victims: dict[str, int] = {}
        for action in actions:
            yield 1
            if isinstance(action, BindPod):
                if action.unit != action.pod:
                    gangs[action.unit] = None
            elif isinstance(action, HoldPod):
                self._held(action, took_s)
            elif isinstance(action, EvictPod):
                if action.unit_id:  # otherwise it finishes what was counted before
                    victims[action.unit_id] = victims.get(action.unit_id, 0) + 1
            elif isinstance(action, ReleasePod):
                self._metrics.gangs_released.inc()
                _log.warning("released", pod=action.pod, unit=action.unit, reason=action.message)
                self._herald.tell(action.pod, action.uid, "GangIncomplete", action.message, type="Warning")
            elif isinstance(action, NominatePod):
                _log.info("nominated", pod=action.pod, node=action.node)
            elif isinstance(action, SparePod):
                _log.info("spared", pod=action.pod)
            elif isinstance(action, MarkTiers):
                _log.info("tiers_marked", policy=action.policy, tiers=sorted(action.after))
            else:
                self._herald.tell(
                    action.pod,
                    action.uid,
                    action.reason,
                    action.message,
                    type="Warning" if action.type == "Warning" else "Normal",
                )
        if gangs:
            self._metrics.gangs_started.inc(len(gangs))
        for number in victims.values():
            self._metrics.preemptions.inc()
            self._metrics.victims.observe(number)

    def bound(self, bound: Bound) -> None:
        """A bind is done."""
        bind = bound.bind
        _log.info("bound", pod=bind.pod, node=bind.node)
        self._herald.scheduled(bind.pod, bind.uid, bind.node)
        self._scheduled.inc()
        self._scheduled_s.observe(bound.done_at - bound.decided_at)
        tries = self._tries.pop(bind.uid, 0) + 1
        self._metrics.pod_attempts.observe(tries)
        since = self._since.pop(bind.uid, None)
        if since is not None:
            self._sli_s(min(tries, 16)).observe(bound.done_at - since)

    def evicted(self, evict: EvictPod) -> None:
        """An eviction was granted."""
        _log.info("evicted", pod=evict.pod, node=evict.node, unit=evict.unit)
        self._metrics.evictions.labels("granted").inc()
        self._herald.preempted(evict.pod, evict.uid, evict.message)

    def _sli_s(self, tries: int) -> Histogram:
        found = self._by_tries.get(tries)
        if found is None:
            label = str(tries) if tries < 16 else "16+"
            found = self._by_tries[tries] = self._metrics.sli_s.labels(label)
        return found

    def refused(self, evict: EvictPod, message: str, *, final: bool) -> None:
        """An eviction was refused; if for good, the unit that waits for it is told."""
        _log.info("eviction_refused", pod=evict.pod, unit=evict.unit, reason=message, final=final)
        if not final or not evict.unit_id:
            return
        text = f"cannot evict {evict.pod}: {message}"
        gang = self._core.state.gangs.get(evict.unit_id.removeprefix("gang:"))
        if gang is None:
            uid = evict.unit_id.removeprefix("pod:")
            self._herald.tell(evict.unit, uid, "PreemptionRefused", text, type="Warning")
        for pod in gang.pending if gang is not None else ():
            self._herald.tell(pod.metadata.key, pod.metadata.uid, "PreemptionRefused", text, type="Warning")

    def _held(self, hold: HoldPod, took_s: float) -> None:
        _log.info("held", pod=hold.pod, unit=hold.unit, reason=hold.message)
        self._tries[hold.uid] = self._tries.get(hold.uid, 0) + 1
        if hold.unschedulable:
            self._unschedulable.inc()
            self._unschedulable_s.observe(took_s)
            self._herald.failed(hold.pod, hold.uid, hold.message)
        else:
            self._herald.tell(hold.pod, hold.uid, hold.event_reason, hold.message)

    def _note(self, events: Sequence[Event]) -> None:
        pending = self._core.state.pending
        assumed = self._core.state.assumed
        now = self._clock.now()
        for event in events:
            if isinstance(event, Seen):
                if isinstance(event.object, Pod):
                    uid = event.object.metadata.uid
                    if uid not in self._since and (uid in pending or uid in assumed):
                        self._since[uid] = now
                        self._added.inc()
            elif isinstance(event, Gone):
                if event.kind == "Pod":
                    self._since.pop(event.uid, None)
                    self._tries.pop(event.uid, None)
            elif isinstance(event, BindFailed):
                self._metrics.bind_failures.inc()
                if event.message:
                    self._herald.failed(event.pod, event.uid, f"binding rejected: {event.message}")
            elif isinstance(event, EvictFailed):
                self._metrics.evictions.labels("refused").inc()
