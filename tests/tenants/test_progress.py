"""How far a tenant is, and why no further, from what a cluster shows."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.kube.decode import convert
from fairlead.kube.event import Event
from fairlead.kube.node import Node
from fairlead.tenants.progress import Progress, Seen, Stage, progress_of
from support.tenants import Obj


def deployment(wanted: int = 1, *, generation: int = 1, **status: Any) -> Obj:
    said = {"observedGeneration": 1, "replicas": wanted, "updatedReplicas": wanted, **status}
    return {"metadata": {"generation": generation}, "spec": {"replicas": wanted}, "status": said}


def pod(name: str = "a-1", *, node: str = "", ready: bool = False, **status: Any) -> Obj:
    conditions = [{"type": "Ready", "status": str(ready)}]
    if not node:
        message = "0/1 nodes are available: 1 Insufficient cpu."
        conditions.append({"type": "PodScheduled", "status": "False", "message": message})
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "nodeName": node,
            "tolerations": [{"key": "size", "operator": "Equal", "value": "large", "effect": "NoSchedule"}],
        },
        "status": {"conditions": conditions, **status},
    }


def event(reason: str, message: str, second: int, about: str = "a-1", **fields: Any) -> Event:
    at = f"2026-01-01T00:00:{second:02}Z"
    return convert(
        {
            "reason": reason,
            "message": message,
            "involvedObject": {"uid": f"uid-{about}"},
            "lastTimestamp": at,
            **fields,
        },
        Event,
    )


def node(
    name: str = "large-1", *, made: str = "2026-01-01T00:00:30Z", ready: bool = True, taint: str = "large"
) -> Node:
    return convert(
        {
            "metadata": {"name": name, "creationTimestamp": made},
            "spec": {"taints": [{"key": "size", "value": taint, "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
        },
        Node,
    )


def seen(*pods: Obj, **more: Any) -> Progress:
    return progress_of(Seen(more.pop("deployment", deployment(len(pods) or 1)), pods, **more))


TRIGGERED = event("TriggeredScaleUp", "pod triggered scale-up: [{large 0->1 (max: 3)}]", 10)
NOT_TRIGGERED = event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", 20)
NOMINATED = event("Nominated", "Pod should schedule on: nodeclaim/large-x, node/large-1", 10)


class TestStages:
    def test_without_a_deployment_there_is_nothing(self) -> None:
        assert progress_of(Seen(None)) == Progress(Stage.PENDING, "its Deployment is not there")

    def test_a_pod_waits_with_the_schedulers_reason(self) -> None:
        found = seen(pod())
        assert found.stage is Stage.PENDING
        assert found.reason == "pod a-1: 0/1 nodes are available: 1 Insufficient cpu."

    def test_and_with_the_autoscalers(self) -> None:
        found = seen(pod(), events=[NOT_TRIGGERED])
        assert found.stage is Stage.PENDING
        assert found.reason.endswith(
            "Insufficient cpu.; pod didn't trigger scale-up: 1 max node group size reached"
        )

    @pytest.mark.parametrize("promise", [TRIGGERED, NOMINATED])
    def test_an_autoscalers_promise_is_a_node_requested(self, promise: Event) -> None:
        found = seen(pod(), events=[promise])
        assert found == Progress(Stage.NODE_REQUESTED, f"pod a-1: {promise.message}", 0, 1)

    def test_a_promise_that_was_taken_back_is_none(self) -> None:
        assert seen(pod(), events=[NOT_TRIGGERED, TRIGGERED]).stage is Stage.PENDING

    @pytest.mark.parametrize(
        "said_by", [{"source": {"component": "karpenter"}}, {"reportingComponent": "karpenter"}]
    )
    def test_karpenters_no_takes_a_promise_back(self, said_by: dict[str, Any]) -> None:
        full = event("FailedScheduling", "all types exceed limits for nodepool", 59, **said_by)
        found = seen(pod(), events=[NOMINATED, full])
        assert found.stage is Stage.PENDING
        assert "exceed limits" in found.reason

    def test_a_schedulers_no_takes_no_promise_back(self) -> None:
        still = event("FailedScheduling", "no nodes available", 59, source={"component": "default-scheduler"})
        assert seen(pod(), events=[NOMINATED, still]).stage is Stage.NODE_REQUESTED

    def test_others_promises_do_not_count(self) -> None:
        other = event("TriggeredScaleUp", "pod triggered scale-up", 10, about="b-1")
        assert seen(pod(), events=[other]).stage is Stage.PENDING

    def test_karpenters_claim_says_what_it_waits_for(self) -> None:
        claim = {
            "metadata": {"name": "large-x"},
            "status": {
                "conditions": [
                    {"type": "Launched", "status": "True"},
                    {"type": "Registered", "status": "Unknown", "message": "node not registered"},
                ]
            },
        }
        found = seen(pod(), events=[NOMINATED], claims=[claim])
        assert found.reason.endswith("node/large-1: not Registered: node not registered")

    @pytest.mark.parametrize("promise", [TRIGGERED, NOMINATED])
    def test_a_node_that_came_and_is_ready_is_said(self, promise: Event) -> None:
        found = seen(pod(), events=[promise], nodes=[node()])
        assert found == Progress(Stage.NODE_READY, "pod a-1: node large-1 is ready", 0, 1)

    @pytest.mark.parametrize(
        "other",
        [node(ready=False), node(taint="medium"), node("old", made="2025-12-31T00:00:00Z")],
        ids=["not ready", "tainted otherwise", "there before"],
    )
    def test_other_nodes_did_not_come_for_it(self, other: Node) -> None:
        assert seen(pod(), events=[TRIGGERED], nodes=[other]).stage is Stage.NODE_REQUESTED

    def test_on_a_node_it_says_what_its_containers_wait_for(self) -> None:
        waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
        found = seen(pod(node="n", containerStatuses=[waiting]))
        assert found == Progress(
            Stage.SCHEDULED, "pod a-1 on n: ImagePullBackOff: no such image", 0, 1, ("n",)
        )

    def test_ready_pods_are_running(self) -> None:
        found = seen(pod(node="n", ready=True), deployment=deployment(availableReplicas=1))
        assert found == Progress(Stage.RUNNING, "", 1, 1, ("n",))
        assert found.done


class TestSeveralPods:
    def test_a_tenant_is_as_far_as_the_least_of_its_pods(self) -> None:
        found = seen(pod("a-1", node="n", ready=True), pod("a-2"), deployment=deployment(2))
        assert (found.stage, found.ready, found.wanted, found.nodes) == (Stage.PENDING, 1, 2, ("n",))

    def test_pods_that_are_over_do_not_count(self) -> None:
        gone = pod("a-1", node="n", ready=True)
        gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        failed = pod("a-2", node="n", phase="Failed")
        found = seen(gone, failed, deployment=deployment(1))
        assert found == Progress(Stage.PENDING, "0 of 1 pods are there", 0, 1)

    def test_a_quota_that_lets_no_pod_in_is_the_reason(self) -> None:
        failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: a"}
        found = seen(deployment=deployment(1, conditions=[failure]))
        assert found.reason == "exceeded quota: a"

    def test_a_change_that_nobody_saw_yet_is_not_running(self) -> None:
        changed = deployment(1, generation=2, availableReplicas=1)
        assert seen(pod(node="n", ready=True), deployment=changed).stage is Stage.PENDING

    def test_during_a_rollout_the_new_pods_count(self) -> None:
        rolling = deployment(1, replicas=2, updatedReplicas=1, availableReplicas=1)
        found = seen(pod("old", node="n", ready=True), pod("new"), deployment=rolling)
        assert found.stage is Stage.PENDING
        assert "pod new: " in found.reason

    def test_no_pods_wanted_is_running(self) -> None:
        assert seen(deployment=deployment(0)).done
