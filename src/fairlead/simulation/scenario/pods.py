"""The pods that a scenario's workloads and arrivals have, as Kubernetes objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.engine.gangs.membership import MIN_MEMBER
from fairlead.simulation.scenario.model import PodShape
from fairlead.simulation.scenario.pod_trace import TracedPod

Obj = dict[str, Any]

NAME_LABEL = "app.kubernetes.io/name"


def pod_object(shape: PodShape, name: str, namespace: str, *, scheduler: str = "") -> Obj:
    """A pod of a shape; `scheduler` is for what does not say its own."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **_said(shape)},
        "spec": pod_spec(shape, scheduler=scheduler),
    }


def pod_template(shape: PodShape, labels: Mapping[str, str], *, scheduler: str = "") -> Obj:
    """A template of such pods, with more labels."""
    said = _said(shape)
    return {
        "metadata": {**said, "labels": {**said.get("labels", {}), **labels}},
        "spec": pod_spec(shape, scheduler=scheduler),
    }


def pod_spec(shape: PodShape, *, scheduler: str = "") -> Obj:
    """What a pod of a shape asks for."""
    spec: Obj = {
        "schedulerName": shape.scheduler or scheduler or "fairlead",
        "containers": [{"name": "main", "image": "main", "resources": {"requests": dict(shape.requests)}}],
    }
    if shape.node_selector:
        spec["nodeSelector"] = dict(shape.node_selector)
    return {**with_priority(spec, shape.priority), **shape.spec}


def with_priority(spec: Obj, priority: int | None) -> Obj:
    """A pod's spec of a priority, which an API server takes from a class only."""
    if priority is None:
        return spec
    return {**spec, "priority": priority, "priorityClassName": class_name(priority)}


def class_name(priority: int) -> str:
    """What the class of a priority is called: ``priority-10``, ``priority-minus-10``."""
    return f"priority-{priority}" if priority >= 0 else f"priority-minus-{-priority}"


def priority_class(priority: int) -> Obj:
    """The class of a priority."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": class_name(priority)},
        "value": priority,
    }


def on_nodes(spec: Obj, nodes: Sequence[tuple[str, Sequence[str]]]) -> Obj:
    """A pod's spec for nodes whose labels have one of the values each."""
    if not nodes:
        return spec
    wanted = [{"key": label, "operator": "In", "values": list(values)} for label, values in nodes]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": wanted}]
    }}}  # fmt: skip
    return {**spec, "affinity": affinity}


def as_traced(spec: Obj, traced: TracedPod | None) -> Obj:
    """A pod's spec with what a trace says of the pod: requests over those that are there, nodes, priority."""
    if traced is None:
        return spec
    container = spec["containers"][0]
    asked = {**container.get("resources", {}).get("requests", {}), **dict(traced.requests)}
    spec = {**spec, "containers": [{**container, "resources": {"requests": asked}}]}
    return with_priority(on_nodes(spec, traced.nodes), traced.priority)


def of_gang(annotations: Mapping[str, str], name: str, pods: int) -> dict[str, str]:
    """The annotations of a gang's member; a pod that comes alone is of none."""
    gang = {"pod-group": name, MIN_MEMBER: str(pods)} if pods > 1 else {}
    return {**annotations, **gang}


def _said(shape: PodShape) -> Obj:
    said: Obj = {}
    if shape.labels:
        said["labels"] = dict(shape.labels)
    if shape.annotations:
        said["annotations"] = dict(shape.annotations)
    return said
