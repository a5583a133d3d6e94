"""The group index, fed by watches: what webhook, extender and policy statuses decide from.

Pods are cut down to what a policy reads. Everything is worked out when an object changes, not when it is
queried: an admission in a group of a thousand must not look at a thousand pods' owners.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.feed.owners import WATCHED, OwnerReader
from fairlead.feed.policies import LivePolicies
from fairlead.feed.references import LONGEST
from fairlead.feed.trimming import BriefNode, BriefPod
from fairlead.feed.watches import Followed, Watches
from fairlead.kube.meta import ObjectMeta, OwnerReference
from fairlead.kube.resources import known
from fairlead.kube.workloads import PodDisruptionBudget
from fairlead.policy.groups.index import GroupedPod, GroupIndex
from fairlead.policy.groups.member import GroupKey, Member, PodFacts, bound_at
from fairlead.policy.groups.owners import KnownOwners, Owner
from fairlead.policy.names import (
    POLICY_ANNOTATION,
    SLOT_ANNOTATION,
    TIER_ANNOTATION,
    TOKEN_ANNOTATION,
)
from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.workloads import MIRROR
from fairlead.policy.slots.ledger import EXPIRY_S

_MARKS = (POLICY_ANNOTATION, SLOT_ANNOTATION, TIER_ANNOTATION, TOKEN_ANNOTATION, MIRROR)
_REMEMBERED_S = 2 * EXPIRY_S  # after that a ledger's slot has expired anyway


Shown = Callable[[GroupKey, Member, str], None]
Left = Callable[[GroupKey, Member, bool], None]
_PODS = known("Pod")


class LiveGroups:
    """See the module. Run it; `need` it, wait until `synced`, then query `index`."""

    def __init__(
        self,
        client: Client,
        watches: Watches,
        policies: LivePolicies,
        *,
        exempt: tuple[str, ...] = (),
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """`exempt` are namespaces that no policy governs."""
        self._watches = watches
        self._live = policies
        self._exempt = exempt
        self._clock = clock
        self._changed: list[Callable[[GroupKey], None]] = []
        self._shown: list[tuple[Shown, Left]] = []
        self.owners = OwnerReader(client, watched=self._watched, read=self._owner_read, clock=clock)
        self._index = GroupIndex(
            KnownOwners(self.owners), changed=self._pod_changed, stirred=self._group_changed
        )
        self._needed = asyncio.Event()
        self._first = [
            Followed(
                watches,
                known(kind),
                struct,
                functools.partial(self._put_owner, kind),
                functools.partial(self._drop_owner, kind),
            )
            for (_, kind), struct in WATCHED.items()
        ]
        budgets = known("PodDisruptionBudget")
        self._first.append(
            Followed(watches, budgets, PodDisruptionBudget, self._put_budget, self._drop_budget)
        )
        self._then = [
            Followed(watches, known("Node"), BriefNode, self._put_node, self._drop_node),
            Followed(watches, _PODS, BriefPod, self._put_pod, self._drop_pod),
        ]
        self._seen: dict[str, PodFacts] = {}
        self._awaited: dict[str, list[asyncio.Future[None]]] = {}  # pods that the watch has yet to show
        self._gone: dict[GroupKey, dict[str, float]] = {}
        self._gone_at: deque[tuple[float, GroupKey, str]] = deque()  # the same, in the order they went
        self._known: tuple[PlacementPolicy, ...] | None = None
        self._regrouping = False

    def on_change(self, call: Callable[[GroupKey], None]) -> None:
        """Call back with each group whose pods, workloads or budgets changed."""
        self._changed.append(call)

    def on_pods(self, shown: Shown, left: Left) -> None:
        """Call back with each pod: as it is now in its group, with its node unless it is finished; and that
        it is no longer in a group, and whether that is because it is gone. Neither while policies change.
        """
        self._shown.append((shown, left))

    def need(self) -> None:
        """Watch from now on: without a door that needs it, nothing is watched for it."""
        self._needed.set()

    async def run(self) -> None:
        """Watch for ever, once it is needed; pods only once their owners are known."""
        await self._needed.wait()
        async with asyncio.TaskGroup() as group:
            for one in self._first:
                group.create_task(one.run())
            for one in self._first:
                await one.listed.wait()
            for one in self._then:
                group.create_task(one.run())

    async def synced(self) -> None:
        """Wait until everything was listed."""
        self.need()
        for one in (*self._first, *self._then):
            await one.listed.wait()

    def unlisted(self) -> list[str]:
        """What was not listed yet, by its name in the API."""
        return [one.resource.plural for one in (*self._first, *self._then) if not one.listed.is_set()]

    @property
    def blind(self) -> bool:
        """Whether pods may come and go unseen at the moment: nothing must be believed gone then."""
        return self._watches.trouble(_PODS) is not None

    @property
    def index(self) -> GroupIndex:
        """The groups, under the policies that hold now."""
        if self._known is not self._live.policies:
            self._known = self._live.policies
            self._regrouping = True
            try:
                self._index.use(Policies(self._known, self._exempt), self._seen.items)
            finally:
                self._regrouping = False
        return self._index

    async def when_shown(self, name: str, uid: str, patience_s: float) -> PodFacts | None:
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

    def gone(self, key: GroupKey) -> list[str]:
        """Tokens and UIDs of pods of a group that were seen and are no more, of late."""
        self._forget()
        return list(self._gone.get(key, ()))

    def _watched(self, reference: OwnerReference, namespace: str) -> Owner | None:
        return self._index.owners.get(reference.kind, namespace, reference.name)

    def _owner_read(self, kind: str, namespace: str, name: str) -> None:
        self._index.owner_read(kind, namespace, name)

    def _put_owner(self, kind: str, owner: Owner) -> None:
        self.index.owner(kind, owner)

    def _drop_owner(self, kind: str, key: str, _: str) -> None:
        namespace, _, name = key.rpartition("/")
        self.index.owner_gone(kind, namespace, name)

    def _put_budget(self, budget: PodDisruptionBudget) -> None:
        self.index.budget(budget)

    def _drop_budget(self, key: str, _: str) -> None:
        namespace, _, name = key.rpartition("/")
        self.index.budget_gone(namespace, name)

    def _put_node(self, node: BriefNode) -> None:
        self.index.node(node.metadata.name, node.metadata.labels)

    def _drop_node(self, name: str, _: str) -> None:
        self.index.node(name, None)

    def _put_pod(self, pod: BriefPod) -> None:
        key, facts = pod.metadata.key, _facts(pod)
        before = self._seen.get(key)
        if before is not None and before.metadata.uid != facts.metadata.uid:
            self._drop_pod(key, "")
        self._seen[key] = facts
        self.index.pod(key, facts)
        for arrival in self._awaited.pop(key, ()):
            if not arrival.done():
                arrival.set_result(None)

    def _drop_pod(self, key: str, _: str) -> None:
        self._seen.pop(key, None)
        self.index.pod_gone(key)

    def _pod_changed(self, before: GroupedPod | None, after: GroupedPod | None) -> None:
        gone = before is not None and before.id not in self._seen
        if gone and before is not None:
            self._remember(before.key, before.member)
        if self._regrouping:
            return
        if before is not None and (after is None or before.key != after.key):
            for _, left in self._shown:
                left(before.key, before.member, gone)
            self._group_changed(before.key)
        if after is not None:
            for shown, _ in self._shown:
                shown(after.key, after.member, after.facts.node)
            self._group_changed(after.key)

    def _group_changed(self, key: GroupKey) -> None:
        for call in self._changed:
            call(key)

    def _remember(self, key: GroupKey, member: Member) -> None:
        now = self._clock.now()
        gone = self._gone.setdefault(key, {})
        for token in (member.token, member.uid):
            if token:
                gone[token] = now
                self._gone_at.append((now, key, token))
        self._forget()

    def _forget(self) -> None:
        """Drop what was gone long ago, of all groups: most are never queried again."""
        late = self._clock.now() - _REMEMBERED_S
        while self._gone_at and self._gone_at[0][0] < late:
            since, key, token = self._gone_at.popleft()
            gone = self._gone.get(key)
            if gone is not None and gone.get(token) == since:
                del gone[token]
                if not gone:
                    del self._gone[key]


def _facts(pod: BriefPod) -> PodFacts:
    """What policies read of a pod, and nothing else: there are many."""
    return PodFacts(
        _cut(pod.metadata),
        "" if pod.terminal else pod.spec.node_name,
        leaving=pod.terminal or pod.metadata.deletion_timestamp is not None,
        bound=bound_at(pod.status.conditions),
    )


def _cut(meta: ObjectMeta) -> ObjectMeta:
    # What is longer is not ours, and may be remembered after its pod is gone.
    marks = {
        name: said
        for name in _MARKS
        if (said := meta.annotations.get(name)) is not None and len(said) <= LONGEST
    }
    if marks == meta.annotations:
        return meta
    controller = meta.controller
    return ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels=meta.labels,
        annotations=marks,
        owner_references=(controller,) if controller is not None else (),
    )
