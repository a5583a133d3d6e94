"""How fast are preemption, gangs and classes that take turns, through the whole scheduler core?

Preemption: 5,000 nodes full of low-priority pods and 5,000 pods of high priority that each need a
victim, from the events that bring them to the last eviction asked for. Gangs: 9 of 1,000 members and
1,000 of 3 on 5,000 nodes, from the events to the last bind asked for. Turns: 10,000 pods of 100 classes
that alternate in the queue, against the same pods class by class. Loading the nodes (and what runs on
them) is not counted. CPU time, because the machine is shared and the core is one thread.
"""

from __future__ import annotations

import gc
import time
from datetime import UTC, datetime, timedelta

from benchmarks.rows import Row, main
from fairlead.engine.core.actions import BindPod, EvictPod
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event, Seen
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.node import Node, NodeStatus
from fairlead.kube.pod import Container, Pod, PodSpec, PodStatus, Resources

NODES = 5_000
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
NOW = EPOCH.timestamp() + 3600

PREEMPTION_TARGET_S = 5.0
GANGS_TARGET = 20_000
TURNS_TARGET = 1.5

PODS = 10_000
CLASSES = 100


def run(nodes: int = NODES) -> list[Row]:
    """All rows."""
    seconds, evicted = preemption(nodes)
    rows = [
        Row(
            f"preemption: {nodes} nodes full of low priority, {nodes} high ({evicted} evicted)",
            f"{seconds:.2f} s",
            f"≤ {PREEMPTION_TARGET_S:.0f} s",
            seconds <= PREEMPTION_TARGET_S and evicted == nodes,
        )
    ]
    for gangs, size in ((9, 1_000), (1_000, 3)):
        seconds, bound = together(nodes, gangs, size)
        rate = bound / seconds
        rows.append(
            Row(
                f"gangs: {gangs} of {size} on {nodes} nodes",
                f"{rate:,.0f} pods/s",
                f"≥ {GANGS_TARGET:,} pods/s",
                rate >= GANGS_TARGET and bound == gangs * size,
            )
        )
    blocks, taking_turns = (
        min(mixed(nodes, interleaved=interleaved) for _ in range(2)) for interleaved in (False, True)
    )
    rows.append(
        Row(
            f"{PODS} pods of {CLASSES} classes on {nodes} nodes: {taking_turns * 1e6 / PODS:.1f} µs a pod "
            f"when they take turns, {blocks * 1e6 / PODS:.1f} µs in blocks",
            f"{taking_turns / blocks:.2f}x",
            f"≤ {TURNS_TARGET}x",
            taking_turns <= TURNS_TARGET * blocks,
        )
    )
    return rows


def preemption(nodes: int) -> tuple[float, int]:
    """(seconds, evictions) for as many preemptors as nodes."""
    core = Core()
    loaded: list[Event] = [Seen("Node", node(index)) for index in range(nodes)]
    low = spec("3", 1)
    for index in range(nodes):
        name = f"node-{index:05}"
        loaded.append(Seen("Pod", placed(pod(f"low-{index:05}", low, index), name, index)))
    core.handle(loaded, NOW)
    high = spec("3", 100)
    arriving: list[Event] = [Seen("Pod", pod(f"high-{index:05}", high, index)) for index in range(nodes)]
    began = time.process_time()
    actions = core.handle(arriving, NOW)
    seconds = time.process_time() - began
    return seconds, sum(isinstance(action, EvictPod) for action in actions)


def together(nodes: int, gangs: int, size: int) -> tuple[float, int]:
    """(seconds, binds) for gangs of one size."""
    core = Core()
    core.handle([Seen("Node", node(index)) for index in range(nodes)], NOW)
    shape = spec("1", 0)
    arriving: list[Event] = [
        Seen("Pod", pod(f"g{gang}-{index}", shape, 0, gang=f"g{gang}", minimum=size))
        for gang in range(gangs)
        for index in range(size)
    ]
    began = time.process_time()
    actions = core.handle(arriving, NOW)
    seconds = time.process_time() - began
    return seconds, sum(isinstance(action, BindPod) for action in actions)


def mixed(nodes: int, *, interleaved: bool) -> float:
    """Seconds for pods of many classes, which differ in a label, to be bound in the order of their names."""
    core = Core()
    core.handle([Seen("Node", node(index)) for index in range(nodes)], NOW)
    shape = spec("100m", 0)
    arriving: list[Event] = [
        Seen(
            "Pod",
            pod(
                f"p{index:05}",
                shape,
                0,
                app=f"app-{index % CLASSES if interleaved else index * CLASSES // PODS}",
            ),
        )
        for index in range(PODS)
    ]
    gc.collect()
    gc.disable()  # as the scheduler does while it takes in what is there
    began = time.process_time()
    actions = core.handle(arriving, NOW)
    seconds = time.process_time() - began
    gc.enable()
    bound = sum(isinstance(action, BindPod) for action in actions)
    if bound != PODS:
        raise RuntimeError(f"{bound} of {PODS} pods were bound")
    return seconds


def node(index: int) -> Node:
    name = f"node-{index:05}"
    amounts: dict[str, str | int | float] = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{index % 3}"}
    return Node(ObjectMeta(name=name, labels=labels), status=NodeStatus(allocatable=amounts))


def spec(cpu: str, priority: int) -> PodSpec:
    container = Container(name="c", resources=Resources(requests={"cpu": cpu, "memory": "1Gi"}))
    return PodSpec(containers=(container,), scheduler_name="fairlead", priority=priority)


def pod(name: str, shape: PodSpec, age_s: int, gang: str = "", minimum: int = 0, app: str = "single") -> Pod:
    annotations = {"pod-group": gang, "pod-group-min-member": str(minimum)} if gang else {}
    metadata = ObjectMeta(
        name=name,
        namespace="bench",
        uid=f"uid-{name}",
        creation_timestamp=EPOCH + timedelta(milliseconds=age_s),
        labels={"app": "gang" if gang else app},
        annotations=annotations,
    )
    return Pod(metadata=metadata, spec=shape)


def placed(bare: Pod, node_name: str, age_s: int) -> Pod:
    shape = PodSpec(
        containers=bare.spec.containers,
        scheduler_name="fairlead",
        priority=bare.spec.priority,
        node_name=node_name,
    )
    started = EPOCH + timedelta(milliseconds=age_s)
    return Pod(metadata=bare.metadata, spec=shape, status=PodStatus(phase="Running", start_time=started))


if __name__ == "__main__":
    main(run)
