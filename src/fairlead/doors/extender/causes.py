"""What keeps pods from their tier that have waited long enough, read from the API pod by pod.

What kube-scheduler sends of a pod is not kept, so whether an empty node would take it is found out by reading
it. The subtle thing is how often: every look at the marks asks about every late pod. So an answer counts for
minutes, and one look reads few pods: those that try a tier first, and of each tier none after the first that
says that nodes are missing, because one is enough to mark it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.engine.planning.tier_fit import TierFit
from fairlead.errors import ApiError, NotFound, Unreachable
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known
from fairlead.policy.tiers.fallback import Blame, Waiter

AT_ONCE = 32
"""Pods that are read in one look."""

_POD = known("Pod")
_GOOD_S = 5 * 60.0  # of a pod that waits little changes: tolerations may be added, and nodes of another kind
_AGAIN_S = 10.0  # of a pod that could not be read


class Causes:
    """See the module. Invariant: no more answers are kept than there are pods that `keep` named, and those of
    the last look; none of them is "tier", on which the tier is marked at once.
    """

    def __init__(self, clock: Clock = WALL_CLOCK) -> None:
        self._clock = clock
        self._known: dict[tuple[str, int], tuple[Blame, float]] = {}  # by UID and tier; until when

    def keep(self, uids: Collection[str]) -> None:
        """Forget pods that no longer wait."""
        self._known = {key: found for key, found in self._known.items() if key[0] in uids}

    async def of(
        self, client: Client, fit: TierFit | None, late: Iterable[Waiter], trying: Collection[str]
    ) -> tuple[dict[str, Blame], bool]:
        """By UID what keeps each of these pods; and whether some were left for the next look, so that nothing
        is said of them yet. `trying` are tokens of pods that try a tier.

        Cancelled, what was read until then is kept.
        """
        found: dict[str, Blame] = {}
        full: set[int] = set()  # tiers of which a pod says that nodes are missing
        reads, left = 0, False
        for waiter in sorted(late, key=lambda one: (one.token not in trying, one.since, one.uid)):
            cause = self._remembered(waiter)
            if cause is None and waiter.tier not in full:
                if reads < AT_ONCE:
                    reads += 1
                    cause = await self._read(client, fit, waiter)
                else:
                    left = True
            if cause == "tier":
                full.add(waiter.tier)
            found[waiter.uid] = cause or "unknown"
        return found, left

    def _remembered(self, waiter: Waiter) -> Blame | None:
        cause, until = self._known.get((waiter.uid, waiter.tier), (None, 0.0))
        return cause if self._clock.now() < until else None

    async def _read(self, client: Client, fit: TierFit | None, waiter: Waiter) -> Blame:
        namespace, _, name = waiter.pod.partition("/")
        cause: Blame = "unknown"
        good_s = _GOOD_S
        try:
            pod = await client.get(_POD, name, namespace, kind=Pod)
            if fit is not None and pod.metadata.uid == waiter.uid:
                cause = fit.blame(pod, waiter.tier)
        except NotFound:
            pass  # the watch will show that it is gone
        except (ApiError, Unreachable):
            good_s = _AGAIN_S
        if cause != "tier":
            self._known[waiter.uid, waiter.tier] = cause, self._clock.now() + good_s
        return cause
