"""Commands show what users of a cluster wrote; none of it reaches the terminal as a command to it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fairlead.rig.nodes import node_object
from support.command import run_command
from support.manifests import pod

CLEAR_SCREEN = "\x1b[2J\x1b]0;owned\x07\x9b31m"


@pytest.mark.parametrize("command", ["explain", "status", "queue", "gangs", "plan", "nodes"])
def test_a_terminal_acts_on_nothing_that_an_annotation_holds(tmp_path: Path, command: str) -> None:
    annotations = {"pod-group": f"g{CLEAR_SCREEN}", "priority": CLEAR_SCREEN}
    spec = {"schedulerName": "fairlead"}
    waiting = pod("web", spec=spec, namespace="shop", annotations=annotations)
    file = tmp_path / "state.yaml"
    file.write_text(yaml.safe_dump_all([node_object("n1"), waiting]))
    arguments = [command, *(["shop/web"] if command == "explain" else []), "-f", str(file)]
    done = run_command(*arguments)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert not {each for each in said if not each.isprintable() and each not in "\n\t"}
    if command in ("explain", "gangs"):
        assert r"g\x1b[2J" in said


def test_nor_on_what_an_error_quotes(tmp_path: Path) -> None:
    done = run_command("explain", f"shop/{CLEAR_SCREEN}", "-f", str(tmp_path / "none.yaml"))
    assert done.returncode != 0
    assert not {each for each in done.stderr if not each.isprintable() and each not in "\n\t"}
