"""One object of every kind: defaults settle at once, rows fit their columns, problems are named."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.world.api import Api
from fairlead.world.schema.resources import Resource
from fairlead.world.tables import table_of
from support.embedded import causes, refused

Object = dict[str, Any]
FOLDER = Path(__file__).parent / "manifests"


def manifests(name: str) -> list[Object]:
    return [each for each in yaml.safe_load_all((FOLDER / name).read_text()) if each]


def called(body: Object) -> str:
    return f"{body['kind']}-{body['metadata'].get('name', '')}"


def resource_of(api: Api, body: Object) -> Resource:
    found = api.registry.of_kind(body["apiVersion"], body["kind"])
    assert found is not None
    return found


@pytest.mark.parametrize("body", manifests("one-of-each.yaml"), ids=called)
def test_an_object_written_back_as_it_was_read_changes_nothing(api: Api, body: Object) -> None:
    resource = resource_of(api, body)
    made = api.create(resource, body, "default")
    assert api.update(resource, copy.deepcopy(made)) is made


@pytest.mark.parametrize("body", manifests("one-of-each.yaml"), ids=called)
def test_a_row_has_a_cell_for_each_column(api: Api, body: Object) -> None:
    resource = resource_of(api, body)
    made = api.create(resource, body, "default")
    served = api.serving(resource)
    table = table_of(served, served.storage_version, [made], "Metadata", api.clock.now())
    (row,) = table["rows"]
    assert len(row["cells"]) == len(table["columnDefinitions"])
    assert made["metadata"]["name"] in row["cells"]


@pytest.mark.parametrize("body", manifests("refused.yaml"), ids=called)
def test_what_is_wrong_is_refused_with_a_reason(api: Api, body: Object) -> None:
    resource = resource_of(api, body)
    if body["kind"] == "Pod" and {"priority", "priorityClassName"} & body["spec"].keys():
        refused(lambda: api.create(resource, body, "default"), 403, "Forbidden")
    elif _has_a_value_of_the_wrong_type(body):
        refused(lambda: api.create(resource, body, "default"), 400, "BadRequest")
    else:
        assert causes(refused(lambda: api.create(resource, body, "default"), 422, "Invalid"))


def _has_a_value_of_the_wrong_type(body: Object) -> bool:
    # YAML reads a bare y as true.
    containers = body.get("spec", {}).get("containers") or ()
    return any(isinstance(container.get("image"), bool) for container in containers)
