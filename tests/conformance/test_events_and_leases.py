"""Events in both groups, and the Leases that leaders hold."""

from __future__ import annotations

from typing import Any

from fairlead.kube.resources import Resource
from support.cluster import Cluster
from support.manifests import event

NEW_EVENTS = Resource("events.k8s.io", "v1", "events", "Event")


def new_event(cluster: Cluster, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": cluster.namespace},
        "eventTime": "2026-01-02T03:04:05.123456Z",
        "type": "Warning",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": "0/1 nodes are available",
        "reportingController": "fairlead.dev/scheduler",
        "reportingInstance": "fairlead-1",
        "regarding": {"kind": "Pod", "namespace": cluster.namespace, "name": "a", "apiVersion": "v1"},
    }


def test_an_event_written_in_one_group_is_read_in_the_other(cluster: Cluster) -> None:
    cluster.wire.request("POST", cluster.path(NEW_EVENTS), new_event(cluster, "e")).ok()

    old = cluster.get("Event", "e")

    assert (old["reason"], old["message"], old["type"]) == (
        "FailedScheduling",
        "0/1 nodes are available",
        "Warning",
    )
    assert old["involvedObject"]["name"] == "a"
    assert old["reportingComponent"] == "fairlead.dev/scheduler"
    assert old["eventTime"] == "2026-01-02T03:04:05.123456Z"
    assert cluster.get(NEW_EVENTS, "e")["note"] == "0/1 nodes are available"


def test_an_old_event_is_read_in_the_new_group(cluster: Cluster) -> None:
    cluster.create(event(cluster, "e", count=3))

    new = cluster.get(NEW_EVENTS, "e")

    assert (new["note"], new["regarding"]["name"]) == ("it was", "a")
    assert new["deprecatedCount"] == 3
    assert new["deprecatedSource"] == {"component": "conformance"}


def test_events_are_selected_by_what_they_are_about(cluster: Cluster) -> None:
    cluster.create(event(cluster, "mine"))
    other = event(cluster, "other")
    other["involvedObject"]["name"] = "b"
    cluster.create(other)

    assert cluster.names("Event", fieldSelector="involvedObject.name=a,involvedObject.kind=Pod") == ["mine"]
    assert cluster.names("Event", fieldSelector="reason=Tested,type=Normal") == ["mine", "other"]


def test_an_event_about_another_namespace_is_refused(cluster: Cluster) -> None:
    wrong = event(cluster, "e")
    wrong["involvedObject"]["namespace"] = "elsewhere"

    status = cluster.try_create(wrong).refused(422, "Invalid")

    assert status["details"]["causes"][0]["field"] == "involvedObject.namespace"


def test_a_new_event_without_an_action_is_invalid(cluster: Cluster) -> None:
    body = new_event(cluster, "e")
    del body["action"]

    status = cluster.wire.request("POST", cluster.path(NEW_EVENTS), body).refused(422, "Invalid")

    assert status["details"]["causes"][0]["field"] == "action"


def test_a_series_is_patched_in(cluster: Cluster) -> None:
    cluster.wire.request("POST", cluster.path(NEW_EVENTS), new_event(cluster, "e")).ok()
    series = {"count": 2, "lastObservedTime": "2026-01-02T03:05:05.000000Z"}

    patched = cluster.patch(NEW_EVENTS, "e", {"series": series})

    assert patched["series"] == series


def lease(holder: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T03:04:05.000000Z",
            "renewTime": "2026-01-02T03:04:05.123456Z",
            "leaseTransitions": 0,
        },
    }


def test_a_lease_keeps_its_microseconds(cluster: Cluster) -> None:
    made = cluster.create(lease("me"))

    assert made["spec"]["renewTime"] == "2026-01-02T03:04:05.123456Z"
    assert made["spec"]["acquireTime"] == "2026-01-02T03:04:05.000000Z"


def test_of_two_who_want_a_lease_from_the_same_version_one_wins(cluster: Cluster) -> None:
    free = cluster.create(lease("old"))

    cluster.update({**free, "spec": {**free["spec"], "holderIdentity": "first"}})
    answer = cluster.try_update({**free, "spec": {**free["spec"], "holderIdentity": "second"}})

    answer.refused(409, "Conflict")
    assert cluster.get("Lease", "leader")["spec"]["holderIdentity"] == "first"


def test_a_lease_of_no_time_is_invalid(cluster: Cluster) -> None:
    body = lease("me")
    body["spec"]["leaseDurationSeconds"] = 0

    cluster.try_create(body).refused(422, "Invalid")
