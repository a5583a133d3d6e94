from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.cli.demo import command
from support.rig import programs

MAIN = Path(sys.executable).with_name("fairlead")
STORY = (
    "examples/priorities.yaml arrives",
    "must make room: Preempted by fairlead-priorities/group-a",
    "starts whole: 3 members",
    "cannot be placed: gang fairlead-split-gang/training: 0 of 3 members fit",
    "dies, and with it a member of the gang",
    "is whole again: 3 members",
    "nothing is left to repair",
)


def in_order(output: str, *said: str) -> bool:
    """Whether all of it was said, one after the other."""
    at = 0
    for each in said:
        at = output.find(each, at)
        if at < 0:
            return False
    return True


@contextmanager
def demo(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [MAIN, "demo", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str], text: str) -> str:
    """Wait for the line with that text."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"it never said {text!r}")


def interrupted(process: subprocess.Popen[str]) -> str:
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert err == ""
    return out


def test_the_fast_demo_tells_the_whole_story_and_ends_well() -> None:
    result = CliRunner().invoke(command, ["--fast"])
    assert result.exit_code == 0, result.output
    assert in_order(result.output, *STORY), result.output


def test_the_fast_demo_is_the_same_each_time_and_never_cuts_a_line() -> None:
    first, second = (CliRunner().invoke(command, ["--fast"]).output for _ in range(2))
    assert first == second
    assert max(len(line) for line in first.splitlines()) > 100
    assert "\x1b" not in first


def test_virtual_time_neither_stays_nor_is_real() -> None:
    for flag in ("--stay", "--real"):
        assert CliRunner().invoke(command, ["--fast", flag]).exit_code == 2


def test_the_demo_ends_cleanly_when_interrupted() -> None:
    with demo("--stay") as process:
        said(process, "listens on")
        assert "Interrupted" in interrupted(process)


@pytest.mark.slow
def test_without_a_terminal_the_demo_ends_by_itself() -> None:
    done = subprocess.run([MAIN, "demo"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert in_order(done.stdout, *STORY), done.stdout


@pytest.mark.slow
def test_the_cluster_stays_up_for_kubectl_and_takes_its_kubeconfig_along() -> None:
    (kubectl,) = programs("kubectl")
    with demo("--stay") as process:
        words = said(process, "stays up").split()
        kubeconfig = words[words.index("--kubeconfig") + 1]
        asked = [kubectl, "--kubeconfig", kubeconfig, "get", "pods", "-A", "--no-headers"]
        seen = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
        assert seen.stdout.count(" Running ") == 5, seen.stdout
        interrupted(process)
    assert not Path(kubeconfig).exists()


@pytest.mark.real
@pytest.mark.slow
def test_the_same_story_is_told_on_a_real_control_plane() -> None:
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
    done = subprocess.run([MAIN, "demo", "--real"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert in_order(done.stdout, *STORY[:1], *STORY[2:]), done.stdout
