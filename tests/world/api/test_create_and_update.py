"""What the API makes of objects on their way in: identity, system fields, status, generation."""

from __future__ import annotations

import copy
import re
from typing import Any

from fairlead.world.admission import AdmissionRequest
from fairlead.world.api import Api, DeleteOptions, Options
from fairlead.world.schema.resources import (
    CONFIGMAPS,
    CRDS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
)
from support.embedded import causes, clock_of, embedded_api, refused
from support.manifests import budget, config_map, deployment, job, pod


class TestCreation:
    def test_system_fields_are_the_servers(self, api: Api) -> None:
        body = config_map("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7)
        made = api.create(CONFIGMAPS, body, "default")["metadata"]
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", made["uid"])
        assert made["creationTimestamp"] == "2026-01-02T03:04:05Z"
        assert made["namespace"] == "default"
        assert "generation" not in made

    def test_the_callers_object_is_neither_kept_nor_changed(self, api: Api) -> None:
        body = pod("a")
        before = copy.deepcopy(body)
        made = api.create(PODS, body, "default")
        assert body == before
        body["spec"]["containers"][0]["image"] = "other"
        assert made["spec"]["containers"][0]["image"] == "image"

    def test_generated_names_are_new_and_tried_again_when_taken(self) -> None:
        class FewIds:
            def __init__(self) -> None:
                self.drawn = iter(["aaaaa", "aaaaa", "bbbbb"])
                self.number = 0

            def uid(self) -> str:
                self.number += 1
                return f"uid-{self.number}"

            def suffix(self) -> str:
                return next(self.drawn)

        api = embedded_api()
        api.ids = FewIds()
        first = api.create(CONFIGMAPS, config_map(generateName="x-"), "default")
        second = api.create(CONFIGMAPS, config_map(generateName="x-"), "default")
        assert [each["metadata"]["name"] for each in (first, second)] == ["x-aaaaa", "x-bbbbb"]

    def test_two_runs_with_the_same_ids_give_the_same_objects(self) -> None:
        made = [embedded_api().create(PODS, pod(generateName="x-"), "default") for _ in range(2)]
        assert made[0] == made[1]

    def test_a_second_object_of_the_same_name_already_exists(self, api: Api) -> None:
        api.create(CONFIGMAPS, config_map("a"), "default")
        error = refused(lambda: api.create(CONFIGMAPS, config_map("a"), "default"), 409, "AlreadyExists")
        assert error.message == 'configmaps "a" already exists'
        assert error.details == {"name": "a", "kind": "configmaps"}

    def test_it_needs_a_namespace_that_exists(self, api: Api) -> None:
        error = refused(lambda: api.create(CONFIGMAPS, config_map("a"), "nowhere"), 404, "NotFound")
        assert error.message == 'namespaces "nowhere" not found'

    def test_the_objects_namespace_must_be_the_requests(self, api: Api) -> None:
        refused(lambda: api.create(CONFIGMAPS, config_map("a", namespace="b"), "default"), 400, "BadRequest")

    def test_unknown_fields_nulls_and_empty_values_do_not_survive(self, api: Api) -> None:
        body = {**config_map("a", labels={}, annotations=None), "nonsense": 1, "binaryData": {}}
        made = api.create(CONFIGMAPS, body, "default")
        assert set(made) == {"apiVersion", "kind", "metadata", "data"}
        assert set(made["metadata"]) == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}

    def test_a_value_of_the_wrong_type_is_a_bad_request_in_gos_words(self, api: Api) -> None:
        body = deployment("web")
        body["spec"]["replicas"] = "3"
        error = refused(lambda: api.create(DEPLOYMENTS, body, "default"), 400, "BadRequest")
        assert error.message == (
            'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string '
            "into Go struct field DeploymentSpec.spec.replicas of type int32"
        )

    def test_a_dry_run_shows_everything_and_stores_nothing(self, api: Api) -> None:
        version = api.store.rv
        shown = api.create(PODS, pod("a"), "default", Options(dry_run=True))
        assert shown["status"]["phase"] == "Pending"
        assert api.store.rv == version
        assert api.store.get(PODS, "default", "a") is None

    def test_a_creator_does_not_choose_the_status_except_a_nodes(self, api: Api) -> None:
        made = api.create(PODS, {**pod("a"), "status": {"phase": "Running"}}, "default")
        assert made["status"]["phase"] == "Pending"
        node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}
        assert api.create(NODES, node)["status"]["allocatable"] == {"cpu": "4"}

    def test_string_data_of_a_secret_becomes_data(self, api: Api) -> None:
        made = api.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "b"}}, "default")
        assert made["data"] == {"a": "Yg=="}
        assert "stringData" not in made

    def test_services_get_addresses_of_their_own(self, api: Api) -> None:
        body = {"metadata": {"generateName": "s-"}, "spec": {"ports": [{"port": 80}]}}
        given = {api.create(SERVICES, body, "default")["spec"]["clusterIP"] for _ in range(5)}
        assert len(given) == 5
        assert "10.96.0.1" not in given  # the API server's own

    def test_a_jobs_selector_names_its_uid(self, api: Api) -> None:
        made = api.create(JOBS, job("j"), "default")
        uid = made["metadata"]["uid"]
        assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"


