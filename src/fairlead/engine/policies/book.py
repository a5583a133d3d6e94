"""The policy book: for every pod that waits, the tier that its policy sends it to.

It is fed by what the core is told anyway, and asked before planning. The answer depends only on the pods,
owners, budgets, nodes, policies and marks there are, never on the order in which they came, so planning
everything anew agrees with planning what changed. Without policies it does nothing but know the owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from fairlead.engine.core.actions import MarkTiers
from fairlead.engine.policies.owners import KnownOwners
from fairlead.engine.policies.patience import Patience
from fairlead.engine.policies.reach import Reach
from fairlead.engine.policies.sending import Sending, Sent, carried
from fairlead.engine.policies.slots import Claim, Slots
from fairlead.engine.policies.words import words
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.tolerations import Toleration
from fairlead.kube.workloads import Job, PodDisruptionBudget, Workload
from fairlead.policy.choice import held_by_number
from fairlead.policy.demands import Makeup, asks_budgets, demand_of_group, desired_of_group
from fairlead.policy.fallback import Probes, Waiter
from fairlead.policy.groups import GroupKey, SlotMark, group_of, ordinal_of, read_mark
from fairlead.policy.marks import Mark
from fairlead.policy.matching import Policies
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.rule import Demand, Tiers
from fairlead.policy.workloads import Workload as PodsWorkload
from fairlead.policy.workloads import workload_of

__all__ = ["Known", "PolicyBook"]

K = TypeVar("K", str, GroupKey, tuple[str, str, str])


@dataclass(frozen=True, slots=True)
class Known:
    """A pod as the book is told of it. `node` is where it is or is about to be; "" is nowhere."""

    metadata: ObjectMeta
    node: str = ""
    waits: bool = False
    """Whether it is ours to place, now."""
    mark: SlotMark | None = None
    """With what it is being bound: the API does not show it yet."""


@dataclass(slots=True)
class _Governed:
    pod: Known
    policy: PlacementPolicy
    key: GroupKey
    claim: Claim
    token: str

    def stays(self, metadata: ObjectMeta) -> bool:
        """Whether its group cannot be another for what the pod says now."""
        mine = self.pod.metadata
        return metadata.labels == mine.labels and metadata.owner_references == mine.owner_references


class PolicyBook:
    """See the module. `sent` are the answers for waiting pods, by UID.

    Invariant: after `refresh`, every waiting pod that a policy governs has its answer in `sent`, and
    nobody else has one.
    """

    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self._policies = Policies()
        self._owners = KnownOwners()
        self._budgets: dict[str, PodDisruptionBudget] = {}
        self._reaches: dict[str, Reach] = {}
        self._tiers: dict[tuple[str, Demand, int | None], Tiers] = {}
        self._sending = Sending()
        self._pods: dict[str, _Governed] = {}
        self._groups: dict[GroupKey, Slots] = {}
        self._makeups: dict[GroupKey, Makeup] = {}  # of groups whose policy asks what budgets demand
        self._waiting: dict[GroupKey, dict[str, None]] = {}
        self._of_controller: dict[tuple[str, str, str], dict[str, None]] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._dirty: dict[GroupKey, None] = {}
        self._again: dict[str, None] = {}  # pods to be planned anew, whatever their answer
        self._patience = Patience()

    @property
    def active(self) -> bool:
        """Whether there are policies, or pods that were planned under those that are gone."""
        return bool(self._reaches) or bool(self._again)

    @property
    def stirred(self) -> bool:
        """Whether something happened that `refresh` has yet to answer."""
        return bool(self._dirty or self._again) or any(
            reach.marks is not reach.told for reach in self._reaches.values()
        )

    def governs(self, uid: str) -> bool:
        """Whether a waiting pod must be asked about before it is planned."""
        governed = self._pods.get(uid)
        return governed is not None and governed.pod.waits

    # What happens

    def policies_are(
        self,
        policies: Iterable[PlacementPolicy],
        exempt: Iterable[str],
        pods: Iterable[Known],
        nodes: Iterable[Node],
    ) -> None:
        """These policies hold from now on; `pods` and `nodes` are all there are."""
        found = Policies(policies, tuple(exempt))
        if found.exempt == self._policies.exempt and list(found) == list(self._policies):
            return
        before, self._reaches = self._reaches, {}
        self._policies = found
        for policy in found:
            reach = before.get(policy.name)
            if reach is None or reach.policy != policy:
                reach = Reach(policy, reach.marks if reach is not None else None)
            self._reaches[policy.name] = reach
        binding = {uid: one.pod.mark for uid, one in self._pods.items() if one.pod.mark is not None}
        self._tiers.clear()
        self._pods.clear()
        self._groups.clear()
        self._makeups.clear()
        self._waiting.clear()
        self._of_controller.clear()
        self._on_node.clear()
        self._dirty.clear()
        self._sending.clear()
        for node in nodes:
            self.node(node.metadata.name, node)
        for pod in pods:
            self.pod(replace(pod, mark=binding.get(pod.metadata.uid)) if pod.node else pod)

    def marks_are(self, policy: str, marks: dict[str, Mark]) -> None:
        """What the API says of a policy's tiers."""
        reach = self._reaches.get(policy)
        if reach is not None and reach.told_of(marks):
            self._stir(policy)

    def pod(self, pod: Known) -> None:
        """A pod as it now is, neither finished nor on its way out."""
        metadata = pod.metadata
        known = self._pods.get(metadata.uid)
        if known is not None and known.stays(metadata):
            self._put(pod, known.policy, known.key, known.claim.ordinal)
        else:
            self._find(pod)

    def _find(self, pod: Known) -> None:
        """Find out whose pod it is, who governs it, and in which group it is."""
        metadata = pod.metadata
        workload = self._workload(pod)
        policy = self._policies.governing(workload, metadata.labels)
        if policy is None:
            if metadata.uid in self.sent:
                self._again[metadata.uid] = None
            self.gone(metadata.uid)
            return
        key = group_of(policy, workload, metadata.labels)
        self._put(pod, policy, key, ordinal_of(policy, workload))

    def _put(self, pod: Known, policy: PlacementPolicy, key: GroupKey, ordinal: int | None) -> None:
        metadata, uid = pod.metadata, pod.metadata.uid
        mark = pod.mark or read_mark(metadata.annotations)
        if mark is not None and mark.policy != policy.name:
            mark = None
        if not pod.node and not pod.waits and mark is None:
            self.gone(uid)  # another's pod without a node: nobody knows yet where it will be
            return
        claim = Claim(
            uid,
            (_created(metadata), metadata.name, uid),
            placed=bool(pod.node),
            tier=self._reaches[policy.name].tier_of(pod.node) if pod.node else None,
            slot=mark.slot if mark is not None else None,
            ordinal=ordinal,
        )
        known = self._pods.get(uid)
        if known is not None and known.key == key and known.claim == claim and known.pod.waits == pod.waits:
            known.pod = pod
            return
        self._leave(uid)
        if not pod.waits:
            self._forget(uid)
        token = (mark.token if mark is not None else "") or uid
        self._pods[uid] = _Governed(pod, policy, key, claim, token)
        self._groups.setdefault(key, Slots()).put(claim, waits=pod.waits)
        if asks_budgets(policy):
            self._makeups.setdefault(key, Makeup()).put(uid, self._workload(pod), metadata.labels)
        self._dirty[key] = None
        if pod.waits:
            self._waiting.setdefault(key, {})[uid] = None
        if pod.node:
            self._on_node.setdefault(pod.node, {})[uid] = None
        if (controller := metadata.controller) is not None:
            owner = controller.kind, metadata.namespace, controller.name
            self._of_controller.setdefault(owner, {})[uid] = None

    def gone(self, uid: str) -> None:
        """A pod is gone, finished or on its way out: it holds no slot."""
        self._leave(uid)
        self._forget(uid)

    def again(self, uid: str) -> None:
        """A waiting pod changed: plan it anew even if it is sent where it was."""
        self._again[uid] = None

    def assumed(self, uid: str, node: str) -> None:
        """A waiting pod was given a node."""
        governed, sent = self._pods.get(uid), self.sent.get(uid)
        if governed is None or sent is None:
            return
        reach = self._reaches[governed.key.policy]
        tier = reach.tier_of(node)
        reach.succeeded(tier)
        # It keeps the slot that it waited with, so nobody else's can be another for it.
        mark = SlotMark(sent.policy.name, sent.slot, token=governed.token)
        governed.pod = replace(governed.pod, node=node, waits=False, mark=mark)
        governed.claim = replace(governed.claim, placed=True, tier=tier, slot=sent.slot)
        self._groups[governed.key].put(governed.claim, waits=False)
        self._on_node.setdefault(node, {})[uid] = None
        _discard(self._waiting, governed.key, uid)
        self._forget(uid)

    def held(self, uid: str, now: float, since: float | None = None) -> None:
        """A waiting pod found no room in its tier: its patience begins; `since`: or began, by its status."""
        sent = self.sent.get(uid)
        if sent is None or sent.choice.tier is None or sent.policy.spec.enforce != "required":
            return
        reach = self._reaches[sent.policy.name]
        if since is not None:
            since = max(since, reach.sent_since(sent.choice, self._pods[uid].token))
        if self._patience.begin(uid, now, since):
            since = self._patience.since(uid, sent.policy)
            assert since is not None
            reach.look_at(since + sent.policy.spec.fallback.after_s)

    def promised(self, uid: str, at: float) -> None:
        """A waiting pod was promised a node, or somebody is making one for it: its patience begins anew."""
        if self.governs(uid):
            self._patience.promised(uid, at)

    def owner(self, kind: str, owner: Workload | Job) -> None:
        """An owner as it now is."""
        identity, anything = self._owners.seen(kind, owner)
        if not self._reaches or not anything:
            return
        namespace = owner.metadata.namespace
        if identity:
            for uid in list(self._of_controller.get((kind, namespace, owner.metadata.name), ())):
                self._find(self._pods[uid].pod)
        self._stir_within(namespace)

    def owner_gone(self, kind: str, namespace: str, name: str) -> None:
        """An owner is gone; its pods follow, or are orphaned, which they show themselves."""
        if self._owners.gone(kind, namespace, name):
            self._stir_within(namespace)  # another has what its budget lets be unavailable

    def budget(self, budget: PodDisruptionBudget) -> None:
        """A budget as it now is."""
        known = self._budgets.get(budget.metadata.key)
        self._budgets[budget.metadata.key] = budget
        if known is None or known.spec != budget.spec:
            self._stir_within(budget.metadata.namespace)

    def budget_gone(self, namespace: str, name: str) -> None:
        """A budget is gone."""
        if self._budgets.pop(f"{namespace}/{name}", None) is not None:
            self._stir_within(namespace)

    def node(self, name: str, node: Node | None) -> None:
        """A node as it now is; None: it is gone."""
        for policy, reach in self._reaches.items():
            if reach.node(name, node):
                for uid in list(self._on_node.get(name, ())):
                    self.pod(self._pods[uid].pod)
                self._stir(policy)

    # Answers

    def refresh(self, now: float) -> tuple[dict[str, bool], list[MarkTiers]]:
        """Bring the answers up to date: waiting pods to be planned anew, and tiers to be marked.

        Of each pod, by UID, is said whether it was sent to another tier before.
        """
        for name, reach in self._reaches.items():
            if reach.restless(now):
                reach.decide(list(self._waiters(name)), self._probes(name), now)
            if reach.marks is not reach.told:
                self._stir(name)
        changed = dict.fromkeys(self._again, False)
        self._again = {}
        dirty, self._dirty = sorted(self._dirty), {}
        for key in dirty:
            changed.update(self._assign(key, now))
        marks = []
        for name, reach in self._reaches.items():
            if reach.marks is not reach.told:
                marks.append(MarkTiers(name, dict(reach.told), dict(reach.marks)))
                reach.told = reach.marks
        return changed, marks

    def wake_at(self) -> float | None:
        """When time alone may change an answer."""
        return min((reach.due for reach in self._reaches.values() if reach.due is not None), default=None)

    def planned(self, pod: Pod) -> Pod:
        """The pod to plan in place of one that waits; the same if no policy governs it."""
        sent = self.sent.get(pod.metadata.uid)
        return pod if sent is None else self._sending.pod(pod, sent)

    def carried(self, pod: Pod, node: Node) -> tuple[dict[str, str], tuple[Toleration, ...]]:
        """What a pod's bind to a node brings along; see `sending.carried`."""
        sent = self.sent.get(pod.metadata.uid)
        if sent is None:
            return {}, ()
        tier = self._reaches[sent.policy.name].tier_of(node.metadata.name)
        return carried(pod, self._sending.pod(pod, sent), sent, tier, node)

    def alone(self, uid: str) -> bool:
        """Whether a waiting pod is sent to a tier in which it has its node to itself."""
        sent = self.sent.get(uid)
        tier = sent.choice.tier if sent is not None else None
        return sent is not None and tier is not None and sent.policy.spec.tiers[tier].exclusive

    def words(self, uid: str) -> str:
        """Which tier a pod waits for, and why; "" where no tier keeps it waiting."""
        sent = self.sent.get(uid)
        return "" if sent is None else words(sent, self._reaches[sent.policy.name])

    # Helpers

    def _assign(self, key: GroupKey, now: float) -> Iterator[tuple[str, bool]]:
        """Answer for the waiting pods of a group: those whose answer is another, and whether they move."""
        waiting = self._waiting.get(key)
        policy = self._policies.get(key.policy)
        if not waiting or policy is None:
            return
        reach, group = self._reaches[policy.name], self._groups[key]
        tiers = self._tiers_of(policy, key)
        held = {policy.spec.tiers[tier].name: count for tier, count in group.placed.items()}
        numbers = group.numbered() if tiers.safe is not None else ()
        taken = {slot: policy.spec.tiers[tier].name for slot, tier in numbers}
        for claim, slot in group.waiting(tiers):
            uid = claim.uid
            governed = self._pods[uid]
            workload = self._workload(governed.pod)
            others = held
            if claim.ordinal is not None and tiers.safe is not None:
                others = held_by_number(tiers, taken.items(), slot, workload.replicas)
            choice = reach.choose(
                tiers, slot, workload, token=governed.token, others=len(group) - 1, held=others, now=now
            )
            sent = Sent(policy, slot, choice)
            if choice.tier is not None:
                taken[slot] = name = policy.spec.tiers[choice.tier].name
                held[name] = held.get(name, 0) + 1
            before = self.sent.get(uid)
            self.sent[uid] = sent
            if not sent.like(before):
                moved = before is not None and before.choice.tier != choice.tier
                if moved:
                    self._patience.moved(uid)
                yield uid, moved

    def _tiers_of(self, policy: PlacementPolicy, key: GroupKey) -> Tiers:
        demand, wanted = Demand(), None
        if asks_budgets(policy):
            like = self._makeups[key].alike(lambda uid: self._workload(self._pods[uid].pod))
            demand = demand_of_group(
                policy, key.namespace, like, self._budgets.values(), self._owners.sharing
            )
            wanted = desired_of_group(policy, like)
        found = self._tiers.get((policy.name, demand, wanted))
        if found is None:
            found = self._tiers[policy.name, demand, wanted] = Tiers(policy.spec.tiers, demand, wanted)
        return found

    def _workload(self, pod: Known) -> PodsWorkload:
        return workload_of(Pod(pod.metadata), self._owners)

    def _waiters(self, policy: str) -> Iterator[Waiter]:
        for key, uids in self._waiting.items():
            if key.policy != policy:
                continue
            for uid in uids:
                sent, governed = self.sent.get(uid), self._pods[uid]
                since = self._patience.since(uid, governed.policy)
                if since is not None and sent is not None and sent.choice.tier is not None:
                    yield Waiter(uid, governed.pod.metadata.key, sent.choice.tier, governed.token, since)

    def _probes(self, policy: str) -> Probes:
        tokens = {mark.probe for _, mark in self._reaches[policy].marks if mark.probe}
        if not tokens:
            return Probes()
        mine = [one for one in self._pods.values() if one.token in tokens]
        return Probes(
            frozenset(one.token for one in mine),
            {one.token: one.claim.tier for one in mine if one.claim.placed},
        )

    def _leave(self, uid: str) -> None:
        governed = self._pods.pop(uid, None)
        if governed is None:
            return
        metadata = governed.pod.metadata
        self._dirty[governed.key] = None
        group = self._groups[governed.key]
        group.drop(uid)
        if (makeup := self._makeups.get(governed.key)) is not None:
            makeup.drop(uid)
        if not len(group):
            del self._groups[governed.key]
            self._makeups.pop(governed.key, None)
        if governed.pod.waits:
            _discard(self._waiting, governed.key, uid)
        if governed.pod.node:
            _discard(self._on_node, governed.pod.node, uid)
        if (controller := metadata.controller) is not None:
            _discard(self._of_controller, (controller.kind, metadata.namespace, controller.name), uid)

    def _forget(self, uid: str) -> None:
        self.sent.pop(uid, None)
        self._patience.forget(uid)

    def _stir(self, policy: str) -> None:
        self._dirty.update(dict.fromkeys(key for key in self._waiting if key.policy == policy))

    def _stir_within(self, namespace: str) -> None:
        self._dirty.update(dict.fromkeys(key for key in self._waiting if key.namespace == namespace))


def _created(metadata: ObjectMeta) -> float:
    created = metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0


def _discard(index: dict[K, dict[str, None]], key: K, uid: str) -> None:
    members = index[key]
    del members[uid]
    if not members:
        del index[key]
