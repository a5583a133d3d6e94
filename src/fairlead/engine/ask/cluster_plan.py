"""Answers about a whole cluster: the plan for all that waits, and preemption for one pod.

A plan is what the scheduler core does when every bind and eviction it asks for happens at once, until
it asks for nothing more; so a plan that is applied and made again is empty. Preemption is asked of the
same state, but looks at no scheduler names: it answers what kube-scheduler's would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from fairlead.engine import rules
from fairlead.engine.ask.inventory import Inventory
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
from fairlead.policy.rule.model import PlacementPolicy, read_policies, read_policy
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
    # Nothing fails in a plan, so no unit has to wait before it is tried again.
    settings = msgspec.structs.replace(cluster.settings, scheduler_names=scheduler_names, backoff_s=0.0)
    core = Core(settings)
    done: list[Action] = []
    pods = {pod.metadata.uid: pod for pod in _pods(cluster)}
    if now is None:
        # Files are of some day: the sizes of gangs have settled since.
        now = moment_of(cluster) + (settings.settle_s if cluster.read_at is None else 0.0)
    events: list[Event] = []
    if cluster.policies:
        events.append(PoliciesAre(read_policies(cluster.policies), EXEMPT))
        events += [MarksAre(policy, marks) for policy, marks in marks_of(cluster).items()]
    events += [Seen(kind, thing) for kind, thing in cluster.objects]
    events += [Seen("Pod", pod) for pod in pods.values()]
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
    pod = identified(pod)
    bare = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    state = _state(cluster, pod, read_policies(cluster.policies))
    state.pod_seen(bare)
    state.book.refresh(moment_of(cluster))
    return state.planned(bare)


def whole_state(cluster: Inventory, now: float) -> State:
    """All there is, before anything is planned: gangs, and where policies send the pods that wait, whichever
    scheduler they are for.
    """
    state = State(msgspec.structs.replace(cluster.settings, namespaces=()), any_scheduler=True)
    if cluster.policies:
        state.policies_are(read_policies(cluster.policies), EXEMPT)
        for policy, marks in marks_of(cluster).items():
            state.book.marks_are(policy, marks)
    for kind, thing in cluster.objects:
        state.seen(kind, thing)
    for pod in _pods(cluster):
        state.pod_seen(pod)
    for remains, problem in cluster.remains:
        state.pod_unread(remains, problem)
    state.book.refresh(now)
    return state


def marks_of(cluster: Inventory) -> dict[str, dict[str, Mark]]:
    """The tiers that each policy leaves alone, by its status."""
    found = {}
    for plain, policy in zip(cluster.policies, map(read_policy, cluster.policies), strict=True):
        status = plain.get("status")
        marks = status.get("marks") if isinstance(status, Mapping) else None
        if marks:
            found[policy.name] = dict(Marks.from_plain(marks, policy.spec.fallback.cool_down_s))
    return found


def preempt(cluster: Inventory, pod: Pod) -> Preemption:
    """See `Cluster.preempt`."""
    pod = identified(pod)
    state = _state(cluster, pod)
    priority = state.priority(pod).value
    room, snapshot = state.room, state.snapshot
    if pod.spec.preemption_policy == "Never":
        return Preemption(None, reason="not eligible due to preemptionPolicy=Never.")
    cls = snapshot.class_of(pod)
    search = Search(room, state.gangs, state.budgets, respect=cluster.settings.pdb == "respect")
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


def _state(cluster: Inventory, but: Pod, policies: tuple[PlacementPolicy, ...] = ()) -> State:
    """All but one pod, each of them ours to place, whatever its scheduler and its namespace."""
    state = State(msgspec.structs.replace(cluster.settings, namespaces=()), any_scheduler=True)
    if policies:
        state.policies_are(policies, EXEMPT)
    for kind, thing in cluster.objects:
        state.seen(kind, thing)
    for other in _pods(cluster):
        if other.metadata.key != but.metadata.key:
            state.pod_seen(other)
    return state


def _pods(cluster: Inventory) -> Iterator[Pod]:
    """All pods, each with a UID of its own: files may have one twice, and none may vanish for that."""
    taken: dict[str, None] = {}
    for pod in map(identified, cluster.pods.values()):
        uid = pod.metadata.uid
        while uid in taken:
            uid = f"{uid} of {pod.metadata.key}"
        taken[uid] = None
        yield pod if uid == pod.metadata.uid else _with_uid(pod, uid)


def identified(pod: Pod) -> Pod:
    """A pod in a file may have no UID; there its name is as good."""
    if pod.metadata.uid:
        return pod
    return _with_uid(pod, pod.metadata.key)


def _with_uid(pod: Pod, uid: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))


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
        for pod in sorted(_pods(cluster), key=lambda pod: pod.metadata.key)
        if (gang := core.report.gang_of(pod))
    }
