"""What pods ask for, what they take, and what is left."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead import Cluster
from fairlead.engine import rules
from fairlead.engine.snapshot.requests import requests_of
from support.units import node, pod, typed


def container(cpu: str = "", memory: str = "", **more: Any) -> dict[str, Any]:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    return {
        "name": more.pop("name", "c"),
        "resources": {"requests": requests, **more.pop("resources", {})},
        **more,
    }


def asked(**spec: Any) -> dict[str, int]:
    return dict(requests_of(typed(pod("a", **spec))).amounts)


def test_containers_add_up_and_are_rounded_once() -> None:
    half = container(memory="500m")
    assert asked(containers=[half, half, half]) == {"memory": 2}


def test_finer_than_thousandths_is_not_kept() -> None:
    # The API server rounds each quantity up as it comes in.
    assert asked(containers=[container("100u"), container("100u"), container("0.3333")]) == {"cpu": 336}


def test_a_pod_level_limit_counts_only_where_containers_ask_for_nothing() -> None:
    limits = {"limits": {"cpu": "2", "memory": "1Gi"}}
    assert asked(containers=[container("100m")], resources=limits) == {"cpu": 100, "memory": 1 << 30}


def test_init_containers_are_a_maximum() -> None:
    spec = {
        "containers": [container("300m"), container("300m")],
        "initContainers": [container("500m"), container("900m")],
    }
    assert asked(**spec) == {"cpu": 900}


def test_a_sidecar_counts_beside_the_containers_and_beside_later_init_containers() -> None:
    spec = {
        "containers": [container("100m")],
        "initContainers": [
            container("1", name="before"),
            container("200m", name="sidecar", restartPolicy="Always"),
            container("900m", name="after"),
        ],
    }
    assert asked(**spec) == {"cpu": 1100}


def test_pod_level_requests_replace_the_containers_and_overhead_comes_on_top() -> None:
    spec = {
        "containers": [container("100m", "1Gi")],
        "resources": {"requests": {"cpu": "2"}},
        "overhead": {"cpu": "50m"},
    }
    assert asked(**spec) == {"cpu": 2050, "memory": 1 << 30}


def test_a_limit_without_a_request_is_a_request() -> None:
    assert asked(containers=[container(resources={"requests": {}, "limits": {"cpu": "2"}})]) == {"cpu": 2000}


@pytest.mark.parametrize(
    ("reason", "cpu"), [("Infeasible", 700), ("Deferred", 2000)], ids=["refused resize", "deferred resize"]
)
def test_a_resized_pod_takes_what_it_was_given_or_asks_for(reason: str, cpu: int) -> None:
    resized = pod("a", 2, on="n1")
    resized["status"]["containerStatuses"] = [
        {"name": "c", "resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "700m"}}
    ]
    resized["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    assert dict(requests_of(typed(resized), use_status=True).amounts) == {"cpu": cpu}
    cluster = Cluster.from_objects([node("n1", 4), resized])
    assert cluster.snapshot.nodes.used[0, cluster.snapshot.nodes.slot("n1")] == cpu


def test_every_resource_that_falls_short_is_told() -> None:
    small = node("n1", 1, "1Gi", pods=0, extended={"hugepages-2Mi": "2Mi"})
    requests = {"cpu": "2", "memory": "2Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": 1}
    found = Cluster.from_objects([small]).explain(
        pod("a", containers=[{"resources": {"requests": requests}}])
    )
    assert found.message == (
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/gpu, "
        "1 Insufficient hugepages-2Mi, 1 Insufficient memory, 1 Too many pods."
    )


def test_a_pod_that_asks_for_nothing_fits_an_overcommitted_node() -> None:
    objects = [node("n1", 1), pod("a", 1, on="n1"), pod("b", 1, on="n1")]
    assert Cluster.from_objects(objects).explain(pod("c", 0)).feasible == ["n1"]


def test_a_request_of_zero_of_what_no_node_has_fits_anywhere() -> None:
    asking = pod("a", containers=[{"resources": {"requests": {"nvidia.com/gpu": 0}}}])
    assert Cluster.from_objects([node("n1")]).explain(asking).feasible == ["n1"]


def test_finished_pods_take_nothing() -> None:
    objects = [
        node("n1", 1),
        pod("done", 1, on="n1", phase="Succeeded"),
        pod("dead", 1, on="n1", phase="Failed"),
    ]
    assert Cluster.from_objects(objects).explain(pod("a", 1)).feasible == ["n1"]


def test_pods_being_deleted_still_take_their_room() -> None:
    objects = [node("n1", 1), pod("leaving", 1, on="n1", terminating=True)]
    assert Cluster.from_objects(objects).explain(pod("a", 1)).feasible == []


def test_only_what_exceeds_the_whole_node_is_beyond_evictions() -> None:
    cluster = Cluster.from_objects([node("n1", 4), node("n2", 1), pod("a", 3, on="n1")])
    snapshot = cluster.snapshot
    verdicts = rules.verdicts(snapshot, snapshot.class_of(typed(pod("b", 2))))
    assert not verdicts.unresolvable[snapshot.nodes.slot("n1")]
    assert verdicts.unresolvable[snapshot.nodes.slot("n2")]


@pytest.mark.parametrize(
    ("ports", "fits"),
    [
        ([{"hostPort": 8080}], False),
        ([{"hostPort": 8080, "hostIP": "0.0.0.0"}], False),
        ([{"hostPort": 8080, "hostIP": "10.0.0.1"}], False),
        ([{"hostPort": 8080, "hostIP": "10.0.0.2"}], True),
        ([{"hostPort": 8080, "protocol": "UDP"}], True),
        ([{"hostPort": 9090}], True),
        ([{"containerPort": 8080}], True),
    ],
)
def test_host_ports_clash_by_protocol_port_and_address(ports: list[dict[str, Any]], fits: bool) -> None:
    taken = pod("a", on="n1", containers=[{"ports": [{"hostPort": 8080, "hostIP": "10.0.0.1"}]}])
    found = Cluster.from_objects([node("n1"), taken]).explain(pod("b", containers=[{"ports": ports}]))
    assert bool(found.feasible) is fits
    if not fits:
        assert found.reasons["n1"] == ["node(s) didn't have free ports for the requested pod ports"]


def test_a_sidecars_host_port_counts_and_a_plain_init_containers_does_not() -> None:
    port = [{"hostPort": 8080}]
    taken = pod("a", on="n1", containers=[{"ports": port}])
    cluster = Cluster.from_objects([node("n1"), taken])
    assert not cluster.explain(pod("b", initContainers=[{"ports": port, "restartPolicy": "Always"}])).feasible
    assert cluster.explain(pod("c", initContainers=[{"ports": port}])).feasible


def test_on_the_hosts_network_every_port_is_the_hosts() -> None:
    taken = pod("a", on="n1", hostNetwork=True, containers=[{"ports": [{"containerPort": 80}]}])
    asking = pod("b", hostNetwork=True, containers=[{"ports": [{"containerPort": 80}]}])
    assert not Cluster.from_objects([node("n1"), taken]).explain(asking).feasible
