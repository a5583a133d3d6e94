"""Creating objects: what the server fills in, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from support.cluster import Cluster
from support.manifests import config_map, pod


def test_a_new_object_gets_a_uid_a_version_and_a_time(cluster: Cluster) -> None:
    made = cluster.create(config_map("a"))["metadata"]

    assert len(made["uid"]) == 36
    assert int(made["resourceVersion"]) > 0
    assert made["namespace"] == cluster.namespace
    created = datetime.strptime(made["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - created).total_seconds()) < 600


def test_a_creation_answers_201_with_the_object_in_it(cluster: Cluster) -> None:
    answer = cluster.try_create(config_map("a", data={"k": "v"}))

    assert answer.status == 201
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("ConfigMap", "v1")
    assert answer.body["data"] == {"k": "v"}


def test_what_only_the_server_may_say_is_not_taken_from_the_client(cluster: Cluster) -> None:
    lies = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 42}

    made = cluster.create(pod("a", **lies))["metadata"]

    assert made["uid"] != "mine"
    assert not made["creationTimestamp"].startswith("2001")
    assert made["generation"] == 1


def test_a_second_object_of_the_same_name_is_refused_as_existing(cluster: Cluster) -> None:
    cluster.create(config_map("a"))

    status = cluster.try_create(config_map("a")).refused(409, "AlreadyExists")

    assert status["message"] == 'configmaps "a" already exists'
    assert status["details"] == {"name": "a", "kind": "configmaps"}


def test_a_resource_version_in_a_creation_is_refused(cluster: Cluster) -> None:
    status = cluster.try_create(config_map("a", resourceVersion="7")).refused(500)

    assert status["message"] == "resourceVersion should not be set on objects to be created"


def test_generate_name_makes_a_name_that_starts_with_it(cluster: Cluster) -> None:
    first = cluster.create(config_map(generateName="web-"))["metadata"]
    second = cluster.create(config_map(generateName="web-"))["metadata"]

    assert first["name"].startswith("web-")
    assert len(first["name"]) == len("web-") + 5
    assert first["name"] != second["name"]
    assert first["generateName"] == "web-"


def test_a_name_wins_over_generate_name(cluster: Cluster) -> None:
    made = cluster.create(config_map("mine", generateName="web-"))

    assert made["metadata"]["name"] == "mine"


def test_an_object_without_any_name_is_invalid(cluster: Cluster) -> None:
    status = cluster.try_create(config_map()).refused(422, "Invalid")

    assert (
        status["message"]
        == 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )
    assert status["details"]["causes"] == [
        {
            "reason": "FieldValueRequired",
            "message": "Required value: name or generateName is required",
            "field": "metadata.name",
        }
    ]


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "a" * 254])
def test_a_name_that_is_no_dns_subdomain_is_invalid(cluster: Cluster, name: str) -> None:
    status = cluster.try_create(config_map(name)).refused(422, "Invalid")

    assert status["details"]["causes"][0]["field"] == "metadata.name"


def test_a_label_value_that_is_too_long_is_invalid(cluster: Cluster) -> None:
    status = cluster.try_create(config_map("a", labels={"k": "x" * 64})).refused(422, "Invalid")

    assert status["details"]["causes"][0]["field"] == "metadata.labels"


def test_a_namespace_that_contradicts_the_path_is_a_bad_request(cluster: Cluster) -> None:
    body = config_map("a", namespace="elsewhere")

    status = cluster.wire.request("POST", cluster.path("ConfigMap"), body).refused(400, "BadRequest")

    assert status["message"] == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def test_a_kind_that_contradicts_the_path_is_a_bad_request(cluster: Cluster) -> None:
    status = cluster.wire.request("POST", cluster.path("ConfigMap"), pod("a")).refused(400, "BadRequest")

    assert "cannot be handled as a ConfigMap" in status["message"]


def test_a_body_that_is_no_json_is_a_bad_request(cluster: Cluster) -> None:
    cluster.wire.request("POST", cluster.path("ConfigMap"), b"{not json").refused(400, "BadRequest")


def test_a_dry_run_answers_as_if_and_stores_nothing(cluster: Cluster) -> None:
    made = cluster.create(config_map("a"), dryRun="All")

    assert made["metadata"]["uid"]
    cluster.try_get("ConfigMap", "a").refused(404, "NotFound")


def test_yaml_is_understood_too(cluster: Cluster) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"

    made = cluster.wire.request("POST", cluster.path("ConfigMap"), body, content_type="application/yaml").ok()

    assert made["data"] == {"k": "v"}


def test_unknown_fields_are_dropped(cluster: Cluster) -> None:
    made = cluster.create({**config_map("a"), "colour": "blue"})

    assert "colour" not in made


def test_an_object_with_a_spec_starts_at_generation_1(cluster: Cluster) -> None:
    assert cluster.create(pod("a"))["metadata"]["generation"] == 1


def test_an_object_may_come_without_kind_and_version(cluster: Cluster) -> None:
    body = {"metadata": {"name": "a"}}

    made = cluster.wire.request("POST", cluster.path("ConfigMap"), body).ok()

    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
