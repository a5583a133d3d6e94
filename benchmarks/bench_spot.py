"""What does a planned spot policy cost, and does it keep its target in weeks that were not used to choose it?

Everything that could be tuned is fixed here, before the first run: which days choose and which check,
prices, workloads and targets. Spot costs 30% of on-demand in every zone, a round number that no trace had a
part in. A recorded probe of one node says that its zone can be had or not, so it stands for as many nodes as
a workload could need; where up to 16 nodes were probed, each stands for itself. A target that is missed in
the days that check is reported as missed. *Walked* is what the plan's own model says of the very weeks that
checked: what the measurement differs from that is the model's fault, the rest is the market's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.rows import Row, main
from fairlead.doors.process import configure_logging
from fairlead.simulation.spot_plan.check import measure
from fairlead.simulation.spot_plan.choice import PLANNED, plan
from fairlead.simulation.spot_plan.common_shock import Rates, draw
from fairlead.simulation.spot_plan.plan_file import Question, Split, load

ON_DEMAND_PRICE = 1.00
SPOT_PRICE = 0.30
BOOT = "2m"
READY_AFTER = "30s"

# Days from the traces' first probe: the first choose, as many after them check.
ONE_NODE_CHOOSE, ONE_NODE_CHECK = "21d", "21d"
SIXTEEN_NODES_CHOOSE, SIXTEEN_NODES_CHECK = "8d", "8d"

# Nodes have 4 cores. `web`: three pods to a node; `ranker`: each pod has a node of its own.
NODE = {"cpu": 4, "memory": "16Gi"}
WORKLOADS = (
    {"name": "web", "replicas": 12, "minAvailable": 8, "target": "99.9%", "requests": {"cpu": "1300m"}},
    {"name": "ranker", "replicas": 10, "minAvailable": 6, "target": "99%", "requests": {"cpu": "3"}},
)

# The traces' folders beside the repository; where they are not, a sample of the same format is drawn.
_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "spot-traces" / "availability"
_SOURCES = (
    ("one node", "1-node/aws-02-15-2023", ONE_NODE_CHOOSE, ONE_NODE_CHECK, True),
    ("16 nodes", "16-node/aws-08-27-2023", SIXTEEN_NODES_CHOOSE, SIXTEEN_NODES_CHECK, False),
)


def run() -> list[Row]:
    """All rows: for each source and workload what every policy came to, expected and measured."""
    configure_logging("auto", "warning")
    rows = []
    with TemporaryDirectory() as folder:
        for source, path, choose, check, whole in _SOURCES:
            traces = sorted((_DATA / path).glob("*.json")) or _sample(Path(folder), source, whole=whole)
            for workload in WORKLOADS:
                question = _question(Path(folder), traces, workload, Split(choose, check), whole=whole)
                rows += _rows(f"{source}, {workload['name']}", question)
    return rows


def _rows(called: str, question: Question) -> list[Row]:
    found = plan(question)
    for line in found.said:
        print(f"{called}: {line}", file=sys.stderr)
    print(f"{called}: planned {found.variants[-1].words}", file=sys.stderr)
    rows = []
    for one in found.variants:
        played = measure(question, one)
        cost, expected = played.cost_per_hour / found.full_price, one.course
        measured = (
            f"cost {cost:.1%}, available {played.availability:.4%}, {played.outages} outages; expected "
            f"{expected.cost_per_hour / found.full_price:.1%}, {expected.availability:.3%} "
            f"(at least {one.at_least:.3%}); same weeks walked {played.walked.availability:.4%}"
        )
        # Only of the plan was anything promised.
        promised = f"{question.target:.1%}" if one.name == PLANNED else "-"
        rows.append(Row(f"{called}: {one.name}", measured, promised, played.meets or one.name != PLANNED))
    return rows


def _question(
    folder: Path, traces: Sequence[Path], workload: Mapping[str, Any], split: Split, *, whole: bool
) -> Question:
    document = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "SpotPlan",
        "metadata": {"name": workload["name"]},
        "spec": {
            "workload": {**workload, "readyAfter": READY_AFTER},
            "nodes": {"resources": NODE, "bootTime": BOOT},
            "onDemand": {"pricePerHour": ON_DEMAND_PRICE},
            "pools": [
                {
                    "name": f"spot-{number}",
                    "zone": trace.stem.split("_")[0],
                    "pricePerHour": SPOT_PRICE,
                    "trace": str(trace),
                    "scale": workload["replicas"] if whole else 1,
                }
                for number, trace in enumerate(traces)
            ],
        },
    }
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(document))
    return load(path, split)


def _sample(folder: Path, source: str, *, whole: bool) -> list[Path]:
    """Two zones for six weeks, with outages of one and of both."""
    found = []
    rates = [Rates(zone, 2 * 86400.0, 3 * 3600.0, 1 if whole else 16) for zone in ("a", "b")]
    for number, trace in enumerate(draw(rates, 0.43, 0.92, 42 * 86400.0, source)):
        path = folder / f"zone-{number}_{'whole' if whole else 'part'}.json"
        path.write_text(json.dumps({"metadata": {"gap_seconds": trace.gap_s}, "data": trace.nodes}))
        found.append(path)
    return found


if __name__ == "__main__":
    main(run)
