from __future__ import annotations

from fairlead.errors import ApiError
from fairlead.world.admission import AdmissionRequest
from fairlead.world.world import World
from support.manifests import deployment, replica_set
from support.worlds import (
    Obj,
    active,
    asking,
    conditions,
    events,
    names,
    pods,
    ready,
    seconds,
    status,
    world,
)

REVISION = "deployment.kubernetes.io/revision"


def settled(cluster: World, replicas: int) -> bool:
    said = status(cluster, "Deployment", "web")
    found = cluster.get("Deployment", "web") or {}
    return (
        said.get("observedGeneration") == found["metadata"]["generation"]
        and said.get("updatedReplicas", 0) == said.get("replicas", 0) == replicas
        and said.get("availableReplicas", 0) == replicas
    )


def running(replicas: int = 4, **spec: object) -> World:
    cluster = world()
    cluster.create(deployment("web", replicas, spec=dict(spec)))
    cluster.run_until(lambda: settled(cluster, replicas))
    return cluster


def change(cluster: World, image: str = "image:2", **annotations: str) -> None:
    template: Obj = {"spec": {"containers": [{"name": "main", "image": image}]}}
    if annotations:
        template["metadata"] = {
            "annotations": {f"fairlead.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
        }
    cluster.patch("Deployment", "web", {"spec": {"template": template}})


def sets(cluster: World) -> dict[str, int]:
    """Revision → size."""
    return {
        each["metadata"]["annotations"][REVISION]: each["spec"]["replicas"]
        for each in sorted(cluster.all("ReplicaSet"), key=lambda e: e["metadata"]["annotations"][REVISION])
    }


def images(cluster: World) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in active(cluster, app="web"))


def test_it_becomes_available_and_says_so() -> None:
    cluster = running(3)
    assert conditions(cluster, "Deployment", "web") == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    said = status(cluster, "Deployment", "web")
    assert {
        name: said[name] for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    } == {
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
    }
    assert "unavailableReplicas" not in said


def test_pods_and_replica_set_carry_the_hash_of_the_template() -> None:
    cluster = running(1)
    [replica] = cluster.all("ReplicaSet")
    digest = replica["metadata"]["labels"]["pod-template-hash"]
    assert replica["metadata"]["name"] == f"web-{digest}"
    assert replica["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert [pod["metadata"]["labels"]["pod-template-hash"] for pod in pods(cluster)] == [digest]


def test_a_new_template_replaces_every_pod() -> None:
    cluster = running(4)
    change(cluster)
    cluster.run_until(lambda: settled(cluster, 4) and images(cluster) == ["image:2"] * 4)
    assert sets(cluster) == {"1": 0, "2": 4}
    assert (cluster.get("Deployment", "web") or {})["metadata"]["annotations"][REVISION] == "2"


def test_going_back_gives_the_old_replica_set_a_new_revision() -> None:
    cluster = running(2)
    change(cluster, "image:2")
    cluster.run_until(lambda: settled(cluster, 2) and images(cluster) == ["image:2"] * 2)
    change(cluster, "image")
    cluster.run_until(lambda: settled(cluster, 2) and images(cluster) == ["image"] * 2)
    assert sets(cluster) == {"2": 0, "3": 2}
    back = next(each for each in cluster.all("ReplicaSet") if each["spec"]["replicas"])
    assert back["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


def test_scaling_is_not_a_rollout() -> None:
    cluster = running(2)
    cluster.patch("Deployment", "web", {"spec": {"replicas": 6}})
    cluster.run_until(lambda: settled(cluster, 6))
    assert sets(cluster) == {"1": 6}
    assert any(said.endswith("from 2 to 6") for said in events(cluster, "ScalingReplicaSet"))


def test_recreate_ends_all_old_pods_before_it_starts_new_ones() -> None:
    cluster = running(3, strategy={"type": "Recreate"})
    seen = []

    def look(_: object) -> None:
        seen.append({pod["spec"]["containers"][0]["image"] for pod in pods(cluster, app="web")})

    cluster.store.subscribe(look)
    change(cluster)
    cluster.run_until(lambda: settled(cluster, 3) and images(cluster) == ["image:2"] * 3)
    assert {"image"} in seen
    assert {"image", "image:2"} not in seen  # terminating pods included


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    cluster = running(2)
    cluster.patch("Deployment", "web", {"spec": {"paused": True}})
    change(cluster)
    cluster.run_until(seconds(60))
    assert images(cluster) == ["image"] * 2
    assert conditions(cluster, "Deployment", "web")["Progressing"] == ("Unknown", "DeploymentPaused")
    cluster.patch("Deployment", "web", {"spec": {"replicas": 4}})
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 4)
    cluster.patch("Deployment", "web", {"spec": {"paused": False}})
    cluster.run_until(lambda: settled(cluster, 4) and images(cluster) == ["image:2"] * 4)


def test_a_rollout_whose_pods_never_become_ready_stops_and_is_reported() -> None:
    cluster = running(4, progressDeadlineSeconds=120)
    change(cluster, ready_after="never")
    cluster.run_until(seconds(100))
    assert conditions(cluster, "Deployment", "web")["Progressing"] == ("True", "ReplicaSetUpdated")
    cluster.run_until(seconds(60))
    assert conditions(cluster, "Deployment", "web")["Progressing"] == ("False", "ProgressDeadlineExceeded")
    assert len(ready(cluster, app="web")) == 3  # a quarter may be missing, no more


def test_rolling_over_a_stuck_rollout_ends_its_pods_first() -> None:
    cluster = running(4)
    change(cluster, "image:2", ready_after="never")
    cluster.run_until(seconds(60))
    change(cluster, "image:3", ready_after="0s")
    cluster.run_until(lambda: settled(cluster, 4) and images(cluster) == ["image:3"] * 4)


def test_resizing_in_the_middle_of_a_rollout_keeps_the_proportions() -> None:
    cluster = running(10, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}})
    change(cluster, ready_after="never")
    cluster.run_until(seconds(60))
    assert sets(cluster) == {"1": 8, "2": 5}
    cluster.patch("Deployment", "web", {"spec": {"replicas": 15}})
    cluster.run_until(seconds(60))
    # 18 may exist: 5 more, of which 8/13 and 5/13.
    assert sets(cluster) == {"1": 11, "2": 7}