class TestUpdate:
    def test_the_version_a_client_saw_must_be_the_latest(self, api: Api) -> None:
        seen = api.create(CONFIGMAPS, config_map("a"), "default")
        api.patch(CONFIGMAPS, "a", {"data": {"k": "2"}}, "default")
        error = refused(lambda: api.update(CONFIGMAPS, seen), 409, "Conflict")
        assert error.message.endswith("please apply your changes to the latest version and try again")

    def test_without_a_version_the_last_write_wins_where_that_is_allowed(self, api: Api) -> None:
        api.create(CONFIGMAPS, config_map("a"), "default")
        assert api.update(CONFIGMAPS, config_map("a", data={"k": "2"}), "default")["data"] == {"k": "2"}

        api.create(POD_DISRUPTION_BUDGETS, budget("b", {"a": "b"}, minAvailable=1), "default")
        body = budget("b", {"a": "b"}, minAvailable=2)
        error = refused(lambda: api.update(POD_DISRUPTION_BUDGETS, body, "default"), 422, "Invalid")
        assert causes(error) == [("metadata.resourceVersion", "FieldValueInvalid")]

    def test_an_update_that_changes_nothing_keeps_the_version(self, api: Api) -> None:
        made = api.create(PODS, pod("a"), "default")
        assert api.update(PODS, copy.deepcopy(made)) is made
        assert api.patch(PODS, "a", {"metadata": {"labels": {"x": None}}}, "default") is made

    def test_another_uid_means_another_object(self, api: Api) -> None:
        made = api.create(CONFIGMAPS, config_map("a"), "default")
        other = {**made, "metadata": {"name": "a", "uid": "other"}}
        error = refused(lambda: api.update(CONFIGMAPS, other, "default"), 409, "Conflict")
        assert "UID in precondition: other" in error.message
        refused(lambda: api.patch(CONFIGMAPS, "a", {"metadata": {"uid": "x"}}, "default"), 422, "Invalid")

    def test_what_does_not_exist_is_created_only_where_a_put_may(self, api: Api) -> None:
        refused(lambda: api.update(CONFIGMAPS, config_map("a"), "default"), 404, "NotFound")
        assert api.update(LEASES, {"metadata": {"name": "l"}, "spec": {}}, "default")["metadata"]["uid"]

    def test_the_generation_counts_changes_of_the_spec_only(self, api: Api) -> None:
        api.create(DEPLOYMENTS, deployment("web", 1), "default")

        def generation(patch: dict[str, Any], subresource: str = "") -> int:
            patched = api.patch(DEPLOYMENTS, "web", patch, "default", subresource=subresource)
            number: int = patched["metadata"]["generation"]
            return number

        assert generation({"metadata": {"labels": {"a": "b"}}}) == 1
        assert generation({"status": {"replicas": 1}}, "status") == 1
        assert generation({"spec": {"replicas": 2}}) == 2
        # Annotations are copied to ReplicaSets, so they count, for Deployments alone.
        assert generation({"metadata": {"annotations": {"a": "b"}}}) == 3

    def test_spec_and_status_are_written_apart(self, api: Api) -> None:
        api.create(DEPLOYMENTS, deployment("web", 1), "default")
        both = {"spec": {"replicas": 5}, "status": {"replicas": 3}}
        assert api.patch(DEPLOYMENTS, "web", both, "default")["status"] == {}
        api.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 2}}, "default")
        patched = api.patch(DEPLOYMENTS, "web", both, "default", subresource="status")
        assert patched["spec"]["replicas"] == 2
        assert patched["status"] == {"replicas": 3}

    def test_the_status_of_what_has_no_such_subresource_is_part_of_it(self, api: Api) -> None:
        crd = definition("things", status=False)
        api.create(CRDS, crd)
        things = api.registry.of_kind("example.com/v1", "Thing")
        assert things is not None
        made = api.create(things, {"metadata": {"name": "t"}, "status": {"a": 1}}, "default")
        assert made["status"] == {"a": 1}


def definition(plural: str, *, status: bool = True, **more: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, **more}
    if status:
        version["subresources"] = {"status": {}, **more.get("subresources", {})}
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural[:-1].capitalize()},
            "versions": [version],
        },
    }


class TestCustomResources:
    def test_a_definition_is_established_and_served_at_once(self, api: Api) -> None:
        assert api.registry.of_kind("example.com/v1", "Thing") is None
        made = api.create(CRDS, definition("things"))
        assert {each["type"]: each["status"] for each in made["status"]["conditions"]} == {
            "NamesAccepted": "True",
            "Established": "True",
        }
        things = api.registry.of_kind("example.com/v1", "Thing")
        assert things is not None
        thing = {
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": {"name": "t"},
            "spec": {"x": None},
        }
        kept = api.create(things, thing, "default")
        assert kept["spec"] == {"x": None}  # without a schema nothing is pruned
        assert kept["metadata"]["generation"] == 1

        api.delete(CRDS, "things.example.com")
        assert api.registry.of_kind("example.com/v1", "Thing") is None

    def test_they_scale_by_the_paths_they_declare(self, api: Api) -> None:
        paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
        api.create(CRDS, definition("things", subresources={"scale": paths}))
        things = api.registry.of_kind("example.com/v1", "Thing")
        assert things is not None
        api.create(things, {"metadata": {"name": "t"}, "spec": {"size": 2}}, "default")
        scale = api.update_scale(things, "t", {"spec": {"replicas": 5}}, "default")
        assert scale["spec"] == {"replicas": 5}
        assert api.get(things, "t", "default")["spec"] == {"size": 5}


