"""Slots over the life of a Deployment: created, scaled, rolled out, shrunk in the order of its ReplicaSet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count, pairwise

from hypothesis import given
from hypothesis import strategies as st

from fairlead.policy.groups.member import GroupKey, Member
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Demand, Tiers
from fairlead.policy.slots.ledger import Ledger
from fairlead.policy.slots.placing import place
from support.members import a_deployment
from support.policies import policy
from support.tiers import demands, policies


@dataclass
class Replica:
    token: str
    slot: int
    tier: str
    ready: bool


@dataclass
class ReplicaSet:
    """A ReplicaSet under a policy, as far as slots go. A pod lands on its tier as soon as it is ready."""

    policy: PlacementPolicy
    revision: str = "r1"
    demand: Demand = Demand()  # noqa: RUF009 (frozen)
    desired: int | None = None
    """What the Deployment is known to want; None: a stale number is as good as none."""
    pods: list[Replica] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = Ledger(GroupKey("p", "default", "Deployment/web", self.revision))
        self._numbers = count()

    @property
    def tiers(self) -> Tiers:
        return Tiers(self.policy.spec.tiers, self.demand, self.desired)

    def scale(self, number: int, ready: bool = True) -> None:
        """Create what is missing, delete what is too much: not ready first, then by deletion cost."""
        while len(self.pods) < number:
            self.create(ready)
        # Not ready comes before the cost, which is minus the slot; the lowest goes first.
        doomed = sorted(self.pods, key=lambda one: (one.ready, -one.slot))[: len(self.pods) - number]
        self.pods = [one for one in self.pods if one not in doomed]
        self.ledger = self.ledger.observe(self.members(), self.tiers, 0.0, gone=[one.token for one in doomed])

    def create(self, ready: bool = True) -> None:
        token = f"{self.revision}-{next(self._numbers)}"
        self.ledger, placing = place(
            self.ledger, self.policy, a_deployment(self.desired), self.tiers, token=token, now=0.0
        )
        index = placing.choice.tier
        name = "" if index is None else self.policy.spec.tiers[index].name
        self.pods.append(Replica(token, placing.slot, name, ready))

    def members(self) -> list[Member]:
        return [Member(one.token, f"uid-{one.token}", one.token, tier=one.tier) for one in self.pods]

    def counts(self) -> tuple[int, ...]:
        return tuple(sum(one.tier == tier.name for one in self.pods) for tier in self.policy.spec.tiers)

    @property
    def dense(self) -> bool:
        return sorted(one.slot for one in self.pods) == list(range(1, len(self.pods) + 1))


def is_nested(tiers: Tiers, most: int) -> bool:
    splits = [tiers.split(pods) for pods in range(most + 1)]
    steps = [[b - a for a, b in zip(one, two, strict=True)] for one, two in pairwise(splits)]
    return all(min(step) >= 0 and sum(step) <= 1 for step in steps)


numbers = st.lists(st.integers(0, 30), min_size=1, max_size=8)


@given(policies(), numbers)
def test_the_split_is_exact_at_every_scale_where_the_rule_is_nested(
    found: PlacementPolicy, scales: list[int]
) -> None:
    replicas = ReplicaSet(found)
    exact = is_nested(replicas.tiers, 30)
    for number in scales:
        replicas.scale(number)
        assert replicas.dense
        if exact:
            assert replicas.counts() == replicas.tiers.split(number)


def test_ten_pods_of_which_thirty_percent_stay_on_demand_through_all_scales() -> None:
    replicas = ReplicaSet(policy())
    for number in (10, 50, 4, 20, 1, 10, 0):
        replicas.scale(number)
        assert replicas.counts() == replicas.tiers.split(number)
        if number == 1:
            assert [one.tier for one in replicas.pods] == ["on-demand"]


@given(policies(), st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=10))
def test_holes_left_by_pods_that_never_got_ready_are_filled_first(
    found: PlacementPolicy, steps: list[tuple[int, bool]]
) -> None:
    replicas = ReplicaSet(found)
    exact = is_nested(replicas.tiers, 20)
    for number, ready in steps:
        replicas.scale(number, ready)
        slots = [one.slot for one in replicas.pods]
        assert len(set(slots)) == len(slots)
        for one in replicas.pods:
            own = replicas.tiers.of_slot(one.slot)
            assert one.tier == ("" if own is None else found.spec.tiers[own].name)
        if exact and replicas.dense:
            assert replicas.counts() == replicas.tiers.split(number)
    replicas.scale(max(one.slot for one in replicas.pods) if replicas.pods else 0)
    assert replicas.dense


PDB = policy("p", {"name": "spot", "nodes": {"c": "spot"}, "volatile": True}, {"name": "safe", "min": "pdb"})


@given(demands, numbers, st.booleans())
def test_what_a_budget_demands_is_off_the_volatile_tier_at_every_scale(
    demand: Demand, scales: list[int], fresh: bool
) -> None:
    replicas = ReplicaSet(PDB, demand=demand)
    for number in scales:
        replicas.desired = number if fresh else None
        replicas.scale(number)
        assert replicas.counts()[1] >= demand.of(number)


@given(demands, numbers, st.booleans())
def test_growing_in_jumps_is_exact_whatever_a_budget_demands(
    demand: Demand, scales: list[int], fresh: bool
) -> None:
    replicas = ReplicaSet(PDB, demand=demand)
    for number in sorted(scales):
        replicas.desired = number if fresh else None
        replicas.scale(number)
        assert replicas.counts() == replicas.tiers.split(number)


@given(demands, st.integers(1, 25), st.integers(0, 100), st.integers(0, 100), st.data())
def test_a_rollout_of_any_strategy_leaves_what_the_budget_demands(
    demand: Demand, number: int, surge_percent: int, unavailable_percent: int, data: st.DataObject
) -> None:
    """The Deployment's defaults are 25% and 25%: of ten, old 8 and new 3, none of the new ones Ready."""
    surge = -(-number * surge_percent // 100)
    unavailable = max(number * unavailable_percent // 100, 0 if surge else 1)
    old = ReplicaSet(PDB, "r1", demand, number)
    new = ReplicaSet(PDB, "r2", demand, number)
    old.scale(number)
    steps = data.draw(st.lists(st.sampled_from(["grow", "serve", "shrink"]), max_size=60))
    for step in [*steps, *["grow", "serve", "shrink"] * (2 * number)]:
        if step == "grow" and len(new.pods) < min(number, number + surge - len(old.pods)):
            new.scale(len(new.pods) + 1, ready=False)
        elif step == "serve" and (waiting := [one for one in new.pods if not one.ready]):
            waiting[0].ready = True
        elif step == "shrink" and old.pods:
            serving = len(old.pods) + sum(one.ready for one in new.pods)
            old.scale(len(old.pods) - min(len(old.pods), max(0, serving - (number - unavailable))))
        live = len(old.pods) + len(new.pods)
        assert old.counts()[1] + new.counts()[1] >= min(live, demand.of(number))
    assert not old.pods
    assert new.counts() == new.tiers.split(number)


@given(demands, st.integers(1, 20), st.integers(0, 19))
def test_a_stateful_set_rolled_from_its_last_pod_keeps_what_the_budget_demands(
    demand: Demand, number: int, grown_from: int
) -> None:
    ledgers = {revision: Ledger(GroupKey("p", "default", "StatefulSet/db", revision)) for revision in "ab"}
    where: dict[int, str] = {}

    def make(revision: str, ordinal: int, desired: int) -> None:
        tiers = Tiers(PDB.spec.tiers, demand, desired)
        one = replace(a_deployment(desired), ordinal=ordinal)
        token = f"{revision}-{ordinal}"
        ledgers[revision], placing = place(ledgers[revision], PDB, one, tiers, token=token, now=0.0)
        where[ordinal] = PDB.spec.tiers[placing.choice.tier or 0].name

    for ordinal in range(min(grown_from, number)):
        make("a", ordinal, min(grown_from, number))
    for ordinal in range(min(grown_from, number), number):
        make("a", ordinal, number)
    assert list(where.values()).count("safe") == demand.of(number)
    grown = grown_from and grown_from < number
    for ordinal in reversed(range(number)):
        make("b", ordinal, number)
        if not grown:
            assert list(where.values()).count("safe") == demand.of(number)
    assert [where[ordinal] for ordinal in range(demand.of(number))] == ["safe"] * demand.of(number)


@given(st.integers(0, 100), st.integers(1, 25), st.integers(1, 5), st.lists(st.booleans(), max_size=40))
def test_a_rollout_never_goes_below_the_min_of_all_its_pods(
    percent: int, number: int, surge: int, turns: list[bool]
) -> None:
    rolled = policy("p", {"name": "spot", "nodes": {"c": "spot"}}, {"name": "safe", "min": f"{percent}%"})
    old, new = ReplicaSet(rolled, "r1"), ReplicaSet(rolled, "r2")
    old.scale(number)
    for grow in [*turns, *[True, False] * 30]:
        if grow and len(new.pods) < number and len(old.pods) + len(new.pods) < number + surge:
            new.scale(len(new.pods) + 1)
        elif not grow and old.pods and len(old.pods) + len(new.pods) > number:
            old.scale(len(old.pods) - 1)
        safe = old.counts()[1] + new.counts()[1]
        assert safe >= new.tiers.mins(len(old.pods) + len(new.pods))[1]
    assert new.counts() == new.tiers.split(number)
