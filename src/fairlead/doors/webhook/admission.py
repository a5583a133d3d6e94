"""A pod in, its patch out: whose it is, which policy governs it, its slot, its tier.

What decides is in `fairlead.policy`; here is in which order it is asked, and what is read and written for
it. A dry run asks the same questions and writes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import structlog

from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.webhook.decision_log import tell
from fairlead.doors.webhook.ledgers import Ledgers, Wish
from fairlead.doors.webhook.metrics import Metrics
from fairlead.doors.webhook.server import Answer
from fairlead.engine.planning.tier_fit import TierFits
from fairlead.errors import BadObject
from fairlead.feed.groups import LiveGroups
from fairlead.feed.marks import LiveMarks
from fairlead.feed.references import check_names
from fairlead.kube.decode import convert
from fairlead.kube.meta import Object, ObjectMeta
from fairlead.kube.pod import Affinity, Pod, PodSpec, TopologySpreadConstraint
from fairlead.kube.tolerations import Toleration
from fairlead.kube.workloads import Job, Workload
from fairlead.policy.decide.admission import patch, tier_to_try, warnings_of
from fairlead.policy.groups.member import Place, read_mark
from fairlead.policy.slots.placing import Placing, place_alone

_log = structlog.get_logger(__name__)


def _new_token() -> str:
    return secrets.token_hex(8)


class _Steered(Object, frozen=True, gc=False):
    """The parts of a pod's spec that a patch depends on or goes into."""

    scheduler_name: str = ""
    node_name: str = ""
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()


class Admission:
    """Decides on pods. `schedulers` are names of our own scheduler; it steers its pods itself."""

    def __init__(
        self,
        groups: LiveGroups,
        ledgers: Ledgers,
        marks: LiveMarks,
        metrics: Metrics,
        fits: TierFits,
        *,
        schedulers: Collection[str] = ("fairlead",),
        new_token: Callable[[], str] = _new_token,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self._groups = groups
        self._ledgers = ledgers
        self._marks = marks
        self._metrics = metrics
        self._fits = fits
        self._schedulers = frozenset(schedulers)
        self._new_token = new_token
        self._clock = clock

    async def __call__(self, pod: dict[str, Any], namespace: str, *, dry_run: bool) -> Answer:
        """The answer for a pod that is about to be made in `namespace`."""
        if not len(self._groups.index.policies):
            return Answer()
        try:
            read = Pod(convert(pod.get("metadata") or {}, ObjectMeta), _spec(pod))
            check_names(read.metadata)
            # What a patch goes into is plain data, and any user can send it: it must be what it says it is.
            convert(pod.get("spec") or {}, _Steered)
            return await self._decide(pod, read, read.metadata.namespace or namespace, dry_run=dry_run)
        except BadObject as error:
            # The API server will refuse it, or understands more than we do: neither is ours to judge.
            said = str(error)[:500]
            _log.info("pod_not_understood", namespace=namespace, reason=said)
            return Answer(warnings=(f"no policy was applied: {said}",))

    async def _decide(self, pod: dict[str, Any], read: Pod, namespace: str, *, dry_run: bool) -> Answer:
        owners = self._groups.owners
        await owners.learn(read.metadata, namespace)
        place = self._groups.index.place(read.metadata, namespace)
        if place is None:
            return Answer()
        if (owner := read.metadata.controller) is not None and owners.absent(owner, namespace):
            # Garbage collection will take it; and a slot must not be had for the price of a name.
            said = f"its owner {owner.kind} {owner.name} ({owner.uid or 'no uid'}) does not exist"
            _log.info("owner_absent", namespace=namespace, pod=read.metadata.name, reason=said)
            return Answer(warnings=(f"no policy was applied: {said}",))
        name = read.metadata.name or read.metadata.generate_name
        tiers = self._groups.index.tiers(place, read.metadata.labels, coming=True)
        marks = self._marks.of(place.policy.name)
        unavailable, crowded = self._fits.steers(place.policy.name, read, marks)
        if place.key.alone:
            # No component would learn from it how a tier is: it may go to all further tiers from the start.
            placing = place_alone(
                place.policy, place.workload, tiers, unavailable=unavailable, crowded=crowded
            )
            if not dry_run:
                tell(self._metrics, [(name, place, placing)])
        else:
            token = await self._token(read, place)
            wish = Wish(name, place, tiers, token, unavailable, crowded, self._bound(read, place))
            if dry_run:
                placing = self._ledgers.preview(wish)
            else:
                placing = await self._ledgers.take(await self._trying(wish, read))
        return self._answer(pod, place, placing)

    def _answer(self, pod: dict[str, Any], place: Place, placing: Placing) -> Answer:
        steps = patch(pod, place.policy, placing, place.workload, self._schedulers)
        return Answer(tuple(steps.operations), warnings_of(pod, place.policy, placing))

    async def _token(self, pod: Pod, place: Place) -> str:
        """The token of an earlier call for the same pod, whichever replica answered it; else a new one."""
        mark = read_mark(pod.metadata.annotations)
        if mark is not None and mark.token and mark.policy == place.policy.name:
            ledger = self._ledgers.newest(place.key)
            if ledger.of_token(mark.token) is None:
                ledger = await self._ledgers.refresh(place.key)
            if self._ledgers.again(ledger, mark.token):
                return mark.token
        return self._new_token()

    def _bound(self, pod: Pod, place: Place) -> Callable[[], int | None]:
        """How many pods the controller of this pod wants: under ``groupBy: workload`` there are no others
        of this revision, so no slot should be beyond it. A StatefulSet's slots are not ours to number.
        """
        reference, namespace = pod.metadata.controller, place.key.namespace
        alone = place.policy.spec.group_by == "workload" and place.workload.ordinal is None
        if reference is None or not alone:
            return lambda: None

        def wanted() -> int | None:
            owner = self._groups.index.owners.owner(reference, namespace)
            # A scale was read a while ago; only what is watched follows at once.
            return owner.desired if isinstance(owner, Workload | Job) else None

        return wanted

    async def _trying(self, wish: Wish, pod: Pod) -> Wish:
        """The wish, with the tier available to it that it is the one to try, if there is one."""
        policy, now = wish.place.policy, self._now()
        if not wish.unavailable:
            return wish
        marks, closed = self._marks.of(policy.name), self._fits.closed_to(policy.name, pod)
        tier = tier_to_try(wish.place, self._ledgers.preview(wish).choice, marks, closed, now)
        if not tier:
            return wish
        tries = await self._marks.claim_probe(policy.name, tier, wish.token, now)
        return replace(wish, unavailable=wish.unavailable - {tier}) if tries else wish

    def _now(self) -> float:
        return self._clock.wall().timestamp()


def _spec(pod: dict[str, Any]) -> PodSpec:
    """What the pod asks for; nothing, where that cannot be read: it is not what a patch goes into."""
    try:
        return convert(pod.get("spec") or {}, PodSpec)
    except BadObject:
        return PodSpec()
