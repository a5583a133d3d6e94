"""Pods of a trace, as a CSV file: when each came, how long it ran, and what it asked for.

Columns: ``at`` (seconds from the beginning; required), ``runs_for`` (seconds; empty: until the end),
``name``, ``pods`` (a gang's size), ``priority``, a resource's name (``cpu``, ``memory``,
``nvidia.com/gpu``, …) for what is asked of it, and ``node:KEY`` for the values that this label of a node
may have, with ``|`` between them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fairlead.errors import BadInput
from fairlead.kube.quantity import QuantityError, nano

_OWN = ("at", "runs_for", "name", "pods", "priority")
_NODE = "node:"


@dataclass(frozen=True, slots=True)
class TracedPod:
    """One pod, or gang of `pods`. `runs_for_s` None: until the end. `nodes`: label → values allowed."""

    at_s: float
    runs_for_s: float | None
    name: str
    pods: int
    priority: int | None
    requests: tuple[tuple[str, str], ...]
    nodes: tuple[tuple[str, tuple[str, ...]], ...]


def read_pod_trace(text: str, name: str) -> tuple[TracedPod, ...]:
    r"""The pods of a trace, in the order in which they came.

    >>> read_pod_trace("at,runs_for,cpu,node:zone\n5,60,500m,a|b\n", "t.csv")[0].nodes
    (('zone', ('a', 'b')),)
    """
    rows = csv.reader(io.StringIO(text))
    header = next(rows, [])
    if "at" not in header:
        raise BadInput(f"{name}:1: lacks the column 'at'; it has {', '.join(header) or 'none'}")
    if len(set(header)) < len(header):
        raise BadInput(f"{name}:1: has two columns of one name: {', '.join(header)}")
    found = [
        _pod(dict(zip(header, row, strict=False)), f"{name}:{rows.line_num}", row, header)
        for row in rows
        if row
    ]
    return tuple(sorted(found, key=lambda one: one.at_s))


def write_pod_trace(pods: Iterable[TracedPod]) -> str:
    """The same as text."""
    listed = list(pods)
    resources = sorted({resource for one in listed for resource, _ in one.requests})
    labels = sorted({label for one in listed for label, _ in one.nodes})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_OWN, *resources, *(_NODE + label for label in labels)])
    for one in listed:
        asked, nodes = dict(one.requests), dict(one.nodes)
        writer.writerow(
            [
                f"{one.at_s:.10g}",
                "" if one.runs_for_s is None else f"{one.runs_for_s:.10g}",
                one.name,
                one.pods,
                "" if one.priority is None else one.priority,
                *(asked.get(resource, "") for resource in resources),
                *("|".join(nodes.get(label, ())) for label in labels),
            ]
        )
    return out.getvalue()


def _pod(row: Mapping[str, str], where: str, given: list[str], header: list[str]) -> TracedPod:
    if len(given) != len(header):
        raise BadInput(f"{where}: has {len(given)} values for {len(header)} columns")
    runs_for = row.get("runs_for", "").strip()
    priority = row.get("priority", "").strip()
    return TracedPod(
        at_s=_number(row["at"], f"{where}: at"),
        runs_for_s=_number(runs_for, f"{where}: runs_for") if runs_for else None,
        name=row.get("name", "").strip(),
        pods=max(1, _whole(row.get("pods") or "1", f"{where}: pods")),
        priority=_whole(priority, f"{where}: priority") if priority else None,
        requests=tuple(_requests(row, where)),
        nodes=tuple(
            (column.removeprefix(_NODE), tuple(one.strip() for one in value.split("|")))
            for column, value in row.items()
            if column.startswith(_NODE) and value.strip()
        ),
    )


def _requests(row: Mapping[str, str], where: str) -> Iterator[tuple[str, str]]:
    for column, value in row.items():
        if column in _OWN or column.startswith(_NODE) or not value.strip():
            continue
        try:
            if nano(value.strip()) < 0:
                raise BadInput(f"{where}: {column}: {value} is negative")
        except QuantityError as error:
            raise BadInput(f"{where}: {column}: {error}") from error
        yield column, value.strip()


def _number(text: str, where: str) -> float:
    try:
        found = float(text)
    except ValueError as error:
        raise BadInput(f"{where}: {text!r} is not a number of seconds") from error
    if not 0 <= found < 1e12:
        raise BadInput(f"{where}: {text!r} is not a number of seconds from the beginning on")
    return found


def _whole(text: str, where: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise BadInput(f"{where}: {text!r} is not a whole number") from error
