"""A plan that is applied and made again gives nothing; the same cluster gives the same plan to the byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.engine.ask.cluster import Cluster
from fairlead.engine.ask.plan import Plan
from support.units import budget, node, pod

NEAR_DB = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
        ]
    }
}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}
EVEN = [
    {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]
RULES = [{}, {}, {"affinity": NEAR_DB}, {"affinity": APART}, {"topologySpreadConstraints": EVEN}]


@st.composite
def clusters(draw):
    zones = "ab"
    things = [
        node(f"n{index}", draw(st.integers(1, 6)), labels={"zone": zones[index % 2]})
        for index in range(draw(st.integers(1, 4)))
    ]
    nodes = len(things)
    for index in range(draw(st.integers(0, 5))):
        things.append(
            pod(
                f"r{index}",
                draw(st.integers(0, 3)),
                on=f"n{draw(st.integers(0, nodes - 1))}",
                priority=draw(st.integers(-1, 2)),
                labels={"app": draw(st.sampled_from(["web", "db"]))},
                created=index,
            )
        )
    for index in range(draw(st.integers(1, 6))):
        more = dict(draw(st.sampled_from(RULES)))
        if draw(st.integers(0, 3)) == 0:
            more["preemptionPolicy"] = "Never"
        things.append(
            pod(
                f"w{index}",
                draw(st.integers(0, 4)),
                priority=draw(st.integers(-1, 5)),
                labels={"app": draw(st.sampled_from(["web", "db"]))},
                created=10 + index,
                **more,
            )
        )
    for index in range(draw(st.integers(0, 2))):
        size = draw(st.integers(1, 3))
        priority = draw(st.integers(0, 4))
        things += [
            pod(f"g{index}-{m}", 1, gang=f"g{index}", minimum=size, priority=priority, created=20)
            for m in range(draw(st.integers(max(1, size - 1), size + 1)))
        ]
    if draw(st.booleans()):
        things.append(budget("web", {"app": "web"}, draw(st.integers(0, 2))))
    return things


def applied(things: list[dict], plan: Plan) -> list[dict]:
    evicted = {one.pod for one in plan.evictions}
    bound = dict(plan.binds)
    web_evicted = 0
    found = []
    for thing in things:
        key = f"default/{thing['metadata']['name']}"
        if thing["kind"] == "Pod" and key in evicted:
            web_evicted += thing["metadata"]["labels"].get("app") == "web"
            continue
        if thing["kind"] == "Pod" and key in bound:
            found.append({**thing, "spec": {**thing["spec"], "nodeName": bound[key]}})
        else:
            found.append(thing)
    return [spent(thing, web_evicted) for thing in found]


def spent(thing: dict, evictions: int) -> dict:
    """A budget after that many evictions, with nobody yet recreated."""
    if thing["kind"] != "PodDisruptionBudget":
        return thing
    left = max(0, thing["status"]["disruptionsAllowed"] - evictions)
    return {**thing, "status": {"disruptionsAllowed": left}}


def test_a_plan_applied_and_made_again_gives_nothing(count):
    @settings(max_examples=count(150, 1500))
    @given(clusters())
    def check(things):
        plan = Cluster.from_objects(things).plan()
        again = Cluster.from_objects(applied(things, plan)).plan()
        assert again.binds == []
        assert again.evictions == []
        assert {hold.pod for hold in again.holds} == {hold.pod for hold in plan.holds}

    check()


def test_the_order_of_the_objects_does_not_matter(count):
    @settings(max_examples=count(50, 500))
    @given(clusters(), st.randoms(use_true_random=False))
    def check(things, random):
        shuffled = list(things)
        random.shuffle(shuffled)
        plan = Cluster.from_objects(things).plan().to_dict()
        assert json.dumps(Cluster.from_objects(shuffled).plan().to_dict()) == json.dumps(plan)

    check()


def test_another_process_makes_the_same_plan_to_the_byte(tmp_path):
    things = [node(f"n{index}", 3, labels={"zone": "ab"[index % 2]}) for index in range(4)]
    for index in range(12):
        labels = {"app": ["web", "db"][index % 2]}
        where = {"on": f"n{index % 4}"} if index < 4 else {}
        things.append(
            pod(f"p{index}", priority=index % 5, labels=labels, created=index, **where, **RULES[index % 5])
        )
    things += [pod(f"g-{index}", gang="g", minimum=3, priority=4, created=20) for index in range(4)]
    state = tmp_path / "state.json"
    state.write_text(json.dumps(things))
    plans = {
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from fairlead.cli import main; main()",
                "plan",
                "-o",
                "json",
                "-f",
                state,
            ],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(plans) == 1
    assert json.loads(plans.pop())["binds"]


def test_every_pod_is_bound_or_held_or_left_alone_exactly_once(count):
    @settings(max_examples=count(50, 500))
    @given(clusters())
    def check(things):
        plan = Cluster.from_objects(things).plan()
        waiting = {
            f"default/{one['metadata']['name']}"
            for one in things
            if one["kind"] == "Pod" and "nodeName" not in one["spec"]
        }
        outcome = Counter([*(one.pod for one in plan.binds), *(one.pod for one in plan.holds)])
        assert set(outcome) == waiting
        assert set(outcome.values()) <= {1}

    check()
