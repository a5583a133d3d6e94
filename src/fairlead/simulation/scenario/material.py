"""A scenario with everything that it refers to, read and checked: what can be played, on any machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fairlead.errors import BadInput, BadObject
from fairlead.kube.decode import strip_nulls
from fairlead.kube.documents import documents
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.file import API_VERSION as GROUPS_VERSION
from fairlead.nodegroups.file import KIND as GROUPS_KIND
from fairlead.nodegroups.file import GroupFields, read_documents
from fairlead.policy.names import POLICIES
from fairlead.policy.rule.model import PlacementPolicy, PolicySpec, read_policies
from fairlead.simulation.contents import Obj
from fairlead.simulation.scenario.fields import mistakes as field_mistakes
from fairlead.simulation.scenario.mistakes import BadScenario, Mistake
from fairlead.simulation.scenario.model import Natural, Scenario
from fairlead.simulation.scenario.pod_trace import TracedPod, read_pod_trace
from fairlead.simulation.scenario.reader import Source, convert, read_data, text_of
from fairlead.world.spot import Trace, read_trace

_T = TypeVar("_T")


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
    text = text_of(path)
    return from_data(read_data(text, str(path)), Source(text, str(path)), path.parent)


def from_data(data: Any, source: Source, folder: Path) -> Material:
    """The same of plain data, such as a sweep varies. BadScenario has all that is wrong with it."""
    try:
        scenario = convert(data, source)
    except BadScenario as error:
        spec = data.get("spec") if isinstance(data, dict) else None
        if not isinstance(spec, dict):
            raise
        more = parts(_list(spec.get("nodeGroups")), _list(spec.get("policies")), source)[2]
        raise BadScenario([*error.mistakes, *more]) from error
    return gather(scenario, source, folder)


def gather(scenario: Scenario, source: Source, folder: Path) -> Material:
    """What a scenario refers to."""
    from fairlead.simulation.scenario.lint import mistakes  # which needs all of this read

    spec = scenario.spec
    groups, policies, found = parts(list(spec.node_groups), list(spec.policies), source)

    def attempt(field: str, read: Callable[[], _T], otherwise: _T) -> _T:
        """What a file that a field names holds."""
        try:
            return read()
        except BadInput as error:
            found.append(source.mistake(field, str(error)))
            return otherwise

    pods: dict[str, tuple[TracedPod, ...]] = {}
    for number, one in enumerate(spec.arrivals):
        if one.trace and one.trace not in pods:
            read_pods = partial(_pods, folder / one.trace)
            pods[one.trace] = attempt(f"spec.arrivals[{number}].trace", read_pods, ())
    supply: dict[str, Trace] = {}
    for number, market in enumerate(spec.markets):
        if market.trace and market.trace not in supply:
            read_supply = partial(read_trace, folder / market.trace)
            supply[market.trace] = attempt(f"spec.markets[{number}].trace", read_supply, Trace(1.0, (0,)))
    objects: list[Obj] = []
    for number, name in enumerate(spec.objects):
        read_objects = partial(_objects, folder / name)
        objects += attempt(f"spec.objects[{number}]", read_objects, [])
    material = Material(scenario, groups, policies, pods, supply, tuple(objects))
    found += [source.mistake(*one) for one in mistakes(material)]
    if found:
        raise BadScenario(found)
    return material


def parts(
    groups: list[Any], policies: list[Any], source: Source
) -> tuple[tuple[NodeGroup, ...], tuple[PlacementPolicy, ...], list[Mistake]]:
    """The node groups and policies that a scenario has as plain data, and what is wrong with them."""
    found: list[Mistake] = []

    def attempt(where: str, wrong: Iterable[tuple[str, str]], read: Callable[[], tuple[_T, ...]]) -> list[_T]:
        """A part, unless a field of it is wrong by itself or with others."""
        if told := [source.mistake(*each) for each in wrong]:
            found.extend(told)
            return []
        try:
            return list(read())
        except BadObject as error:
            found.append(source.mistake(f"{where}.{error.field}" if error.field else where, error.problem))
        except BadInput as error:
            found.append(source.mistake(where, str(error)))
        return []

    read_groups: list[NodeGroup] = []
    for number, one in enumerate(groups):
        if isinstance(one, dict):  # else the model has said so
            where, group = f"spec.nodeGroups[{number}]", strip_nulls(one)
            read_groups += attempt(where, _wrong_in_group(group, where), partial(_group, group))
    read: list[PlacementPolicy] = []
    for number, one in enumerate(policies):
        if isinstance(one, dict):
            where = f"spec.policies[{number}]"
            policy = {"apiVersion": POLICIES.api_version, "kind": POLICIES.kind, **strip_nulls(one)}
            wrong = field_mistakes(policy.get("spec", {}), PolicySpec, f"{where}.spec")
            read += attempt(where, wrong, partial(read_policies, [policy]))
    return tuple(read_groups), tuple(read), found


def _wrong_in_group(group: dict[str, Any], where: str) -> Iterator[tuple[str, str]]:
    rest = {name: value for name, value in group.items() if name != "nodes"}
    yield from field_mistakes(rest, GroupFields, where)
    if "nodes" in group:
        yield from field_mistakes(group["nodes"], Natural, f"{where}.nodes")
        for name in ("min", "desired", "max"):
            if name in group:
                yield f"{where}.{name}", "is what nodes says already; give nodes, or min, desired and max"


def _group(given: dict[str, Any]) -> tuple[NodeGroup, ...]:
    group = {**given}
    if (nodes := group.pop("nodes", None)) is not None:
        group |= {"min": nodes, "desired": nodes, "max": max(1, nodes)}
    return read_documents([{"apiVersion": GROUPS_VERSION, "kind": GROUPS_KIND, "groups": [group]}], "group")


def _pods(path: Path) -> tuple[TracedPod, ...]:
    return read_pod_trace(text_of(path), str(path))


def _objects(path: Path) -> list[Obj]:
    text = text_of(path)
    try:
        # JSON is YAML too, but reading it as such takes a hundred times as long.
        found = [msgspec.json.decode(text)]
    except msgspec.DecodeError:
        found = list(documents(text, str(path), large=True))
    return [one for each in found for one in _listed(each)]


def _list(given: object) -> list[Any]:
    return given if isinstance(given, list) else []


def _listed(document: Any) -> list[Obj]:
    if not isinstance(document, dict):
        return []
    if isinstance(document.get("items"), list) and str(document.get("kind", "")).endswith("List"):
        return [one for each in document["items"] for one in _listed(each)]
    return [document]
