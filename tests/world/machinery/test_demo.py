from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.cli.demo import command


def test_the_fast_demo_tells_the_whole_story_and_ends_well() -> None:
    result = CliRunner().invoke(command, ["--fast"])
    assert result.exit_code == 0, result.output
    for said in (
        "A Deployment arrives",
        "best of 4 nodes that fit",
        "Kubelet stopped posting node status.",
        "cannot be placed: 0/4 nodes are available",
        "pod triggered scale-up: [{spare 0->1 (max: 2)}]",
        "nothing is left to repair",
    ):
        assert said in result.output


def test_the_fast_demo_is_the_same_each_time_and_never_cuts_a_line() -> None:
    first, second = (CliRunner().invoke(command, ["--fast"]).output for _ in range(2))
    assert first == second
    assert max(len(line) for line in first.splitlines()) > 100
    assert "\x1b" not in first


def test_the_demo_ends_cleanly_when_interrupted() -> None:
    main = Path(sys.executable).with_name("fairlead")
    with subprocess.Popen(
        [main, "demo", "--stay"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "listens on" in line:
                break
        os.kill(demo.pid, signal.SIGINT)
        out, err = demo.communicate(timeout=30)
    assert demo.returncode == 0, err
    assert err == ""
    assert "Interrupted" in out


@pytest.mark.slow
def test_without_a_terminal_the_demo_ends_by_itself() -> None:
    main = Path(sys.executable).with_name("fairlead")
    done = subprocess.run([main, "demo"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "nothing is left to repair" in done.stdout
