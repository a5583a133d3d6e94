"""Replacing objects: versions, generations, and fields that may not change."""

from __future__ import annotations

from support.cluster import Cluster
from support.manifests import config_map, deployment, pod


def test_an_update_replaces_the_whole_object_and_moves_its_version(cluster: Cluster) -> None:
    old = cluster.create(config_map("a", data={"old": "1"}, labels={"l": "1"}))

    new = cluster.update({**old, "metadata": {**old["metadata"], "labels": {}}, "data": {"new": "2"}})

    assert new["data"] == {"new": "2"}
    assert "labels" not in new["metadata"]
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])


def test_an_update_that_changes_nothing_keeps_the_version(cluster: Cluster) -> None:
    made = cluster.create(config_map("a"))

    same = cluster.update(made)

    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_an_update_from_a_stale_version_is_a_conflict(cluster: Cluster) -> None:
    stale = cluster.create(config_map("a"))
    cluster.update({**stale, "data": {"k": "2"}})

    status = cluster.try_update({**stale, "data": {"k": "3"}}).refused(409, "Conflict")

    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert status["details"] == {"name": "a", "kind": "configmaps"}


def test_an_update_without_a_version_takes_whatever_is_there(cluster: Cluster) -> None:
    cluster.create(config_map("a"))

    assert cluster.update(config_map("a", data={"k": "2"}))["data"] == {"k": "2"}


def test_an_update_of_another_object_of_the_same_name_is_a_conflict(cluster: Cluster) -> None:
    cluster.create(config_map("a"))

    status = cluster.try_update(config_map("a", uid="0000")).refused(409, "Conflict")

    assert "Precondition failed: UID in precondition: 0000" in status["message"]


def test_an_update_of_what_is_not_there_is_not_found(cluster: Cluster) -> None:
    status = cluster.try_update(config_map("a")).refused(404, "NotFound")

    assert status["message"] == 'configmaps "a" not found'


def test_an_update_whose_name_contradicts_the_path_is_a_bad_request(cluster: Cluster) -> None:
    cluster.create(config_map("a"))

    answer = cluster.wire.request("PUT", cluster.path("ConfigMap", "a"), config_map("b"))

    status = answer.refused(400, "BadRequest")
    assert status["message"] == "the name of the object (b) does not match the name on the URL (a)"


def test_the_generation_moves_with_the_spec_and_only_with_it(cluster: Cluster) -> None:
    made = cluster.create(deployment("web", 0))
    assert made["metadata"]["generation"] == 1

    labelled = cluster.patch("Deployment", "web", {"metadata": {"labels": {"new": "1"}}})
    assert labelled["metadata"]["generation"] == 1

    scaled = cluster.patch("Deployment", "web", {"spec": {"minReadySeconds": 1}})
    assert scaled["metadata"]["generation"] == 2


def test_a_status_in_an_ordinary_update_is_ignored(cluster: Cluster) -> None:
    made = cluster.create(pod("a"))

    updated = cluster.update({**made, "status": {**made["status"], "phase": "Failed"}})

    assert updated["status"]["phase"] == "Pending"


def test_a_status_update_changes_the_status_alone(cluster: Cluster) -> None:
    made = cluster.create(pod("a"))
    wish = {**made, "status": {**made["status"], "phase": "Failed"}}
    wish["spec"] = {**made["spec"], "activeDeadlineSeconds": 7}

    updated = cluster.update(wish, "status")

    assert updated["status"]["phase"] == "Failed"
    assert "activeDeadlineSeconds" not in updated["spec"]
    assert updated["metadata"]["generation"] == 1


def test_a_pods_affinity_may_not_change(cluster: Cluster) -> None:
    made = cluster.create(pod("a"))
    wish = {**made, "spec": {**made["spec"], "nodeSelector": {"zone": "a"}}}

    status = cluster.try_update(wish).refused(422, "Invalid")

    assert status["details"]["causes"][0]["field"] == "spec"
    assert "pod updates may not change fields other than" in status["message"]


def test_a_pod_may_gain_a_toleration_and_lose_none(cluster: Cluster) -> None:
    made = cluster.create(pod("a"))
    more = [*made["spec"]["tolerations"], {"key": "spot", "operator": "Exists"}]

    gained = cluster.update({**made, "spec": {**made["spec"], "tolerations": more}})
    assert [one["key"] for one in gained["spec"]["tolerations"]][-1] == "spot"

    fewer = {**gained, "spec": {**gained["spec"], "tolerations": more[:-1]}}
    cluster.try_update(fewer).refused(422, "Invalid")


def test_a_deployments_selector_may_not_change(cluster: Cluster) -> None:
    made = cluster.create(deployment("web", 0))
    del made["metadata"]["resourceVersion"]
    made["spec"]["selector"]["matchLabels"]["more"] = made["spec"]["template"]["metadata"]["labels"][
        "more"
    ] = "1"

    status = cluster.try_update(made).refused(422, "Invalid")

    assert status["details"]["causes"][0]["field"] == "spec.selector"
    assert "field is immutable" in status["message"]


def test_the_uid_and_the_creation_time_survive_an_update(cluster: Cluster) -> None:
    made = cluster.create(config_map("a"))
    wish = config_map("a", creationTimestamp="2001-01-01T00:00:00Z")

    updated = cluster.update(wish)

    assert updated["metadata"]["uid"] == made["metadata"]["uid"]
    assert updated["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


def test_a_dry_run_update_shows_and_stores_nothing(cluster: Cluster) -> None:
    made = cluster.create(config_map("a"))

    shown = cluster.update({**made, "data": {"k": "2"}}, dryRun="All")

    assert shown["data"] == {"k": "2"}
    assert cluster.get("ConfigMap", "a") == made
