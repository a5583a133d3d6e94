"""The end-to-end benchmark's pods: the same for both schedulers, and every one of them can be placed."""

from __future__ import annotations

from collections import Counter

import pytest
from benchmarks.e2e_workloads import HOSTNAME, WORKLOADS, ZONE, ZONES, constrained


@pytest.mark.parametrize("workload", WORKLOADS)
def test_pods_of_two_schedulers_differ_in_the_schedulers_name_only(workload: str) -> None:
    ours, theirs = (WORKLOADS[workload](name, 50) for name in ("fairlead", "default-scheduler"))
    assert {one["spec"].pop("schedulerName") for one in ours} == {"fairlead"}
    assert {one["spec"].pop("schedulerName") for one in theirs} == {"default-scheduler"}
    assert ours == theirs
    assert len({one["metadata"]["name"] for one in ours}) == 50


def test_a_third_of_the_constrained_pods_each_is_spread_kept_off_nodes_and_kept_out_of_zones() -> None:
    kinds: Counter[str] = Counter()
    apps: Counter[str] = Counter()
    for one in constrained("fairlead", 900):
        app, spec = one["metadata"]["labels"]["app"], one["spec"]
        apps[app] += 1
        if "affinity" in spec:
            ((_, (term,)),) = spec["affinity"]["podAntiAffinity"].items()
            kinds[term["topologyKey"]] += 1
        else:
            (term,) = spec["topologySpreadConstraints"]
            assert term["topologyKey"] == ZONE
            kinds["spread"] += 1
        assert term["labelSelector"] == {"matchLabels": {"app": app}}
    assert kinds == {"spread": 300, HOSTNAME: 300, ZONE: 300}
    # One more pod than there are zones would have no place.
    assert {number for app, number in apps.items() if app.startswith("zonal-")} == {ZONES}
