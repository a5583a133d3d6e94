"""Victims cost no more than the best that brute force finds, over small clusters of every kind."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.engine.ask.cluster import Cluster
from fairlead.engine.planning.settings import Settings
from support.cluster_of import running
from support.units import budget, node, pod

SHIFT = 2**31
PRIORITIES = st.sampled_from([-10, 0, 1, 1000, 2_000_000_000])


@st.composite
def crowded(draw):
    """Up to three nodes with up to five pods each; budgets; some pods in gangs."""
    nodes = draw(st.integers(1, 3))
    pods = []
    for where in range(nodes):
        for index in range(draw(st.integers(1, 5))):
            pods.append(
                {
                    "name": f"v{where}{index}",
                    "cpu": draw(st.integers(0, 3)),
                    "memory": draw(st.integers(0, 3)),
                    "on": where,
                    "priority": draw(PRIORITIES),
                    "started": draw(st.integers(0, 3)),
                    "app": draw(st.sampled_from(["", "a", "b"])),
                    "gang": draw(st.sampled_from(["", "", "", "g", "h"])),
                }
            )
    return {
        "nodes": [(draw(st.integers(3, 8)), draw(st.integers(3, 8))) for _ in range(nodes)],
        "pods": pods,
        "allowed": {app: draw(st.integers(0, 3)) for app in draw(st.sampled_from(["", "a", "ab"]))},
        "minimum": {"g": draw(st.integers(1, 3)), "h": draw(st.integers(1, 3))},
        "wants": (draw(st.integers(1, 5)), draw(st.integers(0, 5))),
        "priority": draw(st.sampled_from([1, 5, 2000, 2_000_001_000])),
        "pdb": draw(st.sampled_from(["respect", "best-effort"])),
    }


def objects_of(case) -> list[dict]:
    things = [
        node(f"n{index}", cpu, memory=f"{memory}Gi", pods=20)
        for index, (cpu, memory) in enumerate(case["nodes"])
    ]
    for one in case["pods"]:
        things.append(
            pod(
                one["name"],
                one["cpu"],
                memory=f"{one['memory']}Gi",
                on=f"n{one['on']}",
                priority=one["priority"],
                started=one["started"],
                labels={"app": one["app"]} if one["app"] else {},
                gang=one["gang"],
                minimum=case["minimum"].get(one["gang"], 0),
            )
        )
    return things + [budget(app, {"app": app}, allowed) for app, allowed in case["allowed"].items()]


def cost(case, leaving) -> tuple | None:
    """kube-scheduler's order over a set, None when the set must not leave."""
    ordered = sorted(leaving, key=lambda v: (-v["priority"], v["started"], v["name"]))
    left = dict(case["allowed"])
    broken = 0
    for victim in ordered:
        if victim["app"] in left:
            left[victim["app"]] -= 1
            broken += left[victim["app"]] < 0
    if broken and case["pdb"] == "respect":
        return None
    top = ordered[0]["priority"]
    units = len({v["gang"] or v["name"] for v in ordered})
    start = min(v["started"] for v in ordered if v["priority"] == top)
    return broken, top, sum(v["priority"] + SHIFT for v in ordered), units, len(ordered), -start


def closed(case, chosen) -> list[dict] | None:
    """The chosen, and the whole of every gang that falls below its minimum."""
    leaving = list(chosen)
    for gang in sorted({v["gang"] for v in chosen} - {""}):
        members = [v for v in case["pods"] if v["gang"] == gang]
        going = [v for v in chosen if v["gang"] == gang]
        if len(members) - len(going) < case["minimum"][gang]:
            leaving += [v for v in members if v not in going]
    return leaving if all(may_leave(case, v) for v in leaving) else None


def may_leave(case, victim) -> bool:
    return victim["priority"] < min(case["priority"], 2_000_000_000)


def room(case, where, leaving) -> bool:
    there = [v for v in case["pods"] if v["on"] == where and v not in leaving]
    cpu, memory = case["nodes"][where]
    want_cpu, want_memory = case["wants"]
    if want_cpu > cpu - sum(v["cpu"] for v in there):
        return False
    return not want_memory or want_memory <= memory - sum(v["memory"] for v in there)


