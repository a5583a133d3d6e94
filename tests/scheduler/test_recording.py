"""A recording is replayed to the same decisions, byte by byte; every segment stands alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from fairlead.cli.replay import command
from fairlead.doors.scheduler.configuration import RecordSection
from fairlead.doors.scheduler.recording import Recorder, lines_of, replay, segments_of
from fairlead.engine.core.core import Core
from fairlead.engine.planning.settings import Settings
from fairlead.errors import BadInput
from fairlead.simulation.imports.recording import import_recording
from fairlead.simulation.scenario.material import load
from fairlead.simulation.simulate.simulation import simulate
from support.cluster_of import seen
from support.scheduler import Shop, aside, in_process
from support.units import EPOCH, node, pod

NOW = EPOCH.timestamp()


def record(path: Path, *turns: list[dict], segments: int = 4, settings: Settings | None = None) -> None:
    settings = settings or Settings()
    recorder = Recorder(RecordSection(str(path), 10_000, segments), settings)
    core = Core(settings)
    for index, things in enumerate(turns):
        events = [seen(thing) for thing in things]
        recorder.turn(NOW + index, events, core.handle(events, NOW + index))
    recorder.close()


def test_what_was_decided_is_decided_again(tmp_path: Path):
    record(tmp_path / "r", [node("n"), pod("a")], [pod("b", cpu=9)])
    found = replay(segments_of(tmp_path / "r"))
    assert found.difference is None
    assert (found.segments, found.turns, found.events, found.actions) == (1, 2, 3, 2)


def test_a_recording_of_before_actions_brought_anything_along_is_decided_again() -> None:
    """Made by a version whose actions were no more than decisions: binds with volumes, holds, evictions."""
    found = replay([Path(__file__).parent / "recordings" / "format-2.jsonl"])
    assert found.difference is None
    assert (found.turns, found.events, found.actions) == (14, 21, 9)


def test_what_actions_bring_along_is_not_recorded(tmp_path: Path):
    record(tmp_path / "r", [node("n"), pod("a", cpu=9)])
    line = msgspec.json.decode((tmp_path / "r").read_bytes().splitlines()[1])
    (hold,) = line["actions"]
    assert sorted(hold) == ["action", "message", "pod", "uid", "unit", "unschedulable"]


def test_only_its_owner_may_read_a_recording(tmp_path: Path):
    before = os.umask(0)
    try:
        Recorder(RecordSection(str(tmp_path / "log"), 1000, 2), Settings()).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_a_decision_that_was_changed_is_found(tmp_path: Path):
    record(tmp_path / "r", [node("n"), node("m"), pod("a")])
    text = (tmp_path / "r").read_text()
    (tmp_path / "r").write_text(text.replace('"node":"m"', '"node":"n"'))
    found = replay(segments_of(tmp_path / "r"))
    assert found.difference is not None
    assert found.difference.line == 2
    answer = CliRunner().invoke(command, [str(tmp_path / "r")])
    assert answer.exit_code == 1
    assert "differs" in answer.output


def test_older_segments_come_first_and_the_oldest_go(tmp_path: Path):
    for number in range(4):
        record(tmp_path / "r", [node(f"n{number}")], segments=3)
    found = segments_of(tmp_path / "r")
    assert [path.name for path in found] == ["r.2", "r.1", "r"]
    assert ["n1" in path.read_text() for path in found] == [True, False, False]


def test_a_segment_that_was_cut_off_is_replayed_up_to_there(tmp_path: Path):
    record(tmp_path / "r", [node("n")], [pod("a")])
    whole = (tmp_path / "r").read_bytes()
    (tmp_path / "r").write_bytes(whole[:-20])
    assert replay([tmp_path / "r"]).turns == 1


def test_what_is_no_recording_is_refused(tmp_path: Path):
    with pytest.raises(BadInput, match="no such recording"):
        segments_of(tmp_path / "nothing")
    (tmp_path / "r").write_text("hello\n")
    with pytest.raises(BadInput, match="line 1"):
        replay([tmp_path / "r"])


async def test_a_live_scheduler_is_recorded_without_its_pods_secrets(ours: Shop, tmp_path: Path):
    await aside(ours.cluster.add_nodes, 2, cpu=1)
    path = tmp_path / "recording"
    async with in_process(ours, record__file=str(path)):
        made = ours.pod("low", priority=1)
        made["metadata"]["annotations"]["vault.example/token"] = "annotated-secret"
        made["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "env-secret"}]
        await aside(ours.cluster.create, made)
        await aside(ours.bound, "low")
        for name in ("a", "b"):
            await aside(ours.add, name, priority=9, gang="g", minimum=2)
        await aside(ours.bound, "a", "b")
    assert "secret" not in path.read_text()
    found = replay(segments_of(path))
    assert found.difference is None
    assert found.actions >= 4


async def test_a_leader_that_cannot_write_its_recording_ends_and_says_why(ours: Shop, tmp_path: Path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "recording"
    with pytest.raises(BadInput, match=rf"record\.file: {path}: "):
        async with in_process(ours, record__file=str(path), leaderElection__enabled=True):
            pass


async def test_a_full_segment_is_followed_by_one_that_stands_alone(ours: Shop, tmp_path: Path):
    await aside(ours.cluster.add_nodes, 1, cpu=8)
    path = tmp_path / "recording"
    async with in_process(ours, record__file=str(path), record__segmentBytes=4096, record__segments=100):
        for index in range(6):
            await aside(ours.add, f"p{index}")
            await aside(ours.bound, f"p{index}")
    segments = segments_of(path)
    assert len(segments) > 2
    for segment in segments:
        assert replay([segment]).difference is None


async def test_a_recording_of_a_live_scheduler_is_played_as_a_scenario(ours: Shop, tmp_path: Path):
    cluster = ours.cluster
    # A recording has the pods of all namespaces: one of an earlier test that is leaving would be in it, too.
    await aside(
        cluster.wait,
        lambda: not cluster.list("Pod", namespace=None)["items"],
        "the pods of earlier tests to be gone",
    )
    await aside(cluster.add_nodes, 2, cpu=2)
    path = tmp_path / "recording"
    async with in_process(ours, record__file=str(path)):
        for name in ("a", "b"):
            await aside(ours.add, name, priority=9, gang="g", minimum=2)
        await aside(ours.bound, "a", "b")
        await aside(ours.add, "single")
        await aside(ours.bound, "single")
    draft = import_recording(map(lines_of, segments_of(path)), name="live")
    for name, text in draft.files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "scenario.yaml").write_text(draft.text("a test"))
    found = simulate(load(tmp_path / "scenario.yaml"))
    assert (found.pods.arrived, found.pods.running, found.pods.pending) == (3, 3, 0)
    assert sum(group.at_end for group in found.groups) == 2
