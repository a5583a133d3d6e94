"""The state machine: `handle(events, now)` gives the actions that follow, and `wake_at` when to ask again.

Each call takes note of the events, ends what has run out of time, wakes the units that the events can
help, and goes down the order until no unit is left that may be tried. What was asked for is assumed to
happen until an event says otherwise. No change, no action: the same call again gives nothing.

`turn` is the same call in steps, for a process that has others to serve meanwhile: where it is cut depends on
the work done, never on the clock, and changes nothing of what is decided.
"""

from __future__ import annotations

from collections.abc import Iterable

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
from fairlead.engine.core.service import Service
from fairlead.engine.core.standing import Standing, standing_of
from fairlead.engine.evicted import with_its_gang
from fairlead.engine.membership import shown
from fairlead.engine.priority import ANNOTATION
from fairlead.engine.settings import Settings
from fairlead.engine.steps import Steps, finish
from fairlead.kube.pod import Pod
from fairlead.kube.selectors import matches
from fairlead.kube.workloads import Namespace
from fairlead.policy.names import CAPACITY_ANNOTATION, EXCLUSIVE_LABEL

__all__ = ["Core"]

_HOSTNAME = "kubernetes.io/hostname"
_UNSEEN = "ExclusiveUnseen"


class Core:
    """See the module. Not for use from several threads."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.service = Service(self.settings)
        self.state = self.service.state
        self._said: dict[str, dict[str, None]] = {}  # by the UID of whom it is about, while that is there
        # Pods with a priority annotation, as they came, where namespaces decide whether it counts.
        self._by_namespace = self.settings.priority_annotation.namespace_selector is not None
        self._annotated: dict[str, Pod] = {}

    def handle(self, events: Iterable[Event], now: float) -> list[Action]:
        """Take note of events and decide; `now` is in seconds since the epoch and never goes back."""
        return finish(self.turn(events, now))

    def turn(self, events: Iterable[Event], now: float) -> Steps[list[Action]]:
        """The same in steps.

        Until the last one was taken, only what is read of single objects makes sense: nothing else may be
        asked, and no other turn begin.
        """
        service = self.service
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
        # A promise was taken back after its evictions were decided: who is not wanted gone any more stays.
        return [one for one in service.actions if not isinstance(one, EvictPod) or self.confirms(one)]

    @property
    def wake_at(self) -> float | None:
        """When to call `handle` though nothing happened; None: not before something does."""
        return self.service.wake_at()

    def confirms(self, evict: EvictPod, *, sending: bool = False) -> bool:
        """Whether an eviction is still wanted: its unit waits for it and its whole placement holds.

        To be asked just before it is sent, then with `sending`: the evictions of one unit are not one
        transaction. The first of a gang that leaves whole is the last that depends on the unit: the others
        follow. An eviction that is not confirmed must not be sent; the core then counts it as never asked
        for.
        """
        gangs = self.state.gangs
        if evict.gang and gangs.covers(evict.gang, evict.uid) and gangs.has_begun(evict.gang):
            if sending:
                gangs.begin(evict.gang)
            return True
        waits = self.service.evictions.waiting_for(evict.uid)
        confirmed = any(self.service.still_good(wait) for wait in waits)
        if evict.gang and not gangs.covers(evict.gang, evict.uid):
            confirmed = False  # its gang was spared meanwhile
        if not confirmed:
            self.service.not_asked(evict.uid)
        elif sending and evict.gang:
            gangs.begin(evict.gang)
        return confirmed

    def standing(self, pod: str) -> Standing | None:
        """Where a waiting pod (``namespace/name``) stands, who is ahead, and what holds it back."""
        return standing_of(self.service, pod)

    # Events

    def _apply(self, event: Event) -> None:
        match event:
            case Seen(kind="Pod", object=Pod() as pod):
                self._pod_seen(pod)
            case Seen():
                self.state.seen(event.kind, event.object)
                for pod in self.state.gangs.freed.values():
                    self._spare_marked(pod)
                self._reconsider(event.kind)
                if isinstance(event.object, Namespace):
                    self._reprioritise(event.object.metadata.name)
            case Gone(kind="Pod"):
                key = f"{event.namespace}/{event.name}"
                uid = event.uid or self.state.uid_of(key)
                self._annotated.pop(uid, None)
                self._said.pop(uid, None)
                self.service.forget(uid)
                self.state.pod_gone(key, uid)
                self.service.left(uid)
            case Gone():
                self._said.pop(event.uid, None)
                self.state.gone(event.kind, event.namespace, event.name, event.group)
                self._reconsider(event.kind)
                if event.kind == "Namespace":
                    self._reprioritise(event.name)
            case Unread():
                if self.state.pod_unread(event.pod, event.problem):
                    self._say(event.pod, "FailedScheduling", f"the pod cannot be used: {event.problem}")
            case BindFailed():
                self._bind_failed(event)
            case EvictFailed():
                self.service.eviction_failed(event.uid, final=event.final, unknown=event.unknown)
            case PoliciesAre():
                self.state.policies_are(event.policies, event.exempt, only_ours=event.only_ours)
            case MarksAre():
                self.state.book.marks_are(event.policy, event.marks)
            case Promised():
                self.state.book.promised(event.uid, event.at)

    def _reconsider(self, kind: str) -> None:
        # What made an eviction impossible (two budgets over one pod) may have changed.
        spared = self.service.preemption.spared
        if kind == "PodDisruptionBudget" and spared:
            spared.clear()
            self.state.room.changed()

    def _reprioritise(self, namespace: str) -> None:
        """A namespace's labels tell whether its pods' priority annotations count."""
        for pod in [pod for pod in self._annotated.values() if pod.metadata.namespace == namespace]:
            self._pod_seen(pod)

    def _pod_seen(self, pod: Pod) -> None:
        key, uid = pod.metadata.key, pod.metadata.uid
        if self._by_namespace and ANNOTATION in pod.metadata.annotations:
            self._annotated[uid] = pod
        known = self.state.uid_of(key)
        if known and known != uid:
            # Its deletion was missed; this is another pod under the same name.
            self._annotated.pop(known, None)
            self.service.forget(known)
            self.state.pod_gone(key, known)
            self.service.left(known)
        pod, priority = self.state.pod_seen(pod)
        if priority.problem and self.state.ours(pod):
            self._say(pod, "PriorityAnnotation", priority.problem)
        self._spare_marked(pod)
        if uid in self.state.pending:
            self._warn_of_exclusive(pod)
            if not self.state.gangs.name_of(uid):
                self.service.assembly.pod(pod, self.service.now)
            return
        if uid not in self.state.assumed:
            self.service.forget(uid)
        if pod.terminal:
            self.service.left(uid)

    def spares(self, uid: str) -> bool:
        """Whether a pod stays, as far as its gang is concerned: that is not to leave whole."""
        gangs = self.state.gangs
        return not gangs.covers(gangs.name_of(uid), uid)

    def _spare_marked(self, pod: Pod) -> None:
        """Take back the mark on a pod that says that its gang leaves whole, where it does not."""
        key, uid = pod.metadata.key, pod.metadata.uid
        leaving = pod.metadata.deletion_timestamp is not None or pod.terminal
        if with_its_gang(pod) and not leaving and self.state.ours(pod) and self.spares(uid):
            self.service.actions.append(SparePod(key, uid))

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
        held = self.state.assumed.get(event.uid)
        if held is None or held[1] != event.node:
            return  # an answer to a question that is no longer ours
        pod = self.state.unassume(event.uid)
        self.service.left(event.uid)  # it is in the way of no unit that was promised its room
        gang = self.state.gangs.name_of(event.uid)
        failures = self.service.assembly.failures
        for unit_id in (f"pod:{event.uid}", *([f"gang:{gang}"] if gang else [])):
            failures[unit_id] = failures.get(unit_id, 0) + 1
        if pod is not None and not gang:
            self.service.assembly.pod(pod, self.service.now)

    # Gangs that could not be completed

    def _give_up(self, name: str) -> None:
        """A gang stayed partly bound for too long: let those go that a controller will recreate."""
        gang = self.state.gangs.get(name)
        self.service.commits.end(name)
        if gang is None or gang.latched or not gang.needed or not gang.running:
            return
        bound, minimum = len(gang.running), gang.minimum
        message = f"gang {shown(name)} could not be completed: {bound} of {minimum} members bound"
        members = [pod for pod in gang.running if pod.metadata.uid not in self.state.assumed]
        released = [pod for pod in members if pod.metadata.controller is not None]
        if released:
            self.state.gangs.evict(name, [pod.metadata.uid for pod in released])
            self.state.gangs.begin(name)
        for pod in members:
            if pod.metadata.controller is not None:
                self.service.evictions.asked[pod.metadata.uid] = None
                release = ReleasePod(pod.metadata.key, pod.metadata.uid, shown(name), message, name)
                self.service.actions.append(release)
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
            self.service.actions.append(said)


def _tells_all(pod: Pod) -> bool:
    """Whether the pod says in Kubernetes' own terms that it wants no exclusive pod beside it."""
    labels, affinity = pod.metadata.labels, pod.spec.affinity
    anti = affinity.pod_anti_affinity if affinity is not None else None
    return EXCLUSIVE_LABEL in labels and any(
        term.topology_key == _HOSTNAME and matches(term.label_selector, labels)
        for term in (anti.required if anti is not None else ())
    )
