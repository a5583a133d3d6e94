"""A cluster drawn by hand, as the rebalancer sees it: nodes of two tiers, a Deployment, its pods."""

from __future__ import annotations

from typing import Any

from fairlead.engine.ask.objects import read
from fairlead.engine.rebalance.rebalance import Move, Rebalancing
from fairlead.engine.rebalance.rebalancer import Rebalancer
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.fallback import Decision
from fairlead.policy.tiers.marks import Marks
from support.policies import policy
from support.units import EPOCH, at, node, pod, workload

__all__ = ["Picture", "unschedulable"]

Obj = dict[str, Any]

LONG_AGO = 0.0
NOW = 10_000.0


class Picture:
    """Times are seconds after the tests' epoch; it is `NOW`, and everything is old unless said otherwise.

    Nodes are ``s1``, ``s2`` (spot) and ``d1``, ``d2`` (on demand). Pods of Deployment ``web`` carry the
    marks of admission: slots from 1 on, in the order in which they are drawn.
    """

    def __init__(self, used: PlacementPolicy | None = None, *, nodes: bool = True, cpu: int = 8) -> None:
        self.policy = used or policy()
        self.machine = Rebalancer()
        self.machine.use([self.policy])
        self.marks = Marks(self.policy.spec.fallback.cool_down_s)
        self.now = NOW
        self._drawn = 0
        if nodes:
            for name in ("s1", "s2"):
                self.add(self.spot(name, cpu))
            for name in ("d1", "d2"):
                self.add(self.on_demand(name, cpu))

    @staticmethod
    def spot(name: str, cpu: int = 8, **more: Any) -> Obj:
        return node(name, cpu, labels={"capacity": "spot"}, **more)

    @staticmethod
    def on_demand(name: str, cpu: int = 8, **more: Any) -> Obj:
        return node(name, cpu, labels={"capacity": "on-demand"}, **more)

    def add(self, *things: Obj) -> Picture:
        for thing in things:
            found = read(thing)
            assert found is not None
            self.machine.seen(*found, EPOCH.timestamp() + self.now)
        return self

    def remove(self, kind: str, name: str, namespace: str = "default") -> None:
        self.machine.gone(kind, "" if kind == "Node" else namespace, name)

    def deployment(self, replicas: int, name: str = "web", **status: Any) -> Picture:
        """A Deployment whose rollout is over, and its ReplicaSet."""
        made = workload("Deployment", name, replicas=replicas)
        made["metadata"]["generation"] = 1
        made["status"] = {"observedGeneration": 1, "updatedReplicas": replicas, **status}
        owner = {"kind": "Deployment", "name": name, "uid": made["metadata"]["uid"], "apiVersion": "apps/v1"}
        return self.add(
            made,
            workload("ReplicaSet", f"{name}-1", replicas=replicas, owner=owner | {"controller": True}),
        )

    def web(self, name: str, on: str = "", *, slot: int | None = None, **more: Any) -> Obj:
        """A pod of Deployment web; with `on`, on that node, Ready."""
        self._drawn += 1
        bound = more.pop("bound", LONG_AGO)
        slot = slot or self._drawn
        tier = more.pop("tier", {"s": "spot", "d": "on-demand"}.get(on[:1], ""))
        made = pod(
            name,
            on=on,
            owner=more.pop("owner", _owner("ReplicaSet", "web-1")),
            labels={"app": "web", "pod-template-hash": more.pop("revision", "1")},
            annotations={
                "fairlead.dev/policy": self.policy.name,
                "fairlead.dev/slot": str(slot),
                "fairlead.dev/tier": tier,
                "fairlead.dev/slot-token": f"token-{name}",
            },
            scheduler=more.pop("scheduler", "default-scheduler"),
            **({"created": LONG_AGO} | more),
        )
        if on:
            made["status"]["conditions"] = [
                {"type": "Ready", "status": "True"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)},
            ]
        return made

    def pods(self, *nodes: str) -> Picture:
        """Pods ``web-1``, ``web-2``, … of Deployment web, each on its node."""
        self.deployment(len(nodes))
        return self.add(*(self.web(f"web-{number}", on) for number, on in enumerate(nodes, 1)))

    def plan(self) -> Rebalancing:
        return self.machine.plan({self.policy.name: self.marks}, EPOCH.timestamp() + self.now)

    def move(self) -> Move:
        """The one move."""
        planned = self.plan()
        assert len(planned.moves) == 1, planned
        return planned.moves[0]

    def waits(self) -> str:
        """Why nothing is moved; it must be one group that waits."""
        planned = self.plan()
        assert not planned.moves, planned
        assert len(planned.waits) == 1, planned
        return planned.waits[0].reason

    def rests(self) -> None:
        """Everything is where it belongs."""
        planned = self.plan()
        assert not planned.moves, planned
        assert not planned.waits, planned

    def sent(self, move: Move) -> None:
        self.machine.sent(move, EPOCH.timestamp() + self.now)

    def fall_back(self) -> Decision:
        """Decide, and take over the marks as a door would after writing them."""
        now = EPOCH.timestamp() + self.now
        decision = self.machine.fall_back(self.policy, self.marks, now)
        self.marks = decision.marks
        self.machine.noted(self.policy, decision, now)
        return decision

    def failed(self, tier: str = "spot", ago: float = 0.0) -> Picture:
        """The tier was marked so long ago."""
        self.marks = self.marks.failed(tier, EPOCH.timestamp() + self.now - ago)
        return self


def unschedulable(made: Obj, since: float, reason: str = "Unschedulable") -> Obj:
    """The pod, which could not be placed since a time."""
    made["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": reason, "lastTransitionTime": at(since)}
    ]
    return made


def _owner(kind: str, name: str) -> Obj:
    api = "batch/v1" if kind == "Job" else "apps/v1"
    return {"kind": kind, "name": name, "uid": f"uid-{kind}-{name}", "apiVersion": api, "controller": True}
