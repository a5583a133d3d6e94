"""Objects from manifests and values; pure, and the same as the chart's template makes, which a test compares.

One rule: a setting that is given takes the place of what the manifest says, as a whole; one that is not
leaves it.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from fairlead.install.manifests import DEPLOYMENTS, Loader, Obj, catalog
from fairlead.install.values import Values, components_on

_COMPONENT_OF = {deployment: component for component, deployment in DEPLOYMENTS.items()}
_POD_FIELDS = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName")
_CRD = "CustomResourceDefinition"


def render(values: Values, namespace: str) -> list[Obj]:
    """Every object of an installation but its namespace."""
    loader = Loader(namespace)
    on = components_on(values)
    for component in on:
        for path in catalog()["components"][component]:
            loader.load(path)
    for one in catalog()["additions"]:
        component = one["component"]
        if (
            component in on
            and all(_is_on(values, component, name) for name in one["with"])
            and not any(_is_on(values, component, name) for name in one.get("without", ()))
        ):
            loader.load(one["add"])
    return [_overlaid(one, values) for one in loader.objects if _is_wanted(one, values)]


def _is_on(values: Values, component: str, name: str) -> bool:
    own = values["components"][component].get(name)
    return bool(own if own is not None else (values.get(name) or {}).get("enabled"))


def _setting(values: Values, component: str, name: str) -> Any:
    """A component's own setting, else that of all; None when neither is given."""
    own = values["components"][component].get(name)
    return own if own is not None else values.get(name)


def _is_wanted(item: Obj, values: Values) -> bool:
    match item["kind"]:
        case "CustomResourceDefinition":
            return bool(values["crds"].get("install"))
        case "NetworkPolicy":
            return bool(values["networkPolicy"].get("enabled"))
        case "Issuer":
            return not values["certManager"].get("issuerRef")
        case "PodDisruptionBudget":
            component = _COMPONENT_OF[item["metadata"]["name"]]
            budget = _setting(values, component, "podDisruptionBudget")
            if budget is not None:
                return bool(budget.get("enabled", True))
            # One that keeps the only replica would keep its node from being drained.
            replicas = _setting(values, component, "replicas")
            return replicas is None or replicas > 1
    return True


def _overlaid(item: Obj, values: Values) -> Obj:
    metadata = item["metadata"]
    for field in ("labels", "annotations"):
        _add(metadata, field, values.get(field))
    match item["kind"]:
        case "Deployment":
            _overlay_deployment(item, values)
        case "PodDisruptionBudget":
            budget = _setting(values, _COMPONENT_OF[metadata["name"]], "podDisruptionBudget") or {}
            given = {field: budget[field] for field in ("minAvailable", "maxUnavailable") if field in budget}
            if given:
                item["spec"] = {"selector": item["spec"]["selector"], **given}
        case "NetworkPolicy" if values["networkPolicy"].get("from"):
            for rule in item["spec"]["ingress"]:
                rule["from"] = values["networkPolicy"]["from"]
        case "ConfigMap" if values.get("config") and "data" in item:
            ((file, text),) = item["data"].items()
            item["data"] = {file: _configuration(yaml.safe_load(text) | values["config"])}
        case "Certificate" if values["certManager"].get("issuerRef"):
            item["spec"]["issuerRef"] = values["certManager"]["issuerRef"]
        case "ServiceMonitor":
            _add(metadata, "labels", values["serviceMonitor"].get("labels"))
            if interval := values["serviceMonitor"].get("interval"):
                for endpoint in item["spec"]["endpoints"]:
                    endpoint["interval"] = interval
    return item


def _overlay_deployment(item: Obj, values: Values) -> None:
    component = _COMPONENT_OF[item["metadata"]["name"]]

    def given(name: str) -> Any:
        return _setting(values, component, name)

    template = item["spec"]["template"]
    (container,) = template["spec"]["containers"]
    if given("replicas") is not None:
        item["spec"]["replicas"] = given("replicas")
    for field in _POD_FIELDS:
        if given(field) is not None:
            template["spec"][field] = given(field)
    _add(template["metadata"], "labels", given("podLabels"))
    _add(template["metadata"], "annotations", given("podAnnotations"))
    image = values["image"]
    container["image"] = _image(image)
    container["imagePullPolicy"] = image["pullPolicy"]
    if image.get("pullSecrets"):
        template["spec"]["imagePullSecrets"] = image["pullSecrets"]
    if given("resources") is not None:
        container["resources"] = given("resources")
    container["args"] = [*container["args"], *(values["components"][component].get("args") or ())]


def _image(image: Obj) -> str:
    if image.get("digest"):
        return f"{image['repository']}@{image['digest']}"
    return f"{image['repository']}:{image['tag']}" if image.get("tag") else str(image["repository"])


def _configuration(fields: Obj) -> str:
    """JSON, which is YAML too: no two programs write the same YAML."""
    return json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _add(item: Obj, field: str, more: Obj | None) -> None:
    if more:
        item[field] = {**item.get(field, {}), **more}
