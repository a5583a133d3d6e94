"""The shipped examples as data, and as the pods that their controllers would make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from fairlead.rig.nodes import node_object

Obj = dict[str, Any]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# Those that are applied to a cluster; others are the state of one, for `fairlead plan`.
FILES = sorted(
    path.name
    for path in EXAMPLES.glob("*.yaml")
    if "schedulerName: fairlead" in path.read_text() and "kind: Node\n" not in path.read_text()
)


def read(name: str) -> list[Obj]:
    return [one for one in yaml.safe_load_all((EXAMPLES / name).read_text()) if one]


def workloads(objects: list[Obj]) -> list[Obj]:
    return [one for one in objects if "template" in one.get("spec", {})]


def pods_of(objects: list[Obj]) -> list[Obj]:
    """What the Deployments and Jobs among the objects would create."""
    made = []
    for owner in workloads(objects):
        spec, name = owner["spec"], owner["metadata"]["name"]
        template = spec["template"]
        for index in range(spec.get("replicas") or spec.get("parallelism", 1)):
            metadata = {
                **template.get("metadata", {}),
                "name": f"{name}-{index}",
                "namespace": owner["metadata"]["namespace"],
                "uid": f"{name}-{index}",
            }
            made.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    return made


def nodes(number: int) -> list[Obj]:
    return [node_object(f"node-{index}") for index in range(number)]
