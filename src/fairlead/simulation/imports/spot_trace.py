"""Recorded spot markets, as scenarios in which a service runs on them.

A trace has the nodes that could be had at each probe, in one zone. What runs there is for the user to say:
the draft has a sample of it, which works as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fairlead.errors import BadInput
from fairlead.simulation.imports.draft import Draft, duration, name_from
from fairlead.world.spot import Trace

CAPACITY = "node.kubernetes.io/capacity"

# How clouds call their zones: us-west-2a, europe-west4-b, eastus-1.
_ZONE = re.compile(r"[a-z]{2,}(?:-[a-z]+)*-?\d+-?[a-z]?(?![a-z0-9])")
_RESOURCES = {"cpu": 8, "memory": "32Gi"}


def import_spot_traces(traces: Mapping[str, Trace], group: str, *, scale: int = 1) -> Draft:
    """The scenario of traces, each by its file's path as the scenario is to have it.

    Each is a market of its own, with a node group in its zone. `scale` is how many nodes each node of a trace
    stands for.
    """
    if not traces:
        raise BadInput("give at least one trace")
    zones = _zones(list(traces))
    most = {path: scale * max(trace.nodes) for path, trace in traces.items()}
    replicas = max(1, sum(most.values()))
    spot = [
        {
            "name": name_from(f"{group}-{zone}", "spot"),
            "max": max(1, most[path]),
            "resources": _RESOURCES,
            "zones": [zone],
            "labels": {CAPACITY: "spot"},
            "volatile": True,
            "pricePerHour": 0.12,
            "bootTime": "60s",
        }
        for path, zone in zones.items()
    ]
    on_demand = {
        "name": name_from(f"{group}-on-demand", "on-demand"),
        "max": replicas,
        "resources": _RESOURCES,
        "zones": list(zones.values()),
        "labels": {CAPACITY: "on-demand"},
        "pricePerHour": 0.4,
        "bootTime": "60s",
    }
    markets = [
        {"groups": [one["name"]], "trace": path, **({"scale": scale} if scale > 1 else {})}
        for one, path in zip(spot, zones, strict=True)
    ]
    spec: dict[str, Any] = {
        "duration": duration(min(trace.gap_s * len(trace.nodes) for trace in traces.values())),
        "components": ["scheduler", "webhook", "rebalancer"],
        "autoscaler": {"scaleDownAfter": "10m"},
        "nodeGroups": [*spot, on_demand],
        "markets": markets,
        "workloads": [
            {
                "name": "web",
                "scheduler": "default-scheduler",
                "replicas": replicas,
                "minAvailable": "50%",
                "requests": {"cpu": 2, "memory": "8Gi"},
                "labels": {"tier": "web"},
                "readyAfter": "20s",
            }
        ],
        "policies": [
            {
                "metadata": {"name": "web"},
                "spec": {
                    "match": {"labels": {"tier": "web"}},
                    "tiers": [
                        {"name": "spot", "nodes": {CAPACITY: "spot"}, "volatile": True},
                        {"name": "on-demand", "nodes": {CAPACITY: "on-demand"}, "min": "pdb"},
                    ],
                },
            }
        ],
    }
    return Draft(
        name_from(group, "spot"),
        f"A service on recorded spot markets: {', '.join(zones.values())}",
        spec,
        notes=(
            "Markets and their node groups are of the traces. Everything else is a sample to edit: what "
            "nodes have and cost, the on-demand group, the workload and its minimum, the policy.",
            "The duration is the shortest trace's; beyond its end a market stays as it was.",
        ),
    )


def _zones(paths: list[str]) -> dict[str, str]:
    """The zone of each trace, by its file's name; numbered where names say the same."""
    found: dict[str, str] = {}
    for path in paths:
        stem = path.replace("\\", "/").rpartition("/")[2].rpartition(".")[0] or path
        said = _ZONE.search(stem.lower())
        zone = said[0] if said is not None else name_from(stem, "zone", 40)
        taken = set(found.values())
        number = 2
        while zone in taken:
            zone, number = f"{zone.removesuffix(f'-{number - 1}')}-{number}", number + 1
        found[path] = zone
    return found
