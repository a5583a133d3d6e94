"""Mutating webhooks: when they are called, with what, and what becomes of their answers."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster
from support.manifests import config_map, pod
from support.webhook import allow, webhook


def label_pods(request: dict[str, Any]) -> dict[str, Any]:
    if request["kind"]["kind"] != "Pod":
        return allow()
    return allow({"op": "add", "path": "/metadata/labels", "value": {"mark": "1"}})


def test_its_patch_is_applied(cluster: Cluster) -> None:
    with webhook(cluster, label_pods) as hook:
        hook.register(cluster, resources=["pods"])
        hook.wait_called(cluster)

        made = cluster.create(pod("a"))

    assert made["metadata"]["labels"] == {"mark": "1"}
    assert cluster.get("Pod", "a")["metadata"]["labels"] == {"mark": "1"}


def test_what_it_is_told(cluster: Cluster) -> None:
    with webhook(cluster, lambda _: allow()) as hook:
        hook.register(cluster, resources=["pods"])
        hook.wait_called(cluster)
        cluster.create(pod("a"))
        (request,) = hook.asked("Pod")

    assert request["operation"] == "CREATE"
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["namespace"], request["name"]) == (cluster.namespace, "a")
    assert request["dryRun"] is False
    assert request["object"]["spec"]["containers"][0]["name"] == "main"
    assert request["object"]["metadata"].get("uid") is None
    assert request["oldObject"] is None
    assert request["uid"]


def test_a_name_that_is_yet_to_be_made_is_empty(cluster: Cluster) -> None:
    with webhook(cluster, lambda _: allow()) as hook:
        hook.register(cluster, resources=["pods"])
        hook.wait_called(cluster)
        cluster.create(pod(generateName="web-"))
        (request,) = hook.asked("Pod")

    assert request.get("name", "") == ""
    assert request["object"]["metadata"]["generateName"] == "web-"
    assert "name" not in request["object"]["metadata"]


def test_a_refusal_reaches_the_client(cluster: Cluster) -> None:
    def refuse(request: dict[str, Any]) -> dict[str, Any]:
        if request["kind"]["kind"] != "Pod":
            return allow()
        return {"allowed": False, "status": {"code": 403, "message": "not today"}}

    with webhook(cluster, refuse) as hook:
        name = hook.register(cluster, resources=["pods"])
        hook.wait_called(cluster)
        status = cluster.try_create(pod("a")).refused(403)

    assert status["message"] == f'admission webhook "{name}" denied the request: not today'
    cluster.try_get("Pod", "a").refused(404)


def test_where_it_cannot_be_reached_its_failure_policy_decides(cluster: Cluster) -> None:
    with webhook(cluster, lambda _: allow()) as hook:
        strict = hook.register(cluster, resources=["pods"], failurePolicy="Fail")
        hook.wait_called(cluster)

    status = cluster.try_create(pod("a")).refused(500, "InternalError")
    assert f'failed calling webhook "{strict}"' in status["message"]

    steps = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
    cluster.patch("MutatingWebhookConfiguration", strict, steps, "json")
    cluster.wait(lambda: cluster.try_create(pod("a"), dryRun="All").status == 201, "failures to be ignored")


def test_it_is_not_called_for_other_operations(cluster: Cluster) -> None:
    with webhook(cluster, lambda _: allow()) as hook:
        hook.register(cluster, resources=["pods"])
        hook.wait_called(cluster)
        cluster.create(pod("a"))
        cluster.patch("Pod", "a", {"metadata": {"labels": {"x": "1"}}})
        cluster.delete("Pod", "a")

        assert [one["operation"] for one in hook.asked("Pod")] == ["CREATE"]


def test_it_is_called_only_for_objects_that_match_its_selector(cluster: Cluster) -> None:
    with webhook(cluster, lambda _: allow()) as hook:
        picks = {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]}
        hook.register(cluster, resources=["pods"], objectSelector=picks)
        hook.wait_called(cluster)
        cluster.create(pod("seen"))
        cluster.create(pod("skipped", labels={"skip": "1"}))

        assert [one["name"] for one in hook.asked("Pod")] == ["seen"]


def test_it_is_called_only_for_namespaces_that_match_its_selector(cluster: Cluster) -> None:
    with webhook(cluster, lambda _: allow()) as hook:
        hook.register(cluster, resources=["pods"])
        hook.wait_called(cluster)
        elsewhere = cluster.add_namespace()
        cluster.create(pod("unseen", namespace=elsewhere))

        assert hook.asked("Pod") == []


def test_a_dry_run_is_said_to_be_one(cluster: Cluster) -> None:
    with webhook(cluster, lambda _: allow()) as hook:
        hook.register(cluster, resources=["pods"])
        hook.wait_called(cluster)
        cluster.create(pod("a"), dryRun="All")
        (request,) = hook.asked("Pod")

    assert request["dryRun"] is True


def test_what_it_makes_invalid_is_refused(cluster: Cluster) -> None:
    def spoil(request: dict[str, Any]) -> dict[str, Any]:
        if request["kind"]["kind"] != "Pod":
            return allow()
        return allow({"op": "replace", "path": "/spec/containers", "value": []})

    with webhook(cluster, spoil) as hook:
        hook.register(cluster, resources=["pods"])
        hook.wait_called(cluster)

        cluster.try_create(pod("a")).refused(422, "Invalid")


def test_defaults_are_set_before_it_is_called_and_again_after(cluster: Cluster) -> None:
    def add_container(request: dict[str, Any]) -> dict[str, Any]:
        if request["kind"]["kind"] != "Pod":
            return allow()
        return allow({"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "s"}})

    with webhook(cluster, add_container) as hook:
        hook.register(cluster, resources=["pods"])
        hook.wait_called(cluster)
        made = cluster.create(pod("a"))
        (request,) = hook.asked("Pod")

    assert request["object"]["spec"]["restartPolicy"] == "Always"
    assert [one["imagePullPolicy"] for one in made["spec"]["containers"]] == ["Always", "Always"]


def test_a_config_map_is_as_good_as_a_pod(cluster: Cluster) -> None:
    def stamp(request: dict[str, Any]) -> dict[str, Any]:
        return allow({"op": "add", "path": "/data/stamped", "value": request["namespace"]})

    with webhook(cluster, stamp) as hook:
        hook.register(cluster, resources=["pods"])
        hook.wait_called(cluster)

        made = cluster.create(config_map("a"))

    assert made["data"]["stamped"] == cluster.namespace
