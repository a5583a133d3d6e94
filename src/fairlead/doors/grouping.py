"""Which pods there are in each group, as its ledger sees them: watch-fed, and right after policies change.

Pods are cut down to what a policy reads. Everything is worked out when a pod changes, not when somebody
asks: an admission in a group of a thousand must not look at a thousand pods' owners.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.reflector import Reflector
from fairlead.client.view import Added, Deleted, Event, Modified
from fairlead.doors.owners import OwnersOfPods
from fairlead.doors.policies import LivePolicies
from fairlead.doors.references import LONGEST, Interned
from fairlead.kube.meta import Condition, Object, ObjectMeta
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod, PodSpec, PodStatus
from fairlead.kube.resources import known
from fairlead.policy.demands import Makeup, asks_budgets, demand_of_group, desired_of_group
from fairlead.policy.groups import GroupKey, Member, Place, bound_at, group_of, member_of
from fairlead.policy.ledger import EXPIRY_S
from fairlead.policy.matching import Policies
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.names import (
    POLICY_ANNOTATION,
    SLOT_ANNOTATION,
    TIER_ANNOTATION,
    TOKEN_ANNOTATION,
)
from fairlead.policy.rule import Demand, Tiers
from fairlead.policy.workloads import workload_of

__all__ = ["GroupsOfPods"]

_MARKS = (
    POLICY_ANNOTATION,
    SLOT_ANNOTATION,
    TIER_ANNOTATION,
    TOKEN_ANNOTATION,
    "kubernetes.io/config.mirror",
)
_TIERS_KEPT = 1000  # one for each policy, demand and number of pods
_SPECS = 100_000
_STATUSES = 10_000
_AWAY = 10_000  # so many nodes that went are remembered
_REMEMBERED_S = 2 * EXPIRY_S  # after that a ledger's slot has expired anyhow


class GroupsOfPods:
    """See the module. `changed` hears of every group whose pods changed.

    Invariant: after each batch of events, `members` are exactly the pods that the watch has shown of a
    group, under the policies that hold now. Run it and wait until `synced`.
    """

    def __init__(
        self,
        client: Client,
        policies: LivePolicies,
        owners: OwnersOfPods,
        *,
        exempt: tuple[str, ...] = (),
        changed: Callable[[GroupKey], None] = lambda _: None,
        shown: Callable[[GroupKey, Member, str], None] = lambda _key, _member, _node: None,
        left: Callable[[GroupKey, Member, bool], None] = lambda _key, _member, _gone: None,
        on_node: Callable[[Event[Node, dict[str, str]]], None] | None = None,
        believed: Callable[[GroupKey, str, str], bool] = lambda _key, _uid, _token: True,
        alone: bool = False,
        rng: random.Random | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """`exempt` are namespaces that no policy governs.

        `shown` and `left` hear of each pod: as it is now in its group, with its node unless it is finished,
        and that it is no longer in a group, and whether that is because it is gone. When policies change,
        every pod is shown anew and none is said to have left. `on_node` hears of all that happens to nodes,
        so that nobody need watch them twice. `believed` tells by group, UID and slot token whether a pod's
        mark counts: a user can write one, too.
        Pods that are `alone` in their group and need no ledger are left out unless asked for.
        """
        self.owners = owners
        self._live = policies
        self._exempt = exempt
        self._changed = changed
        self._shown = shown
        self._left = left
        self._believed = believed
        self._alone = alone
        self._clock = clock
        self._pods = Reflector(client, known("Pod"), _Pod, keep=_nothing, rng=rng, clock=clock)
        self._on_each_node = on_node
        # Whole only for who wants them whole.
        kind: type[Any] = _Node if on_node is None else Node
        self._nodes: Reflector[Any, dict[str, str]] = Reflector(
            client, known("Node"), kind, keep=_labels, rng=rng, clock=clock
        )
        # A pod may name a node that never was, so neither may grow without end.
        self._specs = Interned(_spec_of, _SPECS)  # one for all pods of a node
        self._statuses = Interned(_status_of, _STATUSES)  # one for all pods bound in the same second
        self._seen: dict[str, Pod] = {}
        self._awaited: dict[
            str, list[asyncio.Future[None]]
        ] = {}  # pods that a caller knows, and we do not yet
        self._key_of: dict[str, GroupKey] = {}
        self._members: dict[GroupKey, dict[str, Member]] = {}
        self._gone: dict[GroupKey, dict[str, float]] = {}
        self._left_at: deque[tuple[float, GroupKey, str]] = deque()  # the same, in the order they went
        self._nowhere: set[str] = set()  # pods on nodes that we have not seen
        self._away: dict[str, None] = {}  # nodes that went of late; most never come back
        self._unnumbered: set[str] = set()  # pods of StatefulSets that we have not seen
        self._policies = Policies((), exempt)
        self._known: tuple[PlacementPolicy, ...] | None = None
        self._makeups: dict[GroupKey, Makeup] = {}  # of groups whose policy asks what budgets demand
        self._tiers: dict[tuple[str, Demand, int | None], Tiers] = {}

    async def run(self) -> None:
        """Watch for ever; pods only once their owners are known."""
        await self.owners.synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run(self._on_pod))
            group.create_task(self._nodes.run(self._on_node))

    async def synced(self) -> None:
        """Wait until all pods and nodes were listed."""
        await self._nodes.synced()
        await self._pods.synced()

    def unlisted(self) -> list[str]:
        """What was not listed yet, by its name in the API."""
        return [one.resource.plural for one in (self._pods, self._nodes) if not one.is_synced]

    @property
    def blind(self) -> bool:
        """Whether pods may come and go unseen at the moment: nothing must be believed gone then."""
        return self._pods.trouble is not None or not self._pods.is_synced

    @property
    def policies(self) -> Policies:
        """The policies that hold now, in the order in which they win."""
        if self._known is not self._live.policies:
            self._known = self._live.policies
            self._policies = Policies(self._known, self._exempt)
            self._tiers.clear()
            self._regroup()
        return self._policies

    def place(self, pod: Pod, namespace: str = "") -> Place | None:
        """Where a pod belongs; None: no policy governs it."""
        policies = self.policies
        if not len(policies):
            return None
        workload = workload_of(pod, self.owners, namespace)
        policy = policies.governing(workload, pod.metadata.labels)
        if policy is None:
            return None
        return Place(policy, workload, group_of(policy, workload, pod.metadata.labels))

    async def when_shown(self, name: str, uid: str, patience_s: float) -> Pod | None:
        """A pod by ``namespace/name`` as the watch shows it; None: it did not in time.

        Cancelled, nothing is left of it.
        """
        deadline = asyncio.get_running_loop().time() + patience_s
        while (pod := self._seen.get(name)) is None or pod.metadata.uid != uid:
            arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting = self._awaited.setdefault(name, [])
            waiting.append(arrival)
            try:
                async with asyncio.timeout_at(deadline):
                    await arrival
            except TimeoutError:
                return None
            finally:
                waiting.remove(arrival)
                if not waiting and self._awaited.get(name) is waiting:
                    del self._awaited[name]
        return pod

    def member(self, place: Place, pod: Pod) -> Member:
        """A pod as its group sees it; a mark that is not believed is none."""
        member = member_of(place.policy, pod, place.workload, self._labels)
        if not member.token or self._believed(place.key, member.uid, member.token):
            return member
        return replace(member, token="", slot=None, tier=member.tier if member.placed else "")

    def look_again(self, key: GroupKey) -> None:
        """Which of a group's marks are believed may have changed."""
        for name in list(self._members.get(key, ())):
            self._put(name, self._seen[name])

    def tiers(self, place: Place, labels: Mapping[str, str], *, coming: bool = False) -> Tiers:
        """The policy's tiers with what budgets demand of the group, in which a pod with these labels is or,
        if it is `coming`, will be.
        """
        policy, demand, desired = place.policy, Demand(), None
        if asks_budgets(policy):
            makeup = self._makeups.get(place.key) or Makeup()
            more = (place.workload, labels) if coming or not len(makeup) else None
            like = makeup.alike(lambda name: workload_of(self._seen[name], self.owners), more)
            budgets, sharing = self.owners.budgets(), self.owners.sharing
            demand = demand_of_group(policy, place.key.namespace, like, budgets, sharing)
            desired = desired_of_group(policy, like)
        tiers = self._tiers.get((policy.name, demand, desired))
        if tiers is None or tiers.tiers != policy.spec.tiers:
            if len(self._tiers) >= _TIERS_KEPT:
                self._tiers.clear()
            tiers = self._tiers[policy.name, demand, desired] = Tiers(policy.spec.tiers, demand, desired)
        return tiers

    def groups(self) -> list[GroupKey]:
        """All groups that have pods."""
        self._settle()
        return list(self._members)

    def members(self, key: GroupKey) -> list[Member]:
        """The pods of a group, those on their way out too."""
        self._settle()
        return list(self._members.get(key, {}).values())

    def each(self) -> Iterator[tuple[GroupKey, Member, str]]:
        """Every pod of every group, with its node."""
        self._settle()
        for key, members in self._members.items():
            for name, member in members.items():
                yield key, member, _node_of(self._seen[name])

    def gone(self, key: GroupKey) -> list[str]:
        """Tokens and UIDs of pods of a group that were seen and are no more, of late."""
        self._forget()
        return list(self._gone.get(key, ()))

    def some_pod(self, key: GroupKey) -> Pod | None:
        """One pod of a group, to learn whose it is."""
        name = next(iter(self._members.get(key, ())), None)
        return self._seen.get(name) if name is not None else None

    def _on_pod(self, event: Event[_Pod, None]) -> None:
        if isinstance(event, Added | Modified):
            self._seen[event.key] = pod = self._trimmed(event.object)
            self._put(event.key, pod)
            for arrival in self._awaited.pop(event.key, ()):
                if not arrival.done():
                    arrival.set_result(None)
        elif isinstance(event, Deleted):
            self._seen.pop(event.key, None)
            self._leave(event.key, gone=True)

    def _on_node(self, event: Event[Any, dict[str, str]]) -> None:
        if self._on_each_node is not None:
            self._on_each_node(event)
        if isinstance(event, Deleted):
            self._specs.forget(event.key)
            self._away[event.key] = None
            if len(self._away) > _AWAY:
                del self._away[next(iter(self._away))]
            return
        if isinstance(event, Added) and event.key in self._away:
            # Pods keep their tier while their node is away; it may have come back as another one.
            del self._away[event.key]
            waiting = self._on(event.key)
        elif isinstance(event, Added):
            waiting = [key for key in self._nowhere if self._seen[key].spec.node_name == event.key]
        elif isinstance(event, Modified) and event.object.metadata.labels != event.old:
            waiting = self._on(event.key)
        else:
            return
        for key in waiting:
            self._put(key, self._seen[key])

    def _on(self, node: str) -> list[str]:
        return [name for name, pod in self._seen.items() if pod.spec.node_name == node]

    def _put(self, name: str, pod: Pod) -> None:
        before = self._key_of.get(name)
        place = self.place(pod)
        if before is not None and (place is None or place.key != before):
            self._leave(name)
        if place is None or (place.key.alone and not self._alone):
            return
        self._nowhere.discard(name)
        self._unnumbered.discard(name)
        reference = pod.metadata.controller
        if reference is not None and reference.kind == "StatefulSet" and place.workload.replicas is None:
            self._unnumbered.add(name)
        if pod.spec.node_name and self._labels(pod.spec.node_name) is None:
            self._nowhere.add(name)
        member = self.member(place, pod)
        members = self._members.setdefault(place.key, {})
        last = members.get(name)
        if last is not None and last.uid != member.uid:
            self._remember(place.key, last)
        self._make_up(name, pod, place, member)
        if last == member:
            return
        self._key_of[name] = place.key
        members[name] = member
        if last is not None and last.uid != member.uid:
            self._left(place.key, last, True)
        self._shown(place.key, member, _node_of(pod))
        self._changed(place.key)

    def _settle(self) -> None:
        """Go by the policies of now, and give numbers to pods whose StatefulSet came after them."""
        _ = self.policies
        for name in list(self._unnumbered):
            pod = self._seen[name]
            reference = pod.metadata.controller
            if reference is None or self.owners.owner(reference, pod.metadata.namespace) is not None:
                self._put(name, pod)

    def _leave(self, name: str, *, gone: bool = False) -> None:
        self._nowhere.discard(name)
        self._unnumbered.discard(name)
        key = self._key_of.pop(name, None)
        if key is None:
            return
        members = self._members[key]
        member = members.pop(name)
        if key in self._makeups:
            self._makeups[key].drop(name)
        if not members:
            del self._members[key]
            self._makeups.pop(key, None)
        if gone:
            self._remember(key, member)
        self._left(key, member, gone)
        self._changed(key)

    def _make_up(self, name: str, pod: Pod, place: Place, member: Member) -> None:
        if not asks_budgets(place.policy):
            return
        makeup = self._makeups.setdefault(place.key, Makeup())
        if member.leaving:
            makeup.drop(name)
        else:
            makeup.put(name, place.workload, pod.metadata.labels)

    def _remember(self, key: GroupKey, member: Member) -> None:
        now = self._clock.now()
        gone = self._gone.setdefault(key, {})
        for token in (member.token, member.uid):
            if token:
                gone[token] = now
                self._left_at.append((now, key, token))
        self._forget()

    def _forget(self) -> None:
        """Drop what was gone long ago, of all groups: most are never asked about again."""
        late = self._clock.now() - _REMEMBERED_S
        while self._left_at and self._left_at[0][0] < late:
            since, key, token = self._left_at.popleft()
            gone = self._gone.get(key)
            if gone is not None and gone.get(token) == since:
                del gone[token]
                if not gone:
                    del self._gone[key]

    def _regroup(self) -> None:
        self._key_of.clear()
        self._members.clear()
        self._makeups.clear()
        self._nowhere.clear()
        self._unnumbered.clear()
        for name, pod in self._seen.items():
            self._put(name, pod)

    def _labels(self, node: str) -> dict[str, str] | None:
        return self._nodes.view.get(node)

    def _trimmed(self, pod: _Pod) -> Pod:
        meta = pod.metadata
        controller = meta.controller
        kept = ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            creation_timestamp=meta.creation_timestamp,
            deletion_timestamp=meta.deletion_timestamp,
            labels=meta.labels,
            annotations={
                name: said
                for name in _MARKS
                # What is longer is not ours, and may be remembered after its pod is gone.
                if (said := meta.annotations.get(name)) is not None and len(said) <= LONGEST
            },
            owner_references=(controller,) if controller is not None else (),
        )
        return Pod(kept, self._specs[pod.spec.node_name], self._status(pod))

    def _status(self, pod: _Pod) -> PodStatus:
        """Its phase, and when it was bound."""
        known = _PHASES.get(pod.status.phase, _RUNNING)
        bound = bound_at(pod.status.conditions)
        return self._statuses[known.phase, bound] if bound else known


_RUNNING = PodStatus(phase="Running")
_PHASES = {phase: PodStatus(phase=phase) for phase in ("Succeeded", "Failed", "Pending")} | {
    "Running": _RUNNING
}


def _spec_of(node: str) -> PodSpec:
    return PodSpec(node_name=node)


def _status_of(key: tuple[str, float]) -> PodStatus:
    phase, bound = key
    time = datetime.fromtimestamp(bound, UTC)
    return PodStatus(phase=phase, conditions=(Condition("PodScheduled", "True", last_transition_time=time),))


class _Spec(Object, frozen=True, gc=False):
    node_name: str = ""


class _Status(Object, frozen=True, gc=False):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class _Pod(Object, frozen=True, gc=False):
    """The few fields of a pod that are read at all."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Node(Object, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()


def _nothing(_: Any) -> None:
    """The index has all that is kept of pods."""


def _node_of(pod: Pod) -> str:
    """Where it runs; a finished pod runs nowhere."""
    return "" if pod.terminal else pod.spec.node_name


def _labels(node: _Node | Node) -> dict[str, str]:
    return node.metadata.labels
