"""From pods to units in the queue: which gangs are whole, which members go alone, and each unit's line.

The subtle thing is the line: units stand in one line only if planning cannot tell them apart, so the
line's key must name everything that planning reads of a unit but its place in the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from fairlead.engine.core.evictions import Evictions
from fairlead.engine.core.queue import Queue, Verdict
from fairlead.engine.core.state import State
from fairlead.engine.core.term_limit import TermLimit
from fairlead.engine.gangs.gangs import Gang
from fairlead.engine.gangs.membership import shown
from fairlead.engine.planning.placement import group
from fairlead.engine.planning.steps import Steps
from fairlead.engine.planning.units import Unit, gang_unit, has_started, pod_unit, units_of
from fairlead.engine.rules import loose_terms
from fairlead.errors import BadObject
from fairlead.kube.pod import Pod


class Hold(Protocol):
    """Tells that a pod waits, and why."""

    def __call__(self, pod: Pod, verdict: Verdict, unit: str, *, fresh: bool = True) -> None: ...


class Assembly:
    """Keeps the queue in step with the state. `hold` tells that pods wait, and why."""

    def __init__(
        self, state: State, queue: Queue, evictions: Evictions, commits: Commits, hold: Hold
    ) -> None:
        self._state = state
        self._queue = queue
        self._evictions = evictions
        self._commits = commits
        self._hold = hold
        self._limit = TermLimit(state.snapshot.classes.placed_terms)
        self._settling: dict[str, float] = {}  # gang → when its size is believed
        self.failures: dict[str, int] = {}  # unit id → how often in a row what it was given came to nothing

    def wake_at(self) -> float | None:
        """When the next gang's size is believed."""
        return min(self._settling.values(), default=None)

    def pod(self, pod: Pod, now: float) -> None:
        """Queue a pod that is in no gang, unless it waits for victims; its policy is asked first."""
        if self._state.book.governs(pod.metadata.uid):
            self._state.book.again(pod.metadata.uid)
        else:
            self.sent(pod, now)

    def sent(self, pod: Pod, now: float) -> None:
        """Queue a pod that is in no gang, and whose policy, if it has one, was asked."""
        if f"pod:{pod.metadata.uid}" not in self._evictions:
            self.put(pod_unit(pod, self._state.settings.order), now)

    def settle(self, now: float) -> None:
        """Look again at gangs whose size is believed by now."""
        for name in [name for name, time in self._settling.items() if time <= now]:
            del self._settling[name]
            self._state.gangs.changed[name] = None

    def refresh(self, now: float, abandon: Callable[[str], None]) -> Steps[None]:
        """Turn every gang that something happened to into the units it now consists of.

        `abandon` takes back what a unit was promised and waits for, when a member that it was for is
        gone or the unit is no more.
        """
        gangs = self._state.gangs
        for uid in gangs.freed:
            if uid in self._state.pending:
                self._queue.drop(f"pod:{uid}")
                self.pod(self._state.pending[uid], now)
        gangs.freed.clear()
        while gangs.changed:
            changed, gangs.changed = list(gangs.changed), {}
            for name in changed:
                gang = gangs.get(name)
                self._refresh(name, gang, now, abandon)
                yield 1 + len(gang.pending) if gang is not None else 1
        for unit, admitted in self._limit.settle():
            if admitted:
                self.put(unit, now)
            else:
                self._set_aside(unit, abandon)
            yield len(unit.members)

    def drop(self, unit_id: str) -> None:
        """A unit waits no more."""
        self._queue.drop(unit_id)
        self._limit.drop(unit_id)

    def put(self, unit: Unit, now: float) -> None:
        """Queue a unit, or bring what is queued up to date; one that makes no sense is held by itself."""
        try:
            if self._state.book.active:
                unit = replace(unit, members=tuple(map(self._state.planned, unit.members)))
            groups = group(self._state.room, unit.members)
        except BadObject as error:
            self.drop(unit.id)
            for pod in unit.members:
                self._hold(pod, Verdict(frozenset(), str(error)), unit.gang)
            return
        terms = tuple(dict.fromkeys(term for each in groups for term in each.cls.loose))
        if not self._limit.admits(unit, unit.members[0].metadata.namespace, terms):
            self._queue.drop(unit.id)
            return
        if self._state.room.nominations:
            for pod in unit.members:
                self._state.room.hand_over(pod.metadata.key, unit.id)
        failures = self.failures.get(unit.id, 0)
        alone = failures or self._state.room.promised_to(unit.id)
        key = (
            tuple((each.cls.serial, len(each.pods)) for each in groups),
            unit.whole,
            unit.needed,
            unit.priority,
            unit.may_preempt,
            unit.deadline_s,
            unit.rank[1],
            (unit.id, failures) if alone else (),
        )
        line = self._queue.put(unit, key)
        line.classes = tuple(each.cls for each in groups)
        if line.verdict is None:
            if failures and not line.attempts:
                self._queue.rest(line, failures, now)
        else:
            for pod in unit.members:
                self._hold(pod, line.verdict.about(unit), unit.gang, fresh=False)

    def _set_aside(self, unit: Unit, abandon: Callable[[str], None]) -> None:
        """Hold a unit whose terms are too many for its namespace; another node would not help it."""
        abandon(unit.id)
        self._queue.drop(unit.id)
        namespace = unit.members[0].metadata.namespace
        verdict = Verdict(frozenset((loose_terms.NAME,)), loose_terms.words(namespace), unschedulable=False)
        for pod in unit.members:
            self._hold(pod, verdict.about(unit), unit.gang)

    def _refresh(self, name: str, gang: Gang | None, now: float, abandon: Callable[[str], None]) -> None:
        self._settling.pop(name, None)
        unit_id = f"gang:{name}"
        wait = self._evictions.get(unit_id)
        if wait is not None:
            there = {pod.metadata.uid for pod in gang.pending} if gang and gang.may_start else set()
            if all(pod.metadata.uid in there for pod, _ in wait.placement):
                return
            abandon(unit_id)
        if gang is None or not gang.pending:
            self.drop(unit_id)
        if gang is None:
            self._commits.end(name)
            self.failures.pop(unit_id, None)
            return
        self._track_commit(gang, now)
        if has_started(gang):
            self.drop(unit_id)
            for unit in units_of(gang, self._state.settings.order):
                if unit.id not in self._evictions:
                    self.put(unit, now)
            return
        for pod in (*gang.pending, *gang.outdated):
            # It stood alone while the gang ran. What it was promised then is not what the gang needs.
            abandon(f"pod:{pod.metadata.uid}")
            self.drop(f"pod:{pod.metadata.uid}")
        if not gang.pending:
            return
        self._wait_for(gang.outdated, gang, "members of a newer revision count instead of this one")
        why = self._waits_because(gang, now)
        if why:
            self.drop(unit_id)
            self._wait_for(gang.pending, gang, why)
        else:
            self.put(gang_unit(gang, self._state.settings.order), now)

    def _waits_because(self, gang: Gang, now: float) -> str:
        """Why a gang is not tried, "" for one that is; notes when its size is believed."""
        if gang.may_start and gang.settles_at > now:
            self._settling[gang.name] = gang.settles_at
        return gang.waits_because(now)

    def _track_commit(self, gang: Gang, now: float) -> None:
        bound = all(pod.metadata.uid not in self._state.assumed for pod in gang.running)
        if gang.latched or not gang.running or gang.evicted:
            self._commits.end(gang.name)
        elif gang.needed:
            if self._commits.has_passed(gang, now):
                # Found like this after a restart, and longer ago than a start may take: it had started.
                self._state.gangs.latch(gang.name)
            else:
                # Bound in part, by a failed bind or before a restart: finish it, or let it go in time.
                self._commits.begin(gang.name, now, gang.schedule_timeout_s)
        elif bound and gang.settles_at <= now:
            self._state.gangs.latch(gang.name)
            self._commits.end(gang.name)
            self.failures.pop(f"gang:{gang.name}", None)

    def _wait_for(self, pods: Iterable[Pod], gang: Gang, why: str) -> None:
        verdict = Verdict(frozenset(), f"gang {shown(gang.name)}: {why}", unschedulable=False)
        for pod in pods:
            self._hold(pod, verdict, gang.name)


