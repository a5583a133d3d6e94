"""What is said of a tier that names its nodes when none of them takes pods, on the pods that wait for it.

Pods of another scheduler are steered by affinity, and all that it says of a node that is missing is that no
node matches. A tier known by labels may be yet to be filled by an autoscaler; a name is a promise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import structlog

from fairlead.client.events import About, EventLane
from fairlead.engine.rebalance.rebalancer import Rebalancer
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.fallback import Nodes, unschedulable_since
from fairlead.policy.tiers.tier_nodes import trouble

_log = structlog.get_logger(__name__)

_POD = known("Pod")
_AGAIN_S = 1800.0  # events live for an hour, and a pod may wait for longer

_Tier = tuple[str, str]  # policy and tier, by name


class TierEvents:
    """See the module. `ours` are names of our own scheduler, which tells its pods by itself.

    Invariant: a tier's trouble is logged once for as long as it lasts; of pods only those are kept that
    waited when it was last looked.
    """

    def __init__(self, machine: Rebalancer, ours: Collection[str] = ()) -> None:
        self._machine = machine
        self._ours = frozenset(ours)
        self._logged: dict[_Tier, str] = {}
        self._told: dict[str, tuple[str, float]] = {}  # by the pod's UID: what, and when

    async def tell(
        self,
        seen: Iterable[tuple[PlacementPolicy, Nodes]],
        now: float,
        events: EventLane,
        *,
        besides: Collection[str] = (),
    ) -> None:
        """`seen` are the nodes of policies' tiers; `besides` are UIDs of pods that are on their way out.

        Cancelled half-way, pods without their event get it the next time.
        """
        troubles = {
            (policy.name, tier.name): why
            for policy, nodes in seen
            if policy.spec.enforce == "required"  # else no pod waits for a tier
            for tier, schedulable, everything in zip(
                policy.spec.tiers, nodes.schedulable, nodes.all, strict=True
            )
            if tier.names and (why := trouble(tier, len(schedulable), everything))
        }
        waiting: dict[_Tier, list[Pod]] = {}
        for state in self._machine.states(now) if troubles else ():
            for held in state.pods:
                tier = state.policy.name, held.member.tier
                if tier in troubles and held.pod.metadata.uid not in besides and self._waits(held.pod):
                    waiting.setdefault(tier, []).append(held.pod)
        self._logged = {tier: why for tier, why in self._logged.items() if troubles.get(tier) == why}
        here = {pod.metadata.uid for pods in waiting.values() for pod in pods}
        self._told = {uid: told for uid, told in self._told.items() if uid in here}
        for (policy, name), pods in waiting.items():
            why = troubles[policy, name]
            if (policy, name) not in self._logged:
                self._logged[policy, name] = why
                _log.warning("tier_takes_no_pod", policy=policy, tier=name, reason=why, waiting=len(pods))
            for pod in pods:
                await self._tell(pod, f"Policy {policy}: waits for tier {name} ({why}).", now, events)

    def _waits(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name not in self._ours and unschedulable_since(pod) is not None

    async def _tell(self, pod: Pod, said: str, now: float, events: EventLane) -> None:
        meta = pod.metadata
        before, at = self._told.get(meta.uid, ("", 0.0))
        if said == before and now < at + _AGAIN_S:
            return
        about = About(_POD, meta.name, meta.namespace, meta.uid)
        await events.record(about, "WaitsForTier", said, type="Warning", action="Scheduling")
        self._told[meta.uid] = said, now
