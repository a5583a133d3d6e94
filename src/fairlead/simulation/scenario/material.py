"""A scenario with everything that it refers to, read and checked: what can be played, on any machine."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

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
from fairlead.simulation.contents import Obj, manifests
from fairlead.simulation.scenario.fields import mistakes as field_mistakes
from fairlead.simulation.scenario.mistakes import together
from fairlead.simulation.scenario.model import KIND, Natural, Scenario
from fairlead.simulation.scenario.pod_trace import TracedPod, read_pod_trace
from fairlead.simulation.scenario.reader import Source, convert, read_data, text_of
from fairlead.world.spot import Trace, trace_of

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
        """See `Files`."""
        return str(self.path / name)

    def text(self, name: str) -> str:
        """See `Files`."""
        return (self.path / name).read_text()


def load(path: Path) -> Material:
    """The scenario of a file, with what it refers to; paths in it are relative to its folder."""
    text = text_of(path)
    return from_data(read_data(text, str(path), KIND), Source(text, str(path)), path.parent)


def from_data(
    data: Any, source: Source, files: Files | Path, supply: Mapping[str, Trace] | None = None
) -> Material:
    """The same of plain data, such as a sweep varies; `files` may be a folder's path.

    `supply` are traces that need not be read any more. The error has all that is wrong.
    """
    try:
        scenario = convert(data, source)
    except BadInput as error:
        spec = data.get("spec") if isinstance(data, dict) else None
        if not isinstance(spec, dict):
            raise
        more = parts(_list(spec.get("nodeGroups")), _list(spec.get("policies")))[2]
        raise together([error, *(source.error(*one) for one in more)]) from error
    return gather(scenario, source, files, supply)


def gather(
    scenario: Scenario, source: Source, files: Files | Path, supply: Mapping[str, Trace] | None = None
) -> Material:
    """What a scenario refers to, but for the `supply` that is known."""
    from fairlead.simulation.scenario.lint import mistakes  # which needs all of this read

    spec = scenario.spec
    groups, policies, found = parts(list(spec.node_groups), list(spec.policies))
    files = Folder(files) if isinstance(files, Path) else files

    def read(name: str, field: str, of: Callable[[str, str], _T], otherwise: _T) -> _T:
        """What a file that a field names holds."""
        called = files.called(name)
        try:
            return of(files.text(name), called)
        except OSError as error:
            found.append((field, f"{called} cannot be read: {error.strerror or error}"))
        except UnicodeDecodeError as error:
            found.append((field, f"{called} is not UTF-8: {error}"))
        except BadInput as error:
            found.append((field, str(error)))
        return otherwise

    pods: dict[str, tuple[TracedPod, ...]] = {}
    for number, one in enumerate(spec.arrivals):
        if one.trace and one.trace not in pods:
            pods[one.trace] = read(one.trace, f"spec.arrivals[{number}].trace", _pods_of, ())
    traces: dict[str, Trace] = dict(supply or {})
    for number, market in enumerate(spec.markets):
        if market.trace and market.trace not in traces:
            field = f"spec.markets[{number}].trace"
            traces[market.trace] = read(market.trace, field, trace_of, Trace(1.0, (0,)))
    objects: list[Obj] = []
    for number, name in enumerate(spec.objects):
        objects += pickle.loads(read(name, f"spec.objects[{number}]", _objects_of, pickle.dumps([])))
    material = Material(scenario, groups, policies, pods, traces, tuple(objects))
    found += mistakes(material)
    if found:
        raise source.errors(found)
    return material


def parts(
    groups: list[Any], policies: list[Any]
) -> tuple[tuple[NodeGroup, ...], tuple[PlacementPolicy, ...], list[tuple[str, str]]]:
    """The node groups and policies that a scenario has as plain data, and what is wrong with them."""
    found: list[tuple[str, str]] = []

    def attempt(where: str, wrong: Iterable[tuple[str, str]], read: Callable[[], tuple[_T, ...]]) -> list[_T]:
        """A part, unless a field of it is wrong by itself or with others."""
        if told := list(wrong):
            found.extend(told)
            return []
        try:
            return list(read())
        except BadObject as error:
            found.append((f"{where}.{error.field}" if error.field else where, error.problem))
        except BadInput as error:
            found.append((where, str(error)))
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


# A sweep plays what a file says hundreds of times in one process. Objects are kept as bytes: each run has its
# own.
_pods_of = lru_cache(maxsize=8)(read_pod_trace)


@lru_cache(maxsize=8)
def _objects_of(text: str, called: str) -> bytes:
    try:
        # JSON is YAML too, but reading it as such takes a hundred times as long.
        found = [msgspec.json.decode(text)]
    except msgspec.DecodeError:
        found = list(documents(text, called, large=True))
    try:
        return pickle.dumps(manifests(found))
    except BadObject as error:
        raise BadInput(f"{called}: {error}") from error


def _list(given: object) -> list[Any]:
    return given if isinstance(given, list) else []
