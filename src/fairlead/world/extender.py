"""The extender inside the embedded cluster: what its scheduler asks, and what is done besides, on the spot.

The very machine of the component decides, fed from the store. Marks and ledgers are `Placement`'s: they are
in the memory of this process as they are in the API elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from fairlead.engine.rebalance.rebalancer import KINDS
from fairlead.errors import ApiError, Conflict, NotFound
from fairlead.kube.decode import convert
from fairlead.kube.meta import Object
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Job, PodDisruptionBudget, Scale, Workload
from fairlead.policy.decide.admission import cost_is_ours
from fairlead.policy.decide.filter.extender import Extender as Machine
from fairlead.policy.decide.filter.filter_state import FilterAnswer, FilterRequest
from fairlead.policy.decide.filter.waiting_pod import RetryHints
from fairlead.policy.groups.index import GroupedPod, GroupIndex
from fairlead.policy.groups.member import GroupKey, facts_of
from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.fallback import Blame, Waiter
from fairlead.world.follower import Follower
from fairlead.world.objects import split_key
from fairlead.world.placement import Placement
from fairlead.world.schema.resources import PODS

_HIGHEST_SCORE = 10  # as kube-scheduler has it

_IDLE_S = 60.0
_REFUSED_S = 10.0  # how often room is looked for where a pod was refused: what was given may not be taken


class Extender(Follower):
    """Give it to the cluster, whose scheduler asks it."""

    kinds = KINDS
    pause = timedelta(seconds=0.1)

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._index = GroupIndex(changed=self._moved, stirred=self._stirred)
        self._index.use(Policies(placement.policies), lambda: ())
        self._machine = Machine(lambda: self._index, lambda policy: placement.marks[policy])
        self._machine.use(placement.policies)
        self._machine.state.retry_hints = RetryHints()
        self._uids: dict[str, str] = {}  # of the pods that are there, by ``namespace/name``

    # Answers

    def filter(self, pod: Pod, offered: Sequence[str]) -> FilterAnswer | None:
        """Which of the nodes on offer a pod may go to; None: no policy governs it."""
        ask, now = self._request(pod), self._now
        if ask is None:
            return None
        policy = ask.place.policy.name
        probing = ""
        for tier in self._machine.state.may_try(ask, offered, now):
            claimed = self._placement.marks[policy].claim_probe(tier, pod.metadata.uid, now)
            if claimed is not None:
                self._placement.marks[policy], probing = claimed, tier
                break
        answer = self._machine.state.filter(ask, offered, now, probing)
        if not answer.nodes:
            self._look_at(self._clock.now() + self.pause)
        return answer

    def scores(self, pod: Pod, offered: Sequence[str]) -> list[int]:
        """How good each node is."""
        ask = self._request(pod)
        if ask is None:
            return [0] * len(offered)
        return self._machine.state.scores(ask, offered, _HIGHEST_SCORE)

    def preempt(self, pod: Pod, candidates: Mapping[str, Collection[str]]) -> Collection[str]:
        """The nodes whose victims' room would be of use to the pod; candidates come with their UIDs."""
        ask = self._request(pod)
        return candidates if ask is None else self._machine.state.preempt(ask, candidates, self._now)

    def _request(self, pod: Pod) -> FilterRequest | None:
        return self._machine.request(facts_of(pod), costed=not cost_is_ours(pod.metadata.annotations))

    # Following

    def _seen(self, kind: str, thing: Object) -> None:
        match thing:
            case Pod():
                key, uid = thing.metadata.key, thing.metadata.uid
                if self._uids.get(key, uid) != uid:
                    self._gone(kind, thing.metadata.namespace, thing.metadata.name, uid)
                self._uids[key] = uid
                self._index.pod(key, facts_of(thing))
            case Node():
                self._machine.node(thing.metadata.name, thing)
                self._index.node(thing.metadata.name, thing.metadata.labels)
            case PodDisruptionBudget():
                self._index.budget(thing)
            case Workload() | Job() | Scale():
                self._index.owner(kind, thing)

    def _gone(self, kind: str, namespace: str, name: str, uid: str) -> None:
        match kind:
            case "Pod":
                self._uids.pop(f"{namespace}/{name}", None)
                self._index.pod_gone(f"{namespace}/{name}")
            case "Node":
                self._machine.node(name, None)
                self._index.node(name, None)
            case "PodDisruptionBudget":
                self._index.budget_gone(namespace, name)
            case _:
                self._index.owner_gone(kind, namespace, name)

    def _moved(self, before: GroupedPod | None, after: GroupedPod | None) -> None:
        machine = self._machine
        if before is not None and (after is None or before.key != after.key):
            machine.state.left(before.key, before.member, before.id not in self._uids)
            machine.touch(before.key)
        if after is not None:
            member, ledger = after.member, self._placement.ledgers.get(after.key)
            if ledger is not None and machine.tokens.asks(after.key, member.uid, member.token):
                machine.tokens.put(ledger)
            machine.shown(after.key, member, after.facts.node)
            machine.touch(after.key)

    def _stirred(self, key: GroupKey) -> None:
        self._machine.touch(key)

    # Besides

    def _turn(self) -> None:
        now, machine = self._now, self._machine
        machine.state.tidy(now)
        wakes = [now + _IDLE_S, *(self._mark(policy, now) for policy in self._placement.policies)]
        for nudge in machine.nudges(now):
            one = nudge.waiting
            if self._annotate(one.uid, one.name, nudge.annotations(datetime.fromtimestamp(now, UTC))):
                nudge.written()
        for write in machine.unwritten():
            if write.held.costed is None and (pod := self._pod(write.pod)) is not None:
                write.held.costed = not cost_is_ours(pod.metadata.annotations)
            if self._annotate(write.uid, write.pod, write.annotations()):
                write.written()
        wakes += machine.wakes(now)
        if any(one.refused for one in machine.state.waiting.values()):
            wakes.append(now + _REFUSED_S)
        self._look_at(datetime.fromtimestamp(max(min(wakes), now), UTC) + self.pause)

    def _mark(self, policy: PlacementPolicy, now: float) -> float:
        """Bring the policy's marks up to date; when time alone will change them."""
        look = self._machine.look(policy, now, now)
        assert look is not None  # it holds
        marks = self._placement.marks[policy.name]
        if look.decided(marks) != marks and look.late:
            look.causes = {uid: self._blame(policy, waiter) for uid, waiter in look.late.items()}
        self._placement.marks[policy.name] = marks = look.decided(marks)
        self._machine.noted(look, written=True)
        wake_at = look.wake_at(marks)
        return now + _IDLE_S if wake_at is None else wake_at

    def _blame(self, policy: PlacementPolicy, waiter: Waiter) -> Blame:
        fit, pod = self._placement.machine.fits.of(policy.name), self._pod(waiter.pod)
        return "unknown" if fit is None or pod is None else fit.blame(pod, waiter.tier)

    def _pod(self, name: str) -> Pod | None:
        found = self._api.store.get(PODS, *split_key(name))
        return convert(found, Pod) if found is not None else None

    def _annotate(self, uid: str, pod: str, annotations: Mapping[str, str]) -> bool:
        """Whether there is nothing left to write: done, or the pod is another's or gone."""
        namespace, name = split_key(pod)
        try:
            self._api.patch(PODS, name, {"metadata": {"uid": uid, "annotations": annotations}}, namespace)
        except (NotFound, Conflict):
            return True
        except ApiError:
            return False
        return True
