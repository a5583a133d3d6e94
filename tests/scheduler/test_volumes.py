"""Volumes that are bound with a pod; Kubernetes' own volume controller does the binding."""

from __future__ import annotations

from typing import Any

import pytest

from support.scheduler import Shop, aside, in_process

pytestmark = pytest.mark.real

SELECTED_NODE = "volume.kubernetes.io/selected-node"


def storage_class(ours: Shop, provisioner: str) -> str:
    made = ours.cluster.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": ours.cluster.unique("late")},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    return str(made["metadata"]["name"])


def claim(ours: Shop, name: str, of_class: str) -> dict[str, Any]:
    return ours.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": of_class,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )


def volume(ours: Shop, name: str, of_class: str, node: str, claim_ref: dict[str, Any] | None = None) -> str:
    affinity = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    made = ours.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": ours.cluster.unique(name)},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": of_class,
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": "/somewhere"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}},
                **({"claimRef": claim_ref} if claim_ref else {}),
            },
        }
    )
    return str(made["metadata"]["name"])


def user_of(claim_name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]}


async def test_a_static_volume_is_bound_to_the_claim_before_the_pod(real: Shop):
    nodes = await aside(real.cluster.add_nodes, 2)
    late = await aside(storage_class, real, "kubernetes.io/no-provisioner")
    name = await aside(volume, real, "here", late, nodes[1])
    await aside(claim, real, "data", late)
    async with in_process(real):
        await aside(real.add, "user", **user_of("data"))
        assert (await aside(real.bound, "user"))["user"] == nodes[1]
    assert (await aside(real.cluster.get, "PersistentVolumeClaim", "data"))["spec"]["volumeName"] == name


async def test_a_volume_that_is_to_be_made_is_ordered_for_the_node_and_waited_for(real: Shop):
    nodes = await aside(real.cluster.add_nodes, 2)
    late = await aside(storage_class, real, "test.dev/slow")
    made = await aside(claim, real, "data", late)
    async with in_process(real) as running:
        await aside(real.add, "user", **user_of("data"))

        def ordered() -> str | None:
            found = real.cluster.get("PersistentVolumeClaim", "data")
            return found["metadata"].get("annotations", {}).get(SELECTED_NODE)  # type: ignore[no-any-return]

        node = await aside(real.cluster.wait, ordered, "the claim to be ordered for a node")
        assert node in nodes
        assert running.ledger.binds("user") == 0
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": real.cluster.namespace,
            "name": "data",
            "uid": made["metadata"]["uid"],
        }
        await aside(volume, real, "made", late, str(node), reference)  # what a provisioner does
        assert (await aside(real.bound, "user"))["user"] == node


async def test_a_claim_that_its_provisioner_gives_back_lets_the_pod_be_planned_again(real: Shop):
    nodes = await aside(real.cluster.add_nodes, 1)
    late = await aside(storage_class, real, "test.dev/slow")
    made = await aside(claim, real, "data", late)
    async with in_process(real):
        await aside(real.add, "user", **user_of("data"))

        def ordered() -> bool:
            found = real.cluster.get("PersistentVolumeClaim", "data")["metadata"]
            return found.get("annotations", {}).get(SELECTED_NODE) == nodes[0]

        await aside(real.cluster.wait, ordered, "the claim to be ordered")
        refused = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        await aside(real.cluster.patch, "PersistentVolumeClaim", "data", refused)
        await aside(real.cluster.wait, ordered, "the claim to be ordered again")
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": real.cluster.namespace,
            "name": "data",
            "uid": made["metadata"]["uid"],
        }
        await aside(volume, real, "made", late, nodes[0], reference)
        await aside(real.bound, "user")
