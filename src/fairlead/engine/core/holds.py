"""What was said about pods that stay without a node, so that nothing is said twice.

A held pod's text changes with every change in the cluster ("3 Insufficient cpu" becomes 4). To write
that for each of ten thousand pods would drown the API, so a text that differs only in its counts, or in
why it is the same tier that a pod waits for, is said again only after a while.
"""

from __future__ import annotations

from fairlead.engine.core.queue import Verdict
from fairlead.kube.pod import Pod

_REFRESH_S = 60.0


class Holds:
    """The last word on each held pod, by UID."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[Verdict, float, str, str]] = {}

    def is_news(self, pod: Pod, verdict: Verdict, unit: str, now: float, *, fresh: bool = True) -> bool:
        """Whether the verdict is to be reported, which counts as done; not where it was reported already.

        `fresh`: the unit was just tried. A verdict that was there before is no news where it is known.
        """
        uid = pod.metadata.uid
        before = self._said.get(uid)
        if before is not None:
            told, at, _, _ = before
            if told == verdict:
                return False
            same_kind = told.rules == verdict.rules != frozenset() and (
                (told.unschedulable, _which(told.tier)) == (verdict.unschedulable, _which(verdict.tier))
            )
            if same_kind and (not fresh or now < at + _REFRESH_S):
                return False
        self._said[uid] = (verdict, now, pod.metadata.key, unit)
        return True

    def forget(self, uid: str) -> None:
        """The pod is not held any more, or gone."""
        self._said.pop(uid, None)

    def told(self, uid: str) -> str:
        """Why a pod was last said to wait, without what was said of preemption; or ""."""
        held = self._said.get(uid)
        return _briefly(held[0]) if held else ""

    def rules(self, uid: str) -> frozenset[str]:
        """The rules that stood in the way when it was last said, empty where it was none."""
        held = self._said.get(uid)
        return held[0].rules if held else frozenset()

    def all(self) -> list[tuple[str, str, str]]:
        """(pod, why as in `told`, unit) of every held pod, in order of name."""
        return sorted((key, _briefly(verdict), unit) for verdict, _, key, unit in self._said.values())


def _which(tier: str) -> str:
    """Which tier a pod waits for, of what is said of that: one node that comes and goes changes the rest."""
    return tier.partition(",")[0]


def _briefly(verdict: Verdict) -> str:
    return f"{verdict.message} {verdict.tier}" if verdict.tier else verdict.message
