"""Alerts and dashboard use only what components export, by name, label and value, in PromQL that parses.

What is exported is read from the components' own registries. The labels that Prometheus adds to every target
are known by name.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from fairlead.doors.extender.metrics import Metrics as ExtenderMetrics
from fairlead.doors.rebalancer.metrics import Metrics as RebalancerMetrics
from fairlead.doors.scheduler.metrics import Metrics as SchedulerMetrics
from fairlead.doors.webhook.metrics import Metrics as WebhookMetrics
from support.rig import programs

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
GUIDE = ROOT / "docs" / "operations" / "monitoring.md"

OF_TARGETS = {"namespace", "job", "pod", "instance", "container", "endpoint"}
COUNTED = ("rate", "irate", "increase")


@dataclass(frozen=True)
class Series:
    """One exported series: its labels, and whether it only grows."""

    labels: frozenset[str]
    grows: bool


def exported() -> dict[str, Series]:
    found: dict[str, Series] = {}
    for metrics in (SchedulerMetrics(), WebhookMetrics(), ExtenderMetrics(), RebalancerMetrics()):
        for one in vars(metrics).values():
            if isinstance(one, MetricWrapperBase):
                labels = frozenset(one._labelnames)
                if one._type == "counter":
                    found[f"{one._name}_total"] = Series(labels, grows=True)
                elif one._type == "histogram":
                    found[f"{one._name}_bucket"] = Series(labels | {"le"}, grows=True)
                    found |= {f"{one._name}_{part}": Series(labels, grows=True) for part in ("sum", "count")}
                else:
                    found[one._name] = Series(labels, grows=False)
        if isinstance(metrics, SchedulerMetrics):
            for family in metrics.collect():
                found[family.name] = Series(
                    frozenset(key for sample in family.samples for key in sample.labels), grows=False
                )
    return found


EXPORTED = exported()


def rules() -> list[dict[str, Any]]:
    manifest = yaml.safe_load((MONITORING / "rules.yaml").read_text())
    return [rule for group in manifest["spec"]["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions() -> list[Any]:
    """Every expression, each with the labels that texts beside it use."""
    found = [
        (rule["alert"], rule["expr"], re.findall(r"\$labels\.(\w+)", yaml.safe_dump(rule["annotations"])))
        for rule in rules()
    ]
    found += [
        (
            f"{panel['title']} {target['refId']}",
            # What Grafana puts in the place of its variables before it sends a query.
            target["expr"].replace("$__rate_interval", "5m").replace("$__range", "3h"),
            re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]),
        )
        for panel in panels()
        for target in panel["targets"]
    ]
    return [pytest.param(text, labels, id=name) for name, text, labels in found]


def nodes(expression: Any) -> Iterator[Any]:
    """The expression and all within it."""
    yield expression
    for name in ("lhs", "rhs", "expr"):
        if hasattr(expression, name):
            yield from nodes(getattr(expression, name))
    for argument in getattr(expression, "args", ()):
        yield from nodes(argument)


def selector(node: Any) -> Any | None:
    if isinstance(node, promql.MatrixSelector):
        return node.vector_selector
    return node if isinstance(node, promql.VectorSelector) else None


def grouped(expression: Any) -> set[str]:
    """The labels by which anything in it is grouped or matched."""
    found: set[str] = set()
    for node in nodes(expression):
        modifier = getattr(node, "modifier", None)
        if isinstance(node, promql.AggregateExpr) and modifier is not None:
            found |= set(modifier.labels)
        elif modifier is not None and modifier.matching is not None:
            found |= set(modifier.matching.labels)
    return found


@pytest.mark.parametrize(("text", "shown"), expressions())
def test_an_expression_uses_only_what_is_exported(text: str, shown: list[str]) -> None:
    expression = promql.parse(text)
    labels = set(OF_TARGETS)
    for node in nodes(expression):
        found = selector(node)
        if found is None:
            continue
        assert found.name in EXPORTED, f"{found.name} is not exported"
        labels |= EXPORTED[found.name].labels
        for matcher in found.matchers.matchers:
            assert matcher.name in EXPORTED[found.name].labels | OF_TARGETS, f"no label {matcher.name}"
    assert grouped(expression) <= labels
    assert set(shown) <= grouped(expression), "a text shows a label that the outcome does not have"


@pytest.mark.parametrize(("text", "shown"), expressions())
def test_rates_are_taken_of_what_only_grows(text: str, shown: list[str]) -> None:
    for node in nodes(promql.parse(text)):
        if isinstance(node, promql.Call):
            for argument in node.args:
                if (found := selector(argument)) is not None:
                    assert EXPORTED[found.name].grows == (node.func.name in COUNTED), node.func.name


def test_values_of_labels_are_ones_that_components_set() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "src/fairlead/doors").rglob("*.py"))
    asked = {
        value
        for parameters in expressions()
        for node in nodes(promql.parse(parameters.values[0]))
        if (found := selector(node)) is not None
        for matcher in found.matchers.matchers
        if matcher.name not in OF_TARGETS | {"attempts"}  # a number
        for value in matcher.value.split("|")
    }
    assert asked >= {"scheduled", "failed", "conflict", "unschedulable"}
    assert not {value for value in asked if f'"{value}"' not in sources}


def test_every_alert_is_explained_and_says_what_happened() -> None:
    explained = re.findall(r"^### (Fairlead\w+)$", GUIDE.read_text(), flags=re.MULTILINE)

    assert explained == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}


def test_the_guide_names_only_metrics_that_are_exported() -> None:
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in EXPORTED}
    named = set(re.findall(r"`((?:fairlead|scheduler)_\w+)", GUIDE.read_text()))

    assert named
    assert named <= families


def test_panels_do_not_overlap_and_each_says_what_it_shows() -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + line)
            for column in range(place["w"])
            for line in range(place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith(".")
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


def test_kustomize_renders_the_monitoring_with_the_dashboard_as_it_is() -> None:
    (kubectl,) = programs("kubectl")
    done = subprocess.run([kubectl, "kustomize", MONITORING], capture_output=True, text=True, check=True)

    by_kind = {one["kind"]: one for one in yaml.safe_load_all(done.stdout)}
    assert set(by_kind) == {"ConfigMap", "PodMonitor", "PrometheusRule"}
    shown = json.loads(by_kind["ConfigMap"]["data"]["fairlead.json"])
    assert shown == json.loads((MONITORING / "dashboard.json").read_text())
    assert by_kind["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_every_shipped_pod_is_scraped_at_its_port() -> None:
    monitor = yaml.safe_load((MONITORING / "podmonitor.yaml").read_text())["spec"]
    selected = monitor["selector"]["matchLabels"].items()
    endpoints = {one["port"]: one.get("scheme", "http") for one in monitor["podMetricsEndpoints"]}
    deployments = [
        one
        for file in sorted((ROOT / "deploy").rglob("*.yaml"))
        for one in yaml.safe_load_all(file.read_text())
        if one and one.get("kind") == "Deployment" and "template" in one.get("spec", {})
        if one["spec"]["template"].get("metadata")
    ]
    assert len(deployments) >= 6
    for one in deployments:
        template = one["spec"]["template"]
        assert selected <= template["metadata"]["labels"].items(), one["metadata"]["name"]
        (container,) = template["spec"]["containers"]
        (port,) = [port["name"] for port in container["ports"]]
        assert endpoints[port] == port, one["metadata"]["name"]