def test_old_replica_sets_beyond_the_history_limit_go() -> None:
    cluster = running(1, revisionHistoryLimit=2)
    for number in range(2, 7):
        change(cluster, f"image:{number}")
        cluster.run_until(
            lambda number=number: settled(cluster, 1) and images(cluster) == [f"image:{number}"]
        )
    cluster.run_until(seconds(60))
    assert sets(cluster) == {"4": 0, "5": 0, "6": 1}


def test_its_annotations_are_copied_to_its_replica_set() -> None:
    cluster = running(1)
    cluster.patch("Deployment", "web", {"metadata": {"annotations": {"team": "shop"}}})
    cluster.run_until(seconds(1))
    assert [each["metadata"]["annotations"]["team"] for each in cluster.all("ReplicaSet")] == ["shop"]


def test_a_matching_replica_set_without_owner_is_adopted() -> None:
    cluster = world()
    cluster.create(
        replica_set(
            "older",
            2,
            spec={
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": asking()},
            },
        )
        | {"metadata": {"name": "older", "labels": {"app": "web"}}}
    )
    cluster.create(deployment("web", 2))
    cluster.run_until(lambda: settled(cluster, 2) and images(cluster) == ["image"] * 2)
    adopted = cluster.get("ReplicaSet", "older") or {}
    assert [owner["kind"] for owner in adopted["metadata"]["ownerReferences"]] == ["Deployment"]
    assert adopted["spec"]["replicas"] == 0


def test_a_deleted_deployment_takes_everything_with_it() -> None:
    cluster = running(3)
    cluster.delete("Deployment", "web")
    cluster.run_until(lambda: not pods(cluster, app="web"))
    assert not cluster.all("ReplicaSet")


def test_a_name_that_somebody_else_took_is_avoided() -> None:
    cluster = world(controllers=None)
    probe = world()
    probe.create(deployment("web", 1))
    probe.run_until(lambda: probe.all("ReplicaSet"))
    [taken] = names(probe.all("ReplicaSet"))
    other = replica_set(taken, 0)
    cluster.create(other)
    cluster.create(deployment("web", 1))
    cluster.run_until(lambda: settled(cluster, 1))
    assert status(cluster, "Deployment", "web")["collisionCount"] == 1


def test_a_replica_set_that_is_refused_is_reported_and_tried_again() -> None:
    cluster = world()

    def refuse(request: AdmissionRequest) -> Obj | None:
        if (request.operation, request.resource.kind) == ("CREATE", "ReplicaSet"):
            raise ApiError.of(403, "Forbidden", "not today")
        return None

    cluster.api.hooks.append(refuse)
    cluster.create(deployment("web", 2))
    cluster.run_until(seconds(60))
    assert conditions(cluster, "Deployment", "web")["Progressing"] == ("False", "ReplicaSetCreateError")
    [said] = events(cluster, "ReplicaSetCreateError")
    assert said.endswith(": not today")
    cluster.api.hooks.remove(refuse)
    cluster.run_until(lambda: settled(cluster, 2))


def test_steady_means_no_writes() -> None:
    cluster = running(3)
    cluster.run_until(seconds(60))
    before = cluster.store.rv
    cluster.run_until(seconds(24 * 3600))
    assert cluster.store.rv == before
