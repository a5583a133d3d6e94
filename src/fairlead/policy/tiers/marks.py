"""Which tiers of a policy are to be left alone, and until when: a state machine without I/O.

A tier without a mark is used. `failed` and `interrupted` begin a cool-down, during which no pod uses
the tier; it doubles, up to half an hour, each time a failed try begins another. After it the tier
is still skipped by all pods but one: the one that claims the probe. A pod that got a place there after the
cool-down, whether or not it was the one to try, or a schedulable node that appeared in it, takes the mark
away, and the doubling with it.

The subtle thing: only the probe can fail a tier whose cool-down is over. Pods that have been pending
there all the while (a min does not fall back) would else begin the next one before any pod had tried.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from fairlead.kube.decode import convert
from fairlead.kube.meta import Natural32, Time
from fairlead.policy.rule.choice import Choice
from fairlead.policy.rule.model import PlacementPolicy

AHEAD_S = 60.0
"""How far ahead of ours another clock may be, or our own have been: what lies further in the future was
written by a clock that was wrong, and no pod waits until that time."""

LONGEST_COOL_DOWN_S = 30 * 60.0

PROBE_S = 10 * 60.0
"""How long a probe without a report keeps other pods from trying: the process that claimed it may be dead."""


class Mark(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One tier that is left alone, as it stands in ``status.marks`` of the policy."""

    since: Time
    until: Time
    """The end of the cool-down; after it, one pod may try."""
    cool_downs: Natural32 = 1
    """How many there were in a row; each doubles the next."""
    interrupted: bool = False
    """Its last schedulable node was cordoned or lost: pods that wait for it are moved on at once."""
    reason: str = ""
    probe: str = ""
    """The pod that tries: a slot token or a pod's UID."""
    probe_since: Time | None = None

    def cooling(self, now: float) -> bool:
        """Whether no pod may use the tier yet."""
        return self.since.timestamp() <= now + AHEAD_S and now < self.until.timestamp()

    def probed(self, now: float) -> bool:
        """Whether a pod is trying the tier."""
        if not self.probe or self.probe_since is None:
            return False
        return now - PROBE_S < self.probe_since.timestamp() <= now + AHEAD_S


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one policy. Every change gives new marks, or the same object when nothing changed.

    Times are seconds since the epoch: marks outlive the process and are read by others.
    """

    cool_down_s: float = 60.0
    _by_tier: dict[str, Mark] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, Mark]]:
        return iter(self._by_tier.items())

    def __len__(self) -> int:
        return len(self._by_tier)

    def get(self, tier: str) -> Mark | None:
        """The tier's mark, if it has one."""
        return self._by_tier.get(tier)

    def crowded(self) -> frozenset[str]:
        """The marked tiers that have nodes: they take what fits there now, but no pod waits for them.

        >>> Marks().failed("spot", 0).interrupted("burst", 0).crowded()
        frozenset({'spot'})
        """
        return frozenset(tier for tier, mark in self._by_tier.items() if not mark.interrupted)

    def may_probe(self, tier: str, now: float) -> bool:
        """Whether one pod may try the tier now."""
        mark = self._by_tier.get(tier)
        return mark is not None and not mark.cooling(now) and not mark.probed(now)

    def to_try(
        self, choice: Choice, policy: PlacementPolicy, now: float, closed: Collection[str] = ()
    ) -> str:
        """The marked tier that a pod of this choice may try now, none that is `closed` to it; "" for none.

        It is the tier that the pod belongs in or, where the pod is stuck, the next one. Without the second, a
        tier that no pod belongs in would stay marked for ever once it was, and take no pods of a lost tier.
        """
        if choice.own is None or choice.why == "rule":
            return ""
        wanted = (policy.spec.tiers[index].name for index in (choice.own, *choice.instead))
        return next((name for name in wanted if name not in closed and self.may_probe(name, now)), "")

    def claim_probe(self, tier: str, token: str, now: float) -> Marks | None:
        """Marks in which the pod that goes by `token` tries the tier; None when it may not.

        Claiming again what one has claimed is allowed and changes nothing: admission may be re-invoked.

        >>> marks = Marks(cool_down_s=60).failed("spot", now=1000)
        >>> marks.claim_probe("spot", "a", 1030) is None
        True
        >>> marks = marks.claim_probe("spot", "a", 1070)
        >>> marks.claim_probe("spot", "b", 1071) is None, marks.claim_probe("spot", "a", 1071) is marks
        (True, True)
        """
        mark = self._by_tier.get(tier)
        if mark is None or mark.cooling(now):
            return None
        if mark.probed(now):
            return self if mark.probe == token else None
        return self._with(tier, msgspec.structs.replace(mark, probe=token, probe_since=_moment(now)))

    def renewed(self, tier: str, token: str, now: float) -> Marks:
        """The pod that tries is there and still waits: it goes on being the one."""
        mark = self._by_tier.get(tier)
        if mark is None or mark.probe != token:
            return self
        return self._with(tier, msgspec.structs.replace(mark, probe_since=_moment(now)))

    def released(self, tier: str, token: str) -> Marks:
        """The pod that tried is gone and the outcome is unknown: another may try."""
        mark = self._by_tier.get(tier)
        if mark is None or mark.probe != token:
            return self
        return self._with(tier, msgspec.structs.replace(mark, probe="", probe_since=None))

    def failed(self, tier: str, now: float, token: str = "", reason: str = "") -> Marks:
        """The tier did not take a pod in time; `token` is what that pod goes by.

        During a cool-down that is known. After one, only the word of the probe counts.

        >>> marks = Marks(cool_down_s=60).failed("spot", now=1000)
        >>> marks = marks.claim_probe("spot", "a", 1070).failed("spot", now=1200, token="a")
        >>> marks.get("spot").until.timestamp() - 1200
        120.0
        """
        mark = self._by_tier.get(tier)
        if mark is not None and (mark.cooling(now) or not mark.probe or mark.probe != token):
            return self
        return self._begin(tier, now, interrupted=False, reason=reason)

    def interrupted(self, tier: str, now: float, reason: str = "") -> Marks:
        """The tier's last schedulable node was cordoned or lost."""
        mark = self._by_tier.get(tier)
        if mark is None or not mark.cooling(now):
            return self._begin(tier, now, interrupted=True, reason=reason)
        if mark.interrupted:
            return self
        return self._with(tier, msgspec.structs.replace(mark, interrupted=True, reason=reason))

    def cleared(self, tier: str) -> Marks:
        """Without the tier's mark, as if nothing had been: a schedulable node appeared in it, or the pod that
        tried it got a place.
        """
        return self.only(self._by_tier.keys() - {tier})

    def landed(self, tier: str, at: float, now: float) -> Marks:
        """A pod, maybe not the one that tries, got a place in the tier at a time known to the second.

        One that fits is let into a tier that cools down, too: that tells nothing of larger ones.

        >>> marks = Marks(cool_down_s=60).failed("spot", now=1000)
        >>> [marks.landed("spot", at, now=1070).get("spot") is None for at in (1059, 1060, 1070)]
        [False, True, True]
        """
        mark = self._by_tier.get(tier)
        if mark is None or mark.cooling(now) or not math.floor(mark.until.timestamp()) <= at <= now + AHEAD_S:
            return self
        return self.cleared(tier)

    def only(self, tiers: Iterable[str]) -> Marks:
        """Only the marks of these tiers: the policy may no longer have the others."""
        wanted = set(tiers)
        kept = {tier: mark for tier, mark in self._by_tier.items() if tier in wanted}
        return self if len(kept) == len(self._by_tier) else Marks(self.cool_down_s, kept)

    def merged(self, before: Mapping[str, Mark], after: Mapping[str, Mark]) -> Marks:
        """With what changed from `before` to `after` where no other writer changed it.

        >>> seen = Marks().failed("spot", 0)
        >>> [tier for tier, _ in seen.failed("other", 5).merged(dict(seen), {})]
        ['other']
        """
        wanted = dict(self._by_tier)
        for tier in {**before, **after}:
            if self.get(tier) == before.get(tier):
                wanted.pop(tier, None)
                if tier in after:
                    wanted[tier] = after[tier]
        return self if wanted == self._by_tier else Marks(self.cool_down_s, wanted)

    def next_change(self, now: float) -> float | None:
        """When time alone will change an answer: a cool-down or an unreported probe ends."""
        marks = self._by_tier.values()
        times = [mark.until.timestamp() for mark in marks]
        times += [mark.probe_since.timestamp() + PROBE_S for mark in marks if mark.probe_since is not None]
        return min((time for time in times if time > now), default=None)

    def to_plain(self) -> dict[str, dict[str, Any]]:
        """As they stand in ``status.marks``: by tier, in the order of the tiers' names.

        >>> Marks().failed("spot", now=0).to_plain()
        {'spot': {'since': '1970-01-01T00:00:00Z', 'until': '1970-01-01T00:01:00Z'}}
        """
        return {tier: msgspec.to_builtins(mark) for tier, mark in sorted(self._by_tier.items())}

    @classmethod
    def from_plain(cls, data: object, cool_down_s: float) -> Marks:
        """The marks from ``status.marks``; BadObject when they are not usable."""
        return cls(cool_down_s, convert(data, dict[str, Mark]) if data is not None else {})

    def _begin(self, tier: str, now: float, *, interrupted: bool, reason: str) -> Marks:
        before = self._by_tier.get(tier)
        number = before.cool_downs + 1 if before is not None else 1
        # The exponent is bounded so that years of failures stay a number.
        wait_s = min(self.cool_down_s * 2.0 ** min(number - 1, 62), LONGEST_COOL_DOWN_S)
        return self._with(tier, Mark(_moment(now), _moment(now + wait_s), number, interrupted, reason))

    def _with(self, tier: str, mark: Mark) -> Marks:
        return Marks(self.cool_down_s, self._by_tier | {tier: mark})


def _moment(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC)
