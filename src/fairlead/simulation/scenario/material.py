"""A scenario with everything that it refers to, read and checked: what can be played, on any machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.errors import BadInput, BadObject
from fairlead.kube.documents import documents
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.file import API_VERSION as GROUPS_VERSION
from fairlead.nodegroups.file import KIND as GROUPS_KIND
from fairlead.nodegroups.file import read_documents
from fairlead.policy.names import POLICIES
from fairlead.policy.rule.model import PlacementPolicy, read_policies
from fairlead.simulation.contents import Obj
from fairlead.simulation.scenario.model import Scenario
from fairlead.simulation.scenario.pod_trace import TracedPod, read_pod_trace
from fairlead.simulation.scenario.reader import Source, convert, read_file
from fairlead.world.spot import Trace, read_trace


@dataclass(frozen=True, slots=True)
class Material:
    """See the module. Traces are by the name that the scenario has for them.

    Invariant: holds plain data only, so that it can be sent to another process.
    """

    scenario: Scenario
    groups: tuple[NodeGroup, ...] = ()
    policies: tuple[PlacementPolicy, ...] = ()
    pods: Mapping[str, tuple[TracedPod, ...]] | None = None
    supply: Mapping[str, Trace] | None = None
    objects: tuple[Obj, ...] = ()


def load(path: Path) -> Material:
    """The scenario of a file, with what it refers to; paths in it are relative to its folder."""
    scenario, source = read_file(path)
    return gather(scenario, source, path.parent)


def from_data(data: Any, source: Source, folder: Path) -> Material:
    """The same of plain data, such as a sweep varies."""
    return gather(convert(data, source), source, folder)


def gather(scenario: Scenario, source: Source, folder: Path) -> Material:
    """What a scenario refers to."""
    from fairlead.simulation.scenario.lint import check  # which needs all of this read

    spec = scenario.spec
    pods: dict[str, tuple[TracedPod, ...]] = {}
    for number, one in enumerate(spec.arrivals):
        if one.trace and one.trace not in pods:
            text = _text(folder / one.trace, source, f"spec.arrivals[{number}].trace")
            pods[one.trace] = read_pod_trace(text, str(folder / one.trace))
    supply: dict[str, Trace] = {}
    for number, market in enumerate(spec.markets):
        if market.trace and market.trace not in supply:
            _text(folder / market.trace, source, f"spec.markets[{number}].trace")
            supply[market.trace] = read_trace(folder / market.trace)
    objects: list[Obj] = []
    for number, name in enumerate(spec.objects):
        text = _text(folder / name, source, f"spec.objects[{number}]")
        for document in documents(text, str(folder / name), large=True):
            objects += _listed(document)
    found = Material(
        scenario, _groups(scenario, source), _policies(scenario, source), pods, supply, tuple(objects)
    )
    check(found, source)
    return found


def _groups(scenario: Scenario, source: Source) -> tuple[NodeGroup, ...]:
    given = scenario.spec.node_groups
    if not given:
        return ()
    found: list[NodeGroup] = []
    for number, one in enumerate(given):
        group = {**one}
        if (nodes := group.pop("nodes", None)) is not None:
            group |= {
                "min": nodes,
                "desired": nodes,
                "max": max(1, nodes) if isinstance(nodes, int) else nodes,
            }
        document = {"apiVersion": GROUPS_VERSION, "kind": GROUPS_KIND, "groups": [group]}
        try:
            found += read_documents([document], "group")
        except BadObject as error:
            path = f"spec.nodeGroups[{number}]" + (f".{error.field}" if error.field else "")
            raise source.error(path, error.problem) from error
        except BadInput as error:
            raise source.error(f"spec.nodeGroups[{number}]", str(error)) from error
    return tuple(found)


def _policies(scenario: Scenario, source: Source) -> tuple[PlacementPolicy, ...]:
    found: list[PlacementPolicy] = []
    for number, one in enumerate(scenario.spec.policies):
        whole = {"apiVersion": "fairlead.dev/v1alpha1", "kind": POLICIES.kind, **one}
        try:
            found += read_policies([whole])
        except BadObject as error:
            path = f"spec.policies[{number}]" + (f".{error.field}" if error.field else "")
            raise source.error(path, error.problem) from error
    return tuple(found)


def _listed(document: Any) -> list[Obj]:
    if not isinstance(document, dict):
        return []
    if isinstance(document.get("items"), list) and str(document.get("kind", "")).endswith("List"):
        return [one for each in document["items"] for one in _listed(each)]
    return [document]


def _text(path: Path, source: Source, field: str) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise source.error(field, f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise source.error(field, f"{path} is not UTF-8: {error}") from error
