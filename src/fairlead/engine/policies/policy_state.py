"""Placement policies as the scheduler applies them: for every pod that waits, the tier it is sent to.

It is fed by the core's events, and queried before planning. The answer depends only on the pods, owners,
budgets, nodes, policies and marks there are, never on the order in which they came, so planning everything
again agrees with planning what changed. Without policies it does nothing but know owners and budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from fairlead.engine.policies.group import Group
from fairlead.engine.policies.planned_pod import PlannedPods, Sent, carried
from fairlead.engine.policies.policy_tiers import MarkTiers, PolicyTiers
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.tolerations import Toleration
from fairlead.kube.workloads import Job, PodDisruptionBudget, Workload
from fairlead.policy.groups.index import GroupedPod, GroupIndex
from fairlead.policy.groups.member import GroupKey, PodFacts, SlotMark
from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.slots.table import Claim, claim_of
from fairlead.policy.tiers.fallback import Probes, Waiter, patient_since
from fairlead.policy.tiers.marks import Mark

K = TypeVar("K", str, GroupKey)


class PolicyState:
    """See the module. `sent` are the answers for waiting pods, by UID.

    Invariant: after `refresh`, every waiting pod that a policy governs has its answer in `sent`, and no other
    pod has one.
    """

    def __init__(self, ready: Callable[[str], bool] = lambda _: True) -> None:
        """`ready` tells whether a waiting pod would be placed if there were room."""
        self.sent: dict[str, Sent] = {}
        self._ready = ready
        self._index = GroupIndex(changed=self._changed, stirred=self._stirred)
        self._tiers: dict[str, PolicyTiers] = {}  # by policy
        self._planned_pods = PlannedPods()
        self._groups: dict[GroupKey, Group] = {}
        self._waiting: dict[GroupKey, dict[str, None]] = {}
        self._tokens: dict[str, dict[str, None]] = {}  # by what a pod goes by: its mark's token, else its UID
        self._dirty: dict[GroupKey, None] = {}
        self._again: dict[str, None] = {}  # pods to be planned again, whatever their answer
        self._patience = _Patience()
        self._planned: dict[str, Pod] = {}  # waiting pods as the API has them, by UID

    @property
    def active(self) -> bool:
        """Whether there are policies, or pods that were planned under those that are gone."""
        return bool(self._tiers) or bool(self._again)

    @property
    def stirred(self) -> bool:
        """Whether something happened that `refresh` has yet to answer."""
        return bool(self._dirty or self._again) or any(
            tiers.marks is not tiers.told for tiers in self._tiers.values()
        )

    def governs(self, uid: str) -> bool:
        """Whether a waiting pod must be asked about before it is planned."""
        found = self._index.get(uid)
        return found is not None and found.facts.waits

    # Events

    def policies_are(
        self,
        policies: Iterable[PlacementPolicy],
        exempt: Iterable[str],
        pods: Callable[[], Iterable[PodFacts]],
        nodes: Iterable[Node],
    ) -> None:
        """These policies hold from now on; `pods` and `nodes` are all there are."""
        found, before = Policies(policies, tuple(exempt)), self._index.policies
        changed = [policy for policy in found if policy != before.get(policy.name)]
        known, self._tiers = self._tiers, {}
        there = list(nodes) if changed else []
        for policy in found:
            tiers = known.get(policy.name)
            if tiers is None or policy in changed:
                tiers = PolicyTiers(policy, tiers.marks if tiers is not None else None)
                for node in there:
                    tiers.node(node.metadata.name, node)
            self._tiers[policy.name] = tiers
        self._planned_pods.clear()
        for node in there:
            self._index.node(node.metadata.name, node.metadata.labels)
        self._index.use(found, lambda: ((facts.metadata.uid, facts) for facts in pods()))

    def marks_are(self, policy: str, marks: dict[str, Mark]) -> None:
        """What the API says of a policy's tiers."""
        tiers = self._tiers.get(policy)
        if tiers is not None and tiers.told_of(marks):
            self._stir(policy)

    def pod(self, facts: PodFacts) -> None:
        """A pod as it now is, neither finished nor on its way out."""
        self._index.pod(facts.metadata.uid, facts)

    def gone(self, uid: str) -> None:
        """A pod is gone, finished or on its way out: it holds no slot."""
        self._forget(uid)
        self._index.pod_gone(uid)

    def again(self, uid: str) -> None:
        """A waiting pod changed: plan it again even if it is sent where it was."""
        self._again[uid] = None

    def assumed(self, uid: str, node: str) -> None:
        """A waiting pod was given a node: it keeps the slot that it waited with."""
        one, sent = self._index.get(uid), self.sent.get(uid)
        if one is not None and sent is not None:
            mark = SlotMark(sent.policy.name, sent.slot, token=one.member.token)
            self._index.pod(uid, replace(one.facts, node=node, waits=False, mark=mark))

    def held(self, uid: str, now: float, since: float | None = None) -> None:
        """A waiting pod found no room in its tier: its patience begins; `since`: or began, by its status."""
        sent = self.sent.get(uid)
        if sent is None or sent.choice.tier is None or sent.policy.spec.enforce != "required":
            return
        tiers = self._tiers[sent.policy.name]
        if since is not None:
            since = max(since, tiers.sent_since(sent.choice, self._token(uid)))
        if self._patience.begin(uid, now, since):
            since = self._patience.since(uid, sent.policy)
            assert since is not None
            tiers.look_at(since + sent.policy.spec.fallback.after_s)

    def promised(self, uid: str, at: float) -> None:
        """A waiting pod was promised a node, or one is being made for it: its patience begins again."""
        if self.governs(uid):
            self._patience.promised(uid, at)

    def owner(self, kind: str, owner: Workload | Job) -> None:
        """An owner as it now is."""
        self._index.owner(kind, owner)

    def owner_gone(self, kind: str, namespace: str, name: str) -> None:
        """An owner is gone."""
        self._index.owner_gone(kind, namespace, name)

    def budget(self, budget: PodDisruptionBudget) -> None:
        """A budget as it now is."""
        self._index.budget(budget)

    def budget_gone(self, namespace: str, name: str) -> None:
        """A budget is gone."""
        self._index.budget_gone(namespace, name)

    def node(self, name: str, node: Node | None) -> None:
        """A node as it now is; None: it is gone."""
        changed = [tiers.node(name, node) for tiers in self._tiers.values()]
        self._index.node(name, node.metadata.labels if node is not None else None)
        if any(changed):
            self._end_skips()

    # Answers

    def refresh(self, now: float) -> tuple[dict[str, bool], list[MarkTiers]]:
        """Bring the answers up to date: waiting pods to be planned again, and tiers to be marked.

        Of each pod, by UID, is said whether it was sent to another tier before.
        """
        for name, tiers in self._tiers.items():
            if tiers.restless(now):
                tokens = {mark.probe for _, mark in tiers.marks if mark.probe}
                waiters = {waiter.uid: waiter for waiter in self._waiters(name)}
                probes = self._probes(sorted(tokens))
                passed = tiers.decide(list(waiters.values()), probes, now, self._planned.get)
                for uid in sorted(passed):
                    self._pass_on(uid, tiers.policy.spec.tiers[waiters[uid].tier].name)
            if tiers.marks is not tiers.told:
                self._stir(name)
        changed = dict.fromkeys(self._again, False)
        self._again = {}
        dirty, self._dirty = sorted(self._dirty), {}
        for key in dirty:
            changed.update(self._assign(key, now))
        marks = []
        for name, tiers in self._tiers.items():
            if tiers.marks is not tiers.told:
                marks.append(MarkTiers(name, dict(tiers.told), dict(tiers.marks)))
                tiers.told = tiers.marks
        return changed, marks

    def wake_at(self) -> float | None:
        """When time alone may change an answer."""
        return min((tiers.due for tiers in self._tiers.values() if tiers.due is not None), default=None)

    def planned(self, pod: Pod) -> Pod:
        """The pod to plan in place of one that waits; the same if no policy governs it."""
        sent = self.sent.get(pod.metadata.uid)
        if sent is None:
            return pod
        self._planned[pod.metadata.uid] = pod
        return self._planned_pods.pod(pod, sent)

    def carried(self, pod: Pod, node: Node) -> tuple[dict[str, str], tuple[Toleration, ...]]:
        """What a pod's bind to a node brings along; see `planned_pod.carried`."""
        sent = self.sent.get(pod.metadata.uid)
        if sent is None:
            return {}, ()
        tier = self._tiers[sent.policy.name].tier_of(node.metadata.name)
        return carried(pod, self._planned_pods.pod(pod, sent), sent, tier, node)

    def alone(self, uid: str) -> bool:
        """Whether a waiting pod is sent to a tier in which it has its node to itself."""
        sent = self.sent.get(uid)
        tier = sent.choice.tier if sent is not None else None
        return sent is not None and tier is not None and sent.policy.spec.tiers[tier].exclusive

    def words(self, uid: str) -> str:
        """Which tier a pod waits for, and why; "" where no tier keeps it waiting."""
        sent = self.sent.get(uid)
        return "" if sent is None else self._tiers[sent.policy.name].words(sent)

    # Helpers

    def _changed(self, before: GroupedPod | None, after: GroupedPod | None) -> None:
        """The index has a pod as another member of its group, or in another group."""
        known = before if _stays(before, after) else None
        if before is not None and known is None:
            self._leave(before)
        if after is None and before is not None and before.id in self.sent:
            self._again[before.id] = None
        if after is None or not _holds(after):
            if before is not None:
                self._forget(before.id)
            return
        uid, key, sent = after.id, after.key, self.sent.get(after.id)
        claim = _claim(after)
        if known is not None:
            if _claim(known) == claim and known.facts.waits == after.facts.waits:
                return
            self._unlist(known)
        group = self._groups.setdefault(key, Group())
        if known is not None and known.facts.waits and after.facts.mark is not None and sent is not None:
            tiers = self._tiers[key.policy]
            tiers.landed(claim.tier)
            same = group.slots.keep(claim, in_turn=claim.tier == sent.choice.tier)
            if not same or group.disturbed(after.policy, self._pod):
                self._dirty[key] = None
        else:
            if before is not None and before.policy is not after.policy:
                group.stir()
            group.slots.put(claim, waits=after.facts.waits)
            self._dirty[key] = None
        self._list(after)
        if not after.facts.waits:
            self._forget(uid)

    def _list(self, one: GroupedPod) -> None:
        self._tokens.setdefault(one.member.token or one.id, {})[one.id] = None
        if one.facts.waits:
            self._waiting.setdefault(one.key, {})[one.id] = None

    def _unlist(self, one: GroupedPod) -> None:
        _discard(self._tokens, one.member.token or one.id, one.id)
        if one.facts.waits:
            _discard(self._waiting, one.key, one.id)

    def _leave(self, one: GroupedPod) -> None:
        if not _holds(one):
            return
        self._unlist(one)
        self._dirty[one.key] = None
        group = self._groups[one.key]
        group.slots.drop(one.id)
        group.skips.pop(one.id, None)
        if not len(group):
            del self._groups[one.key]

    def _stirred(self, key: GroupKey) -> None:
        """What is known of the workloads behind a group, or of its budgets, changed."""
        group = self._groups.get(key)
        if group is not None:
            group.stir()
            self._dirty[key] = None

    def _token(self, uid: str) -> str:
        found = self._index.get(uid)
        return (found.member.token if found is not None else "") or uid

    def _probes(self, tokens: Iterable[str]) -> Probes:
        """What became of the pods that go by these tokens."""
        mine = [(token, self._pod(uid)) for token in tokens for uid in self._tokens.get(token, ())]
        placed = {token: _claim(one).tier for token, one in mine if one.facts.node}
        return Probes(frozenset(token for token, _ in mine), placed)

    def _pod(self, uid: str) -> GroupedPod:
        found = self._index.get(uid)
        assert found is not None  # it is in a group
        return found

    def _assign(self, key: GroupKey, now: float) -> Iterator[tuple[str, bool]]:
        """Answer for the waiting pods of a group: those whose answer is another, and whether they move."""
        some = self._waiting.get(key)
        if not some:
            return
        one = self._pod(next(iter(some)))
        tiers = self._index.tiers(one.place, one.facts.metadata.labels)
        group = self._groups[key]
        for uid, before in group.answer(
            self._tiers[key.policy], tiers, self._pod, self.sent, now, ready=self._ready
        ):
            moved = before is not None and before.choice.tier != self.sent[uid].choice.tier
            if moved:
                self._patience.moved(uid)
            yield uid, moved

    def _waiters(self, policy: str) -> Iterator[Waiter]:
        for key, uids in self._waiting.items():
            if key.policy != policy:
                continue
            for uid in uids:
                sent, one = self.sent.get(uid), self._pod(uid)
                since = self._patience.since(uid, one.policy)
                if since is not None and sent is not None and sent.choice.tier is not None:
                    name = one.facts.metadata.key
                    yield Waiter(uid, name, sent.choice.tier, one.member.token or uid, since)

    def _pass_on(self, uid: str, tier: str) -> None:
        """Let one pod, and no other, go elsewhere than to a tier."""
        key = self._pod(uid).key
        skips = self._groups[key].skips
        if tier not in skips.get(uid, ()):
            skips[uid] = skips.get(uid, frozenset()) | {tier}
            self._dirty[key] = None

    def _end_skips(self) -> None:
        """Nodes have changed: each pod may try again what did not take it."""
        for key, group in self._groups.items():
            if group.skips:
                group.skips.clear()
                self._dirty[key] = None

    def _forget(self, uid: str) -> None:
        self.sent.pop(uid, None)
        self._patience.forget(uid)
        self._planned.pop(uid, None)

    def _stir(self, policy: str) -> None:
        self._dirty.update(dict.fromkeys(key for key in self._waiting if key.policy == policy))


