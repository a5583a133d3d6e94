"""Patching objects in the four ways there are."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster
from support.manifests import config_map, deployment, pod


class TestMerge:
    """JSON merge patch: maps are merged, null deletes, everything else is replaced."""

    def test_maps_are_merged_and_null_deletes(self, cluster: Cluster) -> None:
        cluster.create(config_map("a", data={"keep": "1", "drop": "2"}))

        patched = cluster.patch("ConfigMap", "a", {"data": {"drop": None, "new": "3"}})

        assert patched["data"] == {"keep": "1", "new": "3"}

    def test_lists_are_replaced(self, cluster: Cluster) -> None:
        cluster.create(pod("a"))

        patched = cluster.patch("Pod", "a", {"metadata": {"finalizers": ["x.io/a", "x.io/b"]}})
        assert patched["metadata"]["finalizers"] == ["x.io/a", "x.io/b"]

        patched = cluster.patch("Pod", "a", {"metadata": {"finalizers": ["x.io/c"]}})
        assert patched["metadata"]["finalizers"] == ["x.io/c"]
        cluster.patch("Pod", "a", {"metadata": {"finalizers": None}})

    def test_a_stale_version_in_the_patch_is_a_conflict(self, cluster: Cluster) -> None:
        stale = cluster.create(config_map("a"))["metadata"]["resourceVersion"]
        cluster.patch("ConfigMap", "a", {"data": {"k": "2"}})

        wish = {"metadata": {"resourceVersion": stale}, "data": {"k": "3"}}

        cluster.try_patch("ConfigMap", "a", wish).refused(409, "Conflict")

    def test_a_patch_that_changes_nothing_keeps_the_version(self, cluster: Cluster) -> None:
        made = cluster.create(config_map("a", data={"k": "1"}))

        same = cluster.patch("ConfigMap", "a", {"data": {"k": "1"}})

        assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    def test_a_patch_of_what_is_not_there_is_not_found(self, cluster: Cluster) -> None:
        cluster.try_patch("ConfigMap", "a", {"data": {}}).refused(404, "NotFound")

    def test_a_patch_that_is_no_json_is_a_bad_request(self, cluster: Cluster) -> None:
        cluster.create(config_map("a"))

        cluster.try_patch("ConfigMap", "a", b"{").refused(400, "BadRequest")

    def test_a_status_patch_leaves_the_spec_alone(self, cluster: Cluster) -> None:
        cluster.create(pod("a"))
        patch = {"spec": {"activeDeadlineSeconds": 7}, "status": {"message": "hello"}}

        patched = cluster.patch("Pod", "a", patch, sub="status")

        assert patched["status"]["message"] == "hello"
        assert "activeDeadlineSeconds" not in patched["spec"]

    def test_the_status_in_an_ordinary_patch_is_ignored(self, cluster: Cluster) -> None:
        cluster.create(pod("a"))

        assert "message" not in cluster.patch("Pod", "a", {"status": {"message": "hello"}})["status"]


class TestJson:
    """JSON patch: steps that all apply, or none does."""

    def test_steps_apply_in_order(self, cluster: Cluster) -> None:
        cluster.create(config_map("a", data={"a": "1"}))

        patched = cluster.patch(
            "ConfigMap",
            "a",
            [
                {"op": "test", "path": "/data/a", "value": "1"},
                {"op": "move", "from": "/data/a", "path": "/data/b"},
                {"op": "copy", "from": "/data/b", "path": "/data/c"},
                {"op": "replace", "path": "/data/c", "value": "2"},
                {"op": "add", "path": "/metadata/labels", "value": {"x.io/slash": "1"}},
                {"op": "remove", "path": "/metadata/labels/x.io~1slash"},
            ],
            "json",
        )

        assert patched["data"] == {"b": "1", "c": "2"}
        assert "labels" not in patched["metadata"]

    def test_a_test_that_fails_leaves_everything_as_it_was(self, cluster: Cluster) -> None:
        made = cluster.create(config_map("a", data={"a": "1"}))
        steps = [
            {"op": "add", "path": "/data/b", "value": "2"},
            {"op": "test", "path": "/data/a", "value": "other"},
        ]

        cluster.try_patch("ConfigMap", "a", steps, "json").refused(422, "Invalid")

        assert cluster.get("ConfigMap", "a") == made

    def test_removing_what_is_not_there_is_refused(self, cluster: Cluster) -> None:
        cluster.create(config_map("a"))
        steps = [{"op": "remove", "path": "/data/none"}]

        cluster.try_patch("ConfigMap", "a", steps, "json").refused(422, "Invalid")

    def test_a_version_that_is_tested_is_compare_and_swap(self, cluster: Cluster) -> None:
        stale = cluster.create(config_map("a"))["metadata"]["resourceVersion"]
        cluster.patch("ConfigMap", "a", {"data": {"k": "2"}})
        steps = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": stale},
            {"op": "add", "path": "/data/late", "value": "1"},
        ]

        cluster.try_patch("ConfigMap", "a", steps, "json").refused(422, "Invalid")

    def test_a_list_grows_at_its_end_with_a_dash(self, cluster: Cluster) -> None:
        cluster.create(pod("a"))
        steps = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "x", "operator": "Exists"}}]

        patched = cluster.patch("Pod", "a", steps, "json")

        assert [one["key"] for one in patched["spec"]["tolerations"]][-1] == "x"


class TestStrategic:
    """Strategic merge patch: lists with a key are merged by it."""

    def test_containers_are_merged_by_name(self, cluster: Cluster) -> None:
        cluster.create(deployment("web", 0))
        containers = [{"name": "side", "image": "s"}, {"name": "main", "image": "new"}]

        patched = cluster.patch(
            "Deployment", "web", {"spec": {"template": {"spec": {"containers": containers}}}}, "strategic"
        )

        found = patched["spec"]["template"]["spec"]["containers"]
        assert sorted((one["name"], one["image"]) for one in found) == [("main", "new"), ("side", "s")]
        assert all(one["imagePullPolicy"] for one in found)

    def test_an_entry_is_deleted_by_directive(self, cluster: Cluster) -> None:
        more = [{"name": "main", "image": "i"}, {"name": "side", "image": "s"}]
        cluster.create(deployment("web", 0, pods={"containers": more}))
        gone = [{"name": "side", "$patch": "delete"}]

        patched = cluster.patch(
            "Deployment", "web", {"spec": {"template": {"spec": {"containers": gone}}}}, "strategic"
        )

        assert [one["name"] for one in patched["spec"]["template"]["spec"]["containers"]] == ["main"]

    def test_conditions_are_merged_by_type(self, cluster: Cluster) -> None:
        cluster.create(pod("a"))
        for kind in ("x.io/A", "x.io/B"):
            condition = {"type": kind, "status": "True"}
            patched = cluster.patch(
                "Pod", "a", {"status": {"conditions": [condition]}}, "strategic", "status"
            )

        assert {one["type"] for one in patched["status"]["conditions"]} == {"x.io/A", "x.io/B"}

    def test_a_map_is_replaced_by_directive(self, cluster: Cluster) -> None:
        cluster.create(config_map("a", data={"old": "1"}))

        patched = cluster.patch("ConfigMap", "a", {"data": {"$patch": "replace", "new": "2"}}, "strategic")

        assert patched["data"] == {"new": "2"}

    def test_tolerations_are_replaced_as_a_whole(self, cluster: Cluster) -> None:
        cluster.create(deployment("web", 0, pods={"tolerations": [{"key": "a", "operator": "Exists"}]}))
        wish = {"spec": {"template": {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}}}}

        patched = cluster.patch("Deployment", "web", wish, "strategic")

        assert [one["key"] for one in patched["spec"]["template"]["spec"]["tolerations"]] == ["b"]

    def test_finalizers_are_merged_as_a_set(self, cluster: Cluster) -> None:
        cluster.create(config_map("a", finalizers=["x.io/a"]))

        patched = cluster.patch("ConfigMap", "a", {"metadata": {"finalizers": ["x.io/b"]}}, "strategic")
        cluster.patch("ConfigMap", "a", {"metadata": {"finalizers": None}})

        assert sorted(patched["metadata"]["finalizers"]) == ["x.io/a", "x.io/b"]

    def test_a_retain_keys_directive_drops_the_others(self, cluster: Cluster) -> None:
        cluster.create(deployment("web", 0))
        strategy = {"type": "Recreate", "$retainKeys": ["type"]}

        patched = cluster.patch("Deployment", "web", {"spec": {"strategy": strategy}}, "strategic")

        assert patched["spec"]["strategy"] == {"type": "Recreate"}


class TestApply:
    """Server-side apply, one manager."""

    def test_applying_creates_and_then_changes(self, cluster: Cluster) -> None:
        first = cluster.try_patch("ConfigMap", "a", config_map("a", data={"k": "1"}), "apply")
        second = cluster.try_patch("ConfigMap", "a", config_map("a", data={"k": "2"}), "apply")

        assert (first.status, second.status) == (201, 200)
        assert second.body["data"] == {"k": "2"}
        assert second.body["metadata"]["uid"] == first.body["metadata"]["uid"]

    def test_what_is_no_longer_applied_is_removed(self, cluster: Cluster) -> None:
        cluster.patch("ConfigMap", "a", config_map("a", data={"keep": "1", "drop": "2"}), "apply")

        applied = cluster.patch("ConfigMap", "a", config_map("a", data={"keep": "1"}), "apply")

        assert applied["data"] == {"keep": "1"}

    def test_what_others_wrote_stays(self, cluster: Cluster) -> None:
        cluster.patch("ConfigMap", "a", config_map("a", data={"mine": "1"}), "apply")
        cluster.patch("ConfigMap", "a", {"data": {"theirs": "2"}}, fieldManager="somebody")

        applied = cluster.patch("ConfigMap", "a", config_map("a", data={"mine": "3"}), "apply", force=True)

        assert applied["data"] == {"mine": "3", "theirs": "2"}

    def test_the_manager_is_on_record(self, cluster: Cluster) -> None:
        applied = cluster.patch("ConfigMap", "a", config_map("a"), "apply", fieldManager="me")

        assert [(one["manager"], one["operation"]) for one in applied["metadata"]["managedFields"]] == [
            ("me", "Apply")
        ]

    def test_lists_with_a_key_are_merged_by_it(self, cluster: Cluster) -> None:
        def applied(*names: str) -> dict[str, Any]:
            wish = deployment("web", 0)
            wish["spec"]["template"]["spec"] = {
                "containers": [{"name": name, "image": "i"} for name in names]
            }
            return cluster.patch("Deployment", "web", wish, "apply")["spec"]["template"]["spec"]

        applied("a", "b")

        assert [one["name"] for one in applied("b", "c")["containers"]] == ["b", "c"]

    def test_applying_the_same_twice_keeps_the_version(self, cluster: Cluster) -> None:
        first = cluster.patch("ConfigMap", "a", config_map("a"), "apply")
        second = cluster.patch("ConfigMap", "a", config_map("a"), "apply")

        assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]

    def test_a_manager_must_be_named(self, cluster: Cluster) -> None:
        answer = cluster.try_patch("ConfigMap", "a", config_map("a"), "apply", fieldManager="")

        assert "fieldManager" in answer.refused(422, "Invalid")["message"]

    def test_an_applied_status_leaves_the_spec_alone(self, cluster: Cluster) -> None:
        cluster.create(pod("a"))
        wish = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"message": "hi"}}

        applied = cluster.patch("Pod", "a", wish, "apply", "status")

        assert applied["status"]["message"] == "hi"


def test_a_patch_of_an_unknown_kind_is_an_unsupported_media_type(cluster: Cluster) -> None:
    cluster.create(config_map("a"))

    answer = cluster.wire.request(
        "PATCH", cluster.path("ConfigMap", "a"), {}, content_type="application/json"
    )

    answer.refused(415, "UnsupportedMediaType")
