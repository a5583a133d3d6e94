"""Server-side apply: what a manager states is there, what it stops stating goes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fairlead.world.api import Api, Options
from fairlead.world.schema.resources import CONFIGMAPS, CRDS, DEPLOYMENTS, PODS
from support.embedded import clock_of, refused
from support.manifests import config_map, deployment, pod

Object = dict[str, Any]


def apply(api: Api, body: Object, manager: str = "me", *, force: bool = False) -> Object:
    resource = api.registry.of_kind(body["apiVersion"], body["kind"])
    assert resource is not None
    options = Options(field_manager=manager, force=force)
    return api.patch(resource, body["metadata"]["name"], body, "default", options, kind="apply")


def managers(item: Object) -> list[str]:
    return [entry["manager"] for entry in item["metadata"].get("managedFields", [])]


def test_what_does_not_exist_is_created(api: Api) -> None:
    made = apply(api, deployment("web", 2))
    assert made["spec"]["replicas"] == 2
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("me", "Apply", "apps/v1")
    assert entry["fieldsV1"]["f:spec"]["f:replicas"] == {}
    assert "f:name" not in entry["fieldsV1"].get("f:metadata", {})


def test_applying_the_same_again_changes_nothing(api: Api) -> None:
    made = apply(api, deployment("web", 2))
    clock_of(api).pass_s(60)
    assert apply(api, deployment("web", 2)) is made


def test_a_field_no_longer_applied_falls_back_to_its_default_or_goes(api: Api) -> None:
    body = deployment("web", 2)
    body["metadata"]["labels"] = {"team": "a", "tier": "b"}
    apply(api, body)

    less = copy.deepcopy(body)
    del less["spec"]["replicas"], less["metadata"]["labels"]["tier"]
    changed = apply(api, less)
    assert changed["spec"]["replicas"] == 1
    assert changed["metadata"]["labels"] == {"team": "a"}


def test_items_of_keyed_lists_come_and_go_one_by_one(api: Api) -> None:
    body = deployment("web")
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    container["ports"] = [{"containerPort": 80}]
    apply(api, body)

    container["env"] = [{"name": "B", "value": "3"}]
    changed = apply(api, body)
    (kept,) = changed["spec"]["template"]["spec"]["containers"]
    assert kept["env"] == [{"name": "B", "value": "3"}]
    assert kept["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_what_others_wrote_stays(api: Api) -> None:
    api.create(CONFIGMAPS, config_map("a", data={"theirs": "1"}), "default")
    changed = apply(api, config_map("a", data={"mine": "2"}))
    assert changed["data"] == {"theirs": "1", "mine": "2"}
    assert apply(api, config_map("a", data={}))["data"] == {"theirs": "1"}


def test_a_field_that_somebody_else_changed_is_no_longer_ours_to_remove(api: Api) -> None:
    apply(api, deployment("web", 2))
    api.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, "default")
    body = deployment("web")
    del body["spec"]["replicas"]
    assert apply(api, body)["spec"]["replicas"] == 5


def test_two_managers_conflict_where_they_disagree_unless_forced(api: Api) -> None:
    apply(api, config_map("a", data={"k": "1", "x": "1"}))
    agreed = apply(api, config_map("a", data={"x": "1"}), "you")
    assert sorted(managers(agreed)) == ["me", "you"]

    error = refused(lambda: apply(api, config_map("a", data={"k": "2"}), "you"), 409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "me": .data.k'
    forced = apply(api, config_map("a", data={"k": "2"}), "you", force=True)
    assert forced["data"] == {"k": "2", "x": "1"}
    assert apply(api, config_map("a", data={}))["data"] == {"k": "2"}


def test_atomic_lists_are_replaced(api: Api) -> None:
    tolerations = [{"key": "a", "operator": "Exists"}]
    made = apply(api, pod("a", spec={"tolerations": tolerations}))
    assert made["spec"]["tolerations"][0] == tolerations[0]
    body = pod("a", spec={"tolerations": [*made["spec"]["tolerations"], {"key": "b", "operator": "Exists"}]})
    assert [each["key"] for each in apply(api, body)["spec"]["tolerations"]][-1] == "b"
    assert api.get(PODS, "a", "default")["metadata"]["generation"] == 2


def test_custom_objects_merge_by_member(api: Api) -> None:
    version = {"name": "v1", "served": True, "storage": True}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    api.create(CRDS, {"metadata": {"name": "things.example.com"}, "spec": spec})

    def thing(**fields: Any) -> Object:
        return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": fields}

    apply(api, thing(a=1, b={"c": 1}, d=[1, 2]))
    changed = apply(api, thing(b={"e": 2}, d=[3]))
    assert changed["spec"] == {"b": {"e": 2}, "d": [3]}


@pytest.mark.parametrize(
    ("body", "manager", "code"),
    [
        (config_map("a"), "", 422),
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, "me", 400),
        (config_map("a", managedFields=[{"manager": "x"}]), "me", 400),
        ([], "me", 400),
    ],
)
def test_what_cannot_be_applied_is_refused(api: Api, body: Any, manager: str, code: int) -> None:
    options = Options(field_manager=manager)
    refused(lambda: api.patch(CONFIGMAPS, "a", body, "default", options, kind="apply"), code)
