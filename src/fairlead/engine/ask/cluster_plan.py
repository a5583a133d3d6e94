"""Answers about a whole cluster: the plan for all that waits, and preemption for one pod.

A plan is what the scheduler core does when every bind and eviction it asks for happens at once, until
it asks for nothing more; so a plan that is applied and made again is empty. Preemption is asked of the
same state, but looks at no scheduler names: it answers what kube-scheduler's would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from fairlead.engine import rules
from fairlead.engine.ask.inventory import Inventory, planning_settings
from fairlead.engine.ask.objects import identified, unpromised
from fairlead.engine.ask.plan import Bind, Eviction, Hold, Plan, Preemption
from fairlead.engine.core.actions import Action, BindPod, EvictPod, ReleasePod
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event, Gone, MarksAre, PoliciesAre, Seen, Unread
from fairlead.engine.core.state import State
from fairlead.engine.gangs.gangs import created_at
from fairlead.engine.gangs.membership import shown
from fairlead.engine.planning.preemption import Preemption as Search
from fairlead.engine.planning.preemption import victims_leave
from fairlead.errors import FairleadError
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Job, Workload
from fairlead.policy.names import EXEMPT
from fairlead.policy.rule.model import read_policies, read_policy
from fairlead.policy.tiers.marks import Mark, Marks


def plan(cluster: Inventory, *, scheduler_names: tuple[str, ...], now: float | None) -> Plan:
    """See `Cluster.plan`."""
    core, actions = planned(cluster, scheduler_names=scheduler_names, now=now)
    binds = [Bind(one.pod, one.node) for one in actions if isinstance(one, BindPod)]
    evictions = [Eviction(one.pod, one.unit) for one in actions if isinstance(one, EvictPod)]
    return Plan(binds, evictions, list(_holds(cluster, core)), _gangs(core, cluster))


def planned(
    cluster: Inventory, *, scheduler_names: tuple[str, ...], now: float | None, rounds: int | None = None
) -> tuple[Core, list[Action]]:
    """A core that has done all it would do in the cluster, and what that was.

    Evictions make room for binds, which make company for others. A plan that is not done after
    `rounds` is an error; as each binds or evicts a pod, and no pod twice, twice the pods is enough.
    """
    settings = planning_settings(cluster.settings, scheduler_names)
    core, noted = cluster.take_core(settings) or (Core(settings), {})
    done: list[Action] = []
    pods = {pod.metadata.uid: pod for pod in cluster.pods.values()}
    if now is None:
        # Files are of some day: the sizes of gangs have settled since.
        now = moment_of(cluster) + (settings.settle_s if cluster.read_at is None else 0.0)
    events: list[Event] = []
    if cluster.policies:
        events.append(PoliciesAre(read_policies(cluster.policies), EXEMPT))
        events += [MarksAre(policy, marks) for policy, marks in marks_of(cluster).items()]
    if not noted:
        events += [Seen(kind, thing) for kind, thing in cluster.objects]
    events += [Seen("Pod", pod) for uid, pod in pods.items() if uid not in noted]
    events += [Unread(remains, problem) for remains, problem in cluster.remains]
    for _ in range(2 * len(pods) + 1 if rounds is None else rounds):
        actions = core.handle(events, now)
        done += actions
        events = list(_happened(actions, pods))
        if not events:
            return core, done
    raise FairleadError("the plan does not come to rest: each round asks for more binds and evictions")


def sent(cluster: Inventory, pod: Pod) -> Pod:
    """The pod as it is planned, if it were to be placed now: with the tier that its policy sends it to."""
    pod = identified(pod, ())
    waiting = whole_state(cluster).pending.get(pod.metadata.uid)
    if waiting is not None and cluster.pods.get(pod.metadata.key) is pod:
        return cluster.state.planned(waiting)
    bare = unpromised(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="")))
    with _without(cluster, pod.metadata.key) as state:
        state.pod_seen(bare)
        state.book.refresh(moment_of(cluster))
        try:
            return state.planned(bare)
        finally:
            state.pod_gone(bare.metadata.key, bare.metadata.uid)


def whole_state(cluster: Inventory) -> State:
    """All there is, before anything is planned: gangs, and where policies send the pods that wait, whichever
    scheduler they are for.
    """
    state = cluster.state
    if cluster.policies and not state.book.active:
        state.policies_are(read_policies(cluster.policies), EXEMPT)
        for policy, marks in marks_of(cluster).items():
            state.book.marks_are(policy, marks)
        state.book.refresh(moment_of(cluster))
    return state


@contextmanager
def _without(cluster: Inventory, pod: str) -> Iterator[State]:
    """The state as if a pod (``namespace/name``) were not there; it is back afterwards."""
    state, known = cluster.state, cluster.pods.get(pod)
    if known is not None:
        state.pod_gone(pod, known.metadata.uid)
    try:
        yield state
    finally:
        if known is not None:
            state.pod_seen(unpromised(known))
        state.book.refresh(moment_of(cluster))


def marks_of(cluster: Inventory) -> dict[str, dict[str, Mark]]:
    """The tiers that each policy leaves alone, by its status."""
    found = {}
    for plain, policy in zip(cluster.policies, map(read_policy, cluster.policies), strict=True):
        status = plain.get("status")
        marks = status.get("marks") if isinstance(status, Mapping) else None
        if marks:
            found[policy.name] = dict(Marks.from_plain(marks, policy.spec.fallback.cool_down_s))
    return found


def shown_marks(marks: Mapping[str, Mark]) -> tuple[tuple[str, float, str], ...]:
    """One policy's marks as answers show them: tier, until when, why."""
    return tuple((tier, mark.until.timestamp(), mark.reason) for tier, mark in sorted(marks.items()))


