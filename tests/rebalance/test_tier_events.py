"""Who waits for a tier whose named node takes nobody is told so, and told once."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from fairlead.client.events import About, EventLane
from fairlead.doors.rebalancer.tier_events import TierEvents
from fairlead.policy.rule.model import PlacementPolicy
from support.pictured import NOW, Picture, unschedulable
from support.policies import ON_DEMAND, SPOT, policy
from support.units import EPOCH, node

NAMED = {"name": "spot", "names": ["virtual"]}
MISSING = "Policy web: waits for tier spot (node virtual does not exist)."
CORDONED = "Policy web: waits for tier spot (node virtual is cordoned, not ready or to be removed)."


class Heard(EventLane):
    """A lane that is only listened to."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    async def record(self, about: About, reason: str, message: str, **_: Any) -> None:
        self.said.append((about.name, message))


class Talk:
    """Pods of a Deployment wait for tier spot, which has one node or none."""

    def __init__(self, used: PlacementPolicy) -> None:
        self.picture = Picture(used, nodes=False).deployment(3)
        self.heard = Heard()
        self.telling = TierEvents(self.picture.machine, ("fairlead",))

    def waits(self, name: str, **more: Any) -> None:
        self.picture.add(unschedulable(self.picture.web(name, tier="spot", **more), NOW))

    async def look(self, *nodes: dict[str, Any], later_s: float = 0.0, besides: tuple[str, ...] = ()) -> None:
        self.picture.add(*nodes)
        self.picture.now += later_s
        now, used = EPOCH.timestamp() + self.picture.now, self.picture.policy
        seen = self.picture.fall_back().nodes
        assert seen is not None
        await self.telling.tell([(used, seen)], now, self.heard, besides=besides)


async def test_each_pod_is_told_once_per_state_of_its_tier() -> None:
    talk = Talk(policy("web", NAMED, ON_DEMAND))
    with capture_logs() as logs:
        talk.waits("a")
        await talk.look()
        talk.waits("b")
        await talk.look()
        await talk.look()
        assert talk.heard.said == [("a", MISSING), ("b", MISSING)]
        await talk.look(node("virtual", unschedulable=True))
        assert talk.heard.said[2:] == [("a", CORDONED), ("b", CORDONED)]
        await talk.look(node("virtual"))
        assert len(talk.heard.said) == 4
    assert [(one["event"], one["log_level"]) for one in logs] == [("tier_takes_no_pod", "warning")] * 2


async def test_who_still_waits_is_told_again_before_the_event_is_gone() -> None:
    talk = Talk(policy("web", NAMED, ON_DEMAND))
    talk.waits("a")
    with capture_logs() as logs:
        await talk.look()
        await talk.look(later_s=3599)
    assert talk.heard.said == [("a", MISSING)] * 2
    assert len(logs) == 1


async def test_only_those_are_told_whom_nobody_else_tells() -> None:
    talk = Talk(policy("web", NAMED, ON_DEMAND))
    talk.waits("ours", scheduler="fairlead")
    talk.picture.add(talk.picture.web("untried", tier="spot"))
    talk.waits("deleted")
    groups = talk.picture.machine.index.groups.values()
    (gone,) = [one.member for group in groups for one in group.values() if one.member.name == "deleted"]
    await talk.look(besides=(gone.uid,))
    assert not talk.heard.said


async def test_a_tier_known_by_labels_may_be_yet_to_be_filled() -> None:
    talk = Talk(policy("web", SPOT, ON_DEMAND))
    talk.waits("a")
    await talk.look()
    assert not talk.heard.said


async def test_a_policy_that_only_prefers_keeps_nobody_waiting() -> None:
    talk = Talk(policy("web", NAMED, ON_DEMAND, enforce="preferred"))
    talk.waits("a")
    await talk.look()
    assert not talk.heard.said
