"""Pools of which only mean times up and down are known, as traces: outages that pools share, and their own.

Each pool is up for exponential times of its mean and down for exponential times of its mean; that is exact
whatever the correlation. What it sets is which share of a pool's outages begins together with those of
every pool, and of every pool of its zone. Outages that begin together last equally long in relation to each
pool's mean.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from fairlead.world.spot import Trace

GAP_S = 60.0
"""Between the probes of what is drawn."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Mean times of a pool, in seconds; `nodes` can be had while it is up."""

    zone: str
    up_s: float
    down_s: float
    nodes: int


def draw(pools: Sequence[Rates], region: float, zone: float, length_s: float, seed: str) -> list[Trace]:
    """A trace for each pool. `region` and `zone` are the shares of a pool's outages that it shares with all,
    and with all of its zone.

    >>> pools = [Rates("a", 86400, 3600, 2), Rates("b", 86400, 3600, 2)]
    >>> one, other = draw(pools, 1.0, 1.0, 40 * 86400.0, "seed")
    >>> one == other and 0 in one.nodes
    True
    """
    zone = max(zone, region)
    probes = int(-(-length_s // GAP_S))
    down = [_begins_down(number, pool, seed) for number, pool in enumerate(pools)]
    until = [0.0] * len(pools)  # when a pool is up again; an outage that begins before that changes nothing
    spells: list[list[tuple[float, float]]] = [[] for _ in pools]
    for number, down_s in enumerate(down):
        if down_s:
            until[number] = down_s
            spells[number].append((0.0, down_s))
    for at_s, members, size in sorted(_shocks(pools, region, zone, length_s, seed)):
        for number in members:
            if at_s >= until[number]:
                until[number] = at_s + max(GAP_S, size * pools[number].down_s)
                spells[number].append((at_s, until[number]))
    found = []
    for pool, listed in zip(pools, spells, strict=True):
        nodes = [pool.nodes] * probes
        for begin, end in listed:
            for probe in range(int(begin // GAP_S), min(probes, int(end // GAP_S))):
                nodes[probe] = 0
        found.append(Trace(GAP_S, tuple(nodes)))
    return found


def _begins_down(number: int, pool: Rates, seed: str) -> float:
    source = random.Random(f"{seed}/begin/{number}")
    if source.random() < pool.up_s / (pool.up_s + pool.down_s):
        return 0.0
    return source.expovariate(1 / pool.down_s)


_Shock = tuple[float, tuple[int, ...], float]
"""When, of which pools, and how long in relation to their means."""


def _shocks(pools: Sequence[Rates], region: float, zone: float, length_s: float, seed: str) -> list[_Shock]:
    found: list[_Shock] = []
    everything = tuple(range(len(pools)))
    found += _of(pools, everything, region, length_s, f"{seed}/region")
    for name in dict.fromkeys(pool.zone for pool in pools):
        members = tuple(number for number in everything if pools[number].zone == name)
        found += _of(pools, members, zone - region, length_s, f"{seed}/zone/{name}")
    for number in everything:
        found += _of(pools, (number,), 1 - zone, length_s, f"{seed}/pool/{number}")
    return found


def _of(
    pools: Sequence[Rates], members: Sequence[int], share: float, length_s: float, seed: str
) -> list[_Shock]:
    """Shocks as often as the most frequent member needs them; others take part in their share of them."""
    if share <= 0:
        return []
    source = random.Random(seed)
    most = max(1 / pools[number].up_s for number in members)
    found: list[_Shock] = []
    at_s = source.expovariate(share * most)
    while at_s < length_s:
        size = source.expovariate(1.0)
        hit = tuple(number for number in members if source.random() < 1 / pools[number].up_s / most)
        found.append((at_s, hit, size))
        at_s += source.expovariate(share * most)
    return found
