"""StatefulSets: names with numbers, in order."""

from __future__ import annotations

from support.cluster import Cluster
from support.manifests import stateful_set
from support.workloads import on_own_nodes, pod_names, wait_ready


def test_pods_are_numbered_and_say_so(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(stateful_set("db", 2, pods=on_own_nodes(cluster)))

    first, second = wait_ready(cluster, "db", 2)

    assert [one["metadata"]["name"] for one in (first, second)] == ["db-0", "db-1"]
    labels = second["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-1"
    assert labels["apps.kubernetes.io/pod-index"] == "1"
    assert labels["controller-revision-hash"].startswith("db-")
    assert second["spec"]["hostname"] == "db-1"
    assert second["spec"]["subdomain"] == "db"


def test_the_next_waits_until_the_one_before_is_ready(cluster: Cluster) -> None:
    cluster.create(stateful_set("db", 3, pods={"schedulerName": "nobody"}))
    cluster.wait(lambda: pod_names(cluster, "db"), "the first pod")

    status = cluster.wait(
        lambda: (found := cluster.get("StatefulSet", "db")["status"]).get("replicas") == 1 and found,
        "its status",
    )

    assert isinstance(status, dict)
    assert status.get("readyReplicas", 0) == 0
    assert pod_names(cluster, "db") == ["db-0"]


def test_in_parallel_nobody_waits(cluster: Cluster) -> None:
    spec = {"podManagementPolicy": "Parallel"}
    cluster.create(stateful_set("db", 3, spec=spec, pods={"schedulerName": "nobody"}))

    cluster.wait(lambda: pod_names(cluster, "db") == ["db-0", "db-1", "db-2"], "all three pods")


def test_numbers_may_start_elsewhere(cluster: Cluster) -> None:
    spec = {"podManagementPolicy": "Parallel", "ordinals": {"start": 5}}
    cluster.create(stateful_set("db", 2, spec=spec, pods={"schedulerName": "nobody"}))

    cluster.wait(lambda: pod_names(cluster, "db") == ["db-5", "db-6"], "both pods")


def test_the_highest_number_goes_first(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(stateful_set("db", 3, pods=on_own_nodes(cluster)))
    wait_ready(cluster, "db", 3)

    cluster.patch("StatefulSet", "db", {"spec": {"replicas": 1}})

    wait_ready(cluster, "db", 1)
    assert pod_names(cluster, "db") == ["db-0"]


def test_a_lost_pod_comes_back_under_its_name(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(stateful_set("db", 2, pods=on_own_nodes(cluster)))
    wait_ready(cluster, "db", 2)
    old = cluster.get("Pod", "db-0")["metadata"]["uid"]

    cluster.delete("Pod", "db-0", gracePeriodSeconds=0)

    cluster.wait(
        lambda: any(
            one["metadata"]["name"] == "db-0" and one["metadata"]["uid"] != old
            for one in cluster.list("Pod")["items"]
        ),
        "its return",
    )
    wait_ready(cluster, "db", 2)


def test_a_new_template_goes_from_the_highest_down(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(stateful_set("db", 3, pods=on_own_nodes(cluster)))
    wait_ready(cluster, "db", 3)
    start = cluster.list("Pod")["metadata"]["resourceVersion"]

    containers = [{"name": "main", "image": "new"}]
    cluster.patch(
        "StatefulSet", "db", {"spec": {"template": {"spec": {"containers": containers}}}}, "strategic"
    )
    with cluster.wire.watch(cluster.path("Pod"), resourceVersion=start) as watch:
        order = []
        while len(order) < 3:
            event = watch.next()
            name, image = (
                event["object"]["metadata"]["name"],
                event["object"]["spec"]["containers"][0]["image"],
            )
            # Under load the real one may bring an old pod back once more before it is new.
            if event["type"] == "ADDED" and image == "new" and name not in order:
                order.append(name)

    assert order == ["db-2", "db-1", "db-0"]


def test_below_the_partition_everything_stays_old(cluster: Cluster) -> None:
    cluster.add_nodes()
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    cluster.create(stateful_set("db", 2, spec={"updateStrategy": update}, pods=on_own_nodes(cluster)))
    wait_ready(cluster, "db", 2)

    containers = [{"name": "main", "image": "new"}]
    cluster.patch(
        "StatefulSet", "db", {"spec": {"template": {"spec": {"containers": containers}}}}, "strategic"
    )
    cluster.wait(
        lambda: (
            [one["spec"]["containers"][0]["image"] for one in cluster.list("Pod")["items"]]
            == ["image", "new"]
        ),
        "the second pod to be new",
    )

    status = cluster.get("StatefulSet", "db")["status"]
    assert status["currentRevision"] != status["updateRevision"]
