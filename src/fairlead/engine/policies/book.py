"""The policy book: for every pod that waits, the tier that its policy sends it to.

It is fed by what the core is told anyway, and asked before planning. The answer depends only on the pods,
owners, budgets, nodes, policies and marks there are, never on the order in which they came, so planning
everything anew agrees with planning what changed. Without policies it does nothing but know the owners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fairlead.engine.core.actions import MarkTiers
from fairlead.engine.policies.demanded import Demanded
from fairlead.engine.policies.families import Families
from fairlead.engine.policies.group import Group
from fairlead.engine.policies.members import Governed, Known, Members
from fairlead.engine.policies.owners import KnownOwners
from fairlead.engine.policies.patience import Patience
from fairlead.engine.policies.reach import Reach
from fairlead.engine.policies.sending import Sending, Sent, carried
from fairlead.engine.policies.slots import Claim
from fairlead.engine.policies.words import words
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.tolerations import Toleration
from fairlead.kube.workloads import Job, PodDisruptionBudget, Workload
from fairlead.policy.demands import asks_budgets
from fairlead.policy.fallback import Waiter
from fairlead.policy.groups import GroupKey, SlotMark, group_of, ordinal_of, read_mark
from fairlead.policy.marks import Mark
from fairlead.policy.matching import Policies, may_match
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.workloads import Workload as PodsWorkload
from fairlead.policy.workloads import workload_of

__all__ = ["PolicyBook"]


class PolicyBook:
    """See the module. `sent` are the answers for waiting pods, by UID.

    Invariant: after `refresh`, every waiting pod that a policy governs has its answer in `sent`, and
    nobody else has one.
    """

    def __init__(self, ready: Callable[[str], bool] = lambda _: True) -> None:
        """`ready` tells whether a waiting pod would be placed if there were room."""
        self.sent: dict[str, Sent] = {}
        self._ready = ready
        self._policies = Policies()
        self._owners = KnownOwners()
        self._families = Families(self._owners)
        self._demanded = Demanded(self._owners)
        self._reaches: dict[str, Reach] = {}
        self._sending = Sending()
        self._members = Members()
        self._groups: dict[GroupKey, Group] = {}
        self._dirty: dict[GroupKey, None] = {}
        self._again: dict[str, None] = {}  # pods to be planned anew, whatever their answer
        self._patience = Patience()
        self._planned: dict[str, Pod] = {}  # waiting pods as the API has them, by UID

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
        governed = self._members.pods.get(uid)
        return governed is not None and governed.pod.waits

    # What happens

    def policies_are(
        self,
        policies: Iterable[PlacementPolicy],
        exempt: Iterable[str],
        pods: Iterable[Known],
        nodes: Iterable[Node],
    ) -> None:
        """These policies hold from now on; `pods` and `nodes` are all there are.

        Only pods are looked at that a policy governs, or may govern, which is another than before.
        """
        found, before = Policies(policies, tuple(exempt)), self._policies
        names = dict.fromkeys(policy.name for policy in (*before, *found))
        if found.exempt == before.exempt:
            names = {name: None for name in names if found.get(name) != before.get(name)}
            if not names:
                return
        self._policies = found
        mine = [governed for governed in self._members.pods.values() if governed.key.policy in names]
        for governed in mine:
            self._leave(governed.claim.uid)
        changed = [policy for policy in found if policy.name in names]
        self._reach(changed, nodes)
        self._demanded.changed(names)
        self._sending.clear()
        for governed in mine:
            self._find(governed.pod)
        if changed:
            seen = {governed.claim.uid for governed in mine}
            for pod in pods:
                metadata = pod.metadata
                if metadata.uid not in seen and any(
                    may_match(policy.spec.match, metadata.namespace, metadata.labels) for policy in changed
                ):
                    known = self._members.pods.get(metadata.uid)
                    self._find(pod if known is None else known.pod)

    def _reach(self, changed: list[PlacementPolicy], nodes: Iterable[Node]) -> None:
        """Reaches for the policies that there are now, of which some are changed."""
        before, self._reaches = self._reaches, {}
        there = list(nodes) if changed else []
        for policy in self._policies:
            reach = before.get(policy.name)
            if policy in changed:
                reach = Reach(policy, reach.marks if reach is not None else None)
                for node in there:
                    reach.node(node.metadata.name, node)
            assert reach is not None
            self._reaches[policy.name] = reach

    def marks_are(self, policy: str, marks: dict[str, Mark]) -> None:
        """What the API says of a policy's tiers."""
        reach = self._reaches.get(policy)
        if reach is not None and reach.told_of(marks):
            self._stir(policy)

    def pod(self, pod: Known) -> None:
        """A pod as it now is, neither finished nor on its way out."""
        metadata = pod.metadata
        known = self._members.pods.get(metadata.uid)
        if known is not None and known.stays(metadata):
            self._put(pod, known.policy, known.key, known.claim.ordinal, known.family.workload)
        else:
            self._find(pod)

    def _find(self, pod: Known) -> None:
        """Find out whose pod it is, who governs it, and in which group it is."""
        metadata = pod.metadata
        workload = workload_of(Pod(metadata), self._owners)
        policy = self._policies.governing(workload, metadata.labels)
        if policy is None:
            if metadata.uid in self.sent:
                self._again[metadata.uid] = None
            self.gone(metadata.uid)
            return
        key = group_of(policy, workload, metadata.labels)
        self._put(pod, policy, key, ordinal_of(policy, workload), workload)

    def _put(
        self, pod: Known, policy: PlacementPolicy, key: GroupKey, ordinal: int | None, workload: PodsWorkload
    ) -> None:
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
            told=_told(policy, mark) if pod.waits and mark is not None else None,
        )
        known = self._members.pods.get(uid)
        if known is not None and known.key == key and known.claim == claim and known.pod.waits == pod.waits:
            known.pod = pod
            return
        self._leave(uid)
        if not pod.waits:
            self._forget(uid)
        token = (mark.token if mark is not None else "") or uid
        family = self._families.join(metadata, workload, key)
        self._members.add(Governed(pod, policy, key, claim, token, family))
        group = self._groups.setdefault(key, Group())
        group.slots.put(claim, waits=pod.waits)
        if asks_budgets(policy):
            group.makeup.put(uid, workload, metadata.labels)
        self._dirty[key] = None

    def gone(self, uid: str) -> None:
        """A pod is gone, finished or on its way out: it holds no slot."""
        self._leave(uid)
        self._forget(uid)

    def again(self, uid: str) -> None:
        """A waiting pod changed: plan it anew even if it is sent where it was."""
        self._again[uid] = None

    def assumed(self, uid: str, node: str) -> None:
        """A waiting pod was given a node."""
        governed, sent = self._members.remove(uid), self.sent.get(uid)
        if governed is None:
            return
        if sent is not None:
            reach = self._reaches[governed.key.policy]
            tier = reach.tier_of(node)
            reach.landed(tier)
            mark = SlotMark(sent.policy.name, sent.slot, token=governed.token)
            governed.pod = replace(governed.pod, node=node, waits=False, mark=mark)
            governed.claim = replace(governed.claim, placed=True, tier=tier, slot=sent.slot, told=None)
            group = self._groups[governed.key]
            same = group.slots.keep(governed.claim, in_turn=tier == sent.choice.tier)
            if not same or group.disturbed(governed.policy, self._members):
                self._dirty[governed.key] = None
            self._forget(uid)
        self._members.add(governed)

    def held(self, uid: str, now: float, since: float | None = None) -> None:
        """A waiting pod found no room in its tier: its patience begins; `since`: or began, by its status."""
        sent = self.sent.get(uid)
        if sent is None or sent.choice.tier is None or sent.policy.spec.enforce != "required":
            return
        reach = self._reaches[sent.policy.name]
        if since is not None:
            since = max(since, reach.sent_since(sent.choice, self._members.pods[uid].token))
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
        news = self._owners.seen(kind, owner)
        if not self._reaches:
            return
        namespace, name = owner.metadata.namespace, owner.metadata.name
        if news.numbers:
            self._renew(kind, namespace, name)
        if news.identity:
            for uid in self._families.made_by(kind, namespace, name):
                self._find(self._members.pods[uid].pod)
        if news.shares:
            self._stir_within(namespace)

    def owner_gone(self, kind: str, namespace: str, name: str) -> None:
        """An owner is gone; its pods follow, or are orphaned, which they show themselves."""
        shared = self._owners.gone(kind, namespace, name)
        self._renew(kind, namespace, name)
        if shared:
            self._stir_within(namespace)  # another has what its budget lets be unavailable

    def budget(self, budget: PodDisruptionBudget) -> None:
        """A budget as it now is."""
        if self._demanded.budget(budget):
            self._stir_within(budget.metadata.namespace)

    def budget_gone(self, namespace: str, name: str) -> None:
        """A budget is gone."""
        if self._demanded.budget_gone(namespace, name):
            self._stir_within(namespace)

    def node(self, name: str, node: Node | None) -> None:
        """A node as it now is; None: it is gone."""
        changed = [reach.node(name, node) for reach in self._reaches.values()]
        if any(changed):
            for governed in self._members.on_node(name):
                self.pod(governed.pod)
            self._end_skips()

    # Answers

    def refresh(self, now: float) -> tuple[dict[str, bool], list[MarkTiers]]:
        """Bring the answers up to date: waiting pods to be planned anew, and tiers to be marked.

        Of each pod, by UID, is said whether it was sent to another tier before.
        """
        for name, reach in self._reaches.items():
            if reach.restless(now):
                tokens = {mark.probe for _, mark in reach.marks if mark.probe}
                waiters = {waiter.uid: waiter for waiter in self._waiters(name)}
                probes = self._members.probes(sorted(tokens))
                passed = reach.decide(list(waiters.values()), probes, now, self._planned.get)
                for uid in sorted(passed):
                    self._pass_on(uid, reach.policy.spec.tiers[waiters[uid].tier].name)
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
        if sent is None:
            return pod
        self._planned[pod.metadata.uid] = pod
        return self._sending.pod(pod, sent)

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
        if key not in self._members.waiting:
            return
        reach, group = self._reaches[key.policy], self._groups[key]
        pods = self._members.pods
        tiers = self._demanded.tiers(
            reach.policy, key.namespace, group.makeup, lambda uid: pods[uid].family.workload
        )
        for uid, before in group.answer(reach, tiers, self._members, self.sent, now, ready=self._ready):
            moved = before is not None and before.choice.tier != self.sent[uid].choice.tier
            if moved:
                self._patience.moved(uid)
            yield uid, moved

    def _waiters(self, policy: str) -> Iterator[Waiter]:
        for key, uids in self._members.waiting.items():
            if key.policy != policy:
                continue
            for uid in uids:
                sent, governed = self.sent.get(uid), self._members.pods[uid]
                since = self._patience.since(uid, governed.policy)
                if since is not None and sent is not None and sent.choice.tier is not None:
                    yield Waiter(uid, governed.pod.metadata.key, sent.choice.tier, governed.token, since)

    def _pass_on(self, uid: str, tier: str) -> None:
        """Let one pod, and no other, go elsewhere than to a tier."""
        key = self._members.pods[uid].key
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

    def _leave(self, uid: str) -> None:
        governed = self._members.remove(uid)
        if governed is None:
            return
        key = governed.key
        self._dirty[key] = None
        self._families.leave(governed.family, uid, key)
        group = self._groups[key]
        group.slots.drop(uid)
        group.makeup.drop(uid)
        group.skips.pop(uid, None)
        if not len(group):
            del self._groups[key]

    def _forget(self, uid: str) -> None:
        self.sent.pop(uid, None)
        self._patience.forget(uid)
        self._planned.pop(uid, None)

    def _stir(self, policy: str) -> None:
        self._dirty.update(dict.fromkeys(key for key in self._members.waiting if key.policy == policy))

    def _stir_within(self, namespace: str) -> None:
        """What budgets of a namespace demand may have changed."""
        asking = {name for name, reach in self._reaches.items() if asks_budgets(reach.policy)}
        near = (key for key in self._members.waiting if key.namespace == namespace and key.policy in asking)
        self._dirty.update(dict.fromkeys(near))

    def _renew(self, kind: str, namespace: str, name: str) -> None:
        """An owner is another, or gone: so may be what is known of its pods' workload."""
        for family in self._families.renewed(kind, namespace, name):
            for key in family.groups:
                self._groups[key].stir()
                self._dirty[key] = None


def _told(policy: PlacementPolicy, mark: SlotMark) -> int | None:
    """The tier that admission has said; other marks are our own, and only remember where a pod was."""
    names = [tier.name for tier in policy.spec.tiers]
    return names.index(mark.tier) if mark.token and mark.tier in names else None


def _created(metadata: ObjectMeta) -> float:
    created = metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0
