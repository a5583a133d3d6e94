"""Questions for a spot plan, of pools whose traces are given as text or as lists of probes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fairlead.simulation.spot_plan.plan_file import Question, Split, load
from fairlead.world.spot import Trace

GAP_S = 300


def document(pools: Sequence[dict[str, Any]], **workload: Any) -> dict[str, Any]:
    """A plan's document: six pods, each with a node of its own, four of which are needed."""
    return {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "SpotPlan",
        "metadata": {"name": "web"},
        "spec": {
            "workload": {
                "name": "web",
                "replicas": 6,
                "minAvailable": 4,
                "target": "99.9%",
                "requests": {"cpu": 3},
                "readyAfter": "30s",
                **workload,
            },
            "nodes": {"resources": {"cpu": 4, "memory": "16Gi"}, "bootTime": "2m"},
            "onDemand": {"pricePerHour": 1.0},
            "pools": list(pools),
        },
    }


def traced(number: int, price: float = 0.3) -> dict[str, Any]:
    """A pool of which a trace is beside the plan."""
    return {
        "name": f"pool-{number}",
        "zone": f"zone-{number}",
        "pricePerHour": price,
        "trace": f"pool-{number}.json",
        "scale": 10,
    }


def question(folder: Path, *probes: Sequence[int], split: Split | None = None, **workload: Any) -> Question:
    """The question about pools with these probes, five minutes apart."""
    for number, nodes in enumerate(probes):
        data = {"metadata": {"gap_seconds": GAP_S}, "data": list(nodes)}
        (folder / f"pool-{number}.json").write_text(json.dumps(data))
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(document([traced(number) for number in range(len(probes))], **workload)))
    return load(path, split or Split())


def traces_of(*probes: Sequence[int]) -> tuple[Trace, ...]:
    """The same traces as they are played."""
    return tuple(Trace(GAP_S, tuple(nodes)) for nodes in probes)


def up_and_down(*turns: int) -> list[int]:
    """Probes of a pool that is up for that many, then down for that many, and so on.

    >>> up_and_down(2, 1, 1)
    [1, 1, 0, 1]
    """
    found: list[int] = []
    for number, probes in enumerate(turns):
        found += [1 - number % 2] * probes
    return found
