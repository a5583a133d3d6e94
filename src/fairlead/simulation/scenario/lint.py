"""What makes no sense in a scenario although each field is right: names that do not meet, numbers that do
not fit each other. All of it is found before anything is played.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod, Quantities
from fairlead.kube.quantity import QuantityError, nano
from fairlead.nodegroups import NodeGroup
from fairlead.simulation.scenario.fields import NAME_IN_WORDS, Found
from fairlead.simulation.scenario.model import Arrivals, Fault, Market, PodShape, Workload
from fairlead.simulation.scenario.pods import pod_object

if TYPE_CHECKING:
    from fairlead.simulation.scenario.material import Material

_PERCENT = re.compile(r"\d{1,3}%")
_POD_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MOST_SAMPLES = 100_000


def mistakes(material: Material) -> Found:
    """Fields that make no sense, and why."""
    spec = material.scenario.spec
    if spec.duration <= 0:
        yield "spec.duration", "must be longer than nothing"
    elif spec.sample_every is not None and not (
        0 < spec.duration / max(spec.sample_every, 1e-9) <= _MOST_SAMPLES
    ):
        yield "spec.sampleEvery", f"must give between 1 and {_MOST_SAMPLES} samples in spec.duration"
    if not (spec.node_groups or spec.objects):
        yield "spec", "has no nodes: give nodeGroups, or objects with nodes"
    if not (spec.workloads or spec.arrivals or spec.objects):
        yield "spec", "has no pods: give workloads, arrivals, or objects with pods"
    yield from _names(material)
    for number, workload in enumerate(spec.workloads):
        yield from _workload(workload, float(spec.duration), f"spec.workloads[{number}]")
    for number, arrivals in enumerate(spec.arrivals):
        yield from _shape(arrivals, f"spec.arrivals[{number}]")
        yield from _times(arrivals, f"spec.arrivals[{number}]")
    yield from _traced_names(material)
    groups = {one.name: one for one in material.groups}
    # A group that could not be read is there all the same; what it has is not known.
    named = [str(one.get("name")) for one in spec.node_groups]
    for number, market in enumerate(spec.markets):
        yield from _market(market, named, groups, f"spec.markets[{number}]")
    for number, fault in enumerate(spec.faults):
        yield from _fault(fault, f"spec.faults[{number}]")
        if fault.at > spec.duration:
            yield f"spec.faults[{number}].at", "is after the end (spec.duration)"


def _names(material: Material) -> Found:
    spec = material.scenario.spec
    seen: set[str] = set()
    for field, listed in (("workloads", spec.workloads), ("arrivals", spec.arrivals)):
        for number, one in enumerate(listed):
            if one.name in seen:
                yield f"spec.{field}[{number}].name", f"{one.name!r} is given twice"
            seen.add(one.name)
    named = [one.get("metadata") for one in spec.policies]
    for field, names in (
        ("nodeGroups[{}].name", [one.get("name") for one in spec.node_groups]),
        ("policies[{}].metadata.name", [one.get("name") if isinstance(one, dict) else None for one in named]),
    ):
        for number, name in enumerate(names):
            if name is not None and name in names[:number]:
                yield f"spec.{field.format(number)}", f"{name!r} is given twice"


def _traced_names(material: Material) -> Found:
    """Pods of traces that could not be told apart, or have a name that no pod may have."""
    seen: set[tuple[str, str]] = set()
    for number, one in enumerate(material.scenario.spec.arrivals):
        path = f"spec.arrivals[{number}].trace"
        for pod in (material.pods or {}).get(one.trace, ()):
            key = (one.namespace, pod.name)
            if pod.name and key in seen:
                yield path, f"{one.trace}: {pod.name!r} is given twice in namespace {one.namespace}"
                break
            if pod.name and _POD_NAME.fullmatch(pod.name) is None:
                yield path, f"{one.trace}: name: {pod.name!r} is not allowed; allowed is {NAME_IN_WORDS}"
                break
            seen.add(key)


def _workload(workload: Workload, duration_s: float, path: str) -> Found:
    yield from _shape(workload, path)
    given = workload.min_available
    if isinstance(given, str) and (_PERCENT.fullmatch(given) is None or int(given[:-1]) > 100):
        yield (
            f"{path}.minAvailable",
            f"{given!r} is not allowed; allowed is a number or a percentage up to 100%",
        )
    if isinstance(given, int) and given < 0:
        yield f"{path}.minAvailable", f"{given} is not allowed; allowed is a number from 0, or a percentage"
    for index, step in enumerate(workload.scale):
        if step.at > duration_s:
            yield f"{path}.scale[{index}].at", "is after the end (spec.duration)"


def _shape(shape: PodShape, path: str) -> Found:
    yield from _amounts(shape.requests, f"{path}.requests")
    try:
        convert(pod_object(shape, "pod", "default"), Pod, path)
    except BadObject as error:
        yield path, f"makes no pod: {error.field}: {error.problem}"


def _amounts(given: Quantities, path: str) -> Found:
    for resource, amount in given.items():
        field = f"{path}[{resource}]" if "." in resource or "/" in resource else f"{path}.{resource}"
        try:
            if nano(amount) < 0:
                yield field, f"{amount} is negative; allowed is an amount like 2, 500m or 4Gi"
        except QuantityError as error:
            yield field, f"{error}; allowed is an amount like 2, 500m or 4Gi"


def _times(arrivals: Arrivals, path: str) -> Found:
    ways = {
        "at": bool(arrivals.at),
        "every": arrivals.every is not None,
        "perHour": arrivals.per_hour is not None,
        "trace": bool(arrivals.trace),
    }
    given = [name for name, there in ways.items() if there]
    if len(given) != 1:
        said = f"says by {' and '.join(given)} when pods come" if given else "does not say when pods come"
        yield path, f"{said}; give one of {', '.join(ways)}"
    if arrivals.every is not None and arrivals.every <= 0:
        yield f"{path}.every", "must be longer than nothing"
    if arrivals.until is not None and arrivals.until <= arrivals.start:
        yield f"{path}.until", "is not after start"


def _market(market: Market, named: list[str], groups: dict[str, NodeGroup], path: str) -> Found:
    if not market.groups:
        yield f"{path}.groups", "is empty; name the node groups whose nodes it brings"
    for number, name in enumerate(market.groups):
        if name not in named:
            there = ", ".join(named) or "none"
            yield f"{path}.groups[{number}]", f"there is no node group {name!r}; there are {there}"
        elif market.zone and name in groups and market.zone not in groups[name].zones:
            zones = ", ".join(groups[name].zones) or "none"
            yield f"{path}.zone", f"{market.zone!r} is not a zone of {name}; it has {zones}"
    if bool(market.trace) == (market.up is not None or market.down is not None):
        yield path, "give either a trace, or up and down"
    elif not market.trace and (not market.up or not market.down):
        yield path, "up and down must both be given, and be longer than nothing"


def _fault(fault: Fault, path: str) -> Found:
    if fault.action == "loseZone":
        if not fault.zone or fault.node:
            yield path, "loseZone wants a zone, and no node"
    elif not fault.node or fault.zone:
        yield path, f"{fault.action} wants a node, and no zone"
