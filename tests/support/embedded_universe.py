"""The embedded cluster as a `Universe`: its own admission or its own scheduler, in virtual time."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

from fairlead.engine.planning.settings import Settings
from fairlead.policy.names import SLOT_ANNOTATION
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.marks import Marks
from fairlead.world.api import DeleteOptions
from fairlead.world.controllers.node_lifecycle import NodeLifecycleController
from fairlead.world.fairlead_scheduler import Fairlead
from fairlead.world.kubelet import Pace
from fairlead.world.placement import Placement
from fairlead.world.schema.resources import PODS
from fairlead.world.world import World
from support.universes import Answer, Answers, Api, Obj, Universe

__all__ = ["Embedded"]

_IMAGE = {"name": "main", "image": "image"}


class Embedded(Universe):
    """A world without controllers of pods: the history makes and removes every pod.

    With `own` Fairlead's scheduler places the pods; else they are admitted, and the world's scheduler goes by
    their affinity. Ledgers and marks of tiers are in the memory of the world, which is never started again.
    """

    def __init__(self, name: str, policy: PlacementPolicy, *, own: bool) -> None:
        self.name = name
        self.api = Api(policy)
        self._own = own
        self._placement = Placement([policy])
        self._placement.active = False
        hooks = [] if own else [self._placement.admit]
        self._world = World(
            controllers=[NodeLifecycleController()],
            scheduler=not own,
            pace=Pace(job=timedelta(days=1)),
            events=(),
            hooks=hooks,
        )
        self._placement.attach(self._world.api, self._world.clock)
        self._start()

    def _start(self) -> None:
        if self._own:
            world, settings = self._world, Settings(backoff_s=0.0)
            self._scheduler = Fairlead(world.api, world.clock, settings, [self.api.policy])

    def restart(self) -> None:
        if self._own:
            self._scheduler.close()
            self._start()

    def put(self, thing: Obj) -> None:
        self.settle()  # what is made is made now
        kind, name = thing["kind"], thing["metadata"]["name"]
        if self._world.get(kind, name) is None:
            self._world.create(self._new(thing))
        elif kind == "PodDisruptionBudget":
            self.drop(kind, name)
            self._world.create(self._new(thing))
        else:
            spec = {key: thing["spec"][key] for key in _CHANGED[kind]}
            self._world.patch(kind, name, {"spec": spec})
            if kind == "Job":
                self._status(kind, name, thing["status"])

    def drop(self, kind: str, name: str) -> None:
        if kind == "Pod":
            self._world.api.delete(PODS, name, "default", DeleteOptions(grace_s=0))
        elif kind == "Node":
            self._world.remove_node(name)
        else:
            self._world.delete(kind, name)

    def finish(self, name: str) -> None:
        self._status("Pod", name, {"phase": "Succeeded"})

    def mark(self, marks: Marks) -> None:
        self._placement.marks[self.api.policy.name] = marks

    def settle(self) -> None:
        now = datetime.fromtimestamp(self.api.now, UTC)
        self._world.run_until(max(now, self._world.clock.now()))

    def answers(self) -> Answers:
        found: Answers = {}
        for pod in self._world.all("Pod", "default"):
            name = pod["metadata"]["name"]
            one = self._placement.machine.index.get(f"default/{name}")
            if one is None or one.member.leaving:
                continue
            said = self._scheduler.core.report.sent(one.member.uid) if self._own else None
            if said is not None and not one.facts.node:
                tier = said.choice.tier
                answer = Answer(said.slot, "" if tier is None else one.policy.spec.tiers[tier].name)
            else:
                slot = int(pod["metadata"]["annotations"][SLOT_ANNOTATION])
                answer = Answer(slot, one.member.tier, one.facts.node)
            found.setdefault(one.key, {})[name] = answer
        return found

    def stands(self) -> Answers:
        return self.answers()

    def _new(self, thing: Obj) -> Obj:
        """An object as a user would write it: the API server gives UIDs and times."""
        new = copy.deepcopy(thing)
        kind, metadata, spec = new["kind"], new["metadata"], new["spec"]
        for field in ("uid", "creationTimestamp"):
            metadata.pop(field, None)
        for owner in metadata.get("ownerReferences", ()):
            above = self._world.get(owner["kind"], owner["name"])
            assert above is not None
            owner["uid"] = above["metadata"]["uid"]
        if kind == "Pod":
            del new["status"]
            spec["schedulerName"] = "fairlead" if self._own else "default-scheduler"
            spec["containers"] = [_IMAGE]
        elif kind == "PodDisruptionBudget":
            new["apiVersion"] = "policy/v1"
        elif kind != "Node":
            del new["status"]
            spec["template"]["spec"] = {"containers": [_IMAGE]}
            if kind == "Job":
                spec["template"]["spec"]["restartPolicy"] = "Never"
            else:
                spec["selector"] = {"matchLabels": spec["template"]["metadata"]["labels"]}
            if kind == "StatefulSet":
                spec["serviceName"] = metadata["name"]
        return new

    def _status(self, kind: str, name: str, status: Obj) -> None:
        resource = self._world.runner.view.resource_of(kind)
        self._world.api.patch(resource, name, {"status": status}, "default", subresource="status")


_CHANGED = {
    "Deployment": ("replicas",),
    "ReplicaSet": ("replicas",),
    "StatefulSet": ("replicas",),
    "Job": ("parallelism",),
    "Node": ("unschedulable",),
}
