"""A production GPU cluster as its operators published it: CSV files of nodes and of pods (``openb``).

A pod may ask for a share of a GPU, in thousandths. Nodes offer all their GPUs as one pool of
``nvidia.com/gpu-milli``: devices within a node are not told apart. So three shares of 600 fit on a node with
two GPUs here, where no device has room for two of them.
"""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fairlead.errors import BadInput
from fairlead.simulation.imports.draft import Draft, counted, duration, name_from
from fairlead.simulation.scenario.pod_trace import TracedPod, write_pod_trace

GPU = "nvidia.com/gpu-milli"
MODEL = "nvidia.com/gpu.product"
PODS_FILE = "pods.csv"

PRIORITIES = {"Guaranteed": 100, "LS": 100, "Burstable": 50, "BE": 0}
"""The priority of each quality of service: what serves users, then what bursts, then best effort."""

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "qos",
    "creation_time",
    "deletion_time",
)
_POOL = (
    "Nodes offer their GPUs as one pool of thousandths (nvidia.com/gpu-milli); devices within a node are not "
    "told apart, so shares may be placed that no single device had room for."
)


@dataclass(frozen=True, slots=True)
class Pods:
    """How the trace's pods come: `until_full`, a second apart and for ever, else when they came and as long
    as they ran. `shuffle` is the seed of another order, None for the trace's own. `fill` is how much of the
    nodes' GPUs (of their CPU, where there are none) pods ask for in the end, some drawn again; 0: each once.
    """

    until_full: bool = False
    shuffle: int | None = None
    fill: float = 0.0
    priorities: bool = True


def import_openb(nodes: str, pods: str, how: Pods, *, nodes_file: str, pods_file: str) -> Draft:
    """The scenario of two CSV texts; the files' names are for messages."""
    shapes = Counter(_Shape.of(row) for row in _rows(nodes, nodes_file, _NODE_COLUMNS))
    if not shapes:
        raise BadInput(f"{nodes_file}: has no nodes")
    rows = list(_rows(pods, pods_file, _POD_COLUMNS))
    if not rows:
        raise BadInput(f"{pods_file}: has no pods")
    names = Counter(name_from(row.text("name"), "") for row in rows)
    if twice := [name for name, number in names.items() if name and number > 1]:
        raise BadInput(f"{pods_file}: {twice[0]!r} is the name of {names[twice[0]]} pods")
    if how.until_full:
        traced, notes = _until_full(rows, shapes, how)
        ends_s = len(traced) + 60.0
    else:
        traced, notes = _as_they_came(rows, how)
        ends_s = max(one.at_s + (one.runs_for_s or 0) for one in traced) + 60
    groups = _groups(shapes)
    return Draft(
        "openb",
        f"{counted(shapes.total(), 'node')} and {counted(len(traced), 'pod')} of a trace. {_POOL}",
        {
            "duration": duration(ends_s),
            "nodeGroups": groups,
            "arrivals": [{"name": "pods", "trace": PODS_FILE}],
        },
        {PODS_FILE: write_pod_trace(traced)},
        notes,
    )


@dataclass(frozen=True, slots=True, order=True)
class _Shape:
    """Nodes that are alike."""

    model: str
    gpus: int
    cpu_milli: int
    memory_mib: int

    @classmethod
    def of(cls, row: _Row) -> _Shape:
        return cls(row.text("model"), row.number("gpu"), row.number("cpu_milli"), row.number("memory_mib"))

    def group(self, nodes: int) -> dict[str, Any]:
        """The node group that has them."""
        parts = [f"{self.model or 'gpu'}-{self.gpus}x"] if self.gpus else ["cpu"]
        name = "-".join([*parts, f"{self.cpu_milli / 1000:g}c", f"{self.memory_mib / 1024:g}g"])
        resources = {"cpu": _cpu(self.cpu_milli), "memory": f"{self.memory_mib}Mi"}
        group: dict[str, Any] = {"name": name_from(name, "nodes"), "nodes": nodes, "resources": resources}
        if self.gpus:
            resources[GPU] = str(1000 * self.gpus)
            if self.model:
                group["labels"] = {MODEL: self.model}
        return group


def _groups(shapes: Mapping[_Shape, int]) -> list[dict[str, Any]]:
    found = [shape.group(nodes) for shape, nodes in sorted(shapes.items())]
    names = Counter(one["name"] for one in found)
    return [
        {**one, "name": f"{one['name'][:58]}-{number}"} if names[one["name"]] > 1 else one
        for number, one in enumerate(found)
    ]