def best(case) -> tuple | None:
    found = None
    for where in range(len(case["nodes"])):
        lower = [v for v in case["pods"] if v["on"] == where and may_leave(case, v)]
        if not room(case, where, lower):
            continue
        for size in range(1, len(lower) + 1):
            for chosen in combinations(lower, size):
                leaving = closed(case, chosen)
                if leaving is None or not room(case, where, leaving):
                    continue
                price = cost(case, leaving)
                if price is not None and (found is None or price < found):
                    found = price
    return found


def test_for_one_pod(count):
    @settings(max_examples=count(60, 600))
    @given(crowded())
    def check(case):
        cluster = Cluster.from_objects(objects_of(case), pdb=case["pdb"])
        cpu, memory = case["wants"]
        preemptor = pod("p", cpu, memory=f"{memory}Gi", priority=case["priority"])
        found = cluster.preempt(preemptor)
        if any(room(case, where, []) for where in range(len(case["nodes"]))):
            assert found.node is None
            return
        by_name = {f"default/{v['name']}": v for v in case["pods"]}
        expected = best(case)
        assert (found.node is None) == (expected is None)
        if found.node is not None:
            leaving = [by_name[key] for key in found.victims]
            assert room(case, int(found.node[1:]), leaving)
            assert cost(case, leaving) == expected
            assert found.pdb_violations == expected[0]

    check()


@st.composite
def beset_gang(draw):
    """A gang of equal pods, and few enough pods in its way that the optimum is promised."""
    nodes = draw(st.integers(1, 3))
    pods = []
    for where in range(nodes):
        for index in range(draw(st.integers(0, 3))):
            pods.append(
                {
                    "name": f"v{where}{index}",
                    "cpu": draw(st.integers(1, 3)),
                    "on": where,
                    "priority": draw(st.sampled_from([0, 1, 2])),
                    "started": 0,
                    "app": draw(st.sampled_from(["", "a"])),
                    "gang": "",
                }
            )
    return {
        "nodes": [(draw(st.integers(2, 5)), 0) for _ in range(nodes)],
        "pods": pods,
        "allowed": {"a": draw(st.integers(0, 2))},
        "size": draw(st.integers(2, 4)),
        "each": draw(st.integers(1, 2)),
        "priority": 9,
        "pdb": "respect",
    }


def gang_room(case, leaving) -> bool:
    places = 0
    for where, (cpu, _) in enumerate(case["nodes"]):
        used = sum(v["cpu"] for v in case["pods"] if v["on"] == where and v not in leaving)
        places += max(0, cpu - used) // case["each"]
    return places >= case["size"]


def test_for_a_gang(count):
    @settings(max_examples=count(40, 500))
    @given(beset_gang())
    def check(case):
        things = [node(f"n{index}", cpu) for index, (cpu, _) in enumerate(case["nodes"])]
        for v in case["pods"]:
            labels = {"app": v["app"]} if v["app"] else {}
            things.append(
                pod(v["name"], v["cpu"], on=f"n{v['on']}", priority=v["priority"], started=0, labels=labels)
            )
        things += [budget(app, {"app": app}, allowed) for app, allowed in case["allowed"].items()]
        members = [
            pod(f"m{i}", case["each"], gang="g", minimum=case["size"], priority=9)
            for i in range(case["size"])
        ]
        expected = None
        if not gang_room(case, []):
            for size in range(1, len(case["pods"]) + 1):
                for chosen in combinations(case["pods"], size):
                    price = cost(case, chosen) if gang_room(case, chosen) else None
                    if price is not None and (expected is None or price < expected):
                        expected = price
        world = running(Settings(), *things, *members)
        by_name = {f"default/{v['name']}": v for v in case["pods"]}
        leaving = [by_name[key] for key in world.evicted]
        assert (cost(case, leaving) if leaving else None) == expected
        started = sum(1 for key in world.bound if "/m" in key)
        assert started == (case["size"] if expected or gang_room(case, []) else 0)

    check()
