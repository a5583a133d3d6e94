"""Deployments: rollouts, revisions, scaling."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster
from support.manifests import deployment, pod, replica_set
from support.workloads import condition, is_ready, on_own_nodes, pods_of, rolled_out, wait_ready

REVISION = "deployment.kubernetes.io/revision"


def sets_of(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    """Its ReplicaSets, oldest revision first."""
    items = cluster.list("ReplicaSet", labelSelector=f"app={name}")["items"]
    return sorted(items, key=lambda one: int(one["metadata"]["annotations"][REVISION]))


def new_image(image: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": image}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def test_a_deployment_makes_one_replica_set_named_after_its_template(cluster: Cluster) -> None:
    made = cluster.create(deployment("web", 0))

    (only,) = cluster.wait(lambda: sets_of(cluster, "web"), "its replica set")

    hashed = only["metadata"]["labels"]["pod-template-hash"]
    assert only["metadata"]["name"] == f"web-{hashed}"
    assert only["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": hashed}
    (owner,) = only["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
        "Deployment",
        made["metadata"]["uid"],
        True,
        True,
    )
    cluster.wait(
        lambda: cluster.get("Deployment", "web")["metadata"].get("annotations", {}).get(REVISION) == "1",
        "the first revision",
    )


def test_its_pods_run_and_its_status_says_so(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.create(deployment("web", 3, pods=on_own_nodes(cluster)))

    done = rolled_out(cluster, "web", 3)
    pods = wait_ready(cluster, "web", 3)

    assert done["status"]["readyReplicas"] == 3
    assert "unavailableReplicas" not in done["status"]
    assert condition(done, "Available")["status"] == "True"
    assert condition(done, "Available")["reason"] == "MinimumReplicasAvailable"
    (its_set,) = sets_of(cluster, "web")
    for one in pods:
        assert one["metadata"]["name"].startswith(f"{its_set['metadata']['name']}-")
        assert one["metadata"]["generateName"] == f"{its_set['metadata']['name']}-"
        assert one["metadata"]["ownerReferences"][0]["uid"] == its_set["metadata"]["uid"]
        assert one["spec"]["nodeName"]
    cluster.wait(
        lambda: (
            condition(cluster.get("Deployment", "web"), "Progressing").get("reason")
            == "NewReplicaSetAvailable"
        ),
        "the end of its progress",
    )


def test_a_new_template_replaces_every_pod(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.create(deployment("web", 3, pods=on_own_nodes(cluster)))
    rolled_out(cluster, "web", 3)

    cluster.patch("Deployment", "web", new_image("new"), "strategic")
    done = rolled_out(cluster, "web", 3)
    pods = wait_ready(cluster, "web", 3)

    assert done["metadata"]["annotations"][REVISION] == "2"
    assert {one["spec"]["containers"][0]["image"] for one in pods} == {"new"}
    assert [one["spec"]["replicas"] for one in sets_of(cluster, "web")] == [0, 3]


def test_during_a_rollout_there_are_never_too_few_nor_too_many(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    bounds = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    cluster.create(deployment("web", 3, spec={"strategy": bounds}, pods=on_own_nodes(cluster)))
    rolled_out(cluster, "web", 3)
    wait_ready(cluster, "web", 3)
    listed, sets = cluster.list("Pod"), cluster.list("ReplicaSet")

    cluster.patch("Deployment", "web", new_image("new"), "strategic")
    rolled_out(cluster, "web", 3)
    end = cluster.create(pod("end"))
    last = cluster.create(replica_set("last", 0))

    alive = {one["metadata"]["name"]: one for one in listed["items"]}
    version = listed["metadata"]["resourceVersion"]
    with cluster.wire.watch(cluster.path("Pod"), resourceVersion=version) as watch:
        while (event := watch.next())["object"]["metadata"]["uid"] != end["metadata"]["uid"]:
            changed = event["object"]
            if event["type"] == "DELETED" or "deletionTimestamp" in changed["metadata"]:
                alive.pop(changed["metadata"]["name"], None)
            else:
                alive[changed["metadata"]["name"]] = changed
            assert sum(map(is_ready, alive.values())) >= 3
    # Of what is wanted: a new pod may come a moment before the old one that makes way is deleted.
    wanted = {one["metadata"]["name"]: one["spec"]["replicas"] for one in sets["items"]}
    version = sets["metadata"]["resourceVersion"]
    with cluster.wire.watch(cluster.path("ReplicaSet"), resourceVersion=version) as watch:
        while (event := watch.next())["object"]["metadata"]["uid"] != last["metadata"]["uid"]:
            changed = event["object"]
            wanted[changed["metadata"]["name"]] = changed["spec"]["replicas"]
            assert sum(wanted.values()) <= 4


def test_going_back_takes_the_old_replica_set_again(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(deployment("web", 1, pods=on_own_nodes(cluster)))
    rolled_out(cluster, "web", 1)
    (first,) = sets_of(cluster, "web")
    cluster.patch("Deployment", "web", new_image("new"), "strategic")
    rolled_out(cluster, "web", 1)

    cluster.patch("Deployment", "web", new_image("image"), "strategic")
    rolled_out(cluster, "web", 1)
    cluster.wait(lambda: len(pods_of(cluster, "web")) == 1, "the other pod to go")

    second, third = sets_of(cluster, "web")
    assert third["metadata"]["name"] == first["metadata"]["name"]
    assert third["metadata"]["annotations"][REVISION] == "3"
    assert (second["spec"]["replicas"], third["spec"]["replicas"]) == (0, 1)


def test_recreate_ends_the_old_before_it_starts_the_new(cluster: Cluster) -> None:
    cluster.add_nodes()
    spec = {"strategy": {"type": "Recreate"}}
    cluster.create(deployment("web", 2, spec=spec, pods=on_own_nodes(cluster)))
    rolled_out(cluster, "web", 2)
    start = cluster.list("Pod")["metadata"]["resourceVersion"]

    cluster.patch("Deployment", "web", new_image("new"), "strategic")
    rolled_out(cluster, "web", 2)

    with cluster.wire.watch(cluster.path("Pod"), resourceVersion=start) as watch:
        events = watch.until(lambda event: event["type"] == "ADDED")
    assert sum(event["type"] == "DELETED" for event in events) == 2


def test_a_paused_deployment_rolls_nothing_out_and_still_scales(cluster: Cluster) -> None:
    cluster.create(deployment("web", 1, pods={"schedulerName": "nobody"}))
    cluster.wait(lambda: len(pods_of(cluster, "web")) == 1, "one pod")
    cluster.patch("Deployment", "web", {"spec": {"paused": True}})

    cluster.patch("Deployment", "web", new_image("new"), "strategic")
    cluster.patch("Deployment", "web", {"spec": {"replicas": 2}})
    cluster.wait(lambda: len(pods_of(cluster, "web")) == 2, "two pods")

    assert {one["spec"]["containers"][0]["image"] for one in pods_of(cluster, "web")} == {"image"}
    assert len(sets_of(cluster, "web")) == 1


def test_it_scales_down_and_up(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(deployment("web", 3, pods=on_own_nodes(cluster)))
    wait_ready(cluster, "web", 3)

    cluster.patch("Deployment", "web", {"spec": {"replicas": 1}})
    wait_ready(cluster, "web", 1)

    cluster.patch("Deployment", "web", {"spec": {"replicas": 2}})
    wait_ready(cluster, "web", 2)
    assert cluster.get("Deployment", "web")["metadata"]["generation"] == 3


def test_old_replica_sets_are_kept_only_up_to_the_limit(cluster: Cluster) -> None:
    cluster.create(deployment("web", 0, spec={"revisionHistoryLimit": 1}))
    for index in range(3):
        cluster.patch("Deployment", "web", new_image(f"image{index}"), "strategic")
        cluster.wait(
            lambda index=index: any(  # type: ignore[misc]  # the loop's value, not its last
                one["spec"]["template"]["spec"]["containers"][0]["image"] == f"image{index}"
                for one in sets_of(cluster, "web")
            ),
            "its replica set",
        )

    cluster.wait(lambda: len(sets_of(cluster, "web")) == 2, "the oldest to be deleted")


def test_its_pods_go_with_it(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(deployment("web", 2, pods=on_own_nodes(cluster)))
    wait_ready(cluster, "web", 2)

    cluster.delete("Deployment", "web", propagationPolicy="Foreground")

    cluster.gone("Deployment", "web")
    assert pods_of(cluster, "web") == []


def test_a_rollout_that_cannot_go_on_keeps_what_runs(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(deployment("web", 2, pods=on_own_nodes(cluster)))
    rolled_out(cluster, "web", 2)

    nowhere = {"spec": {"template": {"spec": {"nodeSelector": {"test": "nowhere"}}}}}
    cluster.patch("Deployment", "web", nowhere, "strategic")
    cluster.wait(lambda: len(pods_of(cluster, "web")) == 3, "the new pod")

    status = cluster.wait(
        lambda: (found := cluster.get("Deployment", "web")["status"]).get("updatedReplicas") == 1 and found,
        "the new pod to be counted",
    )
    assert isinstance(status, dict)
    assert (status["replicas"], status["availableReplicas"]) == (3, 2)
