"""The JSON Schema of scenarios has every field with a sentence, and refuses what the reader refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from fairlead.simulation.scenario.schema import json_schema
from support.pages import ROOT

SCHEMA = json_schema()
EXAMPLES = sorted((ROOT / "examples" / "simulate").glob("*.yaml"))


def fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, about in schema.get("properties", {}).items():
        yield f"{path}.{name}", about


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_examples_agree_with_it(file: Any) -> None:
    jsonschema.validate(yaml.safe_load(file.read_text()), SCHEMA)


def test_every_field_of_a_scenario_and_of_its_node_groups_has_a_sentence() -> None:
    for part in ("Scenario", "Spec", "Workload", "Arrivals", "Market", "Fault", "Planning", "GroupFields"):
        for path, about in fields(SCHEMA["$defs"][part], part):
            assert about["description"].endswith("."), path


def test_defaults_are_as_the_file_spells_them() -> None:
    planning = SCHEMA["$defs"]["Planning"]["properties"]
    assert planning["reserveAfter"]["default"] == "600s"
    assert SCHEMA["$defs"]["Spec"]["properties"]["components"]["default"] == ["scheduler"]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("duration: 1d", "duraton: 1d"),
        ("duration: 1d", "duration: soon"),
        ("perHour: 30", "perHour: 0"),
        ("nodes: 20", "nodes: -1"),
        ("nodes: 20", "nods: 20"),
        ("name: batch", "name: Batch!"),
        ("runTimes: exponential", "runTimes: sometimes"),
    ],
)
def test_it_refuses_what_the_reader_refuses(right: str, wrong: str) -> None:
    text = (ROOT / "examples" / "simulate" / "batch.yaml").read_text()
    assert right in text
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text.replace(right, wrong)), SCHEMA)
