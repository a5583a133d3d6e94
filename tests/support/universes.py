"""One cluster for each way in, so that the same history can go through all of them.

A `Universe` has the objects of its own API server, and parts that decide (`support.universe_parts`). Each is
told of every change as its door would be, and on `restart` forgets all that is not in the API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fairlead.engine.core.kinds import KINDS
from fairlead.engine.planning.tier_fit import TierFits
from fairlead.kube.decode import convert
from fairlead.policy.groups.group_state import GroupStates
from fairlead.policy.groups.index import GroupedPod, GroupIndex
from fairlead.policy.groups.member import GroupKey, facts_of
from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.slots.ledger import Ledger
from fairlead.policy.tiers.marks import Marks
from fairlead.policy.tiers.nodes import tier_of_node

__all__ = ["Answer", "Answers", "Api", "Obj", "Part", "Universe", "typed"]

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a door says of a pod: its slot, the tier where it is or is sent ("": none), and its node."""

    slot: int
    tier: str
    node: str = ""


Answers = dict[GroupKey, dict[str, Answer]]
"""By group, and by pod that holds a slot of it."""


class Api:
    """What an API server has: objects by kind and name, and the marks of tiers."""

    def __init__(self, policy: PlacementPolicy) -> None:
        self.policy = policy
        self.objects: dict[tuple[str, str], Obj] = {}
        self.marks = Marks(policy.spec.fallback.cool_down_s)
        self.ledgers: dict[str, Obj] = {}
        self.renumbered: set[GroupKey] = set()
        """Groups in which the extender has changed the slot of a pod that has a node."""
        self.now = 0.0

    def of(self, *kinds: str) -> list[Obj]:
        """The objects of these kinds, in the order in which they were made."""
        return [found for (kind, _), found in self.objects.items() if kind in kinds]

    @property
    def pods(self) -> list[Obj]:
        """All pods, the oldest first."""
        return self.of("Pod")

    def open_nodes(self) -> list[Obj]:
        """Nodes that take pods."""
        return [node for node in self.of("Node") if not node["spec"].get("unschedulable")]

    def tier_of(self, node: str) -> str:
        """The name of a node's tier; "" for none."""
        found = self.objects.get(("Node", node))
        if found is None:
            return ""
        index = tier_of_node(self.policy, node, found["metadata"]["labels"])
        return "" if index is None else self.policy.spec.tiers[index].name


def typed(thing: Obj) -> Any:
    """An object as the engine's events have it."""
    return convert(thing, KINDS[thing["kind"]])


class Universe:
    """Objects, and the parts that decide on them: the last one says where pods go."""

    def __init__(self, name: str, policy: PlacementPolicy, *parts: Callable[[Api], Part]) -> None:
        self.name = name
        self.api = Api(policy)
        self._makers = parts
        self.restart()

    def restart(self) -> None:
        """What decides is started again, and knows what is in the API."""
        self._rebalancer = Rebalancer(self.api)
        self._parts = [self._rebalancer, *(make(self.api) for make in self._makers)]

    def put(self, thing: Obj) -> None:
        """An object is there, or is another than before."""
        key = thing["kind"], thing["metadata"]["name"]
        if thing["kind"] == "Pod" and key not in self.api.objects:
            for part in self._parts:
                thing = part.admitted(thing)
        self.api.objects[key] = thing
        for part in self._parts:
            part.seen(thing)

    def drop(self, kind: str, name: str) -> None:
        """An object is gone."""
        thing = self.api.objects.pop((kind, name))
        for part in self._parts:
            part.gone(thing)

    def finish(self, name: str) -> None:
        """A pod has succeeded."""
        found = self.api.objects["Pod", name]
        self.put({**found, "status": {**found["status"], "phase": "Succeeded"}})

    def mark(self, marks: Marks) -> None:
        """These tiers are left alone from now on."""
        self.api.marks = marks
        for part in self._parts:
            part.marked()

    def settle(self) -> None:
        """Everything that follows has happened."""
        while self._write(self._parts[-1].scheduled()):
            pass  # a pod that waits may be answered otherwise once another has its node
        for part in self._parts:
            self._write(part.written())

    def _write(self, pods: Iterable[Obj]) -> bool:
        """Have pods as they now are in the API; whether there were any."""
        found = False
        for pod in pods:
            self.api.objects["Pod", pod["metadata"]["name"]] = pod
            for part in self._parts:
                part.seen(pod)
            found = True
        return found

    def answers(self) -> Answers:
        """What is said of each pod that a policy governs."""
        said: dict[str, Answer] = {}
        for part in reversed(self._parts):
            said |= part.answers()
        found: Answers = {}
        for _, one in self._parts[-1].holding():
            found.setdefault(one.key, {})[one.id] = said[one.id]
        return found

    def stands(self) -> Answers:
        """What the rebalancer takes groups to be."""
        return self._rebalancer.stands()


