from __future__ import annotations

from typing import Any

from fairlead.world.world import World
from support.manifests import config_map, deployment, owned_by, replica_set
from support.worlds import names, pods, ready, seconds, world


def family(**reference: Any) -> World:
    """A parent and a child, both ConfigMaps."""
    cluster = world(0)
    parent = cluster.create(config_map("parent"))
    cluster.create(config_map("child", ownerReferences=[owned_by(parent, **reference)]))
    return cluster


def left(cluster: World) -> list[str]:
    return [name for name in names(cluster.all("ConfigMap", "default")) if name != "kube-root-ca.crt"]


def test_what_has_lost_its_only_owner_goes() -> None:
    cluster = family()
    cluster.delete("ConfigMap", "parent")
    cluster.run_until(seconds(1))
    assert left(cluster) == []


def test_what_has_another_owner_stays_and_forgets_the_lost_one() -> None:
    cluster = world(0)
    one, two = cluster.create(config_map("one")), cluster.create(config_map("two"))
    cluster.create(config_map("child", ownerReferences=[owned_by(one), owned_by(two)]))
    cluster.delete("ConfigMap", "one")
    cluster.run_until(seconds(1))
    child = cluster.get("ConfigMap", "child") or {}
    assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["two"]


def test_an_owner_of_the_same_name_but_another_uid_is_not_the_owner() -> None:
    cluster = world(0)
    parent = cluster.create(config_map("parent"))
    cluster.create(config_map("child", ownerReferences=[owned_by(parent) | {"uid": "another"}]))
    cluster.run_until(seconds(1))
    assert left(cluster) == ["parent"]


def test_a_chain_goes_link_by_link() -> None:
    cluster = world(0)
    above = cluster.create(config_map("c0"))
    for number in range(1, 6):
        above = cluster.create(config_map(f"c{number}", ownerReferences=[owned_by(above)]))
    cluster.delete("ConfigMap", "c0")
    cluster.run_until(seconds(1))
    assert left(cluster) == []


def test_orphaning_frees_the_dependents() -> None:
    cluster = family()
    cluster.delete("ConfigMap", "parent", propagation="Orphan")
    cluster.run_until(seconds(1))
    assert left(cluster) == ["child"]
    assert "ownerReferences" not in (cluster.get("ConfigMap", "child") or {})["metadata"]


def test_in_the_foreground_the_owner_goes_last() -> None:
    cluster = world()
    cluster.create(deployment("web", 3))
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 3)
    cluster.delete("Deployment", "web", propagation="Foreground")
    waiting = []

    def look(_: object) -> None:
        if cluster.get("Deployment", "web") is None:
            waiting.append((len(pods(cluster, app="web")), len(cluster.all("ReplicaSet"))))

    cluster.store.subscribe(look)
    cluster.run_until(lambda: cluster.get("Deployment", "web") is None)
    assert waiting[0] == (0, 0)


def test_in_the_foreground_only_blocking_dependents_are_waited_for() -> None:
    cluster = family(blockOwnerDeletion=False)
    held = cluster.get("ConfigMap", "child") or {}
    cluster.patch("ConfigMap", "child", {"metadata": {"finalizers": ["test/stay"]}})
    cluster.delete("ConfigMap", "parent", propagation="Foreground")
    cluster.run_until(seconds(1))
    assert held["metadata"]["name"] in left(cluster)
    assert "parent" not in left(cluster)


def test_in_the_foreground_a_blocking_dependent_is_waited_for() -> None:
    cluster = family(blockOwnerDeletion=True)
    cluster.patch("ConfigMap", "child", {"metadata": {"finalizers": ["test/stay"]}})
    cluster.delete("ConfigMap", "parent", propagation="Foreground")
    cluster.run_until(seconds(60))
    assert left(cluster) == ["child", "parent"]
    cluster.patch("ConfigMap", "child", {"metadata": {"finalizers": None}})
    cluster.run_until(seconds(1))
    assert left(cluster) == []


def test_a_circle_of_owners_is_collected_in_the_foreground() -> None:
    cluster = world(0)
    one = cluster.create(config_map("one"))
    two = cluster.create(config_map("two", ownerReferences=[owned_by(one, blockOwnerDeletion=True)]))
    cluster.patch(
        "ConfigMap", "one", {"metadata": {"ownerReferences": [owned_by(two, blockOwnerDeletion=True)]}}
    )
    cluster.delete("ConfigMap", "one", propagation="Foreground")
    cluster.run_until(seconds(60))
    assert left(cluster) == []


def test_orphaned_pods_are_adopted_by_the_next_replica_set() -> None:
    cluster = world()
    cluster.create(replica_set("web", 2))
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 2)
    before = names(pods(cluster, app="web"))
    cluster.delete("ReplicaSet", "web", propagation="Orphan")
    cluster.run_until(seconds(5))
    assert names(pods(cluster, app="web")) == before
    cluster.create(replica_set("web", 2))
    cluster.run_until(seconds(30))
    assert names(pods(cluster, app="web")) == before


def test_a_deleted_namespace_takes_everything_with_it() -> None:
    cluster = world()
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    item = deployment("web", 3)
    item["metadata"]["namespace"] = "shop"
    cluster.create(item)
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 3)
    cluster.delete("Namespace", "shop")
    cluster.run_until(lambda: cluster.get("Namespace", "shop") is None)
    assert not pods(cluster, app="web")


def test_custom_resources_are_collected_like_any_other() -> None:
    cluster = world(0)
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobs.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "jobs", "singular": "job", "kind": "Job"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    cluster.create(crd)
    parent = cluster.create(config_map("parent"))
    meta = {"name": "mine", "namespace": "default", "ownerReferences": [owned_by(parent)]}
    cluster.create({"apiVersion": "example.com/v1", "kind": "Job", "metadata": meta})
    cluster.run_until(seconds(1))
    assert names(cluster.all("Job.example.com")) == ["mine"]
    cluster.delete("ConfigMap", "parent")
    cluster.run_until(seconds(1))
    assert cluster.all("Job.example.com") == []
