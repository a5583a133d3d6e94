"""A question for a plan as it is written: a workload, its target, what nodes cost, and pools of spot nodes.

All pools say what they were like by a trace, or all by mean times up and down: only then is it known how they
were there together.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

import msgspec

from fairlead.kube.pod import Quantities
from fairlead.simulation.scenario.model import Name, Positive, Span

KIND = "SpotPlan"

Price = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A part of the file: misspelt fields are errors, not silence."""


class Service(_Part, frozen=True, kw_only=True):
    """The workload. It is available while `min_available` of its replicas are ready; `target` is the share of
    time for which it must be.

    The policy matches pods by `labels`; without any, by the name as in ``app.kubernetes.io/name``.
    """

    name: Name
    namespace: Name = "default"
    kind: Literal["Deployment", "StatefulSet"] = "Deployment"
    replicas: Positive
    min_available: int | str
    target: float | str
    requests: Quantities = {}
    labels: dict[str, str] = {}
    ready_after: Span = Span(0)


class Machine(_Part, frozen=True, kw_only=True):
    """What every node is like, on-demand or spot, and how long one takes to come."""

    resources: dict[str, str | int | float] = {}
    boot_time: Span = Span(60)


class OnDemand(_Part, frozen=True, kw_only=True):
    """Nodes that stay. `max` is how many can be had."""

    price_per_hour: Price
    labels: dict[str, str] = msgspec.field(
        default_factory=lambda: {"node.kubernetes.io/capacity": "on-demand"}
    )
    max: Positive | None = None


class SpotPool(_Part, frozen=True, kw_only=True):
    """Spot nodes that come and go together: of one zone, say.

    With a trace, each recorded node stands for `scale`. With `up` and `down`, `nodes` can be had while it
    is up; by default as many as the workload could need.
    """

    name: Name
    zone: str = ""
    price_per_hour: Price
    labels: dict[str, str] = msgspec.field(default_factory=lambda: {"node.kubernetes.io/capacity": "spot"})
    trace: str = ""
    scale: Positive = 1
    up: Span | None = None
    down: Span | None = None
    nodes: Positive | None = None


class Correlation(_Part, frozen=True, kw_only=True):
    """Of pools without traces: which share of a pool's outages are those of all pools (`region`), and which
    are those of all pools of its zone, the former among them (`zone`).
    """

    region: Share = 0.43
    zone: Share = 0.92


class PlanSpec(_Part, frozen=True, kw_only=True):
    """What is asked. `begins` is the day of the traces' first probe, for dates on the command line.

    Of the traces the first `choose` choose, and the `check` after them check.
    """

    workload: Service
    nodes: Machine = Machine()
    on_demand: OnDemand
    pools: tuple[SpotPool, ...]
    correlation: Correlation = Correlation()
    seed: int = 1
    begins: datetime.date | None = None
    choose: Span | None = None
    check: Span | None = None


class Metadata(_Part, frozen=True, kw_only=True):
    """What the policy will be called."""

    name: Name


class SpotPlan(_Part, frozen=True, kw_only=True):
    """The document."""

    api_version: Literal["fairlead.dev/v1alpha1"]
    kind: Literal["SpotPlan"]
    metadata: Metadata
    spec: PlanSpec
