"""Sweeps on this machine: no run is lost, none is played twice, and the table is always the same bytes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.simulation.sweep.kept import InFolder, InMemory
from fairlead.simulation.sweep.local_workers import play_locally
from fairlead.simulation.sweep.run import Played, Run, key, play
from fairlead.simulation.sweep.sweep import Sweep, play_all, prepare, tabulated
from fairlead.simulation.sweep.table import to_csv
from support.sweeps import SCENARIO, children, kept, kill, started, table_of, varied, wait_until


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def runs(count: Callable[[int, int], int]) -> int:
    return count(16, 200)


def swept(scenario: Path, *parameters: str) -> Sweep:
    return prepare(scenario, parameters or ("nodeGroups.big.nodes=2,4", "seed=1..4"))


def played_here(sweep: Sweep) -> dict[str, bytes]:
    return {run.id: play(sweep.shared, run).result for run in sweep.runs}


def test_processes_come_to_the_bytes_that_one_process_comes_to(scenario: Path) -> None:
    sweep = swept(scenario)
    played = list(play_locally(sweep.shared, sweep.runs, 2))
    assert {one.id: one.result for one in played} == played_here(sweep)
    assert len(played) == len(sweep.runs)


def test_a_worker_that_is_killed_loses_no_run_and_repeats_none(scenario: Path) -> None:
    sweep = swept(scenario)
    outcomes = play_locally(sweep.shared, sweep.runs, 2)
    played = [next(outcomes)]
    killed = children(os.getpid())
    workers = [pid for pid in killed if b"sweep.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(workers) == 2
    for pid in workers:
        kill(pid)
    played += outcomes
    assert [one.error for one in played] == [""] * len(sweep.runs)
    assert {one.id: one.result for one in played} == played_here(sweep)
    assert len(played) == len(sweep.runs)


class Deadly:
    """What ends the process that receives it."""

    def __reduce__(self) -> Any:
        return os._exit, (3,)


def test_a_run_that_ends_every_process_has_failed_and_the_others_have_not(scenario: Path) -> None:
    sweep = swept(scenario)
    runs = list(sweep.runs)
    runs[2] = replace(runs[2], settings=Deadly())  # type: ignore[arg-type]
    played = {one.id: one for one in play_locally(sweep.shared, runs, 2)}
    assert played[runs[2].id] == Played(runs[2].id, b"", "its process ended with code 3, twice")
    assert [run.id for run in runs if played[run.id].error] == [runs[2].id]
    assert len(played) == len(runs)


def test_failed_runs_are_left_out_of_their_row_and_named(scenario: Path) -> None:
    sweep = swept(scenario)
    broken = sweep.runs[2].id

    def place(shared: Any, runs: Any) -> Any:
        for run in runs:
            yield Played(run.id, b"", "lost") if run.id == broken else play(shared, run)

    results = InMemory()
    assert play_all(sweep, results, place, lambda *_: None) == {broken: "lost"}
    assert [(row.runs, row.failed) for row in tabulated(sweep, results).rows] == [(4, 1), (4, 0)]


def test_the_order_in_which_runs_end_does_not_matter(scenario: Path) -> None:
    sweep = swept(scenario)

    def backwards(shared: Any, runs: Any) -> Any:
        return (play(shared, run) for run in reversed(runs))

    def forwards(shared: Any, runs: Any) -> Any:
        return (play(shared, run) for run in runs)

    one, other = InMemory(), InMemory()
    play_all(sweep, one, backwards, lambda *_: None)
    play_all(sweep, other, forwards, lambda *_: None)
    assert to_csv(tabulated(sweep, one)) == to_csv(tabulated(sweep, other))


def test_a_sweep_that_was_interrupted_goes_on_where_it_was(scenario: Path, tmp_path: Path, runs: int) -> None:
    whole = table_of(scenario, *varied(runs))
    out = tmp_path / "out"
    with started(scenario, *varied(runs), "--out", out) as (command, _, errors):
        wait_until(lambda: len(kept(out)) >= 2 or command.poll() is not None, "the first results")
        workers = children(command.pid)
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 1
        errors.seek(0)
        said = errors.read().decode()
    there = {path: path.stat().st_mtime_ns for path in kept(out)}
    assert said == (
        f"error: interrupted: {len(there)} of {runs} runs were played;"
        f" their results are in {out}, and the same command goes on\n"
    )
    assert 2 <= len(there) < runs
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    assert not list((out / "results").glob("*.partial"))
    for path in there:
        assert json.loads(path.read_bytes())["scenario"] == "tiny"

    assert table_of(scenario, *varied(runs), "--out", out) == whole
    assert len(kept(out)) == runs
    assert {path: path.stat().st_mtime_ns for path in there} == there
    index = json.loads((out / "sweep.json").read_text())["runs"]
    assert sorted(out / run["result"] for run in index) == kept(out)


def test_a_worker_killed_in_the_middle_of_a_command_changes_nothing(
    scenario: Path, tmp_path: Path, runs: int
) -> None:
    out = tmp_path / "out"
    with started(scenario, *varied(runs), "--out", out, "--workers", "2") as (command, printed, _):
        wait_until(lambda: len(kept(out)) >= 2 or command.poll() is not None, "the first results")
        for pid in children(command.pid)[:1]:
            kill(pid)
        assert command.wait(600) == 0
        printed.seek(0)
        assert printed.read().decode() == table_of(scenario, *varied(runs), "--workers", "1")
    assert len(kept(out)) == runs


def test_no_worker_outlives_a_sweep_that_is_killed(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with started(scenario, *varied(200), "--out", out, "--workers", "2") as (command, _, _):
        wait_until(lambda: len(kept(out)) >= 2, "the first results")
        workers = children(command.pid)
        assert len(workers) == 2
        command.kill()
        command.wait()
        wait_until(lambda: not [pid for pid in workers if Path(f"/proc/{pid}").exists()], "workers to end")


def test_what_is_no_whole_result_is_played_again(scenario: Path, tmp_path: Path) -> None:
    sweep = swept(scenario)
    results = InFolder(tmp_path / "out")
    encoded = play(sweep.shared, sweep.runs[0]).result
    path = results.path(sweep.runs[0].key)
    for cut in (b"", encoded[: len(encoded) // 2], encoded[:-2]):
        path.write_bytes(cut)
        assert results.result(sweep.runs[0].key) is None
    path.with_name(f".{path.name}.1.partial").write_bytes(encoded)
    path.unlink()
    assert results.result(sweep.runs[0].key) is None
    played: list[str] = []

    def place(shared: Any, runs: Any) -> Any:
        for run in runs:
            played.append(run.id)
            yield play(shared, run)

    play_all(sweep, results, place, lambda *_: None)
    play_all(sweep, results, place, lambda *_: None)
    assert played == [run.id for run in sweep.runs]


def test_results_are_kept_under_all_that_they_depend_on(scenario: Path, tmp_path: Path) -> None:
    trace = tmp_path / "pods.csv"
    trace.write_text("at,runs_for,cpu\n5,60,1\n")
    scenario.write_text(SCENARIO + "  - {name: traced, trace: pods.csv}\n")

    def keys(*parameters: str) -> set[str]:
        found: list[Run] = list(swept(scenario, *parameters).runs)
        return {run.key for run in found}

    before = keys()
    assert keys("seed=1..4", "nodeGroups.0.nodes=4,2") == before
    assert keys("nodeGroups.big.nodes=2,4,6", "seed=1..5") > before
    trace.write_text("at,runs_for,cpu\n5,60,2\n")
    assert not keys() & before
    trace.write_text("at,runs_for,cpu\n5,60,1\n")
    assert keys() == before
    scenario.write_text(scenario.read_text().replace("runsFor: 20m", "runsFor: 21m"))
    assert not keys() & before
    assert key({}, {}, "0.1.0") != key({}, {}, "0.1.1")


def test_a_worker_needs_none_of_the_files(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text("at,runs_for,cpu\n5,60,1\n")
    objects = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    (tmp_path / "objects.json").write_text(json.dumps(objects))
    scenario.write_text(SCENARIO + "  - {name: traced, trace: pods.csv}\n  objects: [objects.json]\n")
    sweep = swept(scenario, "seed=1,2")
    for name in ("pods.csv", "objects.json", "tiny.yaml"):
        (tmp_path / name).unlink()
    played = list(play_locally(sweep.shared, sweep.runs, 1))
    assert [one.error for one in played] == ["", ""]
    assert json.loads(played[0].result)["pods"]["placed"] > 1
