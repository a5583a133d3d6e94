"""Defaults of kinds that are only passing through here: autoscalers, policies, claims, roles."""

from __future__ import annotations

from typing import Any

__all__ = [
    "default_admission_policy",
    "default_autoscaler",
    "default_endpoint_slice",
    "default_limit_range",
    "default_network_policy",
    "default_resource_claim",
    "default_role_binding",
]

Object = dict[str, Any]


def default_admission_policy(item: Object) -> None:
    """Fill what a ValidatingAdmissionPolicy or its binding matches."""
    spec = item["spec"]
    if not item["kind"].endswith("Binding"):
        spec.setdefault("failurePolicy", "Fail")
    matched = spec.get("matchConstraints") or spec.get("matchResources")
    if matched is not None:
        matched.setdefault("matchPolicy", "Equivalent")
        matched.setdefault("namespaceSelector", {})
        matched.setdefault("objectSelector", {})
        for rules in ("resourceRules", "excludeResourceRules"):
            for rule in matched.get(rules) or ():
                rule.setdefault("scope", "*")


def default_autoscaler(item: Object) -> None:
    """Fill a HorizontalPodAutoscaler's defaults."""
    item["spec"].setdefault("minReplicas", 1)


def default_network_policy(item: Object) -> None:
    """Fill a NetworkPolicy's ports and say which directions it is about."""
    spec = item["spec"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def default_endpoint_slice(item: Object) -> None:
    """Fill the ports of an EndpointSlice."""
    for port in item.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def default_role_binding(item: Object) -> None:
    """Users and groups belong to the API group of roles."""
    for subject in item.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def default_limit_range(item: Object) -> None:
    """What a container may have at most is what it gets, and that what it asks for."""
    for limit in item["spec"].get("limits") or ():
        if limit.get("type") == "Container":
            given = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            if given:
                limit["default"] = given
                asked = {**given, **(limit.get("min") or {}), **(limit.get("defaultRequest") or {})}
                limit["defaultRequest"] = asked


def default_resource_claim(item: Object) -> None:
    """A claim, or a template of one, asks for one device unless it says otherwise."""
    spec = item["spec"].get("spec", item["spec"])
    for request in (spec.get("devices") or {}).get("requests") or ():
        exactly = request.get("exactly")
        if exactly is not None:
            exactly.setdefault("allocationMode", "ExactCount")
            if exactly["allocationMode"] == "ExactCount":
                exactly.setdefault("count", 1)
