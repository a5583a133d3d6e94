"""Reads a question for a plan with the traces that it names, and says what is wrong with it, line by line.

What comes out is in numbers: the joint states that choose, and the traces that check.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fairlead.errors import BadInput
from fairlead.kube.quantity import QuantityError, nano
from fairlead.simulation.scenario.model import span
from fairlead.simulation.scenario.reader import Source, document_of_text, text_of
from fairlead.simulation.spot_plan.candidates import ON_DEMAND, common_labels, labels_of
from fairlead.simulation.spot_plan.common_shock import GAP_S, Rates, draw
from fairlead.simulation.spot_plan.course import Terms
from fairlead.simulation.spot_plan.joint_states import JointStates, common_length_s, cut, joint_states
from fairlead.simulation.spot_plan.model import KIND, PlanSpec, SpotPlan
from fairlead.world.objects import scaled
from fairlead.world.spot import Trace, read_trace

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)%")
_WHOLE_PERCENT = re.compile(r"(\d{1,3})%")
_YEAR_S = 364 * 86400.0
_PODS_PER_NODE = 110
_MOST_POOLS = 8


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be planned. `check` are traces of the time that checks; None: there is none."""

    name: str
    spec: PlanSpec
    target: float
    terms: Terms
    choose: JointStates
    check: tuple[Trace, ...] | None
    check_from_s: float
    check_s: float
    scales: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """What the caller says of the times that choose and check; None: as the file has it."""

    choose: str | None = None
    check: str | None = None
    check_from: str | None = None