class Commits:
    """Gangs whose members are being bound, with their deadlines: Kubernetes has no transaction.

    A gang that is bound in part when its deadline comes is given up: those members go that a controller
    will recreate. The clock starts with the first bind, or when a partly bound gang is first seen.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._deadlines: dict[str, float] = {}

    def begin(self, gang: str, now: float, timeout_s: float | None) -> None:
        """Start the clock, unless it runs; `timeout_s` is the gang's own, if it has one."""
        self._deadlines.setdefault(gang, now + (timeout_s or self._timeout_s))

    def has_passed(self, gang: Gang, now: float) -> bool:
        """Whether a gang was found with bound members that all started longer ago than a start may take."""
        if not gang.found_bound or gang.name in self._deadlines:
            return False
        limit_s = gang.schedule_timeout_s or self._timeout_s
        starts = [pod.status.start_time for pod in gang.running]
        return all(start is not None and now - start.timestamp() > limit_s for start in starts)

    def end(self, gang: str) -> None:
        """All members are bound, or none."""
        self._deadlines.pop(gang, None)

    def overdue(self, now: float) -> list[str]:
        """Gangs whose time is up."""
        return sorted(gang for gang, deadline in self._deadlines.items() if deadline <= now)

    def wake_at(self) -> float | None:
        """The next deadline."""
        return min(self._deadlines.values(), default=None)
