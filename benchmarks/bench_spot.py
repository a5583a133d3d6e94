"""What does a planned spot policy cost, and does it keep its target in weeks that were not used to choose it?

Everything that could be tuned is fixed here, before the first run: which days choose and which check,
prices, workloads and targets. Spot costs 30% of on-demand in every zone, a round number that no trace had a
part in. A recorded probe of one node says that its zone can be had or not, so it stands for as many nodes as
a workload could need; where up to 16 nodes were probed, each stands for itself. A target that is missed in
the days that check is reported as missed.
"""

from __future__ import annotations

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
