"""How many nodes pools had at the same time: the joint states of a market, and how long each lasted.

Pools fail as wholes and together, so what one pool was like says little without what the others were like
at that moment: shares of time are never multiplied here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairlead.errors import BadInput
from fairlead.world.spot import Trace


@dataclass(frozen=True, slots=True)
class JointStates:
    """From ``at_s[k]`` on pool i can have ``nodes[k][i]`` nodes, until the next step or the end.

    Invariant: begins at 0, times grow, and successive states differ.
    """

    at_s: tuple[float, ...]
    nodes: tuple[tuple[int, ...], ...]
    end_s: float

    def share(self, pools: Sequence[int]) -> float:
        """Of the time, how much there was with no node in any of these pools."""
        ends = (*self.at_s[1:], self.end_s)
        down_s = sum(
            end - at
            for at, end, nodes in zip(self.at_s, ends, self.nodes, strict=True)
            if not any(nodes[pool] for pool in pools)
        )
        return down_s / self.end_s

    def longest_s(self, pools: Sequence[int]) -> float:
        """The longest time without a node in any of these pools."""
        longest, since = 0.0, None
        for at, nodes in zip(self.at_s, self.nodes, strict=True):
            if any(nodes[pool] for pool in pools):
                if since is not None:
                    longest = max(longest, at - since)
                since = None
            elif since is None:
                since = at
        return max(longest, self.end_s - since) if since is not None else longest


def cut(trace: Trace, from_s: float, to_s: float) -> Trace:
    """The probes of a span of time, of which the first is the last one before it."""
    first = int(from_s // trace.gap_s)
    last = max(first + 1, -int(-to_s // trace.gap_s))
    return Trace(trace.gap_s, trace.nodes[first:last])


def joint_states(traces: Sequence[Trace], scales: Sequence[int], end_s: float) -> JointStates:
    """The joint states of traces that begin at the same moment; each recorded node stands for `scales`.

    >>> joint_states([Trace(60, (1, 1, 0)), Trace(90, (0, 2))], [1, 5], 180).nodes
    ((1, 0), (1, 10), (0, 10))
    """
    changes: dict[float, dict[int, int]] = {}
    for pool, (trace, scale) in enumerate(zip(traces, scales, strict=True)):
        for one in trace.supply(scale=scale):
            at_s = one.after.total_seconds()
            if at_s < end_s:
                changes.setdefault(at_s, {})[pool] = one.nodes
    now = [0] * len(traces)
    times: list[float] = []
    states: list[tuple[int, ...]] = []
    for at_s in sorted(changes):
        for pool, nodes in changes[at_s].items():
            now[pool] = nodes
        if not states or states[-1] != tuple(now):
            times.append(at_s)
            states.append(tuple(now))
    return JointStates(tuple(times), tuple(states), end_s)


def common_length_s(traces: Sequence[Trace]) -> float:
    """How long all traces have probes for."""
    if not traces:
        raise BadInput("there are no traces")
    return min(trace.gap_s * len(trace.nodes) for trace in traces)
