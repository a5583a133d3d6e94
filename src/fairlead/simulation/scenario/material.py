"""A scenario with everything that it refers to, read and checked: what can be played, on any machine."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

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
from fairlead.world.spot import Trace, trace_of


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


class Files(Protocol):
    """The files that a scenario may name: a folder's, or such as came from another machine."""

    def called(self, name: str) -> str:
        """What messages call a file."""

    def text(self, name: str) -> str:
        """A file's text; OSError or UnicodeDecodeError where there is none."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Files by their paths relative to a folder."""

    path: Path

    def called(self, name: str) -> str:
        return str(self.path / name)

    def text(self, name: str) -> str:
        return (self.path / name).read_text()


def load(path: Path) -> Material:
    """The scenario of a file, with what it refers to; paths in it are relative to its folder."""
    scenario, source = read_file(path)
    return gather(scenario, source, Folder(path.parent))


def from_data(data: Any, source: Source, files: Files | Path) -> Material:
    """The same of plain data, such as a sweep varies; `files` may be a folder's path."""
    files = Folder(files) if isinstance(files, Path) else files
    return gather(convert(data, source), source, files)


def gather(scenario: Scenario, source: Source, files: Files) -> Material:
    """What a scenario refers to."""
    from fairlead.simulation.scenario.lint import check  # which needs all of this read

    spec = scenario.spec
    pods: dict[str, tuple[TracedPod, ...]] = {}
    for number, one in enumerate(spec.arrivals):
        if one.trace and one.trace not in pods:
            text = _text(one.trace, files, source, f"spec.arrivals[{number}].trace")
            pods[one.trace] = _pods_of(text, files.called(one.trace))
    supply: dict[str, Trace] = {}
    for number, market in enumerate(spec.markets):
        if market.trace and market.trace not in supply:
            text = _text(market.trace, files, source, f"spec.markets[{number}].trace")
            supply[market.trace] = trace_of(text, files.called(market.trace))
    objects: list[Obj] = []
    for number, name in enumerate(spec.objects):
        text = _text(name, files, source, f"spec.objects[{number}]")
        objects += pickle.loads(_objects_of(text, files.called(name)))
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


# A sweep plays what a file says hundreds of times in one process. Objects are bytes: each run has its own.
_pods_of = lru_cache(maxsize=8)(read_pod_trace)


@lru_cache(maxsize=8)
def _objects_of(text: str, called: str) -> bytes:
    return pickle.dumps(
        [one for document in documents(text, called, large=True) for one in _listed(document)]
    )


def _listed(document: Any) -> list[Obj]:
    if not isinstance(document, dict):
        return []
    if isinstance(document.get("items"), list) and str(document.get("kind", "")).endswith("List"):
        return [one for each in document["items"] for one in _listed(each)]
    return [document]


def _text(name: str, files: Files, source: Source, field: str) -> str:
    try:
        return files.text(name)
    except OSError as error:
        raise source.error(
            field, f"{files.called(name)} cannot be read: {error.strerror or error}"
        ) from error
    except UnicodeDecodeError as error:
        raise source.error(field, f"{files.called(name)} is not UTF-8: {error}") from error
