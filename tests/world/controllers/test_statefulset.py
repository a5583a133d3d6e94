from __future__ import annotations

from fairlead.world.world import World
from support.manifests import pod, stateful_set
from support.worlds import active, events, history, names, pods, ready, seconds, status, world


def running(replicas: int = 3, **spec: object) -> World:
    cluster = world()
    cluster.create(stateful_set("db", replicas, spec=dict(spec)))
    cluster.run_until(lambda: len(ready(cluster, app="db")) == replicas)
    cluster.run_until(seconds(1))
    return cluster


def change(cluster: World, image: str = "image:2", **annotations: str) -> None:
    meta = {"annotations": {f"fairlead.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}}
    template = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": image}]}}
    cluster.patch("StatefulSet", "db", {"spec": {"template": template}})


def images(cluster: World) -> dict[str, str]:
    return {p["metadata"]["name"]: p["spec"]["containers"][0]["image"] for p in active(cluster, app="db")}


def test_pods_come_one_by_one_each_after_the_last_is_ready() -> None:
    cluster = world()
    cluster.create(stateful_set("db", 3))
    unready = []
    cluster.store.subscribe(
        lambda _: unready.append(len(pods(cluster, app="db")) - len(ready(cluster, app="db")))
    )
    cluster.run_until(lambda: len(ready(cluster, app="db")) == 3)
    assert names(pods(cluster)) == ["db-0", "db-1", "db-2"]
    assert max(unready) == 1


def test_pods_carry_their_name_index_and_revision() -> None:
    cluster = running(2)
    found = pods(cluster)[1]
    revision = status(cluster, "StatefulSet", "db")["updateRevision"]
    assert found["metadata"]["labels"] == {
        "app": "db",
        "apps.kubernetes.io/pod-index": "1",
        "statefulset.kubernetes.io/pod-name": "db-1",
        "controller-revision-hash": revision,
    }
    assert (found["spec"]["hostname"], found["spec"]["subdomain"]) == ("db-1", "db")


def test_parallel_pods_do_not_wait_for_each_other() -> None:
    cluster = world()
    cluster.create(stateful_set("db", 3, spec={"podManagementPolicy": "Parallel"}))
    cluster.run_until(seconds(0))
    assert names(pods(cluster)) == ["db-0", "db-1", "db-2"]


def test_ordinals_can_start_elsewhere() -> None:
    cluster = running(2, ordinals={"start": 5})
    assert names(pods(cluster)) == ["db-5", "db-6"]


def test_scaling_in_takes_the_highest_first_one_at_a_time() -> None:
    cluster = running(4)
    seen = history(cluster)
    cluster.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
    cluster.run_until(lambda: names(pods(cluster)) == ["db-0"])
    gone = [what for _, kind, what, _ in seen if kind == "DELETED"]
    assert [what for what in gone if what.startswith("Pod ")] == [f"Pod default/db-{n}" for n in (3, 2, 1)]


def test_a_pod_that_is_lost_comes_back_under_its_name() -> None:
    cluster = running(3)
    before = pods(cluster)[1]["metadata"]["uid"]
    cluster.delete("Pod", "db-1")
    cluster.run_until(lambda: len(ready(cluster, app="db")) == 3)
    assert pods(cluster)[1]["metadata"]["uid"] != before


def test_a_finished_pod_is_made_anew() -> None:
    cluster = world()
    made = stateful_set("db", 1)
    made["spec"]["template"]["metadata"]["annotations"] = {
        "fairlead.dev/run-for": "10s",
        "fairlead.dev/exit-code": "1",
    }
    cluster.create(made)
    cluster.run_until(lambda: len(set(events(cluster, "SuccessfulDelete"))) == 1)
    cluster.run_until(lambda: len(ready(cluster, app="db")) == 1)


def test_an_update_goes_from_the_highest_ordinal_down_one_at_a_time() -> None:
    cluster = running(3)
    seen = history(cluster)
    change(cluster)
    cluster.run_until(lambda: images(cluster) == dict.fromkeys(["db-0", "db-1", "db-2"], "image:2"))
    made = [what for _, kind, what, _ in seen if kind == "ADDED" and what.startswith("Pod ")]
    assert made == [f"Pod default/db-{n}" for n in (2, 1, 0)]
    cluster.run_until(seconds(5))
    said = status(cluster, "StatefulSet", "db")
    assert said["currentRevision"] == said["updateRevision"]


def test_an_update_stops_at_a_pod_that_does_not_become_ready() -> None:
    cluster = running(3)
    change(cluster, ready_after="never")
    cluster.run_until(seconds(600))
    assert images(cluster) == {"db-0": "image", "db-1": "image", "db-2": "image:2"}


def test_ordinals_below_the_partition_keep_the_old_template() -> None:
    cluster = running(3, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    change(cluster)
    cluster.run_until(seconds(60))
    assert images(cluster) == {"db-0": "image", "db-1": "image", "db-2": "image:2"}
    cluster.delete("Pod", "db-0")
    cluster.run_until(lambda: len(ready(cluster, app="db")) == 3)
    assert images(cluster)["db-0"] == "image"
    said = status(cluster, "StatefulSet", "db")
    assert (said["currentReplicas"], said["updatedReplicas"]) == (2, 1)


def test_on_delete_waits_for_somebody_to_delete() -> None:
    cluster = running(2, updateStrategy={"type": "OnDelete"})
    change(cluster)
    cluster.run_until(seconds(60))
    assert set(images(cluster).values()) == {"image"}
    cluster.delete("Pod", "db-0")
    cluster.run_until(lambda: len(ready(cluster, app="db")) == 2)
    assert images(cluster) == {"db-0": "image:2", "db-1": "image"}


def test_going_back_to_an_old_template_reuses_its_revision() -> None:
    cluster = running(1)
    first = status(cluster, "StatefulSet", "db")["currentRevision"]
    change(cluster, "image:2")
    cluster.run_until(lambda: images(cluster) == {"db-0": "image:2"})
    cluster.run_until(seconds(5))
    change(cluster, "image")
    cluster.run_until(lambda: images(cluster) == {"db-0": "image"})
    cluster.run_until(seconds(5))
    assert status(cluster, "StatefulSet", "db")["currentRevision"] == first
    assert sorted(each["revision"] for each in cluster.all("ControllerRevision")) == [2, 3]


def test_each_pod_gets_claims_of_its_own_that_outlive_it() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    cluster = world(scheduler=False)
    cluster.create(
        stateful_set("db", 2, spec={"podManagementPolicy": "Parallel", "volumeClaimTemplates": [claim]})
    )
    cluster.run_until(seconds(1))
    assert names(cluster.all("PersistentVolumeClaim")) == ["data-db-0", "data-db-1"]
    assert [p["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] for p in pods(cluster)] == [
        "data-db-0",
        "data-db-1",
    ]
    cluster.delete("StatefulSet", "db")
    cluster.run_until(lambda: not pods(cluster))
    assert names(cluster.all("PersistentVolumeClaim")) == ["data-db-0", "data-db-1"]


def test_only_orphans_with_an_ordinal_are_adopted() -> None:
    cluster = world()
    cluster.create(pod("db-0", labels={"app": "db"}, spec={"schedulerName": "default-scheduler"}))
    cluster.create(pod("stranger", labels={"app": "db"}, spec={"schedulerName": "default-scheduler"}))
    cluster.create(stateful_set("db", 1))
    cluster.run_until(seconds(30))
    owned = {
        p["metadata"]["name"]: bool(p["metadata"].get("ownerReferences")) for p in pods(cluster, app="db")
    }
    assert owned == {"db-0": True, "stranger": False}


def test_steady_means_no_writes() -> None:
    cluster = running(3)
    cluster.run_until(seconds(60))
    before = cluster.store.rv
    cluster.run_until(seconds(24 * 3600))
    assert cluster.store.rv == before
