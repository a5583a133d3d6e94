"""What came of a simulation, as versioned data: the same bytes for the same scenario, wherever it was played.

Every number is either counted or an integral over virtual time; nothing tells how long playing it took.
Within a version, fields are only ever added.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.errors import BadInput

VERSION = 1

_DIGITS = 9


class _Part(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A part of the result; unknown fields are a later version's, and ignored."""


class Waits(_Part, frozen=True, kw_only=True):
    """How long pods waited for their node, in seconds, each counted as often as it was placed."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0


class Counts(_Part, frozen=True, kw_only=True):
    """Pods by what became of them. A pod that comes again after an eviction has arrived again.

    `placed` were given a node at some time; `pending` and `running` are those at the end.
    """

    arrived: int = 0
    placed: int = 0
    finished: int = 0
    evicted: int = 0
    moved: int = 0
    pending: int = 0
    running: int = 0


class WorkloadResult(_Part, frozen=True, kw_only=True):
    """One workload or stream of arrivals. `availability` is the share of time, from when it first was, in
    which at least `min_available` of its pods were ready; None for what has no minimum.
    """

    name: str
    kind: str
    pods: Counts
    waits: Waits
    min_available: int | None = None
    availability: float | None = None
    below_s: float = 0.0
    outages: int = 0
    longest_outage_s: float = 0.0


class GroupResult(_Part, frozen=True, kw_only=True):
    """Nodes of one group; `taken` were taken away by a market or a fault."""

    name: str
    node_hours: float
    cost: float
    most: int
    at_end: int
    taken: int


class ResourceResult(_Part, frozen=True, kw_only=True):
    """One resource, in whole units (cpu in cores, memory in bytes).

    `used` is the mean share of what nodes had that pods asked for. `unusable_share` and `unusable_per_node`
    say what was free on nodes at the end but of no use to the pods that ask for this resource: what a pod
    drawn from all that arrived could not have had, because the node lacks some of the rest, on average.
    """

    name: str
    capacity: float
    used: float
    peak_used: float
    used_at_end: float
    unusable_share: float
    unusable_per_node: float


class Series(_Part, frozen=True, kw_only=True):
    """Values over time, sampled `every_s` from the beginning to the end."""

    every_s: float
    values: dict[str, tuple[float, ...]]


class Reason(_Part, frozen=True, kw_only=True):
    """Why pods had no node at the end, and how many."""

    text: str
    pods: int


class Result(_Part, frozen=True, kw_only=True):
    """See the module."""

    version: int = VERSION
    scenario: str
    seed: int
    duration_s: float
    pods: Counts
    waits: Waits
    cost: float
    cost_per_hour: float
    groups: tuple[GroupResult, ...]
    resources: tuple[ResourceResult, ...]
    workloads: tuple[WorkloadResult, ...]
    waiting: tuple[Reason, ...]
    series: Series
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain data, numbers rounded."""
        found: dict[str, Any] = _rounded(msgspec.to_builtins(self))
        return found

    def encode(self) -> bytes:
        """As JSON, in an order that does not depend on how it was made."""
        return msgspec.json.encode(self.to_dict(), order="sorted") + b"\n"


def decode(data: bytes, called: str) -> Result:
    """A result from its JSON; BadInput where it is none, or of a version that is not known here."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version != VERSION:
            raise BadInput(
                f"{called}: is a result of version {version}; this program reads version {VERSION}"
            )
        return msgspec.json.decode(data, type=Result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{called}: is not the result of a simulation: {error}") from error


class _Versioned(msgspec.Struct):
    version: int


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, _DIGITS)
        case dict():
            return {key: _rounded(one) for key, one in value.items()}
        case list() | tuple():
            return [_rounded(one) for one in value]
        case _:
            return value
