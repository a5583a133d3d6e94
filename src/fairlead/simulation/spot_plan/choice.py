"""The choice: of all candidates the cheapest whose lower limit of availability reaches the target.

Beside it stand the policies that everybody knows, judged in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.simulation.spot_plan.bounds import CONFIDENCE, Limits, limits_of
from fairlead.simulation.spot_plan.candidates import (
    Candidate,
    all_on_demand,
    candidates,
    in_words,
    policy_of,
)
from fairlead.simulation.spot_plan.course import Course, course, worst_day_s
from fairlead.simulation.spot_plan.plan_file import Question

Obj = dict[str, Any]

PLANNED = "planned"
_SHIPPED_PERCENT, _HALF_PERCENT = 30, 50

ASSUMPTION = (
    "pools fail as wholes and together: judged on how many nodes they had at the same moment, never on each "
    "pool's share by itself; on-demand nodes are taken never to fail"
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate, what it would have come to, and how sure that is."""

    name: str
    candidate: Candidate
    policy: Obj
    words: str
    course: Course
    limits: Limits
    target: float

    @property
    def at_least(self) -> float:
        """The lower limit of its availability."""
        return self._share(self.limits.most_s)

    @property
    def at_most(self) -> float:
        """The upper limit."""
        return self._share(self.limits.least_s)

    @property
    def meets(self) -> bool:
        """Whether its lower limit reaches the target."""
        return self.at_least >= self.target

    def _share(self, below_s: float) -> float:
        measured_s = self.course.measured_s
        return max(0.0, 1 - below_s / measured_s) if measured_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What was chosen, None where nothing reaches the target; `best` is then what comes nearest.

    `variants` are all on-demand, all spot, half and half, the shipped policy, and the planned one.
    """

    question: Question
    tried: int
    chosen: Judged | None
    best: Judged
    variants: tuple[Judged, ...]

    @property
    def full_price(self) -> float:
        """What every pod on on-demand nodes costs an hour."""
        terms = self.question.terms
        return -(-terms.replicas // terms.per_node) * terms.on_demand_price

    @property
    def said(self) -> tuple[str, ...]:
        """What the choice rests on, and how sure it is, in sentences."""
        question = self.question
        days = question.choose.end_s / 86400
        zones = range(len(question.spec.pools))
        everything = question.choose.share(list(zones))
        of_each = [question.choose.share([pool]) for pool in zones]
        apart = 1.0
        for share in of_each:
            apart *= share
        kind = "recorded" if question.spec.pools[0].trace else "drawn from the rates"
        lines = [
            f"assumed: {ASSUMPTION}",
            f"chosen on {days:.1f} days, {kind}: all pools were without a node {everything:.2%} of the time"
            + (f" ({apart:.2%} if they were independent)" if len(of_each) > 1 else ""),
        ]
        if not question.spec.pools[0].trace:
            shares = question.spec.correlation
            lines.append(
                f"correlation: {shares.region:.0%} of a pool's outages are shared by all pools, "
                f"{shares.zone:.0%} by all of its zone; seed {question.spec.seed}"
            )
        chosen = self.chosen
        if chosen is None:
            lines.append(
                f"no policy reaches {question.target:.4%}: the best, {self.best.words}, is at least "
                f"{self.best.at_least:.4%} available"
            )
            return tuple(lines)
        number = len(chosen.course.outages)
        rests = (
            "it cannot be below its minimum: that many pods are on on-demand"
            if not chosen.limits.most_s
            else f"{number} outages on {len(chosen.course.days())} days, worth "
            f"{chosen.limits.independent:.1f} independent "
            f"ones; the limit is {CONFIDENCE:.0%} sure"
        )
        lines.append(f"sure: at least {chosen.at_least:.4%} available, target {question.target:.4%}; {rests}")
        if not chosen.candidate.pools:
            lines.append("nothing but all on-demand reaches the target")
        return tuple(lines)


def plan(question: Question, say: Callable[[int, int], None] = lambda *_: None) -> Plan:
    """Judge every candidate and choose; `say` receives how many were judged, of how many."""
    terms = question.terms
    listed = list(candidates(terms.replicas, terms.minimum, terms.prices, terms.room))
    judged = []
    for number, candidate in enumerate(listed):
        judged.append(judge(question, candidate, PLANNED))
        say(number + 1, len(listed))
    # Of equal cost the surer one, then the one with fewer tiers, then the first.
    ranked = sorted(
        range(len(judged)),
        key=lambda at: (
            round(judged[at].course.cost_per_hour, 9),
            -judged[at].at_least,
            len(judged[at].policy["spec"]["tiers"]),
            at,
        ),
    )
    chosen = next((judged[at] for at in ranked if judged[at].meets), None)
    best = max(judged, key=lambda one: (one.at_least, -one.course.cost_per_hour))
    variants = known_policies(question)
    return Plan(question, len(listed), chosen, best, (*variants, chosen or best))


def judge(question: Question, candidate: Candidate, name: str, base: int | str | None = None) -> Judged:
    """What a candidate would have come to."""
    terms = question.terms
    found = course(question.choose, candidate, terms)
    limits = limits_of(found.days(), worst_day_s(question.choose, candidate, terms))
    called = question.name if name == PLANNED else f"{question.name}-{name.replace(' ', '-')}"
    policy = policy_of(candidate, called, question.spec, base=base)
    words = in_words(candidate, question.spec)
    return Judged(name, candidate, policy, words, found, limits, question.target)


def known_policies(question: Question) -> tuple[Judged, ...]:
    """All on-demand, all spot, half and half, and 30% on on-demand as in the shipped policy."""
    terms, spec = question.terms, question.spec
    order = tuple(sorted(range(len(spec.pools)), key=lambda pool: (terms.prices[pool], pool)))
    found = [
        judge(question, all_on_demand(terms.replicas), "all on-demand"),
        judge(question, Candidate(0, order, "one"), "all spot"),
    ]
    for name, percent in (("half", _HALF_PERCENT), ("shipped", _SHIPPED_PERCENT)):
        base = -(-terms.replicas * percent // 100)
        share = Candidate(base, order, "one", True)
        found.append(judge(question, share, name, base=f"{percent}%"))
    return tuple(found)
