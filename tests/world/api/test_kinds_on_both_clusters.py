"""The same manifests on a real API server and on ours: same objects, same rows, same refusals."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.kube.resources import Resource
from fairlead.world.schema.resources import Registry
from support.cluster import Cluster, Host
from support.wire import TABLE, Answer

pytestmark = pytest.mark.real

Object = dict[str, Any]
FOLDER = Path(__file__).parent / "manifests"


def manifests(name: str) -> list[Object]:
    return [each for each in yaml.safe_load_all((FOLDER / name).read_text()) if each]


def called(body: Object) -> str:
    return f"{body['kind']}-{body['metadata'].get('name', '')}"


def resource_of(body: Object) -> Resource:
    registry = Registry()
    found = registry.of_kind(body["apiVersion"], body["kind"])
    assert found is not None
    return Resource(
        found.group, body["apiVersion"].rpartition("/")[2], found.plural, found.kind, found.namespaced
    )


@pytest.fixture(scope="module")
def both(embedded_host: Host, real_host: Host) -> Iterator[tuple[Cluster, Cluster]]:
    clusters = Cluster(embedded_host), Cluster(real_host)
    yield clusters
    for cluster in clusters:
        cluster.close()


def dry_run(cluster: Cluster, body: Object) -> Answer:
    return cluster.wire.request("POST", cluster.path(resource_of(body)), body, dryRun="All")


def stripped(answer: Answer) -> Object:
    """All that does not name the one object; refusals by their causes, in no order."""
    body: Object = copy.deepcopy(answer.body)
    if answer.status >= 300:
        causes = (body.get("details") or {}).get("causes") or []
        shown = sorted((cause.get("field", ""), cause["message"]) for cause in causes)
        return {"status": answer.status, "reason": body.get("reason"), "causes": shown or body["message"]}
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace"):
        body["metadata"].pop(field, None)
    # The marks of controllers that the embedded cluster does not have.
    body["metadata"].pop("finalizers", None)
    (body["metadata"].get("annotations") or {}).pop("deprecated.daemonset.template.generation", None)
    if not body["metadata"].get("annotations"):
        body["metadata"].pop("annotations", None)
    body.pop("status", None)
    if body["kind"] == "Service":
        for field in ("clusterIP", "clusterIPs"):
            if body["spec"].get(field) not in ("None", ["None"]):
                body["spec"].pop(field, None)
        for port in body["spec"].get("ports") or ():
            port.pop("nodePort", None)
    if body["kind"] == "Job":
        body["metadata"].pop("labels"), body["spec"].pop("selector")
        body["spec"]["template"]["metadata"].pop("labels")
    if body["kind"] == "Pod":
        token = "kube-api-access-"
        body["spec"]["volumes"] = [
            each for each in body["spec"].get("volumes") or () if not each["name"].startswith(token)
        ]
        for group in ("containers", "initContainers"):
            for container in body["spec"].get(group) or ():
                mounts = [
                    each for each in container.pop("volumeMounts", []) if not each["name"].startswith(token)
                ]
                container["volumeMounts"] = mounts
    return body


@pytest.mark.parametrize("body", manifests("one-of-each.yaml"), ids=called)
def test_a_created_object_is_the_same(both: tuple[Cluster, Cluster], body: Object) -> None:
    ours, real = (stripped(dry_run(cluster, body)) for cluster in both)
    assert ours == real


@pytest.mark.parametrize("body", manifests("refused.yaml"), ids=called)
def test_a_refusal_is_the_same(both: tuple[Cluster, Cluster], body: Object) -> None:
    ours, real = (stripped(dry_run(cluster, body)) for cluster in both)
    assert ours["status"] >= 400
    assert ours == real


# What depends on when and where, not on the object.
_UNSTABLE = frozenset({"Age", "Created At", "Cluster-IP", "Port(s)", "Selector", "Last Seen"})


@pytest.mark.parametrize("body", manifests("one-of-each.yaml"), ids=called)
def test_its_row_is_the_same(both: tuple[Cluster, Cluster], body: Object) -> None:
    def row(cluster: Cluster) -> list[tuple[Any, ...]]:
        path = cluster.path(resource_of(body))
        table = cluster.wire.request("POST", path, body, accept=TABLE, dryRun="All").ok()
        (cells,) = (each["cells"] for each in table["rows"])
        return [
            (
                column["name"],
                column["type"],
                column["priority"],
                None if column["name"] in _UNSTABLE else cell,
            )
            for column, cell in zip(table["columnDefinitions"], cells, strict=True)
        ]

    ours, real = (row(cluster) for cluster in both)
    assert ours == real
