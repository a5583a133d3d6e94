"""What was decided is done only as long as it holds: a pod bound since, a tier back since."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.client.events import EventLane
from fairlead.doors.rebalancer.executor import Executor, Outcome
from fairlead.doors.rebalancer.metrics import Metrics
from fairlead.doors.rebalancer.tier_events import TierEvents
from fairlead.errors import FairleadError
from fairlead.feed.marks import Change, LiveMarks
from fairlead.feed.policies import LivePolicies
from fairlead.kube.resources import known
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.marks import Marks
from support.cluster import Cluster
from support.manifests import pod
from support.pictured import NOW, Picture, unschedulable
from support.policies import policy
from support.units import EPOCH


def _now() -> datetime:
    return datetime.fromtimestamp(EPOCH.timestamp() + NOW, UTC)


class Written(LiveMarks):
    """Marks that are kept here; those of policy ``bad`` cannot be written."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, LivePolicies(client), "default")
        self.kept: dict[str, Marks] = {}
        self.then: Callable[[], object] = lambda: None

    def of(self, policy: str) -> Marks:
        return self.kept.get(policy, Marks())

    async def change(self, policy: str, change: Change, *, client: Client | None = None) -> Marks | None:
        if policy == "bad":
            raise FairleadError("the marks of policy bad change faster than we can write them")
        wanted = change(self.of(policy))
        assert wanted is not None
        self.kept[policy] = wanted
        self.then()
        return wanted


class Waiting:
    """A pod waits for spot, whose nodes were cordoned, and a cluster is asked to delete it.

    `marks.then` is called between the decision and the deletion.
    """

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.client = client
        self.picture = Picture().deployment(3)
        self.marks = Written(client)
        self.name = cluster.unique("late")
        self._cluster = cluster
        cluster.create(pod(self.name, namespace="default"))
        cluster.owns(self._path())
        self.picture.add(self.picture.web("safe", "d1"), self.picture.web("fine", "s1"))
        self.look()
        self.picture.fall_back()
        for name in ("s1", "s2"):
            self.picture.add(self.picture.spot(name, unschedulable=True))

    def look(self, on: str = "") -> None:
        """What the watch would say of the pod."""
        late = self.picture.web(self.name, on, slot=3, tier="spot")
        if not on:
            unschedulable(late, NOW)
        stored = self._cluster.wire.request("GET", self._path()).ok()["metadata"]
        late["metadata"] |= {key: stored[key] for key in ("uid", "resourceVersion")}
        self.picture.add(late)

    def bind(self) -> None:
        """Somebody gives the pod a node, and the watch does not say so yet."""
        target = {"apiVersion": "v1", "kind": "Node", "name": "s1"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": self.name}, "target": target}
        self._cluster.wire.request("POST", self._path("binding"), body).ok()

    async def carry(self, *more: PlacementPolicy) -> Outcome:
        """One pass."""
        self.picture.machine.use([*more, self.picture.policy])
        executor = Executor(
            self.picture.machine, self.marks, Metrics(), Clock(wall=_now), TierEvents(self.picture.machine)
        )
        return await executor.pass_once(self.client, EventLane(self.client, component="test"))

    @property
    def is_there(self) -> bool:
        """Whether the cluster still has the pod."""
        answer = self._cluster.wire.request("GET", self._path())
        return answer.status == 200 and "deletionTimestamp" not in answer.body["metadata"]

    def _path(self, sub: str | None = None) -> str:
        return known("Pod").path("default", self.name, sub)


async def test_a_pod_that_waits_in_vain_is_deleted(cluster: Cluster) -> None:
    async with cluster.client() as client:
        waiting = Waiting(cluster, client)
        await waiting.carry()
        assert not waiting.is_there


async def test_a_pod_that_was_bound_before_the_watch_says_so_is_not_deleted(cluster: Cluster) -> None:
    async with cluster.client() as client:
        waiting = Waiting(cluster, client)
        waiting.bind()
        outcome = await waiting.carry()
        assert outcome.deletions, "it was decided from what the watch had said"
        assert waiting.is_there


async def test_a_pod_that_is_seen_bound_after_the_decision_is_not_deleted(cluster: Cluster) -> None:
    async with cluster.client() as client:
        waiting = Waiting(cluster, client)
        waiting.marks.then = lambda: waiting.look("s1")
        assert (await waiting.carry()).deletions
        assert waiting.is_there


async def test_nobody_is_deleted_for_a_tier_that_came_back_after_the_decision(cluster: Cluster) -> None:
    async with cluster.client() as client:
        waiting = Waiting(cluster, client)
        waiting.marks.then = waiting.marks.kept.clear
        assert (await waiting.carry()).deletions
        assert waiting.is_there


async def test_the_trouble_of_one_policy_does_not_stop_the_others(cluster: Cluster) -> None:
    async with cluster.client() as client:
        waiting = Waiting(cluster, client)
        outcome = await waiting.carry(policy("bad", match={"namespaces": ["elsewhere"]}))
        assert not waiting.is_there
        assert outcome.wake_at is not None


async def test_a_move_is_not_sent_once_a_rollout_began_or_its_tier_was_marked(cluster: Cluster) -> None:
    async with cluster.client() as client:
        for what in ("rollout", "mark"):
            picture, marks = Picture().pods("d1", "d1", "d2"), Written(client)
            executor = Executor(
                picture.machine, marks, Metrics(), Clock(wall=_now), TierEvents(picture.machine)
            )
            move = picture.move()
            assert executor.holds(move, Marks())
            if what == "rollout":
                picture.deployment(3, updatedReplicas=1)
            else:
                marks.kept[picture.policy.name] = Marks().failed("spot", _now().timestamp())
            assert not executor.holds(move, Marks())
