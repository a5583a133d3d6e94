"""The real kubectl works on the embedded cluster as it does on the real one.

Each story is told to both at once: exit codes are equal at every step, what `get` prints is equal, and
so are the objects at the end, but for what clusters draw at random.
"""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kubectl.sameness import difference, same_output
from kubectl.stories import POD, STORIES, Story
from kubectl.teller import Teller

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_ends_the_same_on_both(story: Story, tellers: list[Teller], tmp_path: Path) -> None:
    namespace = "story-" + "".join(c if c.isalnum() else "-" for c in story.name).strip("-").replace(
        "--", "-"
    )
    with ThreadPoolExecutor(len(tellers)) as pool:
        tales = list(pool.map(lambda one: one.tell(story, tmp_path / one.name, namespace), tellers))
    (left, left_objects), (right, right_objects) = tales
    nodes = tellers[0].nodes
    for ours, theirs in zip(left, right, strict=True):
        command = ours.command.replace(str(tmp_path / "embedded"), "{f}").replace(nodes[0], "{node}")
        assert ours.code == theirs.code, f"{command}\nembedded: {ours}\nreal: {theirs}"
        if command.startswith(("get", "api-versions", "label", "annotate", "taint", "scale")):
            outputs = (same_output(command, told.out, nodes) for told in (ours, theirs))
            assert not (found := difference(*outputs)), f"{command}\n{found}"
    assert not (found := difference(left_objects, right_objects)), found


def test_a_watch_shows_a_pod_come_run_and_go(tellers: list[Teller]) -> None:
    with ThreadPoolExecutor(len(tellers)) as pool:
        seen = list(pool.map(_watch_a_pod, tellers))
    assert seen[0] == seen[1] == [("ADDED", "0/1", "Pending"), ("MODIFIED", "1/1", "Running"), ("DELETED",)]


def _watch_a_pod(teller: Teller) -> list[tuple[str, ...]]:
    teller.begin("watched")
    # A pod that is there before: its line says that the watch is on.
    gated = POD.replace("name: solo,", "name: gated,").replace(
        "spec:", "spec:\n  schedulingGates: [{name: x/y}]", 1
    )
    assert teller.run("create -n watched -f -", gated).code == 0
    command = [*teller.program, "get", "pods", "-n", "watched", "--watch", "--output-watch-events"]
    rows: list[tuple[str, ...]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        for line in watch.stdout:
            event, name, ready, status = line.split()[:4]
            if name == "gated":
                assert (event, status) == ("ADDED", "SchedulingGated")
                assert teller.run("create -n watched -f -", POD).code == 0
            elif name == "solo":
                if status == "Running" and event == "MODIFIED" and (event, ready, status) not in rows:
                    assert teller.run("delete -n watched pod solo --wait=false").code == 0
                rows.append((event, ready, status))
                if event == "DELETED":
                    break
        watch.kill()
    # How many updates there are between is the players' of kubelets.
    return [
        rows[0],
        *[row for row in rows if row[2] == "Running" and row[0] == "MODIFIED"][:1],
        (rows[-1][0],),
    ]
