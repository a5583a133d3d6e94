"""The STATUS column of a pod: a short story told from its containers' states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.world.api import Api, DeleteOptions
from fairlead.world.schema.resources import PODS
from fairlead.world.tables import table_of
from support.cluster import Cluster, Host
from support.embedded import clock_of
from support.manifests import pod
from support.wire import TABLE

Object = dict[str, Any]

SIDECAR = {"initContainers": [{"name": "init", "image": "image", "restartPolicy": "Always"}]}
INIT = {"initContainers": [{"name": "init", "image": "image"}]}


def state(name: str = "main", *, ready: bool = False, restarts: int = 0, **states: Any) -> Object:
    return {
        "name": name,
        "image": "image",
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": states,
    }


RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}

STORIES: list[tuple[Object, Object, tuple[str, str, str]]] = [
    ({}, {"phase": "Pending"}, ("0/1", "Pending", "0")),
    ({}, {"phase": "Failed", "reason": "Evicted"}, ("0/1", "Evicted", "0")),
    ({}, {"phase": "Running", "containerStatuses": [state(ready=True, **RUNNING)]}, ("1/1", "Running", "0")),
    (
        {},
        {"phase": "Pending", "containerStatuses": [state(waiting={"reason": "ImagePullBackOff"})]},
        ("0/1", "ImagePullBackOff", "0"),
    ),
    (
        {},
        {
            "phase": "Succeeded",
            "containerStatuses": [state(terminated={"exitCode": 0, "reason": "Completed"})],
        },
        ("0/1", "Completed", "0"),
    ),
    (
        {},
        {"phase": "Failed", "containerStatuses": [state(terminated={"exitCode": 3})]},
        ("0/1", "ExitCode:3", "0"),
    ),
    (
        {},
        {"phase": "Failed", "containerStatuses": [state(terminated={"exitCode": 137, "signal": 9})]},
        ("0/1", "Signal:9", "0"),
    ),
    (
        {},
        {"phase": "Running", "containerStatuses": [state(restarts=4, ready=True, **RUNNING)]},
        ("1/1", "Running", "4"),
    ),
    (
        INIT,
        {"phase": "Pending", "initContainerStatuses": [state("init", restarts=2, **RUNNING)]},
        ("0/1", "Init:0/1", "2"),
    ),
    (
        INIT,
        {
            "phase": "Pending",
            "initContainerStatuses": [state("init", waiting={"reason": "CrashLoopBackOff"})],
        },
        ("0/1", "Init:CrashLoopBackOff", "0"),
    ),
    (
        INIT,
        {"phase": "Pending", "initContainerStatuses": [state("init", terminated={"exitCode": 2})]},
        ("0/1", "Init:ExitCode:2", "0"),
    ),
    (
        SIDECAR,
        {
            "phase": "Running",
            "initContainerStatuses": [{**state("init", ready=True, restarts=1, **RUNNING), "started": True}],
            "containerStatuses": [state(ready=True, **RUNNING)],
        },
        ("2/2", "Running", "1"),
    ),
    (
        {},
        {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [state(terminated={"exitCode": 0, "reason": "Completed"}, ready=True)],
        },
        ("0/1", "Completed", "0"),
    ),
]


@pytest.mark.parametrize(("spec", "status", "told"), STORIES)
def test_it_is_told_as_kubectl_users_know_it(
    api: Api, spec: Object, status: Object, told: tuple[str, str, str]
) -> None:
    api.create(PODS, pod("a", spec=spec), "default")
    changed = api.patch(PODS, "a", {"status": status}, "default", subresource="status")
    table = table_of(api.serving(PODS), "v1", [changed], "None", api.clock.now())
    assert tuple(table["rows"][0]["cells"][1:4]) == told


@pytest.fixture
def both(embedded_host: Host, real_host: Host) -> Iterator[tuple[Cluster, Cluster]]:
    clusters = Cluster(embedded_host), Cluster(real_host)
    yield clusters
    for cluster in clusters:
        cluster.close()


@pytest.mark.real
def test_both_clusters_tell_the_same(both: tuple[Cluster, Cluster]) -> None:
    for number, (spec, status, told) in enumerate(STORIES):
        name = f"story-{number}"
        for cluster in both:
            cluster.create(pod(name, spec=spec))
            cluster.patch("Pod", name, {"status": status}, sub="status")
            table = cluster.wire.request("GET", cluster.path("Pod", name), accept=TABLE).ok()
            assert tuple(table["rows"][0]["cells"][1:4]) == told, cluster.name


def test_a_pod_on_its_way_out_is_terminating(api: Api) -> None:
    api.create(PODS, pod("a", spec={"nodeName": "n1"}), "default")
    left = api.delete(PODS, "a", "default", DeleteOptions(grace_s=30)).object
    table = table_of(api.serving(PODS), "v1", [left], "None", api.clock.now())
    assert table["rows"][0]["cells"][2] == "Terminating"


def test_a_gated_pod_says_that_it_is(api: Api) -> None:
    made = api.create(PODS, pod("a", spec={"schedulingGates": [{"name": "x"}]}), "default")
    table = table_of(api.serving(PODS), "v1", [made], "None", api.clock.now())
    assert table["rows"][0]["cells"][2] == "SchedulingGated"


def test_ended_pods_are_marked_so_that_clients_can_hide_them(api: Api) -> None:
    api.create(PODS, pod("a"), "default")
    ended = api.patch(PODS, "a", {"status": {"phase": "Failed"}}, "default", subresource="status")
    table = table_of(api.serving(PODS), "v1", [ended], "None", api.clock.now())
    assert table["rows"][0]["conditions"][0]["reason"] == "Failed"


def test_ages_are_told_in_the_units_that_matter(api: Api) -> None:
    made = api.create(PODS, pod("a"), "default")
    told = []
    for seconds in (
        0,
        119,
        1,
        485,
        60,
        3600 * 3 - 665,
        3600 * 5,
        3600 * 24 * 3,
        3600 * 24 * 400,
        3600 * 24 * 4000,
    ):
        clock_of(api).pass_s(seconds)
        table = table_of(api.serving(PODS), "v1", [made], "None", api.clock.now())
        told.append(table["rows"][0]["cells"][4])
    assert told == ["0s", "119s", "2m", "10m", "11m", "3h", "8h", "3d8h", "403d", "12y"]
