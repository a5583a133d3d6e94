"""Gangs as the API shows them, event by event: nobody is bound before the last member exists."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.cluster import Cluster
from support.scheduler import Shop

SIZE = 3


def deployments(ours: Shop, number: int, *, split: bool) -> list[Any]:
    """One Deployment of three, or three of one, for the gang of this number."""
    gang = f"g{number}"
    if not split:
        return [lambda wire: deploy(ours, wire, gang, gang, SIZE)]
    return [lambda wire, part=part: deploy(ours, wire, f"{gang}-{part}", gang, 1) for part in range(SIZE)]


def deploy(ours: Shop, wire: Any, name: str, gang: str, replicas: int) -> None:
    template = {
        "metadata": {"labels": {"app": name}, "annotations": {"pod-group": gang}},
        "spec": ours.spec(cpu="10m"),
    }
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }
    wire.request("POST", ours.cluster.path("Deployment"), made).ok()


def create_slowly(cluster: Cluster, makers: list[Any], seed: int) -> None:
    """In any order, with pauses that stay below what a gang's size takes to be believed."""
    rng = random.Random(seed)
    rng.shuffle(makers)
    wire = cluster.host.wire()
    for maker in makers:
        time.sleep(rng.uniform(0.0, 1.0))  # the pace of whoever creates them is what varies here
        maker(wire)
    wire.close()


@pytest.mark.slow
@pytest.mark.parametrize("split", [False, True], ids=["one Deployment", "three Deployments"])
def test_no_member_is_bound_before_the_last_exists(ours: Shop, count: Callable[[int, int], int], split: bool):
    rounds = count(8, 200)
    ours.cluster.add_nodes(4, cpu=64, pods=1000)
    ours.run()
    created: dict[str, set[str]] = {}
    bound: dict[str, set[str]] = {}
    with ours.cluster.wire.watch(ours.cluster.path("Pod")) as watch, ThreadPoolExecutor(rounds) as pool:
        made = [
            pool.submit(create_slowly, ours.cluster, deployments(ours, number, split=split), number)
            for number in range(rounds)
        ]
        while sum(map(len, bound.values())) < SIZE * rounds:
            pod = watch.next()["object"]
            gang = pod["metadata"]["annotations"]["pod-group"]
            created.setdefault(gang, set()).add(pod["metadata"]["name"])
            if pod["spec"].get("nodeName"):
                assert len(created[gang]) == SIZE, f"gang {gang} started before it was whole"
                bound.setdefault(gang, set()).add(pod["metadata"]["name"])
        for one in made:
            one.result()
    assert all(len(names) == SIZE for names in bound.values())


def test_a_pod_group_of_coscheduling_says_how_many_start_together(ours: Shop):
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
        "spec": {
            "group": "scheduling.x-k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }
    cluster = ours.cluster
    made = cluster.try_create(crd)
    assert made.status in (201, 409)  # another test's will do as well
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{cluster.namespace}/podgroups"
    cluster.wait(lambda: cluster.wire.request("GET", path).status == 200, "PodGroups to be served")
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "pg"},
        "spec": {"minMember": 2},
    }
    cluster.wire.request("POST", path, group).ok()
    cluster.add_nodes(1, cpu=4)
    ours.run()
    label = {"scheduling.x-k8s.io/pod-group": "pg"}
    ours.add("a", labels=label)
    assert "1 of 2 members" in ours.events("a", "WaitingForGang")[0]["message"]
    assert ours.nodes_of()["a"] == ""
    ours.add("b", labels=label)
    ours.bound("a", "b")
