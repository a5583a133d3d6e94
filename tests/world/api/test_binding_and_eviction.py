"""The subresources through which schedulers act: binding, eviction, scale."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.world.api import Api, Options
from fairlead.world.schema.resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS
from support.embedded import causes, refused, running_pod
from support.manifests import budget, deployment, pod


def binding(node: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "target": {"kind": "Node", "name": node}}


class TestBinding:
    def test_a_pod_gets_its_node_and_the_bindings_labels_and_annotations(self, api: Api) -> None:
        api.create(PODS, pod("a", labels={"x": "1", "y": "1"}), "default")
        api.patch(PODS, "a", {"status": {"nominatedNodeName": "n9"}}, "default", subresource="status")
        api.bind("a", binding(labels={"y": "2"}, annotations={"z": "3"}), "default")

        bound = api.get(PODS, "a", "default")
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["labels"] == {"x": "1", "y": "2"}
        assert bound["metadata"]["annotations"] == {"z": "3"}
        assert bound["metadata"]["generation"] == 1
        assert "nominatedNodeName" not in bound["status"]
        (condition,) = bound["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            (pod("a", spec={"nodeName": "n9"}), 'pod a is already assigned to node "n9"'),
            (
                pod("a", spec={"schedulingGates": [{"name": "x"}]}),
                "pod a has non-empty .spec.schedulingGates",
            ),
        ],
    )
    def test_an_assigned_or_gated_pod_is_not_bound(self, api: Api, body: dict[str, Any], why: str) -> None:
        api.create(PODS, body, "default")
        error = refused(lambda: api.bind("a", binding(), "default"), 409, "Conflict")
        assert error.message == f'Operation cannot be fulfilled on pods/binding "a": {why}'

    def test_a_leaving_pod_is_not_bound(self, api: Api) -> None:
        api.create(PODS, pod("a", finalizers=["x.io/a"]), "default")
        api.delete(PODS, "a", "default")
        error = refused(lambda: api.bind("a", binding(), "default"), 409, "Conflict")
        assert "is being deleted, cannot be assigned to a host" in error.message

    def test_the_uid_is_a_precondition(self, api: Api) -> None:
        made = api.create(PODS, pod("a"), "default")
        error = refused(lambda: api.bind("a", binding(uid="other"), "default"), 409, "Conflict")
        assert "Precondition failed: UID in precondition: other" in error.message
        api.bind("a", binding(uid=made["metadata"]["uid"]), "default")

    def test_a_dry_run_binds_nothing(self, api: Api) -> None:
        api.create(PODS, pod("a"), "default")
        api.bind("a", binding(), "default", Options(dry_run=True))
        assert "nodeName" not in api.get(PODS, "a", "default")["spec"]


LABELS = {"app": "web"}


def guarded(api: Api, *, allowed: int, **status: Any) -> None:
    """A budget over ``app=web`` whose controller has looked at it."""
    api.create(POD_DISRUPTION_BUDGETS, budget("web", LABELS, minAvailable=1), "default")
    said = {"observedGeneration": 1, "disruptionsAllowed": allowed, "expectedPods": 2, **status}
    api.patch(POD_DISRUPTION_BUDGETS, "web", {"status": said}, "default", subresource="status")


class TestEviction:
    def test_without_a_budget_a_pod_is_deleted_and_told_why(self, api: Api) -> None:
        running_pod(api, pod("a"))
        assert not api.evict("a", "default").removed
        conditions = {each["type"]: each for each in api.get(PODS, "a", "default")["status"]["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"
        assert api.get(PODS, "a", "default")["metadata"]["deletionTimestamp"]

    def test_each_allowed_disruption_is_given_out_once(self, api: Api) -> None:
        guarded(api, allowed=1, currentHealthy=2, desiredHealthy=1)
        running_pod(api, pod("a", labels=LABELS))
        running_pod(api, pod("b", labels=LABELS))
        api.evict("a", "default")
        status = api.get(POD_DISRUPTION_BUDGETS, "web", "default")["status"]
        assert status["disruptionsAllowed"] == 0
        assert list(status["disruptedPods"]) == ["a"]

        error = refused(lambda: api.evict("b", "default"), 429, "TooManyRequests")
        assert error.message == "Cannot evict pod as it would violate the pod's disruption budget."
        (cause,) = error.details["causes"]  # type: ignore[misc]  # a list of dicts, as JSON
        assert cause["reason"] == "DisruptionBudget"

    def test_a_refusal_says_how_many_are_needed(self, api: Api) -> None:
        guarded(api, allowed=0, currentHealthy=1, desiredHealthy=1)
        running_pod(api, pod("a", labels=LABELS))
        error = refused(lambda: api.evict("a", "default"), 429)
        (cause,) = error.details["causes"]  # type: ignore[misc]  # a list of dicts, as JSON
        assert cause["message"] == "The disruption budget web needs 1 healthy pods and has 1 currently"

    def test_a_budget_that_was_just_changed_asks_to_come_back(self, api: Api) -> None:
        api.create(POD_DISRUPTION_BUDGETS, budget("web", LABELS, minAvailable=1), "default")
        running_pod(api, pod("a", labels=LABELS))
        error = refused(lambda: api.evict("a", "default"), 429)
        assert error.retry_after_s == 10
        assert "still being processed" in str(error.details)

    def test_two_budgets_are_an_error_for_good(self, api: Api) -> None:
        guarded(api, allowed=1)
        api.create(POD_DISRUPTION_BUDGETS, budget("more", LABELS, minAvailable=1), "default")
        running_pod(api, pod("a", labels=LABELS))
        error = refused(lambda: api.evict("a", "default"), 500)
        assert error.message.startswith("This pod has more than one PodDisruptionBudget")

    def test_a_pending_pod_disrupts_nobody(self, api: Api) -> None:
        guarded(api, allowed=0)
        api.create(PODS, pod("a", labels=LABELS), "default")
        assert api.evict("a", "default").removed

    @pytest.mark.parametrize(
        ("healthy", "policy", "goes"),
        [(1, None, True), (0, None, False), (0, "AlwaysAllow", True), (0, "IfHealthyBudget", False)],
    )
    def test_an_unready_pod_goes_if_the_budget_is_met_without_it(
        self, api: Api, healthy: int, policy: str | None, goes: bool
    ) -> None:
        guarded(api, allowed=0, currentHealthy=healthy, desiredHealthy=1)
        if policy:
            patch = {"spec": {"unhealthyPodEvictionPolicy": policy}}
            api.patch(POD_DISRUPTION_BUDGETS, "web", patch, "default")
            patch = {"status": {"observedGeneration": 2}}
            api.patch(POD_DISRUPTION_BUDGETS, "web", patch, "default", subresource="status")
        running_pod(api, pod("a", labels=LABELS), ready=False)
        if goes:
            api.evict("a", "default")
            assert api.get(POD_DISRUPTION_BUDGETS, "web", "default")["status"]["disruptionsAllowed"] == 0
        else:
            refused(lambda: api.evict("a", "default"), 429)

    def test_the_uid_is_a_precondition(self, api: Api) -> None:
        running_pod(api, pod("a"))
        eviction = {"deleteOptions": {"preconditions": {"uid": "other"}}}
        refused(lambda: api.evict("a", "default", eviction), 409, "Conflict")
        assert "deletionTimestamp" not in api.get(PODS, "a", "default")["metadata"]

    def test_a_dry_run_takes_nothing_from_the_budget(self, api: Api) -> None:
        guarded(api, allowed=1)
        running_pod(api, pod("a", labels=LABELS))
        version = api.store.rv
        api.evict("a", "default", None, Options(dry_run=True))
        assert api.store.rv == version


class TestScale:
    def test_it_shows_and_sets_the_replicas(self, api: Api) -> None:
        api.create(DEPLOYMENTS, deployment("web", 2), "default")
        scale = api.get_scale(DEPLOYMENTS, "web", "default")
        assert scale["spec"] == {"replicas": 2}
        assert scale["status"] == {"replicas": 0, "selector": "app=web"}

        scale = api.update_scale(DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, "default")
        assert scale["spec"] == {}
        changed = api.get(DEPLOYMENTS, "web", "default")
        assert (changed["spec"]["replicas"], changed["metadata"]["generation"]) == (0, 2)

    def test_its_version_is_a_precondition(self, api: Api) -> None:
        api.create(DEPLOYMENTS, deployment("web", 2), "default")
        stale = {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 3}}
        refused(lambda: api.update_scale(DEPLOYMENTS, "web", stale, "default"), 409, "Conflict")

    def test_fewer_than_none_is_invalid(self, api: Api) -> None:
        api.create(DEPLOYMENTS, deployment("web", 2), "default")
        less = {"spec": {"replicas": -1}}
        error = refused(lambda: api.update_scale(DEPLOYMENTS, "web", less, "default"), 422, "Invalid")
        assert causes(error) == [("spec.replicas", "FieldValueInvalid")]

    def test_what_has_no_replicas_has_no_scale(self, api: Api) -> None:
        api.create(PODS, pod("a"), "default")
        refused(lambda: api.get_scale(PODS, "a", "default"), 404)