def load(path: Path, split: Split = Split()) -> Question:  # noqa: B008 (frozen)
    """The question of a file; paths of traces are relative to its folder."""
    plan, source = document_of_text(text_of(path), str(path), SpotPlan, KIND)
    spec = plan.spec
    _check_pools(spec, source)
    minimum = _minimum(spec, source)
    per_node = _per_node(spec, source)
    terms = Terms(
        replicas=spec.workload.replicas,
        minimum=minimum,
        per_node=per_node,
        boot_s=float(spec.nodes.boot_time),
        ready_after_s=float(spec.workload.ready_after),
        on_demand_price=spec.on_demand.price_per_hour,
        prices=tuple(pool.price_per_hour for pool in spec.pools),
        room=None if spec.on_demand.max is None else spec.on_demand.max * per_node,
    )
    needed = -(-spec.workload.replicas // per_node)
    traced = bool(spec.pools[0].trace)
    traces = _read(spec, source, path.parent) if traced else None
    choose_s, from_s, check_s = _times(spec, split, None if traces is None else common_length_s(traces))
    if traces is None:
        length_s = max(choose_s, from_s + (check_s or 0.0))
        rates = [
            Rates(one.zone, float(one.up or 0), float(one.down or 0), one.nodes or needed)
            for one in spec.pools
        ]
        traces = draw(rates, spec.correlation.region, spec.correlation.zone, length_s, f"{spec.seed}/pools")
    scales = tuple(pool.scale if traced else 1 for pool in spec.pools)
    chosen = joint_states([cut(one, 0.0, choose_s) for one in traces], scales, choose_s)
    check = tuple(cut(one, from_s, from_s + check_s) for one in traces) if check_s is not None else None
    return Question(
        plan.metadata.name, spec, _target(spec, source), terms, chosen, check, from_s, check_s or 0.0, scales
    )


def _read(spec: PlanSpec, source: Source, folder: Path) -> list[Trace]:
    found = []
    for number, pool in enumerate(spec.pools):
        try:
            found.append(read_trace(folder / pool.trace))
        except BadInput as error:
            raise source.error(f"spec.pools[{number}].trace", str(error)) from error
    return found


def _times(spec: PlanSpec, split: Split, length_s: float | None) -> tuple[float, float, float | None]:
    """How long the choosing takes, and from when and for how long (None: not) the check."""
    choose_s = _span("--choose", split.choose) if split.choose else spec.choose and float(spec.choose)
    check_s = _span("--check", split.check) if split.check else spec.check and float(spec.check)
    from_s = _from(spec, split.check_from) if split.check_from else None
    if from_s is not None and choose_s is not None and from_s < choose_s:
        raise BadInput(f"--check-from {split.check_from}: is within the time that chooses; begin after that")
    whole_s = _YEAR_S if length_s is None else length_s
    choose_s = choose_s or from_s or (whole_s if length_s is None else whole_s - (check_s or 0.0))
    if from_s is None:
        from_s = choose_s
    elif check_s is None:
        check_s = whole_s - from_s if length_s is not None else 21 * 86400.0
    if length_s is not None:
        for what, end_s in (("choose", choose_s), ("check", from_s + (check_s or 0.0))):
            if end_s > length_s + GAP_S:
                raise BadInput(
                    f"--{what}: ends {end_s / 86400:.1f} days after the traces' beginning, and they have "
                    f"{length_s / 86400:.1f} days"
                )
    if choose_s <= 0 or (check_s is not None and check_s <= 0):
        raise BadInput("--choose, --check: no time is left; both must be longer than nothing")
    return choose_s, from_s, check_s


def _span(flag: str, text: str) -> float:
    try:
        return float(span(text))
    except ValueError as error:
        raise BadInput(f"{flag}: {error}") from error


def _from(spec: PlanSpec, text: str) -> float:
    """An offset from the beginning, or a date."""
    try:
        date = datetime.date.fromisoformat(text)
    except ValueError:
        return _span("--check-from", text)
    if spec.begins is None:
        raise BadInput(f"--check-from {text}: a date needs spec.begins, the day of the traces' first probe")
    found = (date - spec.begins).days
    if found <= 0:
        raise BadInput(f"--check-from {text}: is not after {spec.begins}, when the traces begin")
    return found * 86400.0


def _check_pools(spec: PlanSpec, source: Source) -> None:
    if not spec.pools:
        raise source.error("spec.pools", "is empty; give at least one pool of spot nodes")
    if len(spec.pools) > _MOST_POOLS:
        raise source.error(
            "spec.pools", f"has {len(spec.pools)} pools; at most {_MOST_POOLS} are planned for"
        )
    traced = bool(spec.pools[0].trace)
    seen: dict[str, None] = {ON_DEMAND: None}
    labels: list[Mapping[str, str]] = []
    for number, pool in enumerate(spec.pools):
        path = f"spec.pools[{number}]"
        if pool.name in seen:
            said = "the name of the on-demand tier" if pool.name == ON_DEMAND else "given twice"
            raise source.error(f"{path}.name", f"{pool.name!r} is {said}")
        seen[pool.name] = None
        if bool(pool.trace) == (pool.up is not None or pool.down is not None):
            raise source.error(path, "give either a trace, or up and down")
        if not pool.trace and (not pool.up or not pool.down or min(pool.up, pool.down) < GAP_S):
            raise source.error(path, "up and down must both be given, and be a minute or longer")
        if bool(pool.trace) != traced:
            said = "all pools must have a trace, or none: how they are there together must be known"
            raise source.error(path, said)
        mine = labels_of(pool)
        if mine in labels:
            raise source.error(
                path, "has the same labels and zone as another pool; a tier could not tell them"
            )
        labels.append(mine)
        if _within(mine, spec.on_demand.labels) or _within(spec.on_demand.labels, mine):
            raise source.error(f"{path}.labels", "do not tell its nodes from on-demand nodes")
    if not common_labels(spec.pools) or _within(common_labels(spec.pools), spec.on_demand.labels):
        raise source.error("spec.pools", "have no label in common that on-demand nodes lack")


def _within(some: Mapping[str, str], others: Mapping[str, str]) -> bool:
    return all(others.get(key) == value for key, value in some.items())


def _minimum(spec: PlanSpec, source: Source) -> int:
    given, replicas = spec.workload.min_available, spec.workload.replicas
    path = "spec.workload.minAvailable"
    if isinstance(given, str):
        said = _WHOLE_PERCENT.fullmatch(given)
        if said is None or int(said[1]) > 100:
            raise source.error(path, f"{given!r} is neither a number nor a percentage up to 100%")
    elif not 0 <= given <= replicas:
        raise source.error(path, f"{given} is not between 0 and replicas ({replicas})")
    return scaled(given, replicas, up=True)


def _target(spec: PlanSpec, source: Source) -> float:
    given = spec.workload.target
    share: float | None = given if isinstance(given, float) else None
    if isinstance(given, str) and (said := _PERCENT.fullmatch(given)) is not None:
        share = float(said[1]) / 100
    if share is None or not 0 < share <= 1:
        raise source.error("spec.workload.target", f"{given!r} is no share of time like 99.9%")
    return share


def _per_node(spec: PlanSpec, source: Source) -> int:
    """How many pods of the workload a node takes."""
    for name in ("cpu", "memory"):
        if name not in spec.nodes.resources:
            raise source.error("spec.nodes.resources", f"lacks {name}")
    found = _PODS_PER_NODE
    for name, wanted in spec.workload.requests.items():
        path = f"spec.workload.requests.{name}"
        try:
            asked = nano(wanted)
        except QuantityError as error:
            raise source.error(path, str(error)) from error
        if asked < 0:
            raise source.error(path, "is negative")
        if not asked:
            continue
        try:
            there = nano(spec.nodes.resources.get(name, 0))
        except QuantityError as error:
            raise source.error(f"spec.nodes.resources.{name}", str(error)) from error
        if there < asked:
            raise source.error(
                path, f"{wanted} does not fit on a node, which has {spec.nodes.resources.get(name, 0)}"
            )
        found = min(found, there // asked)
    if not spec.workload.requests:
        raise source.error("spec.workload", "lacks requests: how many pods a node takes is not known")
    return found
