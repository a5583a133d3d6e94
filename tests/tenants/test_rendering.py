"""A tenant's objects follow from its type and its parameters alone."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from fairlead.errors import BadInput, FairleadError
from fairlead.tenants.manifests import render
from fairlead.tenants.tenant import Tenant, place, read_sets, read_tenants
from fairlead.tenants.types import default_types
from support.tenants import by_kind, rendered, tenant, tenant_type

LABELS = {
    "app.kubernetes.io/managed-by": "fairlead",
    "fairlead.dev/tenant": "a",
    "fairlead.dev/tenant-type": "small",
}


def pods(objects: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = by_kind(objects)["Deployment"]["spec"]["template"]
    return found


def refs(objects: list[dict[str, Any]]) -> list[str]:
    return [f"{one['kind']}/{one['metadata']['name']}" for one in objects]


class TestObjects:
    @pytest.mark.parametrize(("kind", "size"), [("standard", "medium"), ("premium", "large")])
    def test_a_default_tenant_has_a_node_of_its_group_to_itself(self, kind: str, size: str) -> None:
        made = pods(render(Tenant("a", kind, "shop"), default_types()[kind]))
        spec = made["spec"]
        assert spec["nodeSelector"] == {"size": size}
        assert spec["tolerations"] == [
            {"key": "size", "operator": "Equal", "value": size, "effect": "NoSchedule"}
        ]
        # In the terms of kube-scheduler and autoscalers, whatever the namespace, and in ours.
        assert spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == [
            {
                "labelSelector": {
                    "matchExpressions": [{"key": "fairlead.dev/exclusive", "operator": "Exists"}]
                },
                "namespaceSelector": {},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
        assert "fairlead.dev/exclusive" in made["metadata"]["labels"]
        assert made["metadata"]["annotations"]["fairlead.dev/capacity"] == "exclusive"
        assert "schedulerName" not in spec

    def test_a_default_tenant_is_several_objects_each_after_what_it_refers_to(self) -> None:
        made = render(Tenant("a", "premium", "a", own_namespace=True), default_types()["premium"])
        assert [one["kind"] for one in made] == [
            "Namespace",
            "ServiceAccount",
            "ConfigMap",
            "Secret",
            "ResourceQuota",
            "NetworkPolicy",
            "PodDisruptionBudget",
            "Service",
            "Deployment",
        ]

    def test_every_object_and_every_pod_says_whose_it_is(self) -> None:
        extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"own": 1}}}
        made = rendered(tenant(own=True), objects=[extra])
        for one in [*made, pods(made)]:
            assert LABELS.items() <= one["metadata"]["labels"].items()
        assert {one["metadata"].get("namespace") for one in made} == {"shop", None}
        (own,) = [one for one in made if one["metadata"]["name"] == "x"]
        assert own["metadata"]["labels"]["own"] == "1"

    def test_a_quota_is_only_made_where_it_counts_nothing_but_the_tenant(self) -> None:
        assert "ResourceQuota" not in by_kind(rendered(quota={"pods": 3}))
        made = by_kind(rendered(tenant(own=True), quota={"pods": 3, "requests.cpu": "2"}))
        assert made["ResourceQuota"]["spec"] == {"hard": {"pods": "3", "requests.cpu": "2"}}

    def test_what_a_type_does_not_say_is_left_out(self) -> None:
        assert refs(rendered(disruption={})) == [
            "ServiceAccount/a",
            "ConfigMap/a",
            "Secret/a",
            "Deployment/a",
        ]
        assert set(pods(rendered())["spec"]) == {"serviceAccountName", "containers"}

    def test_a_budget_never_blocks_a_drain_by_default(self) -> None:
        assert by_kind(rendered())["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1

    def test_the_scheduler_is_the_types(self) -> None:
        assert pods(rendered(schedulerName="fairlead"))["spec"]["schedulerName"] == "fairlead"

    def test_pods_get_config_and_secret_as_environment(self) -> None:
        made = rendered(config={"N": 3, "ON": True}, secret={"KEY": "s3cret"})
        assert by_kind(made)["ConfigMap"]["data"] == {"N": "3", "ON": "true"}
        assert by_kind(made)["Secret"]["data"] == {"KEY": base64.b64encode(b"s3cret").decode()}
        (container,) = pods(made)["spec"]["containers"]
        assert container["envFrom"] == [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "a"}}]

    def test_changed_config_makes_pods_anew_and_a_changed_secret_shows_nowhere(self) -> None:
        said = [pods(rendered(config={"A": value}))["metadata"]["annotations"] for value in "xyx"]
        assert said[0] == said[2] != said[1]
        assert pods(rendered(secret={"A": "x"})) == pods(rendered(secret={"A": "y"}))

    def test_ports_go_to_the_service_and_the_container(self) -> None:
        made = rendered(ports=[{"port": 80, "targetPort": 8080, "name": "http"}, {"port": 9}])
        assert by_kind(made)["Service"]["spec"]["ports"] == [
            {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"},
            {"name": "port-9", "port": 9, "targetPort": "port-9", "protocol": "TCP"},
        ]
        assert pods(made)["spec"]["containers"][0]["ports"] == [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
            {"name": "port-9", "containerPort": 9, "protocol": "TCP"},
        ]

    def test_pods_and_containers_take_further_fields(self) -> None:
        made = rendered(
            exclusive=True,
            pod={"priorityClassName": "high", "affinity": {"nodeAffinity": {}}},
            container={"args": ["--tenant=${name}"]},
        )
        spec = pods(made)["spec"]
        assert spec["priorityClassName"] == "high"
        assert set(spec["affinity"]) == {"nodeAffinity", "podAntiAffinity"}
        assert spec["containers"][0]["args"] == ["--tenant=a"]

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"pod": {"tolerations": []}}, "pod.tolerations: may not be said here"),
            ({"container": {"image": "x"}}, "container.image: may not be said here"),
            ({"tolerations": ["size=large:NO_SCHEDULE"]}, "tolerations[0]: 'size=large:NO_SCHEDULE' is not"),
            ({"tolerations": ["size"]}, "tolerations[0]"),
            ({"tolerations": [{"key": 3}]}, "tolerations[0].key"),
            ({"objects": [{"kind": "ConfigMap"}]}, "objects[0].apiVersion: is missing"),
            (
                {"objects": [{"apiVersion": "v1", "kind": "ConfigMap"}]},
                "objects[0].metadata.name: is missing",
            ),
            (
                {"objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]},
                "there are two of ConfigMap/a",
            ),
            (
                {"objects": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}]},
                "Node belongs to no namespace",
            ),
            (
                {
                    "objects": [
                        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "y"}}
                    ]
                },
                "objects[0].metadata.namespace: is not the tenant's, shop",
            ),
            ({"dependsOn": {"Deployment/a": ["Job/x"]}}, "dependsOn.Deployment/a: there is no Job/x"),
            (
                {"dependsOn": {"Secret/a": ["ConfigMap/a"], "ConfigMap/a": ["Secret/a"]}},
                "dependsOn: go round in a circle",
            ),
            ({"config": {"A": {"b": 1}}}, "config.A: is not a text"),
        ],
    )
    def test_a_type_that_makes_no_sense_is_named(self, fields: dict[str, Any], said: str) -> None:
        with pytest.raises(FairleadError) as error:
            rendered(**fields)
        assert said in str(error.value)
        assert "types.yaml: tenant type small" in str(error.value)
        assert error.value.exit_code == 2


class TestOrder:
    JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "${name}-migrate"}, "spec": {}}

    def test_declared_dependencies_come_first_and_are_noted(self) -> None:
        made = rendered(objects=[self.JOB], dependsOn={"Deployment/${name}": ["Job/${name}-migrate"]})
        assert refs(made)[-2:] == ["Job/a-migrate", "Deployment/a"]
        assert made[-1]["metadata"]["annotations"] == {"fairlead.dev/depends-on": "Job/a-migrate"}

    def test_without_them_kinds_decide(self) -> None:
        custom = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}}
        assert refs(rendered(objects=[custom, self.JOB]))[-3:] == ["Deployment/a", "Job/a-migrate", "Thing/t"]

    def test_further_kinds_are_noted_where_they_are_found_again(self) -> None:
        made = by_kind(rendered(objects=[self.JOB]))
        noted = made["ServiceAccount"]["metadata"]["annotations"]
        assert noted == {"fairlead.dev/further-kinds": "batch/v1/Job"}
        assert "annotations" not in by_kind(rendered())["ServiceAccount"]["metadata"]


class TestParameters:
    def test_a_text_that_is_one_placeholder_takes_the_value_as_it_is(self) -> None:
        fields: dict[str, Any] = {
            "parameters": {"n": 2, "args": ["x"], "v": "1.0"},
            "replicas": "${n}",
            "container": {"args": "${args}"},
            "image": "i:${v}",
        }
        made = rendered(tenant(n="3", args=["y", "${n}"], v="1.10"), **fields)
        assert by_kind(made)["Deployment"]["spec"]["replicas"] == 3
        (container,) = pods(made)["spec"]["containers"]
        assert container["args"] == ["y", "${n}"]  # what a tenant says is no template
        assert container["image"] == "i:1.10"

    def test_keys_are_filled_and_a_dollar_can_be_escaped(self) -> None:
        made = by_kind(rendered(config={"${name}_URL": "http://${name}.${namespace}", "RAW": "$${name}"}))
        assert made["ConfigMap"]["data"] == {"a_URL": "http://a.shop", "RAW": "${name}"}

    def test_defaults_may_name_the_tenant(self) -> None:
        made = by_kind(rendered(parameters={"host": "${name}.${type}"}, config={"HOST": "${host}"}))
        assert made["ConfigMap"]["data"] == {"HOST": "a.small"}

    def test_members_of_an_object_are_set_one_by_one(self) -> None:
        given = read_sets(["config.A=2", "config.B=3"])
        made = by_kind(
            rendered(tenant(**given), parameters={"config": {"A": "1", "C": "1"}}, config="${config}")
        )
        assert made["ConfigMap"]["data"] == {"A": "2", "B": "3", "C": "1"}

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({}, "tenant a: type small needs the parameter 'must': --set must=VALUE"),
            (
                {"must": "x", "mist": 1},
                "type small has no parameter 'mist'; there are: args, flag, map, must, n",
            ),
            ({"must": "x", "name": "b"}, "parameter 'name' comes from the tenant itself"),
            ({"must": "x", "n": "many"}, "parameter 'n' of type small: 'many' is not a whole number"),
            ({"must": "x", "n": 1.5}, "1.5 is not a whole number"),
            ({"must": "x", "flag": "yes"}, "'yes' is neither true nor false"),
            ({"must": "x", "map": "y"}, "is an object; say --set NAME.MEMBER=VALUE"),
            ({"must": "x", "args": "y"}, "is a list; give it in a values file"),
            ({"must": ["x"]}, "is a text, not a list or an object"),
        ],
    )
    def test_a_tenant_that_gives_them_wrongly_is_told(self, given: dict[str, Any], said: str) -> None:
        parameters = {"must": None, "n": 1, "flag": False, "map": {}, "args": []}
        with pytest.raises(BadInput) as error:
            rendered(Tenant("a", "small", "shop", given), parameters=parameters)
        assert said in str(error.value)

    def test_a_list_has_no_place_inside_a_text(self) -> None:
        with pytest.raises(FairleadError, match=r"config.A: \$\{l\} is a list or an object"):
            rendered(parameters={"l": []}, config={"A": "x${l}"})

    @pytest.mark.parametrize("said", ["a", "=b", "a..b=c", ""])
    def test_a_malformed_set_is_refused(self, said: str) -> None:
        with pytest.raises(BadInput, match="expected NAME=VALUE"):
            read_sets([said])


class TestPlace:
    def test_tenants_share_a_namespace_unless_type_or_caller_say_otherwise(self) -> None:
        assert place(tenant_type(), "a", "shop") == ("shop", False)
        assert place(tenant_type(), "a", "shop", alone=True) == ("a", True)
        assert place(tenant_type(namespace=True), "a", "shop") == ("a", True)
        assert place(tenant_type(namespace="team-${name}"), "a", "shop") == ("team-a", True)

    def test_its_own_namespace_is_where_everything_is(self) -> None:
        made = rendered(tenant("a", namespace="team-a", own=True))
        assert made[0]["metadata"]["name"] == "team-a"
        assert {one["metadata"]["namespace"] for one in made[1:]} == {"team-a"}

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("", "is empty"),
            ("A", "upper case letter 'A' at position 1"),
            ("a_b", "character '_' at position 2"),
            ("a.b", "character '.' at position 2"),
            ("1a", "begins with '1'"),
            ("-a", "begins with '-'"),
            ("a-", "ends with '-'"),
            ("a" * 64, "has 64 characters"),
        ],
    )
    def test_a_name_that_is_no_dns_label_is_refused_with_what_is_wrong(self, name: str, said: str) -> None:
        document = {
            "apiVersion": "fairlead.dev/v1alpha1",
            "kind": "Tenants",
            "tenants": [{"name": name, "type": "small"}],
        }
        with pytest.raises(BadInput) as error:
            read_tenants([document], "tenants.yaml")
        assert said in str(error.value)
        assert f"tenants.yaml: tenant {name!r}" in str(error.value)


class TestWhatMustNotBeSaid:
    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            (
                {"tolerations": [{"key": "a", "effect": "NO_SCHEDULE"}]},
                "[0].effect: 'NO_SCHEDULE'",
            ),
            (
                {"tolerations": [{"key": "a", "efect": "NoSchedule"}]},
                "[0].efect: there is no such",
            ),
            ({"tolerations": [{"key": "a", "operator": "In"}]}, "tolerations[0].operator"),
        ],
    )
    def test_a_toleration_that_would_tolerate_more_than_is_meant(
        self, fields: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(FairleadError, match=re.escape(said)):
            rendered(**fields)

    @pytest.mark.parametrize(
        ("metadata", "said"),
        [
            ({"annotations": ["a"]}, "objects[0].metadata.annotations: is not an object"),
            ({"labels": "a"}, "objects[0].metadata.labels: is not an object"),
            ({"annotations": {"a": []}}, "objects[0].metadata.annotations.a: is not a text"),
            ({"annotations": {"fairlead.dev/depends-on": "Foo/bar"}}, "may not be said here: see dependsOn"),
        ],
    )
    def test_notes_of_further_objects_that_are_none(self, metadata: dict[str, Any], said: str) -> None:
        extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more", **metadata}}
        with pytest.raises(FairleadError, match=re.escape(said)):
            rendered(objects=[extra])

    def test_no_notes_are_as_good_as_empty_ones(self) -> None:
        extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more", "annotations": None}}
        made = rendered(objects=[extra], dependsOn={"ConfigMap/more": ["ServiceAccount/a"]})
        (found,) = (one for one in made if one["metadata"]["name"] == "more")
        assert found["metadata"]["annotations"] == {"fairlead.dev/depends-on": "ServiceAccount/a"}