class Part:
    """What is told of changes. Everything known of a cluster is in `api`; the rest is memory."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.index = self.made_index()
        self.fits = TierFits()
        self.fits.use([api.policy])
        self.index.use(Policies([api.policy]), lambda: ())
        self.start()
        for thing in [*api.of("Node"), *(one for one in api.objects.values() if one["kind"] != "Node")]:
            self.seen(thing)

    def made_index(self) -> GroupIndex:
        """Its group index."""
        return GroupIndex(changed=self.changed)

    def start(self) -> None:
        """Before anything is seen."""

    def changed(self, before: GroupedPod | None, after: GroupedPod | None) -> None:
        """The index has a pod as another than before."""

    def seen(self, thing: Obj) -> None:
        """An object as it now is."""
        kind, name, read = thing["kind"], thing["metadata"]["name"], typed(thing)
        if kind == "Pod":
            before = self.index.get(name)
            if before is not None and before.facts.metadata.uid != read.metadata.uid:
                self.index.pod_gone(name)
            self.index.pod(name, facts_of(read))
        elif kind == "Node":
            self.fits.node(name, read)
            self.index.node(name, read.metadata.labels)
        elif kind == "PodDisruptionBudget":
            self.index.budget(read)
        else:
            self.index.owner(kind, read)

    def gone(self, thing: Obj) -> None:
        """An object is gone."""
        kind, name = thing["kind"], thing["metadata"]["name"]
        if kind == "Pod":
            self.index.pod_gone(name)
        elif kind == "Node":
            self.fits.node(name, None)
            self.index.node(name, None)
        elif kind == "PodDisruptionBudget":
            self.index.budget_gone("default", name)
        else:
            self.index.owner_gone(kind, "default", name)

    def marked(self) -> None:
        """The marks are others."""

    def admitted(self, pod: Obj) -> Obj:
        """A pod that is about to be made, with what it is given."""
        return pod

    def scheduled(self) -> Iterator[Obj]:
        """Pods that got their node, one after the other."""
        return iter(())

    def written(self) -> list[Obj]:
        """Pods that are written while none asks."""
        return []

    def answers(self) -> dict[str, Answer]:
        """What it says of pods."""
        return {}

    def holding(self) -> Iterator[tuple[Obj, GroupedPod]]:
        """The pods that hold slots."""
        for pod in self.api.pods:
            one = self.index.get(pod["metadata"]["name"])
            if one is not None and not one.member.leaving:
                yield pod, one


class Rebalancer(Part):
    """What the rebalancer takes groups to be: it decides on no pod, but moves them back by that."""

    def made_index(self) -> GroupIndex:
        self._states = GroupStates()
        self._ledgers: dict[str, Ledger] = {}
        return self._states.index

    def seen(self, thing: Obj) -> None:
        if thing["kind"] == "Pod":
            self._states.pod(typed(thing))
        else:
            super().seen(thing)

    def gone(self, thing: Obj) -> None:
        if thing["kind"] == "Pod":
            self._states.pod_gone(f"default/{thing['metadata']['name']}")
        else:
            super().gone(thing)

    def stands(self) -> Answers:
        """Each pod's slot and tier as it knows them."""
        ledgers = {name: Ledger.from_object(one) for name, one in self.api.ledgers.items()}
        for name in self._ledgers.keys() - ledgers.keys():
            self._states.ledger_gone(f"default/{name}")
        for ledger in ledgers.values():
            self._states.ledger(ledger)
        self._ledgers = ledgers
        found: Answers = {}
        for state in self._states.states(self.api.now):
            for one in state.pods:
                tier = "" if one.tier is None else state.tiers.tiers[one.tier].name
                answer = Answer(one.slot, tier, one.pod.spec.node_name)
                found.setdefault(state.key, {})[one.member.name] = answer
        return found
