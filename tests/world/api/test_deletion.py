"""Deletion: grace, finalizers, propagation, preconditions."""

from __future__ import annotations

from fairlead.world.api import Api, DeleteOptions
from fairlead.world.schema.resources import CONFIGMAPS, DEPLOYMENTS, PODS
from support.embedded import clock_of, refused
from support.manifests import config_map, deployment, pod


class TestGrace:
    def test_an_unbound_pod_goes_at_once(self, api: Api) -> None:
        api.create(PODS, pod("a"), "default")
        assert api.delete(PODS, "a", "default").removed

    def test_a_bound_pod_waits_for_whoever_runs_it(self, api: Api) -> None:
        api.create(PODS, pod("a", spec={"nodeName": "n1"}), "default")
        left = api.delete(PODS, "a", "default")
        assert not left.removed
        metadata = left.object["metadata"]
        assert metadata["deletionTimestamp"] == "2026-01-02T03:04:35Z"
        assert metadata["deletionGracePeriodSeconds"] == 30
        assert metadata["generation"] == 2
        assert api.delete(PODS, "a", "default", DeleteOptions(grace_s=0)).removed

    def test_a_finished_pod_goes_at_once(self, api: Api) -> None:
        api.create(PODS, pod("a", spec={"nodeName": "n1"}), "default")
        api.patch(PODS, "a", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
        assert api.delete(PODS, "a", "default").removed

    def test_grace_can_only_be_shortened(self, api: Api) -> None:
        api.create(PODS, pod("a", spec={"nodeName": "n1"}), "default")
        first = api.delete(PODS, "a", "default", DeleteOptions(grace_s=20)).object
        assert api.delete(PODS, "a", "default", DeleteOptions(grace_s=25)).object is first
        assert api.delete(PODS, "a", "default").object is first
        clock_of(api).pass_s(5)
        shorter = api.delete(PODS, "a", "default", DeleteOptions(grace_s=10)).object["metadata"]
        assert shorter["deletionTimestamp"] == "2026-01-02T03:04:15Z"
        assert shorter["deletionGracePeriodSeconds"] == 10

    def test_watchers_see_a_pod_marked_before_it_is_gone(self, api: Api) -> None:
        api.create(PODS, pod("a", spec={"nodeName": "n1"}), "default")
        since = api.store.rv
        api.delete(PODS, "a", "default", DeleteOptions(grace_s=0))
        assert [change.type for change in api.store.changes(PODS, since)] == ["MODIFIED", "DELETED"]


class TestFinalizers:
    def test_they_hold_an_object_until_the_last_is_removed(self, api: Api) -> None:
        api.create(CONFIGMAPS, config_map("a", finalizers=["x.io/a", "x.io/b"]), "default")
        left = api.delete(CONFIGMAPS, "a", "default")
        assert not left.removed
        assert left.object["metadata"]["deletionGracePeriodSeconds"] == 0

        api.patch(CONFIGMAPS, "a", {"metadata": {"finalizers": ["x.io/b"]}}, "default")
        assert api.store.get(CONFIGMAPS, "default", "a") is not None
        api.patch(CONFIGMAPS, "a", {"metadata": {"finalizers": None}}, "default")
        assert api.store.get(CONFIGMAPS, "default", "a") is None

    def test_none_can_be_added_to_what_is_being_deleted(self, api: Api) -> None:
        api.create(CONFIGMAPS, config_map("a", finalizers=["x.io/a"]), "default")
        api.delete(CONFIGMAPS, "a", "default")
        patch = {"metadata": {"finalizers": ["x.io/a", "x.io/b"]}}
        error = refused(lambda: api.patch(CONFIGMAPS, "a", patch, "default"), 422, "Invalid")
        assert 'found new finalizers []string{"x.io/b"}' in error.message

    def test_a_pod_with_finalizers_outlives_its_grace(self, api: Api) -> None:
        api.create(PODS, pod("a", spec={"nodeName": "n1"}, finalizers=["x.io/a"]), "default")
        assert not api.delete(PODS, "a", "default", DeleteOptions(grace_s=0)).removed
        api.patch(PODS, "a", {"metadata": {"finalizers": None}}, "default")
        assert api.store.get(PODS, "default", "a") is None

    def test_propagation_is_two_of_them(self, api: Api) -> None:
        for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
            api.create(DEPLOYMENTS, deployment(policy.lower()), "default")
            left = api.delete(DEPLOYMENTS, policy.lower(), "default", DeleteOptions(propagation=policy))
            assert left.object["metadata"]["finalizers"] == [finalizer]
            assert left.object["metadata"]["generation"] == 2
        api.create(DEPLOYMENTS, deployment("web"), "default")
        assert api.delete(DEPLOYMENTS, "web", "default", DeleteOptions(propagation="Background")).removed


class TestPreconditions:
    def test_the_uid_and_the_version_must_be_as_expected(self, api: Api) -> None:
        made = api.create(CONFIGMAPS, config_map("a"), "default")["metadata"]
        wrong = DeleteOptions(uid="other")
        error = refused(lambda: api.delete(CONFIGMAPS, "a", "default", wrong), 409, "Conflict")
        assert "The object might have been deleted and then recreated" in error.message
        stale = DeleteOptions(rv="1")
        error = refused(lambda: api.delete(CONFIGMAPS, "a", "default", stale), 409, "Conflict")
        assert "The object might have been modified" in error.message
        right = DeleteOptions(uid=made["uid"], rv=made["resourceVersion"])
        assert api.delete(CONFIGMAPS, "a", "default", right).removed

    def test_a_dry_run_says_what_would_happen(self, api: Api) -> None:
        api.create(PODS, pod("a"), "default")
        version = api.store.rv
        assert api.delete(PODS, "a", "default", DeleteOptions(dry_run=True)).removed
        assert api.store.rv == version

    def test_what_is_not_there_is_not_found(self, api: Api) -> None:
        error = refused(lambda: api.delete(DEPLOYMENTS, "web", "default"), 404, "NotFound")
        assert error.message == 'deployments.apps "web" not found'


def test_a_collection_is_deleted_as_selected(api: Api) -> None:
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        api.create(CONFIGMAPS, config_map(name, labels={"app": app}), "default")
    gone = api.delete_collection(CONFIGMAPS, "default", labels="app=x")
    assert [each["metadata"]["name"] for each in gone.items] == ["a", "c"]
    assert [each["metadata"]["name"] for each in api.list(CONFIGMAPS, "default").items] == ["b"]
