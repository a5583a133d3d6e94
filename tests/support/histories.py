"""Random histories of one policy's pods, and a `History` that takes all universes through the same one.

Controllers make and remove one pod at a time, and between two changes everything settles. Which pod goes is
read off the first universe; where the doors agree every other universe's controllers would take the same.
A tier has at most one node that takes pods, so that every scheduler has the same choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.policy.names import DELETION_COST
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.fallback import Nodes, nodes_seen
from fairlead.policy.tiers.marks import Marks
from fairlead.policy.tiers.tier_nodes import TierNodes
from support.members import owner_reference
from support.units import EPOCH, at, node, pod, workload
from support.universe_parts import OURS
from support.universes import Obj, Universe

__all__ = ["OWNERS", "TIERS", "History", "Step", "steps"]

Step = tuple[str, int, int]

TIERS = ("spot", "on-demand", "burst")
OWNERS = {"web": "Deployment", "api": "Deployment", "db": "StatefulSet", "batch": "Job"}


class History:
    """See the module. `looked` is called whenever all universes have settled."""

    def __init__(
        self, policy: PlacementPolicy, universes: Sequence[Universe], looked: Callable[[], None]
    ) -> None:
        self.policy = policy
        self.universes = universes
        self._looked = looked
        self._number = 0
        self._wanted = dict.fromkeys(OWNERS, 0)
        self._revision = dict.fromkeys(OWNERS, 1)
        self._succeeded = 0
        self.marks = Marks(policy.spec.fallback.cool_down_s)
        self._nodes: Nodes | None = None
        self._budgets: set[str] = set()
        self.now = EPOCH.timestamp()
        for tier in policy.spec.tiers:
            self._new_node(tier.name)
        self._mark_by_nodes()

    # Steps

    def happen(self, step: Step) -> None:
        """One step, and all that follows."""
        what, which, number = step
        getattr(self, f"_{what}")(which, number)
        self._control()

    def _scale(self, which: int, number: int) -> None:
        name = list(OWNERS)[which % len(OWNERS)]
        self._wanted[name] = number
        self._write_owner(name)

    def _delete(self, which: int, _: int) -> None:
        if names := self._pods():
            self._remove(names[which % len(names)])

    def _bare(self, which: int, number: int) -> None:
        bare = [name for name in self._pods() if name.startswith("bare")]
        if number % 3 == 0 and bare:
            self._remove(bare[which % len(bare)])
        else:
            self._make(f"bare-{self._number}", "", {"app": "ab"[which % 2]})

    def _roll(self, which: int, _: int) -> None:
        name = ("web", "api")[which % 2]
        self._revision[name] += 1
        self._write_owner(name)

    def _finish(self, which: int, _: int) -> None:
        mine = self._of("batch")
        if mine:
            name = mine[which % len(mine)]
            self._everywhere(lambda one: one.finish(name))
            self._succeeded += 1
            self._write_owner("batch")
            self._settle()

    def _budget(self, which: int, number: int) -> None:
        name = list(OWNERS)[which % len(OWNERS)]
        spec: Obj = [
            {"minAvailable": number},
            {"maxUnavailable": number},
            {"minAvailable": f"{number * 12}%"},
            {"maxUnavailable": f"{number * 12}%"},
        ][number % 4]
        if name in self._budgets and number % 5 == 0:
            self._budgets.remove(name)
            self._everywhere(lambda one: one.drop("PodDisruptionBudget", name))
            return
        self._budgets.add(name)
        spec |= {"selector": {"matchLabels": {"app": name}}}
        metadata = {"name": name, "namespace": "default"}
        thing = {"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
        self._everywhere(lambda one: one.put(thing))

    def _renew(self, which: int, _: int) -> None:
        """Another node takes the place of a tier's."""
        tier = self.policy.spec.tiers[which % len(self.policy.spec.tiers)].name
        self._close(tier)
        self._new_node(tier)
        self._nodes_changed()

    def _cordon(self, which: int, _: int) -> None:
        self._close(self.policy.spec.tiers[which % len(self.policy.spec.tiers)].name)
        self._nodes_changed()

    def _lose(self, which: int, _: int) -> None:
        """A node and its pods are gone."""
        nodes = [thing["metadata"]["name"] for thing in self.universes[0].api.of("Node")]
        name = nodes[which % len(nodes)] if nodes else ""
        there = [pod for pod in self.universes[0].api.pods if pod["spec"].get("nodeName") == name and name]
        for one in there:
            self._everywhere(lambda each, one=one: each.drop("Pod", one["metadata"]["name"]))
        if name:
            self._everywhere(lambda one: one.drop("Node", name))
            self._nodes_changed()

    def _mark(self, which: int, number: int) -> None:
        """Mark a tier, or end its mark: a tier that takes no pods keeps it, as nothing would end it there."""
        at = which % len(self.policy.spec.tiers)
        tier = self.policy.spec.tiers[at].name
        before = self.marks
        if self.marks.get(tier) is None:
            self.marks = self.marks.failed(tier, self.now, reason="it took no pods")
        elif self._nodes is not None and self._nodes.schedulable[at]:
            self.marks = self.marks.cleared(tier)
        if self.marks is not before:
            self._everywhere(lambda one: one.mark(self.marks))
            self._settle()

    def _restart(self, which: int, number: int) -> None:
        """What decides in some universes begins again, and says what it said."""
        for bit, one in enumerate(self.universes):
            if (which + 1) * (number + 1) >> bit & 1:
                before = one.answers()
                one.restart()
                one.settle()
                assert (one.name, one.answers()) == (one.name, before), "after a restart"
        self._settle()

    # Controllers

    def _control(self) -> None:
        """What controllers do until there is nothing left to do."""
        while any(self._controlled(name) for name in OWNERS):
            pass
        self._settle()

    def _controlled(self, name: str) -> bool:
        kind, wanted, mine = OWNERS[name], self._wanted[name], self._of(name)
        if kind == "StatefulSet":
            there = {int(one.rpartition("-")[2]) for one in mine}
            missing = sorted(set(range(wanted)) - there)
            if missing:
                self._make(f"{name}-{missing[0]}", name, {})
            elif len(there) > wanted:
                self._remove(f"{name}-{max(there)}")
            return bool(missing) or len(there) > wanted
        labels = {}
        old: list[str] = []
        if kind == "Deployment":
            labels["pod-template-hash"] = hash_ = f"r{self._revision[name]}"
            old = [one for one in mine if f"-{hash_}-" not in one]
        if len(mine) > wanted:
            self._remove(self._first_to_go(old or mine, kind))
        elif len(mine) - len(old) < wanted:
            middle = f"-{labels['pod-template-hash']}" if labels else ""
            self._make(f"{name}{middle}-{self._number}", name, labels)
        else:
            return False
        return True

    def _first_to_go(self, names: list[str], kind: str) -> str:
        """As the controllers choose: pods without a node first, then by what their deletion costs."""

        def order(name: str) -> tuple[bool, int, int]:
            found = self.universes[0].api.objects["Pod", name]
            cost = int(found["metadata"]["annotations"].get(DELETION_COST, "0")) if kind != "Job" else 0
            return (
                bool(found["spec"].get("nodeName")),
                cost,
                -int(found["metadata"]["uid"].rpartition("-")[2]),
            )

        return min(names, key=order)

    # Objects

    def _pods(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.universes[0].api.pods if _lives(one)]

    def _of(self, owner: str) -> list[str]:
        return [name for name in self._pods() if name.startswith(f"{owner}-")]

    def _everywhere(self, do: Callable[[Universe], None]) -> None:
        for one in self.universes:
            do(one)

    def _settle(self) -> None:
        for one in self.universes:
            one.api.now = self.now
            one.settle()
        self._looked()

    def _make(self, name: str, owner: str, labels: dict[str, str]) -> None:
        self._number += 1
        self.now += 1
        reference = None
        if owner:
            kind = OWNERS[owner]
            hash_ = f"-{labels['pod-template-hash']}" if kind == "Deployment" else ""
            made_by = "ReplicaSet" if kind == "Deployment" else kind
            api = "batch/v1" if kind == "Job" else "apps/v1"
            reference = owner_reference(made_by, f"{owner}{hash_}", api)
        made = pod(
            name,
            "1m",
            memory="1Mi",
            created=self.now - EPOCH.timestamp(),
            scheduler=OURS,
            owner=reference,
            labels={"app": owner or "none", **labels},
            uid=f"uid-{self._number}",
        )
        for one in self.universes:
            one.api.now = self.now
            one.put(made)
        self._settle()

    def _remove(self, name: str) -> None:
        self._everywhere(lambda one: one.drop("Pod", name))
        self._settle()

    def _write_owner(self, name: str) -> None:
        kind, wanted = OWNERS[name], self._wanted[name]
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": []}}
        if kind == "Job":
            thing = workload(kind, name, parallelism=wanted, template=template)
            thing["status"] = {"succeeded": self._succeeded}
        else:
            thing = workload(kind, name, replicas=wanted, template=template)
        things = [thing]
        if kind == "Deployment":
            set_ = f"{name}-r{self._revision[name]}"
            above = owner_reference("Deployment", name)
            things.append(workload("ReplicaSet", set_, replicas=wanted, owner=above, template=template))
        for each in things:
            self._everywhere(lambda one, each=each: one.put(each))

    def _new_node(self, tier: str) -> None:
        self._number += 1
        labels = {} if tier == "burst" else {"capacity": tier}
        made = node(f"{tier}-{self._number}", cpu=1000, pods=1000, labels=labels)
        made["metadata"]["creationTimestamp"] = at(self.now - EPOCH.timestamp())
        self._everywhere(lambda one: one.put(made))

    def _close(self, tier: str) -> None:
        api = self.universes[0].api
        for thing in api.open_nodes():
            if api.tier_of(thing["metadata"]["name"]) == tier:
                closed = {**thing, "spec": {**thing["spec"], "unschedulable": True}}
                self._everywhere(lambda one, closed=closed: one.put(closed))

    def _nodes_changed(self) -> None:
        self._mark_by_nodes()
        self._settle()

    def _mark_by_nodes(self) -> None:
        """Mark tiers that lost their last node, and end the marks of those that got one."""
        self.now += 1
        known = [convert(one, Node) for one in self.universes[0].api.of("Node")]
        nodes = TierNodes(self.policy, known).seen()
        self.marks = nodes_seen(self.policy, self.marks, nodes, self.now, before=self._nodes)
        self._nodes = nodes
        self._everywhere(lambda one: one.mark(self.marks))


def _lives(pod: Obj) -> bool:
    return pod["status"]["phase"] != "Succeeded" and "deletionTimestamp" not in pod["metadata"]


def steps(*kinds: str, most: int = 12) -> st.SearchStrategy[list[Step]]:
    """Histories of steps of these kinds, most of them long; they shrink by doing nothing for a step."""
    one = st.tuples(st.sampled_from(("", *kinds)), st.integers(0, 11), st.integers(0, 7))
    return st.lists(one, min_size=most, max_size=most).map(lambda found: [step for step in found if step[0]])
