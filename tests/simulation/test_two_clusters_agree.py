"""What only the scheduler has a part in ends alike, whether its core plays it or the embedded cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.simulation.scenario.material import Material, from_data
from fairlead.simulation.scenario.model import API_VERSION, KIND
from fairlead.simulation.scenario.reader import Source
from fairlead.simulation.simulate import simulation
from fairlead.simulation.simulate.result import Result
from fairlead.simulation.simulate.simulation import is_batch, simulate

SHAPES = ("250m", "500m", "1", "2", "3")


def material(spec: dict[str, Any]) -> Material:
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "test"}, "spec": spec}
    return from_data(document, Source("", "test.yaml"), Path())


@st.composite
def batches(draw: st.DrawFn) -> dict[str, Any]:
    groups = [
        {"name": "large", "nodes": draw(st.integers(1, 3)), "resources": {"cpu": 8, "memory": "32Gi"}},
        {"name": "small", "nodes": draw(st.integers(0, 3)), "resources": {"cpu": 4, "memory": "8Gi"}},
    ]
    streams = [
        {
            "name": f"stream-{number}",
            "perHour": draw(st.sampled_from([10, 40])),
            "pods": draw(st.sampled_from([1, 1, 3])),
            "requests": {"cpu": draw(st.sampled_from(SHAPES)), "memory": "1Gi"},
            "runsFor": draw(st.sampled_from(["1m", "10m", "1h"])),
            "runTimes": draw(st.sampled_from(["fixed", "exponential", "uniform"])),
            "priority": draw(st.sampled_from([None, None, 10, 20])),
            "recreate": False,
        }
        for number in range(draw(st.integers(1, 3)))
    ]
    planning = {"ranking": draw(st.sampled_from(["spread", "pack"]))}
    planning["order"] = draw(st.sampled_from(["smallest", "fifo"]))
    return {
        "duration": "45m",
        # Never the moment at which something happens: those have milliseconds.
        "sampleEvery": 61.23456,
        "seed": draw(st.integers(0, 1000)),
        "nodeGroups": groups,
        "arrivals": streams,
        "planning": planning,
    }


def played(spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *, whole: bool) -> Result:
    given_material = material(spec)
    assert is_batch(given_material)
    with monkeypatch.context() as patched:
        if whole:
            patched.setattr(simulation, "is_batch", lambda _: False)
        return simulate(given_material)


def assert_alike(one: Result, other: Result) -> None:
    assert one.to_dict() == other.to_dict()


def test_batches_end_alike_on_both_clusters(
    monkeypatch: pytest.MonkeyPatch, count: Callable[[int, int], int]
) -> None:
    @settings(max_examples=count(6, 200))
    @given(batches())
    def agree(spec: dict[str, Any]) -> None:
        assert_alike(played(spec, monkeypatch, whole=True), played(spec, monkeypatch, whole=False))

    agree()
