"""Owners and what goes with them."""

from __future__ import annotations

from support.cluster import Cluster
from support.manifests import config_map, owned_by, replica_set


def test_background_takes_the_owner_first_and_its_dependents_later(cluster: Cluster) -> None:
    owner = cluster.create(config_map("owner"))
    cluster.create(config_map("child", ownerReferences=[owned_by(owner)]))

    cluster.delete("ConfigMap", "owner", propagationPolicy="Background")

    cluster.try_get("ConfigMap", "owner").refused(404)
    cluster.gone("ConfigMap", "child")


def test_foreground_keeps_the_owner_until_its_dependents_are_gone(cluster: Cluster) -> None:
    owner = cluster.create(config_map("owner"))
    reference = owned_by(owner, blockOwnerDeletion=True)
    cluster.create(config_map("child", ownerReferences=[reference], finalizers=["x.io/wait"]))

    marked = cluster.delete("ConfigMap", "owner", propagationPolicy="Foreground")
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    cluster.wait(
        lambda: "deletionTimestamp" in cluster.get("ConfigMap", "child")["metadata"],
        "the child to be deleted",
    )
    assert cluster.try_get("ConfigMap", "owner").status == 200

    cluster.patch("ConfigMap", "child", {"metadata": {"finalizers": None}})
    cluster.gone("ConfigMap", "owner")


def test_orphan_leaves_the_dependents_without_an_owner(cluster: Cluster) -> None:
    owner = cluster.create(config_map("owner"))
    cluster.create(config_map("child", ownerReferences=[owned_by(owner)]))

    cluster.delete("ConfigMap", "owner", propagationPolicy="Orphan")

    cluster.gone("ConfigMap", "owner")
    assert "ownerReferences" not in cluster.get("ConfigMap", "child")["metadata"]


def test_a_dependent_stays_while_one_of_its_owners_lives(cluster: Cluster) -> None:
    first, second = cluster.create(config_map("first")), cluster.create(config_map("second"))
    cluster.create(config_map("child", ownerReferences=[owned_by(first), owned_by(second)]))
    sign = cluster.create(config_map("sign", ownerReferences=[owned_by(first)]))

    cluster.delete("ConfigMap", "first", propagationPolicy="Background")
    cluster.gone("ConfigMap", sign["metadata"]["name"])
    cluster.wait(
        lambda: len(cluster.get("ConfigMap", "child")["metadata"]["ownerReferences"]) == 1,
        "the lost owner to be struck off",
    )

    cluster.delete("ConfigMap", "second", propagationPolicy="Background")
    cluster.gone("ConfigMap", "child")


def test_an_owner_that_never_was_takes_the_dependent_with_it(cluster: Cluster) -> None:
    ghost = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "ghost",
        "uid": "00000000-0000-0000-0000-000000000000",
    }

    cluster.create(config_map("child", ownerReferences=[ghost]))

    cluster.gone("ConfigMap", "child")


def test_an_owner_of_the_same_name_and_another_uid_is_no_owner(cluster: Cluster) -> None:
    owner = cluster.create(config_map("owner"))

    cluster.create(config_map("child", ownerReferences=[owned_by(owner) | {"uid": "0000"}]))

    cluster.gone("ConfigMap", "child")
    assert cluster.try_get("ConfigMap", "owner").status == 200


def test_two_controllers_of_one_object_are_invalid(cluster: Cluster) -> None:
    first, second = cluster.create(config_map("first")), cluster.create(config_map("second"))
    references = [owned_by(first, controller=True), owned_by(second, controller=True)]

    status = cluster.try_create(config_map("child", ownerReferences=references)).refused(422, "Invalid")

    assert status["details"]["causes"][0]["field"] == "metadata.ownerReferences"


def test_orphaned_pods_of_a_replica_set_run_on(cluster: Cluster) -> None:
    cluster.create(replica_set("rs", 2, pods={"schedulerName": "nobody"}))
    cluster.wait(lambda: len(cluster.names("Pod")) == 2, "two pods")

    cluster.delete("ReplicaSet", "rs", propagationPolicy="Orphan")
    cluster.gone("ReplicaSet", "rs")

    pods = cluster.list("Pod")["items"]
    assert len(pods) == 2
    assert all("ownerReferences" not in pod["metadata"] for pod in pods)
