"""Where the annotation ``priority`` counts for each command that schedules, and what pods are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.door import DoorProcess
from support.scheduler import Shop

LABEL = "fairlead.dev/priority-annotation"
ONLY_LABELLED = f"--priority-annotation-namespaces={LABEL}=honour"
COMMANDS = {
    "scheduler": ("scheduler", "--leader-elect=false"),
    "serve": ("serve", "--doors=scheduler"),
    "burst": ("burst", "--burst-node=virtual", "--burst-value=9"),
}


class Started:
    """A test's own corner, full, and a process that schedules there."""

    def __init__(self, ours: Shop, command: str) -> None:
        self.ours = ours
        self._command, *self._flags = COMMANDS[command]
        if command == "burst":
            self._flags.append(f"--namespace={ours.cluster.namespace}")
        self.process: DoorProcess | None = None

    def run(self, *flags: str) -> DoorProcess:
        """Start the process, and fill the only node."""
        self.ours.cluster.add_nodes(1, cpu=1)
        self.process = DoorProcess(
            self.ours.cluster.kubeconfig,
            self._command,
            f"--scheduler-name={self.ours.scheduler}",
            f"--system-namespace={self.ours.cluster.namespace}",
            *self._flags,
            *flags,
        )
        self.process.wait_for("synced")
        self.ours.add("low")
        self.ours.bound("low")
        return self.process

    def label(self) -> None:
        labels = {"metadata": {"labels": {LABEL: "honour"}}}
        self.ours.cluster.patch("Namespace", self.ours.cluster.namespace, labels)

    def makes_room(self) -> None:
        """Wait until one of the important pods has taken the other's place."""
        self.ours.cluster.gone("Pod", "low")
        self.ours.cluster.wait(lambda: any(self.ours.nodes_of().values()), "a pod to take its place")

    def held(self, number: int) -> None:
        """Wait until so many pods are said to be unschedulable."""

        def look() -> bool:
            pods = self.ours.cluster.list("Pod")["items"]
            conditions = [one for pod in pods for one in pod["status"].get("conditions", ())]
            return sum(one.get("reason") == "Unschedulable" for one in conditions) == number

        self.ours.cluster.wait(look, f"{number} pods to be held")

    def told(self) -> list[str]:
        """What pods of the namespace are told of their annotation."""
        events: list[dict[str, Any]] = self.ours.cluster.list("Event")["items"]
        return [one["message"] for one in events if one["reason"] == "PriorityAnnotation"]


@pytest.fixture(params=COMMANDS)
def started(ours: Shop, request: pytest.FixtureRequest) -> Iterator[Started]:
    own = Started(ours, request.param)
    yield own
    if own.process is not None:
        own.process.close()


def test_without_a_label_the_annotation_is_ignored_with_one_event_and_honoured_once_there_is_one(
    started: Started,
) -> None:
    process = started.run(ONLY_LABELLED)
    started.ours.deployment("high", 2, priority=100)
    started.held(2)
    told = started.ours.cluster.wait(started.told, "the event")
    namespace = started.ours.cluster.namespace
    assert told == [
        f"annotation priority is ignored in namespace {namespace}: use a PriorityClass, or label the "
        f"namespace so that it matches {LABEL}=honour; using 0"
    ]
    assert "low" in started.ours.nodes_of()
    started.label()
    started.makes_room()
    assert process.stop() == 0  # which writes what is left to be written
    assert started.told() == told


def test_by_hand_the_annotation_counts_in_every_namespace(started: Started) -> None:
    process = started.run()
    started.ours.deployment("high", 2, priority=100)
    started.makes_room()
    assert process.stop() == 0
    assert started.told() == []


def test_the_annotation_counts_up_to_the_cap(started: Started) -> None:
    process = started.run("--priority-annotation-max=0")
    started.ours.deployment("high", 2, priority=100)
    started.held(2)
    assert process.stop() == 0
    assert started.told() == ["annotation priority: 100 is above the cap; using 0"]
    assert started.ours.nodes_of()["low"]


def test_in_a_labelled_namespace_the_annotation_counts_and_pods_are_told_nothing(started: Started) -> None:
    started.label()  # before the start: later, the watch of pods may be ahead of that of namespaces
    process = started.run(ONLY_LABELLED)
    started.ours.deployment("high", 2, priority=100)
    started.makes_room()
    assert process.stop() == 0
    assert started.told() == []
