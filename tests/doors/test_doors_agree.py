"""Through any history, whichever door decides gives each pod the same slot and the same tier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.policy.groups.member import GroupKey
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Tiers
from support.embedded_universe import Embedded
from support.histories import History, Step, steps
from support.policies import policy
from support.universe_parts import OURS, Extender, KubeScheduler, OwnScheduler, Webhook
from support.universes import Answer, Answers, Universe


def governed(*tiers: dict[str, Any], **spec: Any) -> PlacementPolicy:
    """A policy whose pods are patient for longer than any history lasts."""
    return policy("web", *tiers, fallback={"after": "1h", "coolDown": "30m"}, **spec)


SPOT = {"name": "spot", "nodes": {"capacity": "spot"}}
DEMAND = {"name": "on-demand", "nodes": {"capacity": "on-demand"}}
BURST = {"name": "burst"}
LIMITED = [SPOT | {"max": 3}, DEMAND | {"min": 1, "max": "50%"}, BURST]

NESTED = {
    "percent": governed(SPOT, DEMAND | {"min": "30%"}),
    "limited": governed(*LIMITED),
    "limited by policy": governed(*LIMITED, groupBy="policy"),
    "limited by label": governed(*LIMITED, groupBy={"label": "app"}),
    "falls back": governed(SPOT, DEMAND | {"min": "50%", "fallback": True}, BURST),
    "preferred": governed(SPOT, DEMAND | {"min": "30%"}, enforce="preferred"),
}
SINGLE = {
    "single": governed(SPOT, DEMAND, singleReplica="on-demand"),
    "single or": governed(SPOT, DEMAND, BURST, singleReplica={"tier": "on-demand", "else": "spot"}),
}
BUDGETS = {
    "budget": governed(SPOT, DEMAND | {"min": "pdb"}),
    "budget by policy": governed(SPOT, DEMAND | {"min": "pdb"}, groupBy="policy"),
}
NOT_NESTED = {
    "thirds": governed(SPOT | {"min": "30%"}, DEMAND | {"min": "30%"}, BURST | {"min": "30%"}),
    "three": governed(SPOT | {"min": 1, "max": "40%"}, DEMAND | {"min": "20%"}, BURST),
}
INDEPENDENT = ("percent", "limited", "falls back", *SINGLE)
"""By which a slot's tier depends on neither the number of pods nor on what tiers hold, as long as every tier
takes pods: where one does not, what another holds tells whether there is room under its max."""
POLICIES = NESTED | SINGLE | BUDGETS | NOT_NESTED

NOT_RECREATED = ("batch-", "bare-")

CALM = ("scale", "scale", "delete", "roll", "finish", "bare", "budget", "renew", "restart")
MARKED = (*CALM, "mark")
STORMY = (*MARKED, "cordon", "lose")


class Agreement:
    """What the doors say of each pod after each step, and on which groups they may differ by now.

    They may until the group is empty. That they do, by design:

    * A pod that waits keeps the place of its admission, and the rebalancer mends what comes of that; the
      scheduler and the extender decide again on all that wait. So all with a webhook still agree, and all
      without; the latter not where it takes more than the slot to know its tier: the extender counts a pod
      once it has asked, so another of several that wait may go where there is room.
    * Pods of Jobs and bare pods are given all further tiers at admission: there they need not wait, even
      where the extender, which counts what tiers hold, has them wait. Nor does a pod under
      `enforce: preferred` wait for any tier, so what is said of one that waits is no matter.
    * What the extender wrote on its pods it may rewrite: a pod that is in another tier than its slot's is
      given a slot of its own tier as soon as one is free.
    * While a tier is lost and another is marked that has room, only the extender sees that room: it sends
      pods there that admission and scheduler send on, or hold, as far as admission left that open.
    """

    def __init__(self, name: str, *, embedded: bool = False) -> None:
        governing = POLICIES[name]
        both = partial(Webhook, ours=(OURS,))
        self.universes = [
            Universe("webhook", governing, Webhook, KubeScheduler),
            Universe("webhook and extender", governing, Webhook, Extender),
            Universe("webhook and scheduler", governing, both, OwnScheduler),
            Universe("scheduler", governing, OwnScheduler),
            Universe("extender", governing, Extender),
        ]
        if embedded:
            self.universes[1:-1] = [
                Embedded("embedded admission", governing, own=False),
                Embedded("embedded scheduler", governing, own=True),
            ]
        self.looks = Counter[str]()
        self._name = name
        self._waited: set[GroupKey] = set()
        self._apart: set[GroupKey] = set()
        self._short: set[GroupKey] = set()
        self.history = History(governing, self.universes, self.look)

    def look(self) -> None:
        """All universes have settled."""
        answers = {one.name: one.answers() for one in self.universes}
        for one in self.universes:
            self._compare_with_rebalancer(one, answers[one.name])
        groups = set[GroupKey]().union(*answers.values())
        self._waited &= groups
        self._apart &= groups
        self._apart |= self._renumbered() | (groups if self._only_the_extender_sees_room() else set())
        self._short &= groups
        self._short |= groups if self._tiers_are_short() else set()
        for key in sorted(groups):
            self._compare(key, {name: found.get(key, {}) for name, found in answers.items()})

    def _compare(self, key: GroupKey, answers: dict[str, dict[str, Answer]]) -> None:
        waits = any(not one.node for found in answers.values() for one in found.values())
        at_once = any(name.startswith(NOT_RECREATED) for name in answers["webhook"])
        if waits and (at_once or self._name == "preferred"):
            self._waited.add(key)
        for names in self._alike(key, at_once=at_once):
            first = answers[names[0]]
            for name in names[1:]:
                assert (name, answers[name]) == (name, first), (
                    f"{key}: {names[0]} {first}, {name} {answers[name]}"
                )
            self.looks[", ".join(names)] += 1
        if waits:
            self._waited.add(key)
        for name, found in answers.items():
            slots = sorted(one.slot for one in found.values())
            assert len(set(slots)) == len(slots), (name, str(key), found)
            if slots == list(range(1, len(slots) + 1)) and self._is_exact(key):
                tiers = Counter(one.tier for one in found.values())
                split = Tiers(POLICIES[self._name].spec.tiers).split(len(slots))
                called = [tier.name for tier in POLICIES[self._name].spec.tiers]
                assert (name, tiers) == (name, Counter(dict(zip(called, split, strict=True)))), str(key)
                self.looks["exact"] += 1

    def _compare_with_rebalancer(self, one: Universe, answers: Answers) -> None:
        """It sees slots that are written: in ledgers, and on pods that have a node."""
        stands = one.stands()
        for key, found in answers.items():
            if not key.alone and all(answer.node for answer in found.values()):
                assert (one.name, stands[key]) == (one.name, found), f"the rebalancer has {key} otherwise"

    def _alike(self, key: GroupKey, *, at_once: bool) -> list[list[str]]:
        """The doors that must say the same of a group; `at_once`: its pods have further tiers."""
        every = [one.name for one in self.universes]
        by_slot = self._name in INDEPENDENT and not (self._name == "limited" and key in self._short)
        alike = [every]
        if key in self._waited:
            alike = [every[:2], every[3:]] if by_slot else [every[:2]]
        apart = {"extender"} if key in self._apart else set[str]()
        if at_once and (key in self._apart or key in self._waited):
            apart.add("webhook and extender")
        return [left for names in alike if (left := [name for name in names if name not in apart])]

    def _is_exact(self, key: GroupKey) -> bool:
        """Whether the slots of a group alone say which tiers it has, and the pods of the highest go first."""
        ordered = key.name.startswith(("Deployment/", "StatefulSet/"))
        return self._name in NESTED and ordered and key not in self._waited | self._short

    def _renumbered(self) -> set[GroupKey]:
        """Groups of which the extender has changed a slot since the last look."""
        api = self.universes[-1].api
        found, api.renumbered = api.renumbered, set()
        return found

    def _tiers_are_short(self) -> bool:
        """Whether a tier is marked, or takes no pods."""
        number = len(POLICIES[self._name].spec.tiers)
        return any(True for _ in self.history.marks) or len(self._open_tiers()) < number

    def _only_the_extender_sees_room(self) -> bool:
        marked = {tier for tier, _ in self.history.marks}
        return bool(marked & self._open_tiers()) and bool(marked - self._open_tiers())

    def _open_tiers(self) -> set[str]:
        api = self.universes[0].api
        return {api.tier_of(node["metadata"]["name"]) for node in api.open_nodes()}


def agree(name: str, history: list[Step], *, embedded: bool = False) -> Counter[str]:
    """Whether the doors agree under a policy, through this history; how often they were compared."""
    agreement = Agreement(name, embedded=embedded)
    for step in history:
        agreement.history.happen(step)
    return agreement.looks


def test_doors_agree_while_every_tier_takes_pods(count: Callable[[int, int], int]) -> None:
    @given(st.sampled_from(sorted(POLICIES)), steps(*CALM))
    @settings(max_examples=count(15, 1000))
    def check(name: str, history: list[Step]) -> None:
        agree(name, history)

    check()


def test_doors_agree_on_what_goes_past_a_marked_tier(count: Callable[[int, int], int]) -> None:
    @given(st.sampled_from(sorted(POLICIES)), steps(*MARKED))
    @settings(max_examples=count(15, 1000))
    def check(name: str, history: list[Step]) -> None:
        agree(name, history)

    check()


def test_doors_agree_while_tiers_are_lost(count: Callable[[int, int], int]) -> None:
    @given(st.sampled_from(sorted(POLICIES.keys() - NOT_NESTED)), steps(*STORMY))
    @settings(max_examples=count(15, 1000))
    def check(name: str, history: list[Step]) -> None:
        agree(name, history)

    check()


def test_the_embedded_cluster_decides_as_the_doors_do(count: Callable[[int, int], int]) -> None:
    @given(st.sampled_from(sorted(POLICIES)), steps(*CALM, most=8))
    @settings(max_examples=count(8, 300))
    def check(name: str, history: list[Step]) -> None:
        agree(name, history, embedded=True)

    check()
