"""An event costs what it touches, and what is answered bit by bit is what a new book would answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from fairlead.engine.policies.planned_pod import Sent
from fairlead.engine.policies.policy_state import PolicyState
from fairlead.kube.decode import convert
from fairlead.kube.meta import ObjectMeta, OwnerReference
from fairlead.kube.node import Node
from fairlead.kube.workloads import PodDisruptionBudget, Workload
from fairlead.policy.groups.member import PodFacts, SlotMark
from fairlead.policy.names import POLICY_ANNOTATION, SLOT_ANNOTATION, TIER_ANNOTATION, TOKEN_ANNOTATION
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.marks import Mark, Marks
from support.policies import policy
from support.units import EPOCH, node, workload

NOW = EPOCH.timestamp() + 10_000
SPOT = {"name": "spot", "nodes": {"capacity": "spot"}}
DEMAND = {"name": "on-demand", "nodes": {"capacity": "on-demand"}}
BY_APP = {"label": "app"}
POLICIES = {
    "a percentage": policy("web", SPOT, DEMAND | {"min": "30%"}),
    "a percentage of a group by label": policy("web", SPOT | {"min": "30%"}, DEMAND, groupBy=BY_APP),
    "a rest on demand": policy("web", SPOT, DEMAND | {"min": "30%"}, groupBy="policy"),
    "a max": policy("web", SPOT | {"max": 3}, DEMAND, groupBy="policy"),
    "two maxes": policy("web", SPOT | {"max": 3}, DEMAND | {"max": 4}, groupBy=BY_APP),
    "no nested rule": policy("web", SPOT | {"min": "34%"}, DEMAND | {"min": "50%"}),
    "a budget": policy("web", SPOT | {"volatile": True}, DEMAND | {"min": "pdb"}),
    "a budget of a group": policy("web", SPOT | {"volatile": True}, DEMAND | {"min": "pdb"}, groupBy=BY_APP),
    "single replicas": policy(
        "web", SPOT, DEMAND, groupBy="policy", singleReplica={"tier": "on-demand", "else": "spot"}
    ),
}
NODES = [
    convert(node(f"{kind}-{number}", labels={"capacity": kind}), Node)
    for kind in ("spot", "on-demand", "other")
    for number in (0, 1)
]
OWNERS = {
    "web-1": ("ReplicaSet", {"pod-template-hash": "1", "app": "web"}),
    "web-2": ("ReplicaSet", {"pod-template-hash": "2", "app": "web"}),
    "db": ("StatefulSet", {"app": "web"}),
    "job": ("ReplicaSet", {"app": "job"}),
    "": ("", {"app": "web"}),
}


@dataclass
class Cluster:
    """What there is, and a book that is told of it as it happens."""

    policies: dict[str, PlacementPolicy]
    random: Random
    book: PolicyState = field(default_factory=PolicyState)
    pods: dict[str, PodFacts] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=lambda: {one.metadata.name: one for one in NODES})
    owners: dict[tuple[str, str], Workload] = field(default_factory=dict)
    budgets: dict[str, PodDisruptionBudget] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    made: int = 0
    looks: int = 0

    def __post_init__(self) -> None:
        self.book.policies_are(self.policies.values(), (), tuple, self.nodes.values())

    # What may happen

    def come(self) -> None:
        """A pod comes: to wait, or with a node that somebody else gave it."""
        self.made += 1
        name = self.random.choice(list(OWNERS))
        kind, labels = OWNERS[name]
        owner = OwnerReference(kind, name, f"uid-{name}", "apps/v1", controller=True)
        annotations = {}
        if self.random.random() < 0.2:
            annotations = {POLICY_ANNOTATION: "web", SLOT_ANNOTATION: str(self.random.randint(1, 40))}
        if self.random.random() < 0.2:
            annotations |= {
                POLICY_ANNOTATION: "web",
                SLOT_ANNOTATION: str(self.random.randint(1, 9)),
                TIER_ANNOTATION: self.random.choice(["spot", "on-demand"]),
                TOKEN_ANNOTATION: f"token-{self.made}",
            }
        number = self.made if kind != "StatefulSet" else self.random.randint(0, 5)
        if any(one.metadata.name == f"{name}-{number}" for one in self.pods.values()):
            return
        metadata = ObjectMeta(
            name=f"{name}-{number}",
            namespace="default",
            uid=f"u{self.made}",
            labels=labels,
            annotations=annotations,
            owner_references=(owner,) if kind else (),
            creation_timestamp=EPOCH + timedelta(seconds=self.random.randint(0, 9)),
        )
        waits = self.random.random() < 0.8
        self._put(PodFacts(metadata, "" if waits else self.random.choice(list(self.nodes)), waits=waits))

    def bind(self) -> None:
        """A pod is given a node of the tier that it was sent to; who waits longest more often than others."""
        sent = {uid: one for uid, one in sorted(self.book.sent.items()) if one.choice.tier is not None}
        if not sent:
            return
        uid = min(sent) if self.random.random() < 0.5 else self.random.choice(list(sent))
        one = sent[uid]
        where = [
            name
            for name, each in self.nodes.items()
            if each.metadata.labels["capacity"] == one.policy.spec.tiers[one.choice.tier or 0].name
        ]
        if where:
            self.book.assumed(uid, where[0])
            token = self.pods[uid].metadata.annotations.get(TOKEN_ANNOTATION, uid)
            mark = SlotMark(one.policy.name, one.slot, token=token)
            self.pods[uid] = replace(self.pods[uid], node=where[0], waits=False, mark=mark)

    def fail(self) -> None:
        """A bind fails: the pod waits again."""
        if bound := [uid for uid, one in self.pods.items() if one.mark is not None]:
            one = self.pods[self.random.choice(bound)]
            self._put(PodFacts(one.metadata, waits=True))

    def go(self) -> None:
        """A pod goes."""
        if self.pods:
            uid = self.random.choice(list(self.pods))
            del self.pods[uid]
            self.book.gone(uid)

    def scale(self) -> None:
        """A workload is made or scaled."""
        number = self.random.randint(1, 12)
        above = {"kind": "Deployment", "name": "web", "uid": "uid-Deployment-web", "apiVersion": "apps/v1"}
        things = [
            ("Deployment", workload("Deployment", "web", replicas=number)),
            ("ReplicaSet", workload("ReplicaSet", "web-1", replicas=1, owner=above | {"controller": True})),
            ("ReplicaSet", workload("ReplicaSet", "job", replicas=number)),
            ("StatefulSet", workload("StatefulSet", "db", replicas=number)),
        ]
        kind, thing = self.random.choice(things)
        thing["metadata"]["uid"] = f"uid-{thing['metadata']['name']}"
        if kind == "Deployment":
            thing["metadata"]["uid"] = "uid-Deployment-web"
        self.owners[kind, thing["metadata"]["name"]] = owner = convert(thing, Workload)
        self.book.owner(kind, owner)

    def protect(self) -> None:
        """A budget comes, changes or goes."""
        name = self.random.choice(["one", "two"])
        if name in self.budgets and self.random.random() < 0.3:
            del self.budgets[name]
            self.book.budget_gone("default", name)
            return
        spec = {"minAvailable": self.random.randint(0, 6), "selector": {"matchLabels": {"app": "web"}}}
        thing = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        self.budgets[name] = convert(thing, PodDisruptionBudget)
        self.book.budget(self.budgets[name])

    def relabel(self) -> None:
        """A node changes tiers, if another stays in its own."""
        kind = self.random.choice(["spot", "on-demand", "other"])
        thing = convert(node(f"{self.random.choice(['spot', 'other'])}-1", labels={"capacity": kind}), Node)
        self.nodes[thing.metadata.name] = thing
        self.book.node(thing.metadata.name, thing)

    def mark(self) -> None:
        """A tier is marked, or tried by one who waits, or not marked any more."""
        tier = self.random.choice(["spot", "on-demand"])
        marks = Marks(60, dict(self.marks))
        match self.random.choice(["cooling", "tried", "none"]):
            case "cooling":
                marks = Marks(60, dict(self.marks) | dict(Marks(60).failed(tier, NOW - 10)))
            case "tried" if self.book.sent:
                token = self.random.choice(sorted(self.book.sent))
                tried = Marks(60).failed(tier, NOW - 100).claim_probe(tier, token, NOW)
                assert tried is not None
                marks = Marks(60, dict(self.marks) | dict(tried))
            case _:
                marks = marks.cleared(tier)
        self.marks = dict(marks)
        self.book.marks_are("web", self.marks)

    def change(self) -> None:
        """A policy changes, or another comes or goes."""
        other = policy(
            "other", SPOT, DEMAND | {"min": self.random.randint(0, 2)}, match={"labels": {"app": "job"}}
        )
        if self.random.random() < 0.5 and "other" in self.policies:
            del self.policies["other"]
        else:
            self.policies["other"] = other
        if self.random.random() < 0.3:
            self.policies["web"] = patient(self.policies["web"], self.random.choice(["2m", "3m"]))
        self.book.policies_are(self.policies.values(), (), self.pods.values, self.nodes.values())

    def look(self) -> None:
        """Have the book look at what became of those who try a tier, as a new one does."""
        self.looks += 1
        spare = convert(node("spare", labels={"capacity": "none"}), Node) if self.looks % 2 else None
        self.book.node("spare", spare)

    def _put(self, pod: PodFacts) -> None:
        self.pods[pod.metadata.uid] = pod
        self.book.pod(pod)

    # What is so

    def replay(self) -> PolicyState:
        """A book that is told everything at once, in any order."""
        book = PolicyState()
        book.policies_are(self.policies.values(), (), tuple, self.nodes.values())
        book.marks_are("web", self.marks)
        for (kind, _), owner in self._shuffled(self.owners):
            book.owner(kind, owner)
        for _, pod in self._shuffled(self.pods):
            book.pod(pod)
        for _, budget in self._shuffled(self.budgets):
            book.budget(budget)
        return book

    def _shuffled(self, things: dict[Any, Any]) -> list[tuple[Any, Any]]:
        return self.random.sample(list(things.items()), k=len(things))


def patient(governing: PlacementPolicy, after: str) -> PlacementPolicy:
    """The policy with another patience."""
    fallback = msgspec.structs.replace(governing.spec.fallback, after=after)
    return msgspec.structs.replace(governing, spec=msgspec.structs.replace(governing.spec, fallback=fallback))


def said(sent: dict[str, Sent]) -> dict[str, tuple[Any, ...]]:
    """All that an answer consists of."""
    return {uid: (one.policy, one.slot, one.choice, one.choice.own) for uid, one in sent.items()}


STEPS = ["come"] * 6 + ["bind", "bind", "fail", "go", "scale", "protect", "relabel", "mark", "change"]


@pytest.mark.parametrize("governing", POLICIES.values(), ids=POLICIES)
def test_what_is_answered_bit_by_bit_is_what_a_new_book_answers(
    governing: PlacementPolicy, count: Callable[[int, int], int]
):
    for life in range(count(8, 400)):
        random = Random(life)
        cluster = Cluster({"web": governing}, random)
        for step in random.choices(STEPS, k=50):
            before = dict(cluster.book.sent)
            getattr(cluster, step)()
            cluster.look()
            changed, marks = cluster.book.refresh(NOW)
            for action in marks:
                cluster.marks = dict(action.after) if action.policy == "web" else cluster.marks
            replay = cluster.replay()
            replay.refresh(NOW)
            assert said(cluster.book.sent) == said(replay.sent), (life, step)
            for uid, one in cluster.book.sent.items():
                assert one.like(before.get(uid)) or uid in changed
