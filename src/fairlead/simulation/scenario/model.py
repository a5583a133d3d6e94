"""A scenario as it is written: nodes, workloads, arrivals, markets, policies and faults, over a span of time.

A field says one thing, and what is left out has a default that the docs name. Times count from the beginning.
Everything random is drawn from `seed`, each stream by the name of what draws from it: taking an arrival out
changes nothing about the others.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec

from fairlead.kube.duration import seconds
from fairlead.kube.pod import Quantities

API_VERSION = "fairlead.dev/v1alpha1"
KIND = "Scenario"
LONGEST_S = 100 * 365 * 86400.0
"""What a span may be at most: the calendar ends some time after that."""

Natural = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Action = Literal["kill", "revive", "remove", "drain", "cordon", "uncordon", "loseZone"]

_DAYS = re.compile(r"(?:(\d+(?:\.\d+)?)w)?(?:(\d+(?:\.\d+)?)d)?(.*)")


class Span(float):
    """A span of time in seconds, as the file spells it: ``90s``, ``1h30m``, ``7d``, ``2w3d``."""


def span(value: object) -> Span:
    """A span from what the file has; ValueError says what is wrong.

    >>> span("1d12h"), span("2w"), span(90)
    (129600.0, 1209600.0, 90.0)
    """
    wrong = ValueError(f"{value!r} is not a duration like 90s, 10m, 1h30m or 7d")
    found: float
    try:
        if isinstance(value, str):
            parts = _DAYS.fullmatch(value.strip())
            weeks, days, rest = parts.groups() if parts is not None else (None, None, value)
            short = seconds(rest) if rest or not (weeks or days) else 0.0
            found = 604800 * float(weeks or 0) + 86400 * float(days or 0) + short
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found = seconds(value)
        else:
            raise wrong
    except (ValueError, OverflowError):
        raise wrong from None
    if not found <= LONGEST_S:
        raise ValueError(f"{value!r} is longer than 100 years")
    return Span(found)


def _lasting(default_s: float) -> Span:
    """A field's default; behind a function, because msgspec's schemas cannot have one of a type of ours."""
    return msgspec.field(default_factory=lambda: Span(default_s))


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A part of the file: misspelt fields are errors, not silence."""


class PodShape(_Part, frozen=True, kw_only=True):
    """What pods of one kind are like. `spec` is merged over what the other fields make of a pod's spec."""

    name: Name
    namespace: Name = "default"
    requests: Quantities = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    priority: int | None = None
    scheduler: str = ""
    spec: dict[str, Any] = {}


class ScaleStep(_Part, frozen=True):
    """From `at` on, a workload is to have so many replicas."""

    at: Span
    replicas: Natural


class Workload(PodShape, frozen=True, kw_only=True):
    """A service: replicas that a controller keeps up. `min_available` is what it is measured against, and
    its disruption budget.
    """

    kind: Literal["Deployment", "StatefulSet"] = "Deployment"
    replicas: Natural = 1
    min_available: int | str | None = None
    ready_after: Span = _lasting(0)
    scale: tuple[ScaleStep, ...] = ()


class Arrivals(PodShape, frozen=True, kw_only=True):
    """Batch work that comes over time, each with its run time: single pods, or gangs of `pods`.

    They come at the times `at`, `every` so often, at random `per_hour` on average, or as a `trace` says. What
    is evicted comes again and runs from its beginning, unless `recreate` is false.
    """

    at: tuple[Span, ...] = ()
    every: Span | None = None
    per_hour: Annotated[float, msgspec.Meta(gt=0)] | None = None
    trace: str = ""
    start: Span = _lasting(0)
    until: Span | None = None
    count: Positive | None = None
    pods: Positive = 1
    runs_for: Span = _lasting(600)
    run_times: Literal["fixed", "exponential", "uniform"] = "fixed"
    recreate: bool = True


class Market(_Part, frozen=True, kw_only=True):
    """How many nodes of spot groups can be had over time: as a `trace` says, or `up` and `down` by turns.

    The groups of one market come and go together, markets independently of each other. `nodes` is what can
    be had while it is up (default: the group's max); the numbers of a trace are multiplied by `scale`.
    """

    groups: tuple[str, ...]
    zone: str = ""
    trace: str = ""
    skip: Span = _lasting(0)
    scale: Positive = 1
    up: Span | None = None
    down: Span | None = None
    nodes: Natural | None = None


class Fault(_Part, frozen=True, kw_only=True):
    """Something that happens to a node, or to all nodes of a zone."""

    at: Span
    action: Action
    node: str = ""
    zone: str = ""


class AutoscalerSection(_Part, frozen=True, kw_only=True):
    """How patient the autoscaler is; the defaults are Cluster Autoscaler's."""

    scan: Span = _lasting(10)
    scale_down_after: Span = _lasting(600)
    delay_after_add: Span = _lasting(600)


class Planning(_Part, frozen=True, kw_only=True):
    """What Fairlead's scheduler is told, as in its configuration. `ranking` ``pack`` fills nodes up."""

    ranking: Literal["spread", "pack"] = "spread"
    order: Literal["smallest", "fifo"] = "smallest"
    capacity: Literal["resources", "exclusive"] = "resources"
    reserve_after: Span = _lasting(600)
    settle: Span = _lasting(5)


class Spec(_Part, frozen=True, kw_only=True):
    """What is played. `node_groups` are as in their file; `nodes` is min, desired and max in one."""

    duration: Span
    seed: int = 1
    sample_every: Span | None = None
    scheduler: str = "fairlead"
    components: tuple[Literal["scheduler", "webhook", "rebalancer", "extender"], ...] = ("scheduler",)
    planning: Planning = msgspec.field(default_factory=Planning)
    node_groups: tuple[dict[str, Any], ...] = ()
    autoscaler: AutoscalerSection | None = None
    workloads: tuple[Workload, ...] = ()
    arrivals: tuple[Arrivals, ...] = ()
    policies: tuple[dict[str, Any], ...] = ()
    markets: tuple[Market, ...] = ()
    spot_notice: Span = _lasting(0)
    faults: tuple[Fault, ...] = ()
    objects: tuple[str, ...] = ()


class Metadata(_Part, frozen=True, kw_only=True):
    """What the scenario is called, and what it shows."""

    name: Name
    description: str = ""


class Scenario(_Part, frozen=True, kw_only=True):
    """The document."""

    api_version: Literal["fairlead.dev/v1alpha1"]
    kind: Literal["Scenario"]
    metadata: Metadata
    spec: Spec


def dec_hook(kind: type, value: object) -> Any:
    """For msgspec: spans as the file spells them."""
    if kind is Span:
        return span(value)
    raise NotImplementedError(f"no reader for {kind.__name__}")
