"""Several doors, each with its own stale idea of the ledger and of the pods, and one compare-and-swap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fairlead.policy.groups.member import Member
from fairlead.policy.rule.split import Tiers
from fairlead.policy.slots.ledger import EXPIRY_S, Ledger
from fairlead.policy.slots.placing import place
from support.members import KEY, a_deployment
from support.policies import policy

WEB = policy()
TIERS = Tiers(WEB.spec.tiers)
DOORS = 3
# Together less than a slot's expiry, as between a real admission's timeout and a watch that is alive.
CREATION_S = 10.0
LAG_S = 15.0


@dataclass
class Door:
    """What one replica of a webhook has in memory."""

    ledger: Ledger
    read: int = 0  # how much of the pods' history it has seen
    pods: dict[str, Member] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)


class Races(RuleBasedStateMachine):
    """Takes, sightings and deletions in any order, through doors that are behind by some time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.stored = replace(Ledger(KEY), version="0")
        self.doors = [Door(self.stored) for _ in range(DOORS)]
        self.history: list[tuple[float, str, Member | None]] = []
        self.admitted: dict[str, float] = {}  # tokens whose pod is not there yet
        self.alive: dict[str, int] = {}  # token → slot it was told
        self.number = 0

    @rule(door=st.integers(0, DOORS - 1), again=st.booleans())
    def admit(self, door: int, again: bool) -> None:
        """A pod is admitted; perhaps its admission is invoked twice, through different doors."""
        self.number += 1
        token = f"t{self.number}"
        slot = self._take(self.doors[door], token)
        if again:
            assert self._take(self.doors[(door + 1) % DOORS], token) == slot
        self.admitted[token] = self.now
        self.alive[token] = slot

    @precondition(lambda self: self.admitted)
    @rule(data=st.data(), refused=st.booleans())
    def create(self, data: st.DataObject, refused: bool) -> None:
        """An admitted pod appears, or a quota refuses it after all."""
        self._create(data.draw(st.sampled_from(sorted(self.admitted))), refused=refused)

    @precondition(lambda self: set(self.alive) - set(self.admitted))
    @rule(data=st.data(), at_once=st.booleans())
    def delete(self, data: st.DataObject, at_once: bool) -> None:
        """A pod begins to terminate, or is gone at once."""
        token = data.draw(st.sampled_from(sorted(set(self.alive) - set(self.admitted))))
        del self.alive[token]
        member = Member(f"pod-{token}", f"uid-{token}", token, leaving=True)
        self.history.append((self.now, token, None if at_once else member))

    @rule(door=st.integers(0, DOORS - 1), events=st.integers(0, 5))
    def look(self, door: int, events: int) -> None:
        """A door reads on in the pods' history."""
        one = self.doors[door]
        self._read(one, one.read + events)

    @rule(door=st.integers(0, DOORS - 1))
    def refresh(self, door: int) -> None:
        """A door's watch shows it the ledger."""
        self.doors[door].ledger = self.stored

    @rule(door=st.integers(0, DOORS - 1))
    def mend(self, door: int) -> None:
        """A door writes down what follows from the pods it knows."""
        one = self.doors[door]

        def change(ledger: Ledger) -> tuple[Ledger, None]:
            return ledger.observe(list(one.pods.values()), TIERS, self.now, gone=one.gone), None

        self._write(one, change)

    @rule(seconds=st.floats(0.1, EXPIRY_S))
    def wait(self, seconds: float) -> None:
        """Time passes: creations come to an end, watches catch up."""
        self.now += seconds
        for token, since in list(self.admitted.items()):
            if self.now - since > CREATION_S:
                self._create(token, refused=False, at=since + CREATION_S)
        for one in self.doors:
            late = sum(at < self.now - LAG_S for at, *_ in self.history)
            self._read(one, late)

    @invariant()
    def no_slot_is_given_twice(self) -> None:
        assert len(set(self.alive.values())) == len(self.alive)

    @invariant()
    def every_live_pod_has_its_slot(self) -> None:
        held = {entry.token: entry.slot for entry in self.stored.entries}
        for token, slot in self.alive.items():
            assert held.get(token) == slot

    def teardown(self) -> None:
        """Once every door has seen everything, the ledger holds the live pods and nobody else."""
        for token in list(self.admitted):
            self._create(token, refused=False)
        self.now += EXPIRY_S + 1
        for one in self.doors:
            self._read(one, len(self.history))
        for door in range(DOORS):
            self.mend(door)
        assert {entry.token: entry.slot for entry in self.stored.entries} == self.alive

    def _create(self, token: str, *, refused: bool, at: float | None = None) -> None:
        del self.admitted[token]
        if refused:
            del self.alive[token]
            return
        member = Member(f"pod-{token}", f"uid-{token}", token)
        self.history.append((self.now if at is None else at, token, member))

    def _read(self, door: Door, until: int) -> None:
        for _, token, member in self.history[door.read : until]:
            if member is None:
                door.pods.pop(token, None)
                door.gone.add(token)
            else:
                door.pods[token] = member
        door.read = max(door.read, min(until, len(self.history)))

    def _take(self, door: Door, token: str) -> int:
        def change(ledger: Ledger) -> tuple[Ledger, int]:
            after, placing = place(ledger, WEB, a_deployment(), TIERS, token=token, now=self.now)
            return after, placing.slot

        slot: int = self._write(door, change)
        return slot

    def _write(self, door: Door, change: Callable[[Ledger], tuple[Ledger, Any]]) -> Any:
        """Write what was worked out; where somebody else was first, work it out again from theirs."""
        while True:
            after, answer = change(door.ledger)
            if after == door.ledger and after.version == self.stored.version:
                return answer
            if after.version == self.stored.version:
                self.stored = door.ledger = replace(after, version=str(int(after.version) + 1))
                return answer
            door.ledger = self.stored


TestRaces = Races.TestCase
