"""Namespaces: what they need, what they hold, and how they end."""

from __future__ import annotations

import pytest

from support.cluster import Cluster
from support.manifests import config_map, pod


def test_a_namespace_is_active_and_labelled_with_its_name(cluster: Cluster) -> None:
    found = cluster.get("Namespace", cluster.namespace)

    assert found["status"] == {"phase": "Active"}
    assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == cluster.namespace
    assert found["spec"]["finalizers"] == ["kubernetes"]


def test_the_namespaces_that_are_always_there(cluster: Cluster) -> None:
    names = cluster.names("Namespace")

    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= set(names)


def test_nothing_is_created_in_a_namespace_that_does_not_exist(cluster: Cluster) -> None:
    answer = cluster.try_create(config_map("a", namespace="no-such-place"))

    status = answer.refused(404, "NotFound")
    assert status["message"] == 'namespaces "no-such-place" not found'
    assert status["details"] == {"name": "no-such-place", "kind": "namespaces"}


def test_a_list_in_a_namespace_that_does_not_exist_is_empty(cluster: Cluster) -> None:
    assert cluster.list("ConfigMap", namespace="no-such-place")["items"] == []


def test_a_deleted_namespace_takes_everything_with_it(cluster: Cluster) -> None:
    cluster.create(config_map("a"))
    cluster.create(pod("a"))

    ending = cluster.delete("Namespace", cluster.namespace)

    assert ending["status"]["phase"] == "Terminating"
    cluster.gone("Namespace", cluster.namespace)
    assert cluster.list("ConfigMap")["items"] == []
    assert cluster.list("Pod")["items"] == []


def test_nothing_new_enters_a_namespace_that_ends(cluster: Cluster) -> None:
    cluster.create(config_map("a", finalizers=["x.io/wait"]))
    cluster.delete("Namespace", cluster.namespace)

    def refused() -> bool:
        # The admission of the real server learns of the deletion by a watch.
        answer = cluster.try_create(config_map("late"), dryRun="All")
        return answer.status == 403

    cluster.wait(refused, "creations to be refused")
    status = cluster.try_create(config_map("late")).refused(403, "Forbidden")
    assert "because it is being terminated" in status["message"]
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"

    cluster.patch("ConfigMap", "a", {"metadata": {"finalizers": None}})
    cluster.gone("Namespace", cluster.namespace)


def test_the_default_namespace_may_not_be_deleted(cluster: Cluster) -> None:
    cluster.try_delete("Namespace", "default").refused(403, "Forbidden")


def test_a_new_namespace_gets_a_service_account_and_the_authority(cluster: Cluster) -> None:
    assert cluster.get("ServiceAccount", "default")["metadata"]["name"] == "default"
    cluster.wait(lambda: "kube-root-ca.crt" in cluster.names("ConfigMap"), "the authority's certificate")


def test_a_cluster_scoped_object_has_no_namespace(cluster: Cluster) -> None:
    assert "namespace" not in cluster.get("Namespace", cluster.namespace)["metadata"]


@pytest.mark.parametrize("hold", ["its own", "foreground"])
def test_a_namespace_goes_once_nothing_holds_it(cluster: Cluster, hold: str) -> None:
    name = cluster.add_namespace(finalizers=["example.com/held"] if hold == "its own" else [])
    cluster.delete(
        "Namespace", name, propagationPolicy="Foreground" if hold == "foreground" else "Background"
    )
    if hold == "its own":
        cluster.patch("Namespace", name, {"metadata": {"finalizers": None}})
    cluster.gone("Namespace", name)
