"""The group index after any history is the index of what there is, and reports exactly what changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis.strategies as st
from hypothesis import Phase, given, settings

from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Job, PodDisruptionBudget, Workload
from fairlead.policy.groups.index import GroupedPod, GroupIndex
from fairlead.policy.groups.member import GroupKey, Member, PodFacts, facts_of
from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.workloads import Workload as PodsWorkload
from support.policies import policy
from support.units import pod, workload

SPOT = {"name": "spot", "nodes": {"capacity": "spot"}}
DEMAND = {"name": "on-demand", "nodes": {"capacity": "on-demand"}, "min": "pdb"}
POLICY_SETS = [
    [policy("web", SPOT, DEMAND)],
    [policy("web", SPOT, DEMAND | {"min": 1})],
    [policy("web", SPOT, DEMAND, match={"kinds": ["Deployment"]})],
    [policy("all", SPOT, DEMAND, groupBy="policy"), policy("web", SPOT, match={"labels": {"app": "a"}})],
    [policy("app", SPOT, DEMAND, groupBy={"label": "app"})],
    [policy("b", SPOT, DEMAND, match={"labels": {"app": "b"}})],
    [],
]
OWNERS = ["ReplicaSet", "StatefulSet", "Job", "Fleet", ""]


def some_pod(name: str, owner: str, app: str, revision: str, on: str, mark: int, leaving: bool) -> PodFacts:
    reference = None
    labels = {"app": app}
    if owner:
        called = f"{app}-{revision}" if owner == "ReplicaSet" else app
        api = {"Job": "batch/v1", "Fleet": "agones.dev/v1"}.get(owner, "apps/v1")
        uid = f"uid-{owner}-{called}"
        reference = {"kind": owner, "name": called, "uid": uid, "apiVersion": api, "controller": True}
        if owner == "ReplicaSet":
            labels["pod-template-hash"] = revision
    marks = {"fairlead.dev/policy": "web", "fairlead.dev/slot": str(mark)} if mark else {}
    if mark == 2:
        marks |= {"fairlead.dev/tier": "spot", "fairlead.dev/slot-token": "token"}
    made = convert(pod(name, on=on, owner=reference, labels=labels, annotations=marks), Pod)
    return replace(facts_of(made), leaving=leaving)


def some_owner(kind: str, app: str, revision: str, replicas: int, start: int) -> tuple[str, Workload | Job]:
    name = f"{app}-{revision}" if kind == "ReplicaSet" else app
    above = {"kind": "Deployment", "name": app, "uid": f"uid-Deployment-{app}", "apiVersion": "apps/v1"}
    parent = above | {"controller": True} if kind == "ReplicaSet" and start == 0 else None
    thing = workload(kind, name, replicas=replicas, owner=parent)
    thing["metadata"]["uid"] = f"uid-{kind}-{name}"
    if kind == "StatefulSet" and start:
        thing["spec"]["ordinals"] = {"start": start}
    if kind == "Job":
        return kind, Job(convert(thing, Workload).metadata)
    return kind, convert(thing, Workload)


NAMES = st.sampled_from([f"pod-{number}" for number in range(6)])
APPS, REVISIONS = st.sampled_from("ab"), st.sampled_from("12")
NODES = st.sampled_from(["n1", "n2"])
FACTS = st.builds(
    some_pod,
    NAMES,
    st.sampled_from(OWNERS),
    APPS,
    REVISIONS,
    st.sampled_from(["", "n1", "n2"]),
    st.integers(0, 2),
    st.integers(0, 5).map(lambda number: number == 0),
)
PODS = FACTS.map(lambda facts: ("pod", facts.metadata.name, facts))
STEPS = st.one_of(
    PODS,
    st.tuples(st.just("pod_gone"), NAMES, st.none()),
    st.tuples(
        st.just("owner"),
        st.none(),
        st.builds(
            some_owner,
            st.sampled_from(["Deployment", "ReplicaSet", "StatefulSet", "Job"]),
            APPS,
            REVISIONS,
            st.integers(0, 3),
            st.sampled_from([0, 0, 1]),
        ),
    ),
    st.tuples(
        st.just("owner_gone"),
        st.none(),
        st.tuples(
            st.sampled_from(["Deployment", "ReplicaSet", "StatefulSet"]), st.sampled_from(["a", "a-1", "b-2"])
        ),
    ),
    st.tuples(st.just("node"), NODES, st.sampled_from(["spot", "on-demand", "other", None])),
    st.tuples(st.just("budget"), st.sampled_from(["x", "y"]), st.one_of(st.none(), st.integers(0, 3))),
    st.tuples(st.just("policies"), st.none(), st.sampled_from(POLICY_SETS)),
)

View = tuple[str, GroupKey, Member, PodsWorkload, str]


@dataclass
class World:
    """What there is, and an index that is told of it as it happens."""

    facts: dict[str, PodFacts] = field(default_factory=dict)
    owners: dict[tuple[str, str], Workload | Job] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    budgets: dict[str, PodDisruptionBudget] = field(default_factory=dict)
    policies: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reported: dict[str, GroupedPod] = {}  # what the reports add up to
        self.stirred: set[GroupKey] = set()
        self.index = GroupIndex(changed=self._changed, stirred=self.stirred.add)

    def _changed(self, before: GroupedPod | None, after: GroupedPod | None) -> None:
        one = before or after
        assert one is not None
        known = self.reported.pop(one.id, None)
        assert (known and (known.key, known.member)) == (before and (before.key, before.member))
        if after is not None:
            self.reported[one.id] = after

    def happen(self, what: str, name: Any, thing: Any) -> None:
        match what:
            case "pod":
                known = self.facts.get(name)
                if known is not None and known.metadata.uid != thing.metadata.uid:
                    self.index.pod_gone(name)
                self.facts[name] = thing
                self.index.pod(name, thing)
            case "pod_gone":
                self.facts.pop(name, None)
                self.index.pod_gone(name)
            case "owner":
                kind, owner = thing
                self.owners[kind, owner.metadata.name] = owner
                self.index.owner(kind, owner)
            case "owner_gone":
                self.owners.pop(thing, None)
                self.index.owner_gone(thing[0], "default", thing[1])
            case "node":
                if thing is None:
                    self.nodes.pop(name, None)
                else:
                    self.nodes[name] = {"capacity": thing}
                self.index.node(name, self.nodes.get(name))
            case "budget":
                if thing is None:
                    self.budgets.pop(name, None)
                    self.index.budget_gone("default", name)
                else:
                    spec = {"minAvailable": thing, "selector": {"matchLabels": {"app": "a"}}}
                    made = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
                    self.budgets[name] = convert(made, PodDisruptionBudget)
                    self.index.budget(self.budgets[name])
            case "policies":
                self.policies = thing
                self.index.use(Policies(thing), self.facts.items)

    def scratch(self) -> GroupIndex:
        """An index that is told everything at once."""
        index = GroupIndex()
        for (kind, _), owner in self.owners.items():
            index.owner(kind, owner)
        for name, labels in self.nodes.items():
            index.node(name, labels)
        for one in self.budgets.values():
            index.budget(one)
        index.use(Policies(self.policies), self.facts.items)
        return index


def seen(index: GroupIndex) -> dict[str, View]:
    return {
        one.id: (one.policy.name, key, one.member, one.workload, one.facts.node)
        for key, group in index.groups.items()
        for one in group.values()
    }


def tiers(index: GroupIndex) -> dict[GroupKey, tuple[Any, Any]]:
    found = {}
    for key in index.groups:
        some = index.some(key)
        assert some is not None
        rule = index.tiers(some.place, some.facts.metadata.labels)
        found[key] = (rule.demand, [rule.split(number) for number in range(5)])
    return found


HISTORY = st.tuples(st.lists(PODS, min_size=5, max_size=8), st.lists(STEPS, min_size=20, max_size=40))


@settings(max_examples=80, phases=(Phase.explicit, Phase.generate))
@given(st.sampled_from(POLICY_SETS), HISTORY)
def test_an_index_after_any_history_is_that_of_what_there_is(first: Any, history: Any) -> None:
    world = World()
    world.happen("policies", None, first)
    before = tiers(world.index)
    pods, steps = history
    steps = [*pods, *steps]
    for step in steps:
        world.stirred.clear()
        reported = dict(world.reported)
        world.happen(*step)
        scratch = world.scratch()
        assert seen(world.index) == seen(scratch)
        assert {pod: (one.key, one.member) for pod, one in world.reported.items()} == {
            pod: (key, member) for pod, (_, key, member, _, _) in seen(world.index).items()
        }
        after = tiers(world.index)
        assert after == tiers(scratch)
        # A group whose rule is another is reported, by one of its pods or as a whole.
        touched = {one.key for pod, one in world.reported.items() if reported.get(pod) is not one}
        touched |= {one.key for pod, one in reported.items() if world.reported.get(pod) is not one}
        assert {
            key for key in after if key in before and after[key] != before[key]
        } <= touched | world.stirred
        before = after
