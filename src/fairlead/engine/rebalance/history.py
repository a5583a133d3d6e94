"""What happened to groups of late, as far as the next move depends on it: changes, moves, failures.

It lives in memory, also in that of replicas that only stand by: they observe. After a restart from nothing
the cluster itself tells enough to be careful: a pod that is not Ready may be a replacement, and a young pod
at all may be the trace of a change in number or of a move. Only the doubling after failures is forgotten.
Its times are of this machine's clock; when that is set back, they go back with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairlead.kube.pod import Pod
from fairlead.policy.groups.group_state import GroupState, SlotHolder
from fairlead.policy.tiers.marks import AHEAD_S, Marks

REPLACED_S = 10 * 60.0
"""How long the making of a replacement may take: a pod that is not Ready by then is none, or a broken one."""

_LONGEST_REST_S = 30 * 60.0
_LEAVES_S = 60.0  # a pod that was evicted is on its way out well before, and the next one made
_REFUSED_S = 15.0  # a budget that said no changes its mind when a pod becomes Ready, not sooner


@dataclass(frozen=True, slots=True)
class Flight:
    """A move whose replacement is not Ready yet."""

    uid: str
    pod: str
    policy: str
    tier: str
    probe: bool
    at: float
    off: int = 0
    """By how many pods the group was off before."""
    others: frozenset[str] = frozenset()
    """UIDs of the pods that were there: a pod that is not among them came after."""
    workload: tuple[str, str] = ("", "")
    """Kind and name of the workload that recreates the pod."""
    node: str = ""
    """Where there was room for the pod to come; empty: nowhere yet."""
    coming: Pod | None = None
    """That pod, as it will be."""

    def brought(self, held: SlotHolder) -> bool:
        """Whether a pod is the replacement: another pod of the same group is not."""
        same = (held.workload.kind, held.workload.name) == self.workload
        return same and held.pod.metadata.uid not in self.others


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of one group."""

    desired: int | None = None
    changed: float = -math.inf
    """When `desired` last changed, as far as known."""
    flight: Flight | None = None
    """The move whose replacement is not Ready yet."""
    moves: tuple[float, ...] = ()
    """When pods were moved within the last minute, oldest first."""
    failures: int = 0
    """How many moves failed in a row."""
    rest_until: float | None = None
    """Until when the group is left alone after a failure or a refusal."""
    since: float = 0.0
    """When it was first observed: of what came before, only traces are known."""

    def earlier(self, by_s: float) -> Past:
        """The same, with everything having happened so much earlier."""
        return replace(
            self,
            changed=self.changed - by_s,
            flight=replace(self.flight, at=self.flight.at - by_s) if self.flight is not None else None,
            moves=tuple(at - by_s for at in self.moves),
            rest_until=self.rest_until - by_s if self.rest_until is not None else None,
            since=self.since - by_s,
        )


_NOTHING = Past()