class _Patience:
    """From when each waiting pod's patience with its tier counts, by UID.

    It begins when the pod is first held for its tier, or began when its status says so: a restart must not
    restart it. Sent to another tier, or promised a node, a pod is patient again; how often a promise may do
    that is the same for every door (`patient_since`).
    """

    __slots__ = ("_began", "_moved", "_promised")

    def __init__(self) -> None:
        self._began: dict[str, float] = {}
        self._moved: dict[str, None] = {}  # what their status says is of another tier
        self._promised: dict[str, float] = {}

    def begin(self, uid: str, now: float, since: float | None) -> bool:
        """A pod is held; whether it had not begun before."""
        if uid in self._began:
            return False
        self._began[uid] = now if since is None or uid in self._moved else min(since, now)
        return True

    def since(self, uid: str, policy: PlacementPolicy) -> float | None:
        """From when it counts; None: the pod is not held."""
        began = self._began.get(uid)
        return None if began is None else patient_since(began, self._promised.get(uid), policy)

    def moved(self, uid: str) -> None:
        """The pod is sent to another tier."""
        self._began.pop(uid, None)
        self._moved[uid] = None

    def promised(self, uid: str, at: float) -> None:
        """A node was reported to be on its way for the pod, or promised to it."""
        self._promised[uid] = max(at, self._promised.get(uid, at))

    def forget(self, uid: str) -> None:
        """The pod does not wait any more."""
        self._began.pop(uid, None)
        self._moved.pop(uid, None)
        self._promised.pop(uid, None)


def _claim(one: GroupedPod) -> Claim:
    return claim_of(one.member, one.policy.spec.tiers, placed=bool(one.facts.node))


def _holds(one: GroupedPod) -> bool:
    """Whether it counts for its group; where another scheduler's pod will be is not known before its node."""
    return bool(one.facts.node) or one.facts.waits or one.member.slot is not None


def _stays(before: GroupedPod | None, after: GroupedPod | None) -> bool:
    """Whether a pod still counts for the same group, under the same policy."""
    if before is None or after is None or not _holds(before) or not _holds(after):
        return False
    return before.key == after.key and before.policy is after.policy


def _discard(index: dict[K, dict[str, None]], key: K, uid: str) -> None:
    members = index[key]
    del members[uid]
    if not members:
        del index[key]
