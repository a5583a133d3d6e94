"""The check of a plan: each policy played by `simulate` on weeks that were not used to choose it.

The scenario has what the plan was asked about, and what its traces did in those weeks: a node group and a
market for each pool, the workload with its budget, an autoscaler, webhook and rebalancer. What comes out is
what was measured, whether or not it is what was promised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.simulation.scenario.material import Material, from_data
from fairlead.simulation.scenario.model import API_VERSION, KIND
from fairlead.simulation.scenario.reader import Source
from fairlead.simulation.simulate.result import Result
from fairlead.simulation.simulate.simulation import simulate
from fairlead.simulation.spot_plan.candidates import ON_DEMAND
from fairlead.simulation.spot_plan.choice import Judged
from fairlead.simulation.spot_plan.course import Course, course
from fairlead.simulation.spot_plan.joint_states import joint_states
from fairlead.simulation.spot_plan.plan_file import Question
from fairlead.world.spot import Trace

Obj = dict[str, Any]

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What one policy came to when it was played."""

    name: str
    cost_per_hour: float
    availability: float
    below_s: float
    outages: int
    longest_s: float
    taken: int
    """Nodes that the market took away."""
    meets: bool
    walked: Course
    """What the plan would have expected, had it known those weeks: how far it is off by itself."""


def measure(
    question: Question, judged: Judged, say: Callable[[float, float, int], None] = lambda *_: None
) -> Measured:
    """Play one policy on the weeks that check."""
    assert question.check is not None
    material = material_of(question, judged.policy, question.check, question.check_s)
    return measured(simulate(material, say), judged, question, question.check)


def measured(result: Result, judged: Judged, question: Question, traces: Sequence[Trace]) -> Measured:
    """A simulation's result on these traces as the plan reads it."""
    states = joint_states(traces, question.scales, result.duration_s)
    found = next(one for one in result.workloads if one.name == question.spec.workload.name)
    availability = found.availability or 0.0
    return Measured(
        name=judged.name,
        cost_per_hour=result.cost_per_hour,
        availability=availability,
        below_s=found.below_s,
        outages=found.outages,
        longest_s=found.longest_outage_s,
        taken=sum(group.taken for group in result.groups),
        meets=availability >= question.target,
        walked=course(states, judged.candidate, question.terms),
    )


def material_of(question: Question, policy: Obj, traces: tuple[Trace, ...], length_s: float) -> Material:
    """The scenario of a policy on these traces, with all it refers to."""
    spec, terms = question.spec, question.terms
    workload = spec.workload
    # One more than it takes: a pod that moves holds two places for a moment.
    most = -(-terms.replicas // terms.per_node) + 1
    boot = f"{terms.boot_s:g}s"
    groups: list[Obj] = [
        {
            "name": ON_DEMAND,
            "max": spec.on_demand.max or most,
            "resources": dict(spec.nodes.resources),
            "labels": dict(spec.on_demand.labels),
            "pricePerHour": spec.on_demand.price_per_hour,
            "bootTime": boot,
        }
    ]
    markets: list[Obj] = []
    for pool, scale in zip(spec.pools, question.scales, strict=True):
        groups.append(
            {
                "name": pool.name,
                "max": most,
                "resources": dict(spec.nodes.resources),
                "labels": dict(pool.labels),
                "pricePerHour": pool.price_per_hour,
                "bootTime": boot,
                "volatile": True,
                **({"zones": [pool.zone]} if pool.zone else {}),
            }
        )
        markets.append({"groups": [pool.name], "trace": pool.name, "scale": scale})
    scenario: Obj = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": policy["metadata"]["name"]},
        "spec": {
            "duration": length_s,
            "seed": spec.seed,
            "sampleEvery": _HOUR_S if length_s >= _HOUR_S else length_s,
            "components": ["scheduler", "webhook", "rebalancer"],
            "autoscaler": {},
            "nodeGroups": groups,
            "markets": markets,
            "policies": [{"metadata": policy["metadata"], "spec": policy["spec"]}],
            "workloads": [
                {
                    "name": workload.name,
                    "namespace": workload.namespace,
                    "kind": workload.kind,
                    "replicas": workload.replicas,
                    "minAvailable": workload.min_available,
                    "requests": dict(workload.requests),
                    "labels": dict(workload.labels),
                    "readyAfter": float(workload.ready_after),
                    "scheduler": "default-scheduler",
                }
            ],
        },
    }
    supply = {pool.name: trace for pool, trace in zip(spec.pools, traces, strict=True)}
    return from_data(scenario, Source("", f"the check of {question.name}"), Path(), supply)
