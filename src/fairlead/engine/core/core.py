"""The state machine: `handle(events, now)` gives the actions that follow, and `wake_at` when to ask again.

Each call takes note of the events, ends what has run out of time, wakes the units that the events can
help, and goes down the order until no unit is left that may be tried. What was asked for is assumed to
happen until an event says otherwise. No change, no action: the same call again gives nothing.

`turn` is the same call in steps, for a process that has others to serve meanwhile: where it is cut depends on
the work done, never on the clock, and changes nothing of what is decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.engine.core.actions import Action, EvictPod, ReleasePod, Say, SparePod
from fairlead.engine.core.events import (
    BindFailed,
    Event,
    EvictFailed,
    Gone,
    MarksAre,
    PoliciesAre,
    Promised,
    Seen,
    Unread,
)
from fairlead.engine.core.report import QueuePosition, Report, queue_position
from fairlead.engine.core.serving import Service
from fairlead.engine.gangs.membership import shown
from fairlead.engine.planning.priority import ANNOTATION
from fairlead.engine.planning.settings import Settings
from fairlead.engine.planning.steps import Steps, finish
from fairlead.engine.snapshot.evicted import with_its_gang
from fairlead.kube.pod import Pod
from fairlead.kube.selectors import matches
from fairlead.kube.workloads import Namespace
from fairlead.policy.names import CAPACITY_ANNOTATION, EXCLUSIVE_LABEL

_HOSTNAME = "kubernetes.io/hostname"
_UNSEEN = "ExclusiveUnseen"


@dataclass(frozen=True, slots=True)
class Protected:
    """A victim and the names of the budgets that protect it; more than one protect it for good."""

    evict: EvictPod
    budgets: tuple[str, ...]


class Core:
    """See the module. Not for use from several threads.

    What it knows is its own: `report` is all that others may read of it.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._service = Service(self.settings)
        self._state = self._service.state
        self.report = Report(self._service)
        self._said: dict[str, dict[str, None]] = {}  # by the UID of its subject, while that is there
        # Pods with a priority annotation, as they came, where namespaces decide whether it counts.
        self._by_namespace = self.settings.priority_annotation.namespace_selector is not None
        self._annotated: dict[str, Pod] = {}

    def handle(self, events: Iterable[Event], now: float) -> list[Action]:
        """Take note of events and decide; `now` is in seconds since the epoch and never goes back."""
        return finish(self.turn(events, now))

    def note(self, event: Event, now: float) -> None:
        """Take note of an event and decide nothing: the next turn does, knowing all that was noted before."""
        self._service.begin(now)
        self._apply(event)

    def turn(self, events: Iterable[Event], now: float) -> Steps[list[Action]]:
        """The same in steps.

        Until the last one was taken, only what is read of single objects makes sense: nothing else may be
        asked, and no other turn begin.
        """
        service = self._service
        service.begin(now)
        for event in events:
            self._apply(event)
            yield 1
        service.on_time()
        for name in service.commits.overdue(service.now):
            self._give_up(name)
        yield from service.serve()
        for pod in service.alone:
            self._warn_of_exclusive(pod, wanted=True)
        for pod in service.kept_off:
            self._warn_of_company(pod)
        if not service.took_back:
            return service.actions
        # A promise was taken back after its evictions were decided: a pod not wanted gone any more stays.
        return [one for one in service.actions if not isinstance(one, EvictPod) or self.confirms(one)]

    @property
    def wake_at(self) -> float | None:
        """When to call `handle` though nothing happened; None: not before something does."""
        return self._service.wake_at()

    def confirms(self, evict: EvictPod, *, sending: bool = False) -> bool:
        """Whether an eviction is still wanted: its unit waits for it and its whole placement holds.

        To be asked just before it is sent, then with `sending`: the evictions of one unit are not one
        transaction. The first of a gang that leaves whole is the last that depends on the unit: the others
        follow. An eviction that is not confirmed must not be sent; the core then counts it as never asked
        for.
        """
        gangs = self._state.gangs
        if evict.gang and gangs.covers(evict.gang, evict.uid) and gangs.has_begun(evict.gang):
            if sending:
                gangs.begin(evict.gang)
            return True
        waits = self._service.evictions.waiting_for(evict.uid)
        confirmed = any(self._service.still_good(wait) for wait in waits)
        if evict.gang and not gangs.covers(evict.gang, evict.uid):
            confirmed = False  # its gang was spared meanwhile
        if not confirmed:
            self._service.not_asked(evict.uid)
        elif sending and evict.gang:
            gangs.begin(evict.gang)
        return confirmed

    def protected(self, evictions: Iterable[EvictPod]) -> Protected | None:
        """The first victim that its disruption budgets keep from being evicted, so that all of them stay.

        To be asked just before the first is sent, of all that are evicted together: what a budget allows
        changes after the decision, so it does not travel on the action.
        """
        budgets = self._state.budgets
        for evict in evictions:
            placed = self._state.snapshot.placed(evict.pod)
            protecting = budgets.of(placed.pod) if placed is not None else ()
            # Evictions under way are taken off already: exactly at 0 this one was still allowed.
            spent = self.settings.pdb == "respect" and any(budgets.allowed(one) < 0 for one in protecting)
            if spent or len(protecting) > 1:
                return Protected(evict, tuple(one.metadata.name for one in protecting))
        return None

    def ours(self, pod: Pod) -> bool:
        """Whether a pod is ours to place."""
        return self._state.ours(pod)

    def queue_position(self, pod: str) -> QueuePosition | None:
        """Where a waiting pod (``namespace/name``) stands, what is ahead, and what holds it back."""
        return queue_position(self._service, pod)

    # Events

    def _apply(self, event: Event) -> None:
        match event:
            case Seen(kind="Pod", object=Pod() as pod):
                self._pod_seen(pod)
            case Seen():
                self._state.seen(event.kind, event.object)
                for pod in self._state.gangs.freed.values():
                    self._spare_marked(pod)
                self._reconsider(event.kind)
                if isinstance(event.object, Namespace):
                    self._reprioritise(event.object.metadata.name)
            case Gone(kind="Pod"):
                key = f"{event.namespace}/{event.name}"
                self._pod_gone(key, event.uid or self._state.uid_of(key))
            case Gone():
                self._said.pop(event.uid, None)
                self._state.gone(event.kind, event.namespace, event.name, event.group)
                self._reconsider(event.kind)
                if event.kind == "Namespace":
                    self._reprioritise(event.name)
            case Unread():
                if self._state.pod_unread(event.pod, event.problem):
                    self._say(event.pod, "FailedScheduling", f"the pod cannot be used: {event.problem}")
            case BindFailed():
                self._bind_failed(event)
            case EvictFailed():
                self._service.eviction_failed(event.uid, final=event.final, unknown=event.unknown)
            case PoliciesAre():
                self._state.policies_are(event.policies, event.exempt, only_ours=event.only_ours)
            case MarksAre():
                self._state.book.marks_are(event.policy, event.marks)
            case Promised():
                self._state.book.promised(event.uid, event.at)

    def _reconsider(self, kind: str) -> None:
        # What made an eviction impossible (two budgets over one pod) may have changed.
        spared = self._service.preemption.spared
        if kind == "PodDisruptionBudget" and spared:
            spared.clear()
            self._state.room.log.start_over()

    def _reprioritise(self, namespace: str) -> None:
        """A namespace's labels tell whether its pods' priority annotations count."""
        for pod in [pod for pod in self._annotated.values() if pod.metadata.namespace == namespace]:
            self._pod_seen(pod)

    def _pod_seen(self, pod: Pod) -> None:
        key, uid = pod.metadata.key, pod.metadata.uid
        if self._by_namespace and ANNOTATION in pod.metadata.annotations:
            self._annotated[uid] = pod
        known = self._state.uid_of(key)
        if known and known != uid:
            # Its deletion was missed; this is another pod under the same name.
            self._pod_gone(key, known)
        pod, priority = self._state.pod_seen(pod)
        if priority.problem and self._state.ours(pod):
            self._say(pod, "PriorityAnnotation", priority.problem)
        self._spare_marked(pod)
        if uid in self._state.pending:
            self._warn_of_exclusive(pod)
            if not self._state.gangs.name_of(uid):
                self._service.assembly.pod(pod, self._service.now)
            return
        if uid not in self._state.assumed:
            self._service.forget(uid)
        if pod.terminal:
            self._service.left(uid)

    def _pod_gone(self, key: str, uid: str) -> None:
        self._annotated.pop(uid, None)
        self._said.pop(uid, None)
        self._service.forget(uid)
        self._state.pod_gone(key, uid)
        self._service.left(uid)

    def spares(self, uid: str) -> bool:
        """Whether a pod stays, as far as its gang is concerned: that is not to leave whole."""
        gangs = self._state.gangs
        return not gangs.covers(gangs.name_of(uid), uid)

    def _spare_marked(self, pod: Pod) -> None:
        """Take back the mark on a pod that says that its gang leaves whole, where it does not."""
        key, uid = pod.metadata.key, pod.metadata.uid
        leaving = pod.metadata.deletion_timestamp is not None or pod.terminal
        if with_its_gang(pod) and not leaving and self._state.ours(pod) and self.spares(uid):
            self._service.actions.append(SparePod(key, uid))

    def _warn_of_exclusive(self, pod: Pod, *, wanted: bool = False) -> None:
        """Say that autoscalers cannot see why an exclusive pod does not fit, unless it says so itself."""
        wanted = wanted or pod.metadata.annotations.get(CAPACITY_ANNOTATION) == "exclusive"
        if (wanted or self.settings.capacity == "exclusive") and not _tells_all(pod):
            message = (
                "the pod has its node to itself, which autoscalers cannot see: without the label "
                f"{EXCLUSIVE_LABEL} and anti-affinity against it no node may be added for it"
            )
            self._say(pod, _UNSEEN, message, once=_UNSEEN)

    def _warn_of_company(self, pod: Pod) -> None:
        """Say of a pod kept off nodes with room that autoscalers see the room, not what keeps it off.

        That is so even beside an exclusive pod that says all there is to say: others lack its label.
        """
        message = (
            "nodes have room for the pod but are, or would have to be, one pod's alone, which autoscalers "
            "cannot see: no node may be added for it"
        )
        self._say(pod, _UNSEEN, message, once=_UNSEEN)

    def _bind_failed(self, event: BindFailed) -> None:
        held = self._state.assumed.get(event.uid)
        if held is None or held[1] != event.node:
            return  # an answer to a question that is no longer ours
        pod = self._state.unassume(event.uid)
        self._service.left(event.uid)  # it is in the way of no unit that was promised its room
        gang = self._state.gangs.name_of(event.uid)
        failures = self._service.assembly.failures
        for unit_id in (f"pod:{event.uid}", *([f"gang:{gang}"] if gang else [])):
            failures[unit_id] = failures.get(unit_id, 0) + 1
        if pod is not None and not gang:
            self._service.assembly.pod(pod, self._service.now)

    # Gangs that could not be completed

    def _give_up(self, name: str) -> None:
        """A gang stayed partly bound for too long: let those go that a controller will recreate."""
        gang = self._state.gangs.get(name)
        self._service.commits.end(name)
        if gang is None or gang.latched or not gang.needed or not gang.running:
            return
        bound, minimum = len(gang.running), gang.minimum
        message = f"gang {shown(name)} could not be completed: {bound} of {minimum} members bound"
        members = [pod for pod in gang.running if pod.metadata.uid not in self._state.assumed]
        released = [pod for pod in members if pod.metadata.controller is not None]
        if released:
            self._state.gangs.evict(name, [pod.metadata.uid for pod in released])
            self._state.gangs.begin(name)
        for pod in members:
            if pod.metadata.controller is not None:
                self._service.evictions.asked[pod.metadata.uid] = None
                release = ReleasePod(pod.metadata.key, pod.metadata.uid, shown(name), message, name)
                self._service.actions.append(release)
            else:
                kept = "no controller would recreate this pod, so it stays and room is kept for the rest"
                self._say(pod, "GangIncomplete", f"{message}; {kept}")

    def _say(self, pod: Pod, reason: str, message: str, *, once: str = "") -> None:
        """Tell people, once per message or, if that is given, per `once`."""
        # And once per workload: its pods have the same to say.
        owner = pod.metadata.controller
        about = owner.uid if owner is not None and owner.uid else pod.metadata.uid
        known = self._said.setdefault(about, {})
        if (once or message) not in known:
            known[once or message] = None
            said = Say(pod.metadata.key, pod.metadata.uid, "Warning", reason, message)
            self._service.actions.append(said)


def _tells_all(pod: Pod) -> bool:
    """Whether the pod says in Kubernetes' own terms that it wants no exclusive pod beside it."""
    labels, affinity = pod.metadata.labels, pod.spec.affinity
    anti = affinity.pod_anti_affinity if affinity is not None else None
    return EXCLUSIVE_LABEL in labels and any(
        term.topology_key == _HOSTNAME and matches(term.label_selector, labels)
        for term in (anti.required if anti is not None else ())
    )