class History:
    """See the module. Groups go by `GroupState.called`. Invariant: a group has at most one flight."""

    __slots__ = ("_blank", "_groups", "_marked", "_now")

    def __init__(self) -> None:
        self._groups: dict[str, Past] = {}
        self._marked: dict[str, frozenset[str]] = {}
        self._blank = True  # nothing was observed yet
        self._now = 0.0  # when something was last observed

    def of(self, group: str) -> Past:
        """What is known of a group."""
        return self._groups.get(group, _NOTHING)

    def probing(self, policy: str, tier: str) -> bool:
        """Whether a move under way tries a tier."""
        flights = (group.flight for group in self._groups.values())
        return any(
            one is not None and one.probe and (one.policy, one.tier) == (policy, tier) for one in flights
        )

    def observe(self, states: Iterable[GroupState], marks: Mapping[str, Marks], now: float) -> None:
        """Take in how the groups stand, before planning from them."""
        self._set_back(now)
        self._reset(marks)
        seen: set[str] = set()
        for state in states:
            called = state.called
            seen.add(called)
            known = self._groups.get(called)
            if known is None:
                known = self._first_seen(state, now)
            elif known.desired != state.desired:
                known = replace(known, desired=state.desired, changed=now)
            known = replace(known, moves=tuple(at for at in known.moves if at > now - 60.0))
            self._groups[called] = self._landed(known, state, now)
        for called in [called for called in self._groups if called not in seen]:
            del self._groups[called]  # no pods left: when it has some again, that is a change
        self._blank = False

    def sent(self, state: GroupState, flight: Flight) -> None:
        """An eviction was accepted; `state` is what it was planned from."""
        others = frozenset(held.pod.metadata.uid for held in state.pods)
        flight = replace(flight, off=off_by(state), others=others)
        known = self._groups.get(state.called) or Past(state.desired, flight.at)
        moves = (*known.moves, flight.at)
        self._groups[state.called] = replace(known, flight=flight, moves=moves)

    def refused(self, group: str, now: float) -> None:
        """An eviction was refused: that is no failed move, but a reason to wait a little."""
        known = self._groups.get(group)
        if known is not None:
            until = max(known.rest_until or 0.0, now + _REFUSED_S)
            moves = known.moves[:-1] if known.flight is not None else known.moves
            self._groups[group] = replace(known, flight=None, moves=moves, rest_until=until)

    def _first_seen(self, state: GroupState, now: float) -> Past:
        created = sorted(held.member.created for held in state.pods)
        # The leader before us may have made any of them by a move.
        moves = tuple(min(at, now) for at in created if at > now - 60.0) if self._blank else ()
        # Its pods may be of a clock that is ahead of ours: that is no reason to wait until ours is there.
        changed = min(created[-1], now) if created else now
        return Past(state.desired, changed, moves=moves, since=now)

    def _set_back(self, now: float) -> None:
        """A clock that was ahead and is right again must not let groups rest until the time it had been."""
        by_s, self._now = self._now - now, now
        if by_s > AHEAD_S:
            self._groups = {called: group.earlier(by_s) for called, group in self._groups.items()}

    def _landed(self, known: Past, state: GroupState, now: float) -> Past:
        """The group with its move ended, if it has: well or badly."""
        flight = known.flight
        if flight is None or state.rolling:
            return known if flight is None else replace(known, flight=None)
        if any(held.pod.metadata.uid == flight.uid for held in state.pods):
            # The eviction came to nothing, or the watch is behind.
            return known if now < flight.at + _LEAVES_S else replace(known, flight=None)
        if known.desired is not None and replicated(state) < known.desired:
            return known
        new = [held for held in state.pods if flight.brought(held)]
        if not new and known.changed < flight.at and now < _awaited_until(flight, state):
            return known
        if not all(held.ready for held in new):
            return known
        if known.changed >= flight.at or off_by(state) < flight.off:
            return replace(known, flight=None, failures=0, rest_until=None)
        failures = known.failures + 1
        first_s = 60.0 / max(state.policy.spec.rebalance.per_minute, 1)
        rest_s = min(first_s * 2.0 ** min(failures, 60), _LONGEST_REST_S)
        return replace(known, flight=None, failures=failures, rest_until=now + rest_s)

    def _reset(self, marks: Mapping[str, Marks]) -> None:
        """A tier that is to be had again ends all doubling of its policy."""
        marked = {policy: frozenset(tier for tier, _ in found) for policy, found in marks.items()}
        for policy, before in self._marked.items():
            if before - marked.get(policy, frozenset()):
                for called, group in self._groups.items():
                    if called.startswith(f"{policy}/") and group.failures:
                        self._groups[called] = replace(group, failures=0, rest_until=None)
        self._marked = marked


def _awaited_until(flight: Flight, state: GroupState) -> float:
    """Until when a replacement may yet be made.

    A workload that shares a group may go while the others make up the number (a Job that has ended, a set
    that another took the place of): without an end the move would last for ever.
    """
    makers = {(workload.kind, workload.name) for workload in state.workloads}
    return flight.at + (REPLACED_S if flight.workload in makers else _LEAVES_S)


def replicated(state: GroupState) -> int:
    """How many pods there are of those that `GroupState.desired` counts."""
    return sum(not held.workload.job and held.workload.recreated for held in state.pods)


def off_by(state: GroupState) -> int:
    """How many pods are missing where the rule has them."""
    return sum(max(want - have, 0) for have, want in zip(state.counts, state.target, strict=True))