class TestHooks:
    """Admission in process, as virtual time uses it."""

    def test_a_hook_changes_what_is_stored_and_defaults_follow(self) -> None:
        def add_container(request: AdmissionRequest) -> dict[str, Any] | None:
            if request.resource != PODS or request.object is None:
                return None
            spec = request.object["spec"]
            more = [*spec["containers"], {"name": "side", "image": "side:1"}]
            return {**request.object, "spec": {**spec, "containers": more}}

        api = embedded_api(hooks=[add_container])
        made = api.create(PODS, pod("a"), "default")
        assert [each["name"] for each in made["spec"]["containers"]] == ["main", "side"]
        assert made["spec"]["containers"][1]["imagePullPolicy"] == "IfNotPresent"

    def test_a_hook_sees_a_generated_pod_without_a_name_or_uid(self) -> None:
        seen: list[AdmissionRequest] = []
        api = embedded_api(hooks=[seen.append])
        seen.clear()
        api.create(PODS, pod(generateName="x-"), "default")
        (request,) = seen
        assert request.name == ""
        assert request.object is not None
        assert "uid" not in request.object["metadata"]

    def test_an_object_that_a_hook_broke_is_an_error_of_the_server(self) -> None:
        def breaks(request: AdmissionRequest) -> dict[str, Any] | None:
            return (
                {**request.object, "data": 1} if request.object and request.resource == CONFIGMAPS else None
            )

        api = embedded_api(hooks=[breaks])
        refused(lambda: api.create(CONFIGMAPS, config_map("a"), "default"), 500, "InternalError")

    def test_hooks_run_in_order_and_see_each_others_work(self) -> None:
        def label(name: str) -> Any:
            def hook(request: AdmissionRequest) -> dict[str, Any] | None:
                if request.resource != CONFIGMAPS or request.object is None:
                    return None
                metadata = request.object["metadata"]
                order = (metadata.get("labels") or {}).get("order", "")
                return {**request.object, "metadata": {**metadata, "labels": {"order": order + name}}}

            return hook

        api = embedded_api(hooks=[label("a"), label("b")])
        made = api.create(CONFIGMAPS, config_map("x"), "default")
        assert made["metadata"]["labels"] == {"order": "ab"}

    def test_updates_and_deletions_show_the_object_before(self) -> None:
        seen: list[AdmissionRequest] = []
        api = embedded_api(hooks=[seen.append])
        made = api.create(CONFIGMAPS, config_map("a"), "default")
        seen.clear()
        changed = api.patch(CONFIGMAPS, "a", {"data": {"k": "2"}}, "default")
        api.delete(CONFIGMAPS, "a", "default")
        assert [request.operation for request in seen] == ["UPDATE", "DELETE"]
        assert seen[0].old is made
        assert seen[1].old is changed
        assert seen[1].object is None


class TestNamespaces:
    def test_every_cluster_has_its_own(self, api: Api) -> None:
        held = api.list(NAMESPACES).items
        assert [each["metadata"]["name"] for each in held] == [
            "default",
            "kube-node-lease",
            "kube-public",
            "kube-system",
        ]
        assert held[0]["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}

    def test_a_deleted_namespace_goes_with_the_last_of_its_content(self, api: Api) -> None:
        api.create(NAMESPACES, {"metadata": {"name": "shop"}})
        api.create(CONFIGMAPS, config_map("a"), "shop")
        api.create(PODS, pod("bound", spec={"nodeName": "n1"}), "shop")

        left = api.delete(NAMESPACES, "shop")
        assert not left.removed
        assert left.object["status"]["phase"] == "Terminating"
        assert api.list(CONFIGMAPS, "shop").items == []
        error = refused(lambda: api.create(CONFIGMAPS, config_map("b"), "shop"), 403, "Forbidden")
        assert causes(error) == [("metadata.namespace", "NamespaceTerminating")]

        api.delete(PODS, "bound", "shop", DeleteOptions(grace_s=0))
        assert api.store.get(NAMESPACES, "", "shop") is None

    def test_the_default_one_stays(self, api: Api) -> None:
        refused(lambda: api.delete(NAMESPACES, "default"), 403, "Forbidden")


def test_time_is_the_clocks(api: Api) -> None:
    stamps = []
    for name in ("a", "b"):
        clock_of(api).pass_s(60)
        made = api.create(CONFIGMAPS, config_map(name), "default")
        stamps.append(made["metadata"]["creationTimestamp"])
    assert stamps == ["2026-01-02T03:05:05Z", "2026-01-02T03:06:05Z"]
