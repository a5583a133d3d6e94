"""Groups kept up to date change by change stand as groups looked at for the first time."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.engine.ask.objects import read
from fairlead.engine.rebalance.rebalancer import Rebalancer
from support.policies import policy
from support.units import budget, node, pod, workload

Obj = dict[str, Any]

NOW = 1_800_000_000.0
POLICIES = [
    [policy("web")],
    [policy("web", match={"labels": {"app": "a"}})],
    [
        policy("all", groupBy="policy"),
        policy("web", match={"labels": {"app": "a"}}, groupBy={"label": "app"}),
    ],
    [],
]


def some_node(name: str, capacity: str) -> Obj:
    return node(name, labels={"capacity": capacity})


def some_pod(name: str, app: str, revision: str, on: str, slot: int) -> Obj:
    owner = {"kind": "ReplicaSet", "name": f"{app}-{revision}", "uid": f"uid-ReplicaSet-{app}-{revision}"}
    marks = {"fairlead.dev/policy": "web", "fairlead.dev/slot": str(slot)} if slot else {}
    return pod(
        name,
        on=on,
        owner=owner | {"apiVersion": "apps/v1", "controller": True},
        labels={"app": app, "pod-template-hash": revision},
        annotations=marks,
    )


def some_owner(kind: str, app: str, revision: str, replicas: int) -> Obj:
    above = {"kind": "Deployment", "name": app, "uid": f"uid-Deployment-{app}", "apiVersion": "apps/v1"}
    if kind == "Deployment":
        made = workload("Deployment", app, replicas=replicas)
        made["status"] = {"updatedReplicas": replicas}
        return made
    return workload("ReplicaSet", f"{app}-{revision}", replicas=replicas, owner=above | {"controller": True})


APPS, REVISIONS = st.sampled_from("ab"), st.sampled_from("12")
CHANGES = st.lists(
    st.one_of(
        st.builds(some_node, st.sampled_from(["n1", "n2"]), st.sampled_from(["spot", "on-demand", "none"])),
        st.builds(
            some_pod,
            st.sampled_from(["p1", "p2", "p3", "p4"]),
            APPS,
            REVISIONS,
            st.sampled_from(["", "n1", "n2"]),
            st.integers(0, 4),
        ),
        st.builds(
            some_owner, st.sampled_from(["Deployment", "ReplicaSet"]), APPS, REVISIONS, st.integers(0, 4)
        ),
        st.builds(lambda least: budget("b", {"app": "a"}, least), st.integers(0, 3)),
        st.builds("forget {}".format, st.integers(0, 5)),
        st.builds("policies {}".format, st.integers(0, 3)),
    ),
    max_size=30,
)


@given(CHANGES)
def test_change_by_change_is_as_from_the_start(changes: list[Obj | str]) -> None:
    machine, used = Rebalancer(), 0
    machine.use(POLICIES[0])
    there: dict[tuple[str, str], Obj] = {}
    for change in changes:
        if isinstance(change, dict):
            kind, name = change["kind"], change["metadata"]["name"]
            there.pop((kind, name), None)
            there[kind, name] = change
            tell(machine, change)
        elif change.startswith("policies"):
            used = int(change[-1])
            machine.use(POLICIES[used])
        elif there:
            kind, name = list(there)[int(change[-1]) % len(there)]
            gone = there.pop((kind, name))["metadata"]
            machine.gone(kind, gone.get("namespace", ""), name, gone.get("uid", ""))
    fresh = Rebalancer()
    for thing in there.values():
        tell(fresh, thing)
    fresh.use(POLICIES[used])
    assert seen(machine) == seen(fresh)


def seen(machine: Rebalancer) -> list[object]:
    """What of the states decisions are made from."""
    return [
        (
            *(one.key, one.policy, one.counts, one.target, one.desired, one.rolling, one.tiers.demand),
            sorted(one.workloads, key=str),
            [(held.pod, held.workload, held.slot, held.tier) for held in one.pods],
        )
        for one in machine.states(NOW)
    ]


def tell(machine: Rebalancer, thing: Obj) -> None:
    found = read(thing)
    assert found is not None
    machine.seen(*found, NOW)
