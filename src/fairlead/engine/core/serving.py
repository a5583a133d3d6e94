"""Serving the queue: which units are bound, which have others evicted, which are held.

The subtle thing is what stays promised. A unit whose victims are leaving is out of the queue until they
are gone; its placement is looked at again whenever something happens on its nodes, and given up as soon
as it would not hold with the remaining victims gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import msgspec
from msgspec import UNSET, UnsetType

from fairlead.engine import rules
from fairlead.engine.core.actions import (
    Action,
    BindPod,
    EvictPod,
    HoldPod,
    NominatePod,
    SparePod,
    VolumesToBind,
)
from fairlead.engine.core.assembly import Assembly, Commits
from fairlead.engine.core.evictions import Evictions, GangEvictions, Wait
from fairlead.engine.core.hints import Hints, wants_company
from fairlead.engine.core.holds import Holds
from fairlead.engine.core.queue import Line, Queue, Verdict
from fairlead.engine.core.reservations import Reserver
from fairlead.engine.core.state import State
from fairlead.engine.gangs.membership import STARTED_WITH, shown
from fairlead.engine.planning.placement import Placement
from fairlead.engine.planning.planner import Fits, Outcome, Planner, Refused
from fairlead.engine.planning.preemption import Makes, Preemption
from fairlead.engine.planning.settings import Settings
from fairlead.engine.planning.steps import Steps
from fairlead.engine.planning.units import Unit
from fairlead.engine.planning.victims import Victim
from fairlead.engine.snapshot.evicted import is_preempted, with_its_gang
from fairlead.engine.snapshot.log import UNREAD
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.snapshot.storage import Storage, claim_name
from fairlead.kube.pod import Pod
from fairlead.policy.tiers.fallback import unschedulable_since

__all__ = ["AT_ONCE", "Service"]

# How many pods are placed in one go: few at first, because they are looked up for nothing where there is
# no room, then twice as many each time that there was; but never enough to keep the process busy for long.
_FEW, AT_ONCE = 64, 1024


class Service:
    """The queue and everything that was promised from it.

    `actions` are those of the current call, `took_back` says whether a promise was taken back in it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.state = State(settings)
        self.queue = Queue(settings.backoff_s, settings.backoff_max_s)
        self.evictions = Evictions()
        self.gang_evictions = GangEvictions(self.state.gangs, self.evictions, settings.preemption_timeout_s)
        self.commits = Commits(settings.commit_timeout_s)
        self.holds = Holds()
        self.assembly = Assembly(self.state, self.queue, self.evictions, self.commits, self._hold)
        self.preemption = Preemption(
            self.state.room,
            self.state.gangs,
            self.state.budgets,
            respect=settings.pdb == "respect",
            only_ours=not settings.preempt_others,
        )
        self.planner = Planner(self.state.room, self.preemption)
        self.reserver = Reserver(self.state, settings.reserve_after_s)
        self.actions: list[Action] = []
        self.took_back = False
        # Of the current call: pods sent to a tier where each has a node to itself, and pods kept off nodes
        # with room for the sake of one that has, or of their own wish to have, the node to itself.
        self.alone: list[Pod] = []
        self.kept_off: list[Pod] = []
        self.now = 0.0
        self._verified = UNREAD
        # Looking whose turn it is costs all lines, so after a look that placed no pod there is no other until
        # one was placed: a queue of pods that fit nowhere is gone through line by line.
        self._turns_at_once = _FEW
        self._turns_worth_it = True

    def begin(self, now: float) -> None:
        """Start a call."""
        self.now = max(self.now, now)
        self.actions = []
        self.alone = []
        self.kept_off = []
        self.took_back = False

    def wake_at(self) -> float | None:
        """When something is due though nothing happens."""
        times = (
            self.queue.wake_at(),
            self.evictions.wake_at(),
            self.gang_evictions.wake_at(),
            self.commits.wake_at(),
            self.reserver.wake_at(self.queue),
            self.assembly.wake_at(),
            self.state.book.wake_at(),
        )
        return min((time for time in times if time is not None), default=None)

    # What happened

    def forget(self, uid: str) -> None:
        """A pod does not wait any more: it is placed, finished or gone."""
        self.assembly.drop(f"pod:{uid}")
        self.evictions.drop(f"pod:{uid}")
        self.holds.forget(uid)
        self.assembly.failures.pop(f"pod:{uid}", None)

    def left(self, uid: str) -> None:
        """A pod has left its node: a unit that waited only for it is served again, where it was promised."""
        self.preemption.spared.pop(uid, None)
        for wait in self.evictions.left(uid):
            # Members of a gang that leaves whole may be anywhere, and take long to go.
            if not wait.victims or self.planner.holds(wait.placement, (), wait.unit):
                self.evictions.drop(wait.unit.id)
                self._requeue(wait.unit)

    def eviction_failed(self, uid: str, *, final: bool, unknown: bool) -> None:
        """An eviction was refused: for now, then it is asked for again; or for good, then never.

        `unknown`: it may have been carried out all the same.
        """
        self.not_asked(uid)
        self.state.hints.budgets = True  # a unit that waited for this pod to leave may pick another
        gangs = self.state.gangs
        gang = gangs.name_of(uid)
        if gangs.covers(gang, uid) and not unknown and gangs.is_untouched(gang):
            gangs.begin(gang, begun=False)  # the first eviction was refused: no member leaves
        if gangs.covers(gang, uid) and (final or not gangs.has_begun(gang)):
            self._spare(gang)
        if not final:
            self.evictions.retry[uid] = self.now + self._settings.eviction_retry_s
            return
        self.preemption.spared[uid] = None
        self.state.room.log.start_over()
        for wait in self.evictions.waiting_for(uid):
            self._release(wait)

    def not_asked(self, uid: str) -> None:
        """An eviction that was asked for was not, or will not be, carried out."""
        self.evictions.asked.pop(uid, None)
        self.state.budgets.settled(uid)
        self.state.gangs.stay(uid)

    def on_time(self) -> None:
        """End what has run out of time, and do what was put off until now."""
        self.assembly.settle(self.now)
        for wait in self.evictions:
            if wait.deadline <= self.now:
                for uid in wait.victims:
                    self.not_asked(uid)
                self._release(wait)
        for uid in self.evictions.due(self.now):
            good = [wait for wait in self.evictions.waiting_for(uid) if self.still_good(wait)]
            if good:
                self._evict_again(good[0], uid)
        for name in self.gang_evictions.overdue(self.now):
            self._spare(name)
        for name, pod in self.gang_evictions.unfinished(self.now):
            # What was begun is finished: the member leaves because the rest of its gang does.
            self._evict(pod, f"Evicted with the rest of gang {shown(name)}", gang=name)

    # Serving

    def serve(self) -> Steps[None]:
        """Go down the order until no unit is left that may be tried and every promise holds."""
        book = self.state.book
        while True:
            if book.active:
                yield self._ask_policies()
            yield from self.assembly.refresh(self.now, self._abandon)
            yield from self._wake()
            while (line := self.queue.next(self.now)) is not None:
                yield from self._serve_line(line)
                yield from self.assembly.refresh(self.now, self._abandon)
                yield from self._wake()
            broken = yield from self._verify()
            if not broken and not self._reserve() and not self._spare_unwanted() and not book.stirred:
                break

    def _ask_policies(self) -> int:
        """Queue pods again whose policies send them elsewhere than before, or somewhere at last.

        Returns how many.
        """
        pods, marks = self.state.book.refresh(self.now)
        self.actions += marks
        for uid, moved in pods.items():
            pod = self.state.pending.get(uid)
            if pod is None:
                continue
            if self.state.book.alone(uid):
                self.alone.append(pod)
            gang = self.state.gangs.name_of(uid)
            if moved:
                # What it was promised, itself or with its gang, is in the tier that it leaves.
                for unit_id in (f"pod:{uid}", f"gang:{gang}"):
                    self._abandon(unit_id)
            if gang:
                self.state.gangs.changed[gang] = None
                continue
            self.assembly.sent(pod, self.now)
        return len(pods)

    def still_good(self, wait: Wait) -> bool:
        """Whether a unit's whole placement holds with all remaining victims gone.

        Those of other units on its nodes too: their promises count, so what makes room for them does.
        """
        stamp = self.state.room.log.mark, self.evictions.version
        if wait.held is not None and wait.held[0] == stamp:
            return wait.held[1]
        held = self._still_holds(wait)
        wait.held = (self.state.room.log.mark, self.evictions.version), held
        return held

    def _still_holds(self, wait: Wait) -> bool:
        victims = dict(wait.victims)
        for slot in dict.fromkeys(slot for _, slot in wait.placement):
            for placed in self.state.snapshot.pods_on(slot):
                uid = placed.pod.metadata.uid
                for other in self.evictions.waiting_for(uid):
                    if other.unit.priority >= wait.unit.priority:
                        victims.setdefault(uid, other.victims[uid])
        return self.planner.holds(wait.placement, tuple(victims.values()), wait.unit)

    def _serve_line(self, line: Line) -> Steps[None]:
        if any(not cls.live for cls in line.classes):
            # Selectors began to read more labels: every unit's class must be found again.
            for unit in self.queue.units():
                self.queue.drop(unit.id)
                self.assembly.put(unit, self.now)
                yield 1
        elif line.head.whole:
            yield from self._serve_gangs(line)
        elif self.state.room.promised_to(line.head.id):
            preempt = not self._others_leaving(line.head)
            outcome = yield from self.planner.pod(line.head, line.classes[0], self.now, preempt=preempt)
            if isinstance(outcome, Refused) and preempt:
                self._unpromise(line.head.members)
            yield from self._conclude(line, outcome)
        else:
            yield from self._serve_run(line)

    def _serve_gangs(self, line: Line) -> Steps[None]:
        head = line.head
        alike = len(line.classes) == 1 and len(head.members) == head.needed
        if alike and "require" not in line.classes[0].demands and not self.state.room.promised_to(head.id):
            run = line.units[: min(self.queue.run_length(line), AT_ONCE // head.needed)]
            if len(run) > 1:
                placements = self.planner.gangs(line.classes[0], run, self.now)
                for unit, placement in zip(self.queue.take(line, len(placements)), placements, strict=True):
                    self._bind(unit, placement)
                yield len(run) * head.needed
                if len(placements) == len(run):
                    return
        head = line.head  # those before it were placed
        outcome = yield from self.planner.gang(head, self.now)
        promised = self.state.room.promised_to(head.id)
        if promised and isinstance(outcome, Refused) and not self._others_leaving(head):
            # A more important unit took it: what was promised must not be kept from the others.
            self._unpromise(head.members)
        yield from self._conclude(line, outcome)

    def _serve_run(self, line: Line) -> Steps[None]:
        left = yield from self._serve_turns(line)
        if left is None:
            return
        line = left
        cls, run = line.classes[0], line.units[: min(self.queue.run_length(line), AT_ONCE)]
        slots = self.planner.run(cls, run, self.now)
        placed = sum(1 for slot in slots if slot >= 0)
        for unit, slot in zip(self.queue.take(line, placed), slots, strict=False):
            self._bind(unit, ((unit.members[0], slot),))
        yield placed
        while placed < len(run):
            outcome = yield from self.planner.pod(line.head, cls, self.now, full=True)
            yield from self._conclude(line, outcome)
            if isinstance(outcome, Refused):
                break
            placed += 1

    def _serve_turns(self, line: Line) -> Steps[Line | None]:
        """Place the next pods of the queue, whichever their lines, up to the first that finds no room.

        The same as one run after the other, only faster: pods of many classes that alternate share one pass
        over the nodes.

        Nothing may be promised or reserved, which makes the room differ from unit to unit, and no unit be
        held that a placed pod would wake. Returns the line whose run is to be gone on with, if any: none
        is left where another's would begin.
        """
        if not self._turns_worth_it or self.state.room.nominations or self.state.room.reservations:
            return line
        if any(map(_heeds_placing, self.queue.held())):
            self._turns_worth_it = False
            return line
        while True:
            turns = self.queue.turns(_goes_alone, self._turns_at_once)
            slots = self.planner.turns([(line.classes[0], unit) for line, unit in turns])
            if not slots:
                self._turns_at_once = _FEW
                self._turns_worth_it = False
                return line
            placed = turns[: len(slots)]
            for each, number in Counter(line for line, _ in placed).items():
                self.queue.take(each, number)
            for (_, unit), slot in zip(placed, slots, strict=True):
                self._bind(unit, ((unit.members[0], slot),))
            all_placed = len(placed) == len(turns)
            self._turns_at_once = min(2 * self._turns_at_once, AT_ONCE) if all_placed else _FEW
            line = placed[-1][0]
            yield len(turns)
            if self.queue.next(self.now) is not line:
                return None
            if not all_placed:
                return line

    def _others_leaving(self, unit: Unit) -> bool:
        """Whether lower pods leave, or were told to leave, a node that the unit was promised because of
        preemption: then it picks no new victims. Pods that leave for any other reason do not count, and
        neither does a node that no eviction would open to the unit.
        """
        snapshot = self.state.snapshot
        for promise in self.state.room.promised_to(unit.id):
            slot = snapshot.nodes.slot(promise.node)
            if slot < 0 or not any(
                placed.priority < unit.priority
                and (
                    placed.pod.metadata.uid in self.evictions.asked
                    or (placed.leaving and is_preempted(placed.pod))
                )
                for placed in snapshot.pods_on(slot)
            ):
                continue
            # Its own promise is lifted: the pod must not stand in its own way, with a host port say.
            with self.state.room.seen_by(unit.id, unit.priority):
                verdicts = rules.verdicts(snapshot, snapshot.class_of(self.state.planned(promise.pod)))
                if not verdicts.unresolvable[slot]:
                    return True
        return False

    def _conclude(self, line: Line, outcome: Outcome) -> Steps[None]:
        match outcome:
            case Fits(placement):
                (unit,) = self.queue.take(line, 1)
                self._bind(unit, placement)
            case Makes(placement, victims):
                (unit,) = self.queue.take(line, 1)
                self._make_room(unit, placement, victims)
                yield len(victims)
            case Refused(rules, message, preemption):
                verdict = Verdict(rules, message, preemption=preemption)
                self.queue.hold(line, verdict, self.now)
                for unit in line.units:
                    if "Exclusive" in rules:
                        self.kept_off += unit.members
                    for pod in unit.members:
                        self._hold(pod, verdict.about(unit), unit.gang)
                        if self.state.stale_nomination(pod):
                            self._nominate(pod, "")
                    yield len(unit.members)
                if self.reserver.wants(line.head, self.now):
                    # At once, before those that come after it in the order take what it waits for.
                    self._reserve()

    def _bind(self, unit: Unit, placement: Placement) -> None:
        name_of = self.state.snapshot.nodes.name
        governed = bool(self.state.book.sent)
        gang = self.state.gangs.get(unit.gang) if unit.gang else None
        started_with = {STARTED_WITH: str(gang.started_with or gang.minimum)} if gang is not None else {}
        for pod, slot in placement:
            key, uid, node = pod.metadata.key, pod.metadata.uid, name_of(slot)
            bind = BindPod(key, uid, node, shown(unit.gang) or unit.name, started_with)
            if governed:
                bind = self._with_marks(bind, slot)
            if pod.spec.volumes:
                snapshot = self.state.snapshot
                volumes = _volumes_to_bind(snapshot.placed(key), snapshot.storage)
                if volumes is not UNSET:
                    bind = msgspec.structs.replace(bind, volumes=volumes)
            self.state.assume(pod, node)
            self.holds.forget(uid)
            self.actions.append(bind)
        if unit.whole:
            self.commits.begin(unit.gang, self.now, gang.schedule_timeout_s if gang else None)
        self.state.hints.placed = True
        self._turns_worth_it = True

    def _with_marks(self, bind: BindPod, slot: int) -> BindPod:
        pod, node = self.state.pending.get(bind.uid), self.state.snapshot.nodes.nodes[slot]
        if pod is None or node is None:
            return bind
        annotations, tolerations = self.state.book.carried(pod, node)
        return msgspec.structs.replace(
            bind, annotations=bind.annotations | annotations, tolerations=tolerations
        )

    def _nominate(self, pod: Pod, node: str) -> None:
        key, uid = pod.metadata.key, pod.metadata.uid
        self.actions.append(NominatePod(key, uid, node, self.state.pending.get(uid, UNSET)))

    def _make_room(self, unit: Unit, placement: Placement, victims: tuple[Victim, ...]) -> None:
        for pod, slot in placement:
            node = self.state.snapshot.nodes.name(slot)
            self.state.promised(pod)
            self.state.book.promised(pod.metadata.uid, self.now)
            self._nominate(pod, node)
        leaving = {victim.pod.metadata.uid: victim for victim in victims}
        deadline = self.now + self._settings.preemption_timeout_s
        self.evictions.add(Wait(unit, placement, leaving, deadline))
        self.gang_evictions.decide(victims)
        self._evict_all(unit, victims)

    def _evict_again(self, wait: Wait, uid: str) -> None:
        """Ask again for an eviction that was put off, and for the rest of a gang that leaves whole."""
        self.gang_evictions.decide(wait.victims.values())
        gang = self.state.gangs.name_of(uid)
        together = self.state.gangs.covers(gang, uid)
        again = [
            victim
            for each, victim in wait.victims.items()
            if each == uid or (together and victim.gang == gang)
        ]
        for victim in again:
            self.evictions.retry.pop(victim.pod.metadata.uid, None)
        self._evict_all(wait.unit, again)

    def _evict_all(self, unit: Unit, victims: Iterable[Victim]) -> None:
        waiting = self._waiting(unit)
        for victim in victims:
            uid = victim.pod.metadata.uid
            known = uid in self.evictions.asked or uid in self.evictions.retry
            if not known and victim.pod.metadata.deletion_timestamp is None:
                gang = victim.gang if self.state.gangs.covers(victim.gang, uid) else ""
                self._evict(victim.pod, f"Preempted by {unit.name}", unit=unit, gang=gang, waiting=waiting)

    def _waiting(self, unit: Unit) -> tuple[tuple[str, str], ...]:
        """The pods that wait as a unit, or with it in its gang, each with its UID."""
        gang = self.state.gangs.get(unit.gang) if unit.whole else None
        members = gang.pending if gang is not None else unit.members
        return tuple((pod.metadata.key, pod.metadata.uid) for pod in members)

    def _evict(
        self,
        pod: Pod,
        why: str,
        *,
        unit: Unit | None = None,
        gang: str = "",
        waiting: tuple[tuple[str, str], ...] = (),
    ) -> None:
        key, uid = pod.metadata.key, pod.metadata.uid
        self.evictions.asked[uid] = None
        self.state.budgets.evicting(pod)
        if not gang:
            self.state.gangs.depart(uid)
        # The rest of a gang that falls may be on a node that is gone.
        placed = self.state.snapshot.placed(key)
        node = placed.node if placed is not None else ""
        name, unit_id = (unit.name, unit.id) if unit is not None else (shown(gang), "")
        message = f"{why} on node {node}" if node else why
        self.actions.append(EvictPod(key, uid, node, name, unit_id, message, gang, waiting))

    def _spare(self, name: str) -> None:
        """Take back the eviction of a gang: what is left of it stays, and its marks go."""
        gang = self.state.gangs.get(name)
        self.state.gangs.spare(name)
        for pod in gang.evicted if gang is not None else ():
            self.not_asked(pod.metadata.uid)
            if with_its_gang(pod):
                self.actions.append(SparePod(pod.metadata.key, pod.metadata.uid))

    def _spare_unwanted(self) -> bool:
        """Take back evictions of gangs that no unit waits for any more; whether there were any."""
        names = self.gang_evictions.unwanted() if self.state.gangs.evicted else []
        for name in names:
            gang = self.state.gangs.get(name)
            self._spare(name)
            # A unit that waited for one of the members did not reckon with the rest of them.
            for pod in gang.evicted if gang is not None else ():
                for wait in self.evictions.waiting_for(pod.metadata.uid):
                    self._release(wait)
        return bool(names)

    def _hold(self, pod: Pod, verdict: Verdict, unit: str, *, fresh: bool = True) -> None:
        if self.state.book.active and verdict.unschedulable:
            uid = pod.metadata.uid
            self.state.book.held(uid, self.now, unschedulable_since(pod))
            verdict = replace(verdict, tier=self.state.book.words(uid))
        name, waiting = shown(unit) or pod.metadata.key, self.state.pending.get(pod.metadata.uid, UNSET)
        if self.holds.is_news(pod, verdict, name, self.now, fresh=fresh):
            text, key, uid = verdict.text, pod.metadata.key, pod.metadata.uid
            self.actions.append(HoldPod(key, uid, text, verdict.unschedulable, name, waiting))

    def _wake(self) -> Steps[None]:
        hints = self.state.hints
        if hints:
            for line in self.queue.held():
                if hints.helps(line, self.state.room, self.preemption):
                    self.queue.wake(line, self.now, early=hints.frees)
                yield 1
        self.state.hints = Hints()

    # Promises

    def _reserve(self) -> bool:
        """Bring reservations up to date; whether that opened nodes to others."""
        opened = self.reserver.update(self.queue, self.now)
        if opened:
            self.state.hints.anything = True
        return opened

    def _verify(self) -> Steps[bool]:
        """Give up promises that no longer hold; whether there were any."""
        missed = self.state.room.log.since(self._verified)
        touched = set(missed) if missed is not None else None
        broken = False
        for wait in self.evictions:
            if touched is not None and not any(slot in touched for _, slot in wait.placement):
                continue
            if not self.still_good(wait):
                self._release(wait)
                broken = True
            yield len(wait.placement)
        self._verified = self.state.room.log.mark
        return broken

    def _release(self, wait: Wait) -> None:
        """Give up what a unit waits for and was promised; it is planned again after a rest."""
        self.evictions.drop(wait.unit.id)
        self._unpromise(tuple(pod for pod, _ in wait.placement))
        failures = self.assembly.failures
        failures[wait.unit.id] = failures.get(wait.unit.id, 0) + 1
        self._requeue(wait.unit)

    def _abandon(self, unit_id: str) -> None:
        self.evictions.drop(unit_id)
        self._unpromise(tuple(one.pod for one in self.state.room.promised_to(unit_id)))

    def _unpromise(self, pods: tuple[Pod, ...]) -> None:
        for pod in pods:
            if pod.metadata.key in self.state.room.nominations:
                self.took_back = True
                self.state.unpromise(pod)
                if pod.metadata.uid in self.state.pending:
                    self._nominate(pod, "")

    def _requeue(self, unit: Unit) -> None:
        if unit.whole:
            self.state.gangs.changed[unit.gang] = None
            return
        pod = self.state.pending.get(unit.members[0].metadata.uid)
        if pod is None:
            return
        if unit.gang:
            self.state.gangs.changed[unit.gang] = None
        else:
            self.assembly.pod(pod, self.now)


def _goes_alone(line: Line) -> bool:
    """Whether the line's units are pods that have nothing to do with a gang."""
    return not line.head.gang and all(cls.live for cls in line.classes)


def _heeds_placing(line: Line) -> bool:
    return not line.classes or any(not cls.live or wants_company(cls) for cls in line.classes)


def _volumes_to_bind(placed: Placed | None, storage: Storage) -> VolumesToBind | UnsetType:
    """What the bind of a placed pod must wait for; UNSET for nothing."""
    if placed is None or not placed.cls.facts.volumes:
        return UNSET
    namespace, pod_name = placed.pod.metadata.namespace, placed.pod.metadata.name
    names = (claim_name(pod_name, volume) for volume in placed.cls.facts.volumes)
    claims = tuple(f"{namespace}/{name}" for name in names if name is not None)
    known = {claim: found for claim in claims if (found := storage.claims.get(claim)) is not None}
    if len(known) == len(set(claims)) and all(claim.is_bound for claim in known.values()):
        return UNSET
    volumes = {name: storage.volumes[name] for _, name in placed.static if name in storage.volumes}
    return VolumesToBind(claims, placed.static, placed.provision, known, volumes)
