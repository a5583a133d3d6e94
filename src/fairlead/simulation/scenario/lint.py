"""What makes no sense in a scenario although each field is right: names that do not meet, numbers that do
not fit each other. Every mistake is found before anything is played.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod
from fairlead.nodegroups import NodeGroup
from fairlead.simulation.scenario.model import Arrivals, Fault, Market, PodShape
from fairlead.simulation.scenario.pods import pod_object
from fairlead.simulation.scenario.reader import Source

if TYPE_CHECKING:
    from fairlead.simulation.scenario.material import Material

_PERCENT = re.compile(r"\d{1,3}%")
_MOST_SAMPLES = 100_000


def check(material: Material, source: Source) -> None:
    """Raise the first thing that makes no sense."""
    spec = material.scenario.spec
    if spec.duration <= 0:
        raise source.error("spec.duration", "must be longer than nothing")
    if (
        spec.sample_every is not None
        and not 0 < spec.duration / max(spec.sample_every, 1e-9) <= _MOST_SAMPLES
    ):
        raise source.error("spec.sampleEvery", f"must give between 1 and {_MOST_SAMPLES} samples")
    if not (material.groups or material.objects):
        raise source.error("spec", "has no nodes: give nodeGroups, or objects with nodes")
    if not (spec.workloads or spec.arrivals or material.objects):
        raise source.error("spec", "has no pods: give workloads, arrivals, or objects with pods")
    _names(material, source)
    for number, workload in enumerate(spec.workloads):
        path = f"spec.workloads[{number}]"
        _shape(workload, path, source)
        _minimum(workload.min_available, f"{path}.minAvailable", source)
        for index, step in enumerate(workload.scale):
            if step.at > spec.duration:
                raise source.error(f"{path}.scale[{index}].at", "is after the end (spec.duration)")
    for number, arrivals in enumerate(spec.arrivals):
        _shape(arrivals, f"spec.arrivals[{number}]", source)
        _times(arrivals, f"spec.arrivals[{number}]", source)
    groups = {one.name: one for one in material.groups}
    for number, market in enumerate(spec.markets):
        _market(market, groups, f"spec.markets[{number}]", source)
    for number, fault in enumerate(spec.faults):
        _fault(fault, f"spec.faults[{number}]", source)


def _names(material: Material, source: Source) -> None:
    spec = material.scenario.spec
    seen: set[str] = set()
    for field, listed in (("workloads", spec.workloads), ("arrivals", spec.arrivals)):
        for number, one in enumerate(listed):
            if one.name in seen:
                raise source.error(f"spec.{field}[{number}].name", f"{one.name!r} is given twice")
            seen.add(one.name)
    for field, names in (
        ("nodeGroups", [one.name for one in material.groups]),
        ("policies", [one.name for one in material.policies]),
    ):
        for number, name in enumerate(names):
            if name in names[:number]:
                raise source.error(f"spec.{field}[{number}]", f"{name!r} is given twice")


def _shape(shape: PodShape, path: str, source: Source) -> None:
    try:
        convert(pod_object(shape, "pod", "default"), Pod, path)
    except BadObject as error:
        raise source.error(path, f"makes no pod: {error.field}: {error.problem}") from error


def _minimum(given: int | str | None, path: str, source: Source) -> None:
    if isinstance(given, str) and (_PERCENT.fullmatch(given) is None or int(given[:-1]) > 100):
        raise source.error(path, f"{given!r} is neither a number nor a percentage up to 100%")
    if isinstance(given, int) and given < 0:
        raise source.error(path, f"{given} is less than 0")


def _times(arrivals: Arrivals, path: str, source: Source) -> None:
    ways = {
        "at": bool(arrivals.at),
        "every": arrivals.every is not None,
        "perHour": arrivals.per_hour is not None,
        "trace": bool(arrivals.trace),
    }
    given = [name for name, there in ways.items() if there]
    if len(given) != 1:
        raise source.error(
            path, f"says {' and '.join(given) or 'not'} when pods come; give one of {', '.join(ways)}"
        )
    if arrivals.every is not None and arrivals.every <= 0:
        raise source.error(f"{path}.every", "must be longer than nothing")
    if arrivals.until is not None and arrivals.until <= arrivals.start:
        raise source.error(f"{path}.until", "is not after start")


def _market(market: Market, groups: dict[str, NodeGroup], path: str, source: Source) -> None:
    if not market.groups:
        raise source.error(f"{path}.groups", "is empty; name the node groups whose nodes it brings")
    for number, name in enumerate(market.groups):
        if name not in groups:
            there = ", ".join(groups) or "none"
            raise source.error(
                f"{path}.groups[{number}]", f"there is no node group {name!r}; there are {there}"
            )
        if market.zone and market.zone not in groups[name].zones:
            zones = ", ".join(groups[name].zones) or "none"
            raise source.error(f"{path}.zone", f"{market.zone!r} is not a zone of {name}; it has {zones}")
    if bool(market.trace) == (market.up is not None or market.down is not None):
        raise source.error(path, "give either a trace, or up and down")
    if not market.trace and (not market.up or not market.down):
        raise source.error(path, "up and down must both be given, and be longer than nothing")


def _fault(fault: Fault, path: str, source: Source) -> None:
    if fault.action == "loseZone":
        if not fault.zone or fault.node:
            raise source.error(path, "loseZone wants a zone, and no node")
    elif not fault.node or fault.zone:
        raise source.error(path, f"{fault.action} wants a node, and no zone")
