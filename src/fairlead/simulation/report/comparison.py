"""Results beside each other: each number of each result, and how far it is from the first result's.

A number that every result has the same is told apart, so that a reader sees the differences first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from fairlead.simulation.report.charts import Named
from fairlead.simulation.report.measures import (
    CAPACITY,
    GROUP,
    RESOURCE,
    WHOLE,
    WORKLOAD,
    Better,
    Measures,
)
from fairlead.simulation.report.words import amount, availability, share, span
from fairlead.simulation.simulate.result import ResourceResult, Result

_MINUS = "\N{MINUS SIGN}"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cell:
    """One result's number; `change` is how far it is from the first result's, `verdict` what that means."""

    value: str
    change: str = ""
    verdict: Literal["better", "worse", ""] = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One number of every result. A result that lacks it has an empty cell."""

    section: str
    name: str
    cells: tuple[Cell, ...]
    differs: bool


@dataclass(frozen=True, slots=True)
class _Number:
    section: str
    name: str
    words: Callable[[float], str]
    better: Better
    values: tuple[float | None, ...]


def rows(named: Named) -> tuple[Row, ...]:
    """Every number of two results or more."""
    return tuple(_row(one) for one in _numbers([result for _, result in named]))


def incomparable(named: Named) -> list[str]:
    """What has to be known before the results' totals are compared."""
    first = named[0][1]
    found = []
    if any(result.duration_s != first.duration_s for _, result in named):
        spans = ", ".join(f"{name}: {span(result.duration_s)}" for name, result in named)
        found.append(
            f"The results are of different spans of time ({spans}), so totals say little about each other."
        )
    if any(result.pods.arrived != first.pods.arrived for _, result in named):
        found.append(
            "Different numbers of pods arrived; a pod that came again after an eviction counts again."
        )
    return found


def _row(found: _Number) -> Row:
    texts = tuple("" if value is None else found.words(value) for value in found.values)
    differs = len(set(texts)) > 1
    base = found.values[0]
    cells = tuple(
        Cell(text) if place == 0 else _cell(found, text, value, base)
        for place, (text, value) in enumerate(zip(texts, found.values, strict=True))
    )
    return Row(found.section, found.name, cells, differs)


def _cell(found: _Number, text: str, value: float | None, base: float | None) -> Cell:
    if value is None or base is None or found.words(value) == found.words(base):
        return Cell(text)
    more = value > base
    change = ("+" if more else _MINUS) + found.words(abs(value - base))
    if found.words in (share, availability):
        # A share of a share would be taken for its difference.
        change = change.replace("%", " points")
    elif base:
        change += _relative((value - base) / base)
    if not found.better:
        return Cell(text, change)
    return Cell(text, change, "better" if more == (found.better == "more") else "worse")


def _relative(change: float) -> str:
    size = f"{abs(change):.0%}" if abs(change) >= 0.01 else f"{abs(change):.1%}"
    return "" if size == "0.0%" else f" ({'+' if change > 0 else _MINUS}{size})"


def _numbers(results: Sequence[Result]) -> Iterator[_Number]:
    for section, about in WHOLE.items():
        for one in about:
            yield _Number(section, one.name, one.words, one.better, tuple(map(one.value, results)))
    resources = [{one.name: one for one in result.resources} for result in results]
    for resource in sorted({name for each in resources for name in each}):
        yield _capacity(resource, [each.get(resource) for each in resources])
        yield from _about(f"resource {resource}", RESOURCE, [each.get(resource) for each in resources])
    groups = [{one.name: one for one in result.groups} for result in results]
    for group in sorted({name for each in groups for name in each}):
        yield from _about(f"node group {group}", GROUP, [each.get(group) for each in groups])
    workloads = [{one.name: one for one in result.workloads} for result in results]
    for workload in sorted({name for each in workloads for name in each}):
        yield from _about(f"workload {workload}", WORKLOAD, [each.get(workload) for each in workloads])


def _about(section: str, about: Measures[T], parts: Sequence[T | None]) -> Iterator[_Number]:
    for one in about:
        values = tuple(None if part is None else one.value(part) for part in parts)
        if any(each is not None for each in values):
            yield _Number(section, one.name, one.words, one.better, values)


def _capacity(resource: str, parts: Sequence[ResourceResult | None]) -> _Number:
    def words(value: float) -> str:
        return amount(resource, value)

    values = tuple(None if one is None else one.capacity for one in parts)
    return _Number(f"resource {resource}", CAPACITY, words, "", values)
