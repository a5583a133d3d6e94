"""How many nodes a scenario's markets have over time, from traces or drawn from the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from fairlead.nodegroups import NodeGroup
from fairlead.simulation.scenario.model import Market
from fairlead.world.spot import Supply, Trace


@dataclass(frozen=True, slots=True)
class GroupSupply:
    """The supply of one group, in one zone or ("") in all."""

    group: str
    zone: str
    supply: tuple[Supply, ...]


def supply_of(
    market: Market,
    groups: Mapping[str, NodeGroup],
    traces: Mapping[str, Trace],
    source: random.Random,
    end_s: float,
) -> Iterator[GroupSupply]:
    """What each group of a market can have until `end_s`; they go up and down together."""
    if market.trace:
        trace = traces[market.trace]
        start = int(market.skip // trace.gap_s)
        given = tuple(trace.supply(start=start, scale=market.scale))
        for name in market.groups:
            yield GroupSupply(name, market.zone, given)
        return
    turns = list(_turns(market, source, end_s))
    for name in market.groups:
        most = groups[name].max if market.nodes is None else market.nodes
        supply = tuple(Supply(timedelta(seconds=at_s), most if up else 0) for at_s, up in turns)
        yield GroupSupply(name, market.zone, supply)


def _turns(market: Market, source: random.Random, end_s: float) -> Iterator[tuple[float, bool]]:
    assert market.up is not None
    assert market.down is not None
    # Begins as often down as it is down over all.
    at_s, up = 0.0, source.random() < market.up / (market.up + market.down)
    while at_s <= end_s:
        yield at_s, up
        # Whole seconds, as the timestamps of a cluster have.
        at_s += max(1, round(source.expovariate(1 / (market.up if up else market.down))))
        up = not up