def preempt(cluster: Inventory, pod: Pod) -> Preemption:
    """See `Cluster.preempt`."""
    pod = identified(pod, ())
    with _without(cluster, pod.metadata.key) as state, _promises(cluster, pod.metadata.key):
        return _preempt(state, pod, respect=cluster.settings.pdb == "respect")


def _preempt(state: State, pod: Pod, *, respect: bool) -> Preemption:
    priority = state.priority(pod).value
    room, snapshot = state.room, state.snapshot
    if pod.spec.preemption_policy == "Never":
        return Preemption(None, reason="not eligible due to preemptionPolicy=Never.")
    cls = snapshot.class_of(pod)
    search = Search(room, state.gangs, state.budgets, respect=respect)
    with room.seen_by(f"pod:{pod.metadata.uid}", priority):
        verdicts = rules.verdicts(snapshot, cls)
        fits = verdicts.feasible
        without = room.without_nominated(cls)
        if (fits if without is None else fits & without).any():
            return Preemption(None, reason="fits without preemption")
        nominated = snapshot.nodes.slot(pod.status.nominated_node_name)
        if (
            nominated >= 0
            and not verdicts.unresolvable[nominated]
            and victims_leave(snapshot, nominated, priority)
        ):
            reason = "not eligible due to a terminating pod on the nominated node."
            return Preemption(None, reason=reason)
        rejection = rules.rejection(snapshot, cls)
        offer = None
        if rejection is None or rejection.resolvable:
            offer = search.best(cls, priority)
    if offer is None:
        return Preemption(None, reason="Preemption is not helpful for scheduling")
    victims = [victim.key for victim in offer.victims]
    return Preemption(snapshot.nodes.name(offer.slot), victims, offer.cost[0])


@contextmanager
def _promises(cluster: Inventory, but: str) -> Iterator[None]:
    """The state with the nodes that were promised to pods, except one."""
    pods = [pod for key, pod in cluster.pods.items() if key != but and unpromised(pod) is not pod]
    for pod in pods:
        cluster.state.pod_seen(pod)
    try:
        yield
    finally:
        for pod in pods:
            cluster.state.pod_seen(unpromised(pod))


def moment_of(cluster: Inventory) -> float:
    """The moment that the cluster is looked at: when it was read, else when its newest object was created."""
    if cluster.read_at is not None:
        return cluster.read_at
    stamps = [created_at(pod.metadata) for pod in cluster.pods.values()]
    stamps += [created_at(one.metadata) for _, one in cluster.objects if isinstance(one, Workload | Job)]
    return max(stamps, default=0.0)


def _happened(actions: list[Action], pods: dict[str, Pod]) -> Iterator[Event]:
    """What the API server would say if every action succeeded at once."""
    for action in actions:
        match action:
            case BindPod():
                pod = pods[action.uid]
                spec = msgspec.structs.replace(pod.spec, node_name=action.node)
                metadata = pod.metadata
                if action.annotations:
                    annotations = metadata.annotations | action.annotations
                    metadata = msgspec.structs.replace(metadata, annotations=annotations)
                pods[action.uid] = pod = msgspec.structs.replace(pod, metadata=metadata, spec=spec)
                yield Seen("Pod", pod)
            case EvictPod() | ReleasePod():
                pod = pods.pop(action.uid)
                yield Gone("Pod", pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def _holds(cluster: Inventory, core: Core) -> Iterator[Hold]:
    told = {key: message for key, message, _ in core.report.held()}
    for key in core.report.gated():
        position = core.queue_position(key)
        told[key] = position.message if position else "waiting"
    for key in core.report.waiting():
        yield Hold(key, told.pop(key, "waiting"))
    for key in sorted(told):
        yield Hold(key, told[key])
    for key, error in sorted(cluster.broken.items()):
        yield Hold(key, str(error))


def _gangs(core: Core, cluster: Inventory) -> dict[str, str]:
    return {
        pod.metadata.key: shown(gang)
        for pod in sorted(cluster.pods.values(), key=lambda pod: pod.metadata.key)
        if (gang := core.report.gang_of(pod))
    }
