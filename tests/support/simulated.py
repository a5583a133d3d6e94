"""Results of simulations whose numbers are known, because each event is told by hand."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.simulation.simulate.result import Result
from fairlead.simulation.simulate.tally import Tally

__all__ = ["HOUR_S", "told"]

HOUR_S = 3600.0
_NODE = {"cpu": 4000, "memory": 16 << 30, "pods": 110}
_POD = {"cpu": 1000, "memory": 2 << 30}


def told(
    scenario: str = "shop",
    *,
    seed: int = 1,
    workload: str = "web",
    services: int = 1,
    hours: int = 24,
    outage_s: float = 1800.0,
    price: float = 0.5,
    every_s: float = 900.0,
    waiting: Mapping[str, int] | None = None,
    notes: tuple[str, ...] = (),
) -> Result:
    """Services of three pods each that want two of them ready, and a gang that never has a node.

    At one third of the time a spot node is taken away with two pods of the first service; they have a node
    again `outage_s` later.
    """
    tally = Tally(every_s, ("on-demand", "spot"))
    names = [workload, *(f"{workload}-{number}" for number in range(1, services))]
    for name in names:
        tally.workload(name, "Deployment", minimum=2)
    tally.workload("train", "arrivals")
    for number in range(services):
        tally.node_came(0.0, f"steady-{number}", "on-demand", _NODE, price)
    tally.node_came(0.0, "spot-0", "spot", _NODE, price / 4)
    for at, name in enumerate(names):
        for pod in range(3):
            tally.came(0.0, f"{name}-{pod}", name, _POD)
            spot = at == 0 and pod
            tally.bound(60.0 * pod, f"{name}-{pod}", "spot-0" if spot else f"steady-{at}")
            tally.ready(60.0 * pod, f"{name}-{pod}")
    for member in range(2):
        tally.came(HOUR_S, f"train-{member}", "train", {"cpu": 64000, "memory": 1 << 30})
    lost_s, back_s = hours * HOUR_S / 3, hours * HOUR_S / 3 + outage_s
    samples = [step * every_s for step in range(round(hours * HOUR_S / every_s) + 1)]
    for at_s in [one for one in samples if one < lost_s]:
        tally.sample(at_s)
    for pod in (1, 2):
        tally.left(lost_s, f"{workload}-{pod}", "evicted")
        tally.came(lost_s, f"{workload}-{pod}-again", workload, _POD)
    tally.node_left(lost_s, "spot-0", taken=True)
    for at_s in [one for one in samples if lost_s <= one < back_s]:
        tally.sample(at_s)
    for pod in (1, 2):
        tally.bound(back_s, f"{workload}-{pod}-again", "steady-0")
        tally.ready(back_s, f"{workload}-{pod}-again")
    for at_s in [one for one in samples if one >= back_s]:
        tally.sample(at_s)
    reasons = {"gang: Insufficient cpu": 2} if waiting is None else waiting
    return tally.result(hours * HOUR_S, scenario=scenario, seed=seed, waiting=reasons, notes=notes)
