"""An embedded cluster in virtual time with policies at work: admission, fallback and rebalancing."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from fairlead.policy.names import SLOT_ANNOTATION
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.world.extender import Extender
from fairlead.world.fairlead_scheduler import Fairlead
from fairlead.world.objects import annotations_of, is_active, is_ready
from fairlead.world.placement import Placement
from fairlead.world.world import World
from support.worlds import asking, node, seconds

__all__ = ["Door", "Placed"]

Door = Literal["webhook", "extender", "scheduler", "webhook and extender", "webhook and scheduler"]

Obj = dict[str, Any]


class Placed:
    """Spot nodes ``s1``, ``s2``, … and on-demand nodes ``d1``, …; watches Ready pods all the time.

    The `door` sends pods to their tiers, and a rebalancer brings them back.
    """

    def __init__(
        self,
        *policies: PlacementPolicy,
        door: Door = "webhook",
        spot: int = 3,
        on_demand: int = 3,
        cpu: int = 8,
        **more: Any,
    ) -> None:
        self.placement = Placement(policies)
        self.scheduler = "fairlead" if "scheduler" in door else "default-scheduler"
        self.cpu = cpu
        extender = Extender(self.placement) if "extender" in door else None
        hooks = [self.placement.admit] if "webhook" in door else []
        self.world = World(hooks=hooks, extender=extender, **more)
        self.placement.attach(self.world.api, self.world.clock)
        if "scheduler" in door:
            Fairlead(self.world.api, self.world.clock, policies=policies, marks=self.placement.marks)
        for number in range(1, on_demand + 1):
            self.add_node(f"d{number}", "on-demand")
        for number in range(1, spot + 1):
            self.add_node(f"s{number}", "spot")
        self.after(2)
        self.least_ready: dict[str, int] = {}
        self._changes: list[str] = []
        self.world.store.subscribe(lambda change: self._watch())

    def add_node(self, name: str, capacity: str) -> None:
        self.world.create(node(name, cpu=self.cpu, labels={"capacity": capacity}))

    def deployment(
        self,
        name: str,
        replicas: int,
        *,
        cpu: str = "100m",
        team: str = "",
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """A Deployment whose pods carry the label app, and perhaps that of a team."""
        labels = {"app": name} | ({"team": team} if team else {})
        self.world.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": name}},
                    "template": {
                        "metadata": {"labels": labels, "annotations": annotations or {}},
                        "spec": asking(cpu, **{"schedulerName": self.scheduler, **spec}),
                    },
                },
            }
        )

    def budget(self, name: str, least: int | str) -> None:
        """A PodDisruptionBudget for a Deployment."""
        self.protect(name, {"app": name}, minAvailable=least)

    def protect(self, name: str, labels: dict[str, str], **spec: Any) -> None:
        """A PodDisruptionBudget for pods with these labels."""
        self.world.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"selector": {"matchLabels": labels}, **spec},
            }
        )

    def roll(self, name: str, version: str) -> None:
        """A new revision."""
        template = {"metadata": {"labels": {"version": version}}}
        self.world.patch("Deployment", name, {"spec": {"template": template}})

    def slots(self, app: str) -> dict[int, str]:
        """The slots that the pods are marked with, each with the capacity of its node."""
        capacity = {one["metadata"]["name"]: one["metadata"]["labels"]["capacity"] for one in self.nodes()}
        return {
            int(annotations_of(pod)[SLOT_ANNOTATION]): capacity[pod["spec"]["nodeName"]]
            for pod in self.pods(app)
        }

    def scale(self, name: str, replicas: int) -> None:
        self.world.patch("Deployment", name, {"spec": {"replicas": replicas}})

    def after(self, span: float) -> None:
        """Let so many seconds pass."""
        self.world.run_until(seconds(span))

    def pods(self, app: str) -> list[Obj]:
        """The pods that are neither finished nor on their way out."""
        return [
            pod
            for pod in self.world.all("Pod")
            if pod["metadata"].get("labels", {}).get("app") == app and is_active(pod)
        ]

    def split(self, app: str) -> dict[str, int]:
        """How many pods are on nodes of each capacity; ``""``: without a node."""
        capacity = {one["metadata"]["name"]: one["metadata"]["labels"]["capacity"] for one in self.nodes()}
        found = Counter(capacity.get(pod["spec"].get("nodeName", ""), "") for pod in self.pods(app))
        return {name: number for name, number in sorted(found.items()) if number}

    def nodes(self) -> list[Obj]:
        return self.world.all("Node")

    def lose(self, *names: str) -> None:
        """The machines are gone at this very moment, and their Nodes with them."""
        for name in names:
            self.world.remove_node(name)

    def cordon(self, *names: str, undo: bool = False) -> None:
        for name in names:
            self.world.patch("Node", name, {"spec": {"unschedulable": None if undo else True}})

    def watch(self, *apps: str) -> None:
        """From now on, note the lowest number of Ready pods that each had at any moment."""
        self.least_ready = {app: self.ready(app) for app in apps}

    def ready(self, app: str) -> int:
        return sum(is_ready(pod) for pod in self.pods(app))

    def _watch(self) -> None:
        for app, least in self.least_ready.items():
            self.least_ready[app] = min(least, self.ready(app))