def _as_they_came(rows: Sequence[_Row], how: Pods) -> tuple[list[TracedPod], tuple[str, ...]]:
    begin_s = min(row.number("creation_time") for row in rows)
    found = []
    for row in rows:
        came_s = row.number("creation_time")
        # It held its node from when it was given one; one that never was asked for it until it was deleted.
        held_s = row.number("deletion_time") - row.number("scheduled_time", otherwise=came_s)
        at_s, runs_for_s = float(came_s - begin_s), float(max(1, held_s))
        found.append(replace(_traced(row, how.priorities), at_s=at_s, runs_for_s=runs_for_s))
    found.sort(key=lambda one: one.at_s)
    notes = ["Times count from the first creation. A pod runs as long as it held its node in the trace."]
    if how.priorities:
        notes.append(
            "Priorities are by quality of service: LS and Guaranteed 100, Burstable 50, BE 0. The trace has "
            "none itself; --no-priorities leaves them out."
        )
    return found, tuple(notes)


def _until_full(
    rows: Sequence[_Row], shapes: Mapping[_Shape, int], how: Pods
) -> tuple[list[TracedPod], tuple[str, ...]]:
    # Without priorities: nothing may be evicted when it is about how many find room.
    order = [_traced(row, False) for row in rows]
    source = random.Random(f"{how.shuffle}/openb")
    if how.shuffle is not None:
        source.shuffle(order)
    notes = ["Pods come a second apart and never leave; they have no priority, so none is evicted."]
    if how.fill:
        kind: Literal["gpu", "cpu"] = "gpu" if any(shape.gpus for shape in shapes) else "cpu"
        most = how.fill * sum(nodes * _has(shape, kind) for shape, nodes in shapes.items())
        asked = sum(_asks(one, kind) for one in order)
        again = [one for one in order if _asks(one, kind)]
        if not again:
            raise BadInput(f"--fill: no pod of the trace asks for {kind}")
        taken = 0
        while asked < most:
            one = source.choice(again)
            asked += _asks(one, kind)
            taken += 1
            order.append(replace(one, name=f"{one.name}-more-{taken}" if one.name else ""))
        if taken:
            notes.append(
                f"{counted(taken, 'further pod')} drawn from the trace at random: all ask for {how.fill:g} "
                f"of what nodes have of {kind}."
            )
    return [replace(one, at_s=float(at), runs_for_s=None) for at, one in enumerate(order)], tuple(notes)


def _has(shape: _Shape, kind: Literal["gpu", "cpu"]) -> int:
    return 1000 * shape.gpus if kind == "gpu" else shape.cpu_milli


def _asks(pod: TracedPod, kind: Literal["gpu", "cpu"]) -> int:
    asked = dict(pod.requests)
    if kind == "gpu":
        return int(asked.get(GPU, "0"))
    cpu = asked["cpu"]
    return int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)


def _traced(row: _Row, priorities: bool) -> TracedPod:
    requests = [("cpu", _cpu(row.number("cpu_milli"))), ("memory", f"{row.number('memory_mib')}Mi")]
    if gpu_milli := row.number("num_gpu") * row.number("gpu_milli"):
        requests.append((GPU, str(gpu_milli)))
    models = tuple(one for one in row.text("gpu_spec").split("|") if one)
    priority = PRIORITIES.get(row.text("qos"), 0) if priorities else None
    nodes = ((MODEL, models),) if models else ()
    return TracedPod(0.0, None, name_from(row.text("name"), ""), 1, priority, tuple(requests), nodes)


def _cpu(milli: int) -> str:
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of a file, by its columns."""

    where: str
    values: Mapping[str, str]

    def text(self, column: str) -> str:
        return self.values.get(column, "").strip()

    def number(self, column: str, otherwise: int | None = None) -> int:
        given = self.text(column)
        if not given and otherwise is not None:
            return otherwise
        try:
            found = int(float(given))
        except (ValueError, OverflowError):
            raise BadInput(f"{self.where}: {column}: {given!r} is not a number") from None
        if found < 0:
            raise BadInput(f"{self.where}: {column}: {given} is less than 0")
        return found


def _rows(text: str, file: str, columns: Sequence[str]) -> Iterator[_Row]:
    rows = csv.reader(io.StringIO(text))
    header = [one.strip() for one in next(rows, [])]
    if lacking := [one for one in columns if one not in header]:
        raise BadInput(f"{file}:1: lacks {', '.join(lacking)}; the columns are {', '.join(header) or 'none'}")
    for row in rows:
        if row:
            if len(row) != len(header):
                raise BadInput(f"{file}:{rows.line_num}: has {len(row)} values for {len(header)} columns")
            yield _Row(f"{file}:{rows.line_num}", dict(zip(header, row, strict=True)))
