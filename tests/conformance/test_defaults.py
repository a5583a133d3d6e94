"""What the server fills into specs, as far as anything of ours reads it."""

from __future__ import annotations

import pytest

from support.cluster import Cluster
from support.manifests import budget, deployment, job, pod, stateful_set
from support.versions import stateful_set_rolling_update


def test_a_pod_gets_its_defaults(cluster: Cluster) -> None:
    spec = cluster.create(pod("a", spec={"schedulerName": ""}))["spec"]

    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["enableServiceLinks"] is True
    assert spec["securityContext"] == {}
    assert spec["serviceAccountName"] == "default"
    assert spec["preemptionPolicy"] == "PreemptLowerPriority"
    assert spec["priority"] == 0


def test_a_new_pod_is_pending_and_its_quality_of_service_known(cluster: Cluster) -> None:
    made = cluster.create(pod("a"))

    assert made["status"]["phase"] == "Pending"
    assert made["status"]["qosClass"] == "BestEffort"


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ],
)
def test_quality_of_service_follows_requests_and_limits(
    cluster: Cluster, resources: dict[str, dict[str, str]], quality: str
) -> None:
    container = {"name": "c", "image": "i", "resources": resources}

    assert cluster.create(pod("a", spec={"containers": [container]}))["status"]["qosClass"] == quality


def test_a_containers_defaults(cluster: Cluster) -> None:
    (container,) = cluster.create(pod("a"))["spec"]["containers"]

    assert container["imagePullPolicy"] == "Always"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["terminationMessagePolicy"] == "File"
    assert container["resources"] == {}


def test_an_image_with_a_tag_is_pulled_only_if_absent(cluster: Cluster) -> None:
    made = cluster.create(pod("a", spec={"containers": [{"name": "c", "image": "i:1"}]}))

    assert made["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_limits_without_requests_become_requests(cluster: Cluster) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}

    made = cluster.create(pod("a", spec={"containers": [container]}))

    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}


def test_quantities_are_spelt_canonically(cluster: Cluster) -> None:
    requests = {"cpu": "0.5", "memory": "1024Mi", "ephemeral-storage": "1e3"}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}

    made = cluster.create(pod("a", spec={"containers": [container]}))

    assert made["spec"]["containers"][0]["resources"]["requests"] == {
        "cpu": "500m",
        "memory": "1Gi",
        "ephemeral-storage": "1e3",
    }


def test_a_pod_tolerates_lost_nodes_for_five_minutes(cluster: Cluster) -> None:
    made = cluster.create(pod("a"))

    assert [(one["key"], one["effect"], one["tolerationSeconds"]) for one in made["spec"]["tolerations"]] == [
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    ]


def test_a_priority_class_is_looked_up(cluster: Cluster) -> None:
    high = cluster.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": cluster.unique("high")},
            "value": 1234,
            "preemptionPolicy": "Never",
        }
    )["metadata"]["name"]

    spec = cluster.create(pod("a", spec={"priorityClassName": high}))["spec"]

    assert (spec["priority"], spec["preemptionPolicy"]) == (1234, "Never")


def test_a_priority_class_that_does_not_exist_is_forbidden(cluster: Cluster) -> None:
    status = cluster.try_create(pod("a", spec={"priorityClassName": "nope"})).refused(403, "Forbidden")

    assert status["message"] == ('pods "a" is forbidden: no PriorityClass with name nope was found')


def test_a_priority_without_a_class_must_be_the_default(cluster: Cluster) -> None:
    cluster.try_create(pod("a", spec={"priority": 5})).refused(403, "Forbidden")


def test_a_deployments_defaults(cluster: Cluster) -> None:
    manifest = deployment("web")
    del manifest["spec"]["replicas"]

    spec = cluster.create(manifest)["spec"]

    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }
    assert spec["revisionHistoryLimit"] == 10
    assert spec["progressDeadlineSeconds"] == 600


def test_a_stateful_sets_defaults(cluster: Cluster) -> None:
    spec = cluster.create(stateful_set("db", 0))["spec"]

    assert spec["podManagementPolicy"] == "OrderedReady"
    rolling_update = stateful_set_rolling_update(cluster.host.kubernetes)
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling_update}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_a_jobs_defaults_and_its_selector(cluster: Cluster) -> None:
    made = cluster.create(job("sum", spec={"suspend": True}))

    spec, uid = made["spec"], made["metadata"]["uid"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert spec["completionMode"] == "NonIndexed"
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    labels = spec["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "sum"
    assert labels["batch.kubernetes.io/controller-uid"] == labels["controller-uid"] == uid


def test_a_workload_whose_selector_misses_its_own_pods_is_invalid(cluster: Cluster) -> None:
    manifest = deployment("web", spec={"selector": {"matchLabels": {"app": "other"}}})

    status = cluster.try_create(manifest).refused(422, "Invalid")

    assert "`selector` does not match template `labels`" in status["message"]


def test_a_pod_without_containers_is_invalid(cluster: Cluster) -> None:
    status = cluster.try_create(pod("a", spec={"containers": []})).refused(422, "Invalid")

    assert [(cause["field"], cause["reason"]) for cause in status["details"]["causes"]] == [
        ("spec.containers", "FieldValueRequired")
    ]


def test_a_budget_says_how_many_or_it_is_invalid(cluster: Cluster) -> None:
    cluster.try_create(budget("b", {"a": "b"}, minAvailable=1, maxUnavailable=1)).refused(422, "Invalid")


def test_a_quantity_that_is_none_is_a_bad_request(cluster: Cluster) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "lots"}}}

    status = cluster.try_create(pod("a", spec={"containers": [container]})).refused(400, "BadRequest")

    assert "quantities must match the regular expression" in status["message"]


def test_a_new_node_is_tainted_until_it_is_ready(cluster: Cluster) -> None:
    name = cluster.unique("bare")

    made = cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})

    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
