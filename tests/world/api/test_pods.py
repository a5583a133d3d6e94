"""Pods: what is filled in, what may change, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.world.api import Api
from fairlead.world.schema.resources import NODES, PODS, PRIORITY_CLASSES, RUNTIME_CLASSES
from fairlead.world.schema.shape import canonical
from support.embedded import causes, refused
from support.manifests import pod


def made_from(api: Api, **spec: Any) -> dict[str, Any]:
    created: dict[str, Any] = api.create(PODS, pod("a", spec=spec), "default")["spec"]
    return created


def with_resources(**resources: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "image": "image", "resources": resources}]


class TestDefaults:
    def test_a_bare_pod_gets_what_the_api_server_gives(self, api: Api) -> None:
        body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "image"}]}}
        made = api.create(PODS, body, "default")
        assert made["spec"] == {
            "containers": [
                {
                    "name": "main",
                    "image": "image",
                    "imagePullPolicy": "Always",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{taint}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for taint in ("not-ready", "unreachable")
            ],
        }
        assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
        assert made["metadata"]["generation"] == 1

    @pytest.mark.parametrize(
        ("image", "policy"),
        [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.2", "IfNotPresent"),
            ("host:5000/nginx", "Always"),
            ("nginx@sha256:abc", "IfNotPresent"),
        ],
    )
    def test_the_pull_policy_follows_the_tag(self, api: Api, image: str, policy: str) -> None:
        spec = made_from(api, containers=[{"name": "main", "image": image}])
        assert spec["containers"][0]["imagePullPolicy"] == policy

    def test_requests_come_from_limits_and_quantities_get_one_spelling(self, api: Api) -> None:
        resources = {"limits": {"cpu": 1.5, "memory": "1024Mi"}, "requests": {"cpu": "1000m"}}
        spec = made_from(api, containers=with_resources(**resources))
        assert spec["containers"][0]["resources"] == {
            "limits": {"cpu": "1500m", "memory": "1Gi"},
            "requests": {"cpu": "1", "memory": "1Gi"},
        }

    @pytest.mark.parametrize(
        ("resources", "qos"),
        [
            ({}, "BestEffort"),
            ({"requests": {"cpu": "1"}}, "Burstable"),
            ({"limits": {"cpu": "1"}}, "Burstable"),
            ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
            ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ],
    )
    def test_the_class_of_service_follows_requests_and_limits(
        self, api: Api, resources: dict[str, Any], qos: str
    ) -> None:
        made = api.create(PODS, pod("a", spec={"containers": with_resources(**resources)}), "default")
        assert made["status"]["qosClass"] == qos

    def test_own_tolerations_of_lost_nodes_replace_the_default_ones(self, api: Api) -> None:
        own = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
        keys = [each["key"] for each in made_from(api, tolerations=own)["tolerations"]]
        assert keys == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]

    def test_match_label_keys_become_part_of_the_selector(self, api: Api) -> None:
        term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["app", "absent"]}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        made = api.create(PODS, pod("a", spec={"affinity": affinity}, labels={"app": "web"}), "default")
        anti = made["spec"]["affinity"]["podAntiAffinity"]
        (kept,) = anti["requiredDuringSchedulingIgnoredDuringExecution"]
        expression = {"key": "app", "operator": "In", "values": ["web"]}
        assert kept["labelSelector"] == {"matchExpressions": [expression]}

    def test_a_gated_pod_says_so_until_the_gate_is_removed(self, api: Api) -> None:
        made = api.create(PODS, pod("a", spec={"schedulingGates": [{"name": "x"}]}), "default")
        (condition,) = made["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")
        freed = api.patch(PODS, "a", {"spec": {"schedulingGates": None}}, "default")
        assert "conditions" not in freed["status"]

    def test_a_new_node_is_tainted_as_not_ready(self, api: Api) -> None:
        made = api.create(
            NODES, {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}
        )
        assert made["spec"]["taints"][-1] == {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TestPriority:
    def test_it_is_the_classs(self, api: Api) -> None:
        api.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"})
        spec = made_from(api, priorityClassName="high")
        assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")

    def test_system_classes_are_there(self, api: Api) -> None:
        assert made_from(api, priorityClassName="system-node-critical")["priority"] == 2_000_001_000

    def test_without_a_class_the_lowest_global_default_counts(self, api: Api) -> None:
        for name, value in (("b", 5), ("a", 9)):
            api.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, "globalDefault": True})
        spec = made_from(api)
        assert (spec["priorityClassName"], spec["priority"]) == ("b", 5)

    def test_an_unknown_class_and_a_number_of_ones_own_are_forbidden(self, api: Api) -> None:
        error = refused(lambda: made_from(api, priorityClassName="nope"), 403, "Forbidden")
        assert error.message == 'pods "a" is forbidden: no PriorityClass with name nope was found'
        error = refused(lambda: made_from(api, priority=5), 403, "Forbidden")
        assert "the integer value of priority (5) must not be provided in pod spec" in error.message


class TestRuntimeClass:
    def test_its_overhead_and_node_selection_become_the_pods(self, api: Api) -> None:
        runtime = {
            "metadata": {"name": "vm"},
            "handler": "vm",
            "overhead": {"podFixed": {"cpu": "10m"}},
            "scheduling": {
                "nodeSelector": {"vm": "yes"},
                "tolerations": [{"key": "vm", "operator": "Exists"}],
            },
        }
        api.create(RUNTIME_CLASSES, runtime)
        spec = made_from(api, runtimeClassName="vm", nodeSelector={"a": "b"})
        assert spec["overhead"] == {"cpu": "10m"}
        assert spec["nodeSelector"] == {"a": "b", "vm": "yes"}
        assert spec["tolerations"][0] == {"key": "vm", "operator": "Exists"}

    def test_an_unknown_one_is_forbidden(self, api: Api) -> None:
        refused(lambda: made_from(api, runtimeClassName="vm"), 403, "Forbidden")


class TestValidation:
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ({"containers": []}, [("spec.containers", "FieldValueRequired")]),
            ({"containers": [{"name": "a"}]}, [("spec.containers[0].image", "FieldValueRequired")]),
            (
                {"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]},
                [("spec.containers[1].name", "FieldValueDuplicate")],
            ),
            ({"restartPolicy": "Sometimes"}, [("spec.restartPolicy", "FieldValueNotSupported")]),
            (
                {"tolerations": [{"operator": "Equal", "value": "x"}]},
                [("spec.tolerations[0].operator", "FieldValueInvalid")],
            ),
            (
                {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]},
                [("spec.tolerations[0].effect", "FieldValueInvalid")],
            ),
            ({"nodeSelector": {"a": "b c"}}, [("spec.nodeSelector", "FieldValueInvalid")]),
            (
                {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "X"}]},
                [
                    ("spec.topologySpreadConstraints[0].maxSkew", "FieldValueInvalid"),
                    ("spec.topologySpreadConstraints[0].whenUnsatisfiable", "FieldValueNotSupported"),
                ],
            ),
            (
                {"containers": with_resources(requests={"cpu": "2"}, limits={"cpu": "1"})},
                [("spec.containers[0].resources.requests", "FieldValueInvalid")],
            ),
            (
                {"containers": with_resources(requests={"memory": "-1"})},
                [("spec.containers[0].resources.requests[memory]", "FieldValueInvalid")],
            ),
        ],
    )
    def test_every_wrong_field_is_named(self, api: Api, spec: dict[str, Any], expected: Any) -> None:
        assert causes(refused(lambda: made_from(api, **spec), 422, "Invalid")) == expected

    def test_bad_names_and_labels_are_explained(self, api: Api) -> None:
        error = refused(lambda: api.create(PODS, pod("Bad_Name", labels={"a": "b c"}), "default"), 422)
        assert [field for field, _ in causes(error)] == ["metadata.name", "metadata.labels"]
        assert (
            'Pod "Bad_Name" is invalid: [metadata.name: Invalid value: "Bad_Name": a lowercase'
            in error.message
        )


class TestChange:
    """What may change in a pod that exists."""

    @pytest.mark.parametrize(
        "patch",
        [
            {"containers": [{"name": "main", "image": "other"}]},
            {"activeDeadlineSeconds": 5},
        ],
    )
    def test_images_and_the_deadline_may(self, api: Api, patch: dict[str, Any]) -> None:
        api.create(PODS, pod("a"), "default")
        changed = api.patch(PODS, "a", {"spec": patch}, "default", kind="strategic")
        assert changed["metadata"]["generation"] == 2

    def test_tolerations_may_be_added_but_not_taken_away(self, api: Api) -> None:
        held = made_from(api)["tolerations"]
        more = [*held, {"key": "spot", "operator": "Exists"}]
        api.patch(PODS, "a", {"spec": {"tolerations": more}}, "default")
        error = refused(lambda: api.patch(PODS, "a", {"spec": {"tolerations": held}}, "default"), 422)
        assert causes(error)[0] == ("spec.tolerations", "FieldValueForbidden")

    @pytest.mark.parametrize(
        "patch",
        [
            {"nodeSelector": {"a": "b"}},
            {"schedulerName": "other"},
            {"nodeName": "n1"},
            {"affinity": {"nodeAffinity": {}}},
            {"schedulingGates": [{"name": "late"}]},
        ],
    )
    def test_nothing_else_may(self, api: Api, patch: dict[str, Any]) -> None:
        api.create(PODS, pod("a"), "default")
        error = refused(lambda: api.patch(PODS, "a", {"spec": patch}, "default"), 422, "Invalid")
        assert causes(error)[0][1] == "FieldValueForbidden"

    def test_a_gated_pods_node_selection_may_be_narrowed_not_widened(self, api: Api) -> None:
        gates = [{"name": "x"}]
        made_from(api, schedulingGates=gates, nodeSelector={"a": "b"})
        narrowed = api.patch(PODS, "a", {"spec": {"nodeSelector": {"c": "d"}}}, "default")
        assert narrowed["spec"]["nodeSelector"] == {"a": "b", "c": "d"}
        refused(lambda: api.patch(PODS, "a", {"spec": {"nodeSelector": {"a": None}}}, "default"), 422)

    def test_a_deletion_cost_must_be_a_number(self, api: Api) -> None:
        cost = {"controller.kubernetes.io/pod-deletion-cost": "cheap"}
        refused(lambda: api.create(PODS, pod("a", annotations=cost), "default"), 422, "Invalid")


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("0", "0"),
        ("1", "1"),
        ("1000m", "1"),
        ("0.1", "100m"),
        ("1.5", "1500m"),
        ("1000k", "1M"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("512Ki", "512Ki"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("1500e0", "1500"),
        ("100n", "100n"),
        ("-1Gi", "-1Gi"),
    ],
)
def test_quantities_are_written_back_in_one_spelling(written: str, kept: str) -> None:
    assert canonical(written) == kept
    assert canonical(kept) == kept


def test_a_resize_changes_resources_and_nothing_else(api: Api) -> None:
    made_from(api, containers=with_resources(requests={"cpu": "1"}))
    patch = {
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "2"}}}]}
    }
    refused(lambda: api.patch(PODS, "a", patch, "default", kind="strategic"), 422)
    resized = api.patch(PODS, "a", patch, "default", kind="strategic", subresource="resize")
    (container,) = resized["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "2"}}
    assert container["image"] == "image"
    assert resized["metadata"]["generation"] == 2
