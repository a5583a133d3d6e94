"""Programs end with whoever started them, however that one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fairlead.errors import RigError
from fairlead.rig.processes import Guard, wait_until
from support.rig import programs

SLEEP = ["/bin/sleep", "600"]


def runs(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_closing_the_guard_ends_what_it_started(tmp_path: Path) -> None:
    with Guard() as guard:
        program = guard.start("sleep", SLEEP, log=tmp_path / "log")
        assert runs(program.pid)

    assert not runs(program.pid)


def test_a_program_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    with Guard() as guard:
        started = []
        thread = threading.Thread(
            target=lambda: started.append(guard.start("sleep", SLEEP, log=tmp_path / "log"))
        )
        thread.start()
        thread.join()

        assert started[0].exit_code() is None


def test_killing_the_guard_itself_ends_the_programs(tmp_path: Path) -> None:
    guard = Guard()
    program = guard.start("sleep", SLEEP, log=tmp_path / "log")
    parent = int(Path(f"/proc/{program.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

    os.kill(parent, signal.SIGKILL)

    wait_until(lambda: not runs(program.pid), "the program to end", timeout_s=60)
    with pytest.raises(RigError, match="guard of the control plane's programs is gone"):
        program.exit_code()
    guard.close()


def test_a_program_that_ends_early_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with Guard() as guard:
        program = guard.start("sh", ["/bin/sh", "-c", "echo no such luck; exit 3"], log=tmp_path / "log")
        with pytest.raises(RigError, match=r"(?s)sh ended with code 3.*no such luck"):
            program.wait_ready(lambda: False, timeout_s=30)


def test_a_program_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with Guard() as guard, pytest.raises(RigError, match=r"ghost could not be started: .*No such file"):
        guard.start("ghost", [tmp_path / "ghost"], log=tmp_path / "log")


def test_a_program_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    with Guard() as guard:
        script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        program = guard.start("deaf", ["/bin/sh", "-c", script], log=tmp_path / "log")
        wait_until(lambda: "ready" in program.tail(), "the trap to be set", timeout_s=60)

        program.stop(with_signal=signal.SIGTERM, patience_s=0.1)

        assert program.exit_code() == -signal.SIGKILL


@pytest.mark.real
def test_kill_9_of_who_started_a_control_plane_leaves_nothing_behind() -> None:
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
    script = (
        "import sys\n"
        "from fairlead.rig.controlplane import ControlPlane\n"
        "plane = ControlPlane().start()\n"
        "plane.start_controller_manager()\n"
        "plane.start_kwok()\n"
        "print(plane.folder, *(program.pid for program in plane.programs.values()), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        folder, *pids = starter.stdout.readline().split()
        assert len(pids) == 4
        assert all(runs(int(pid)) for pid in pids)

        starter.kill()

    deadline = time.monotonic() + 60
    while any(runs(int(pid)) for pid in pids) or Path(folder).exists():
        assert time.monotonic() < deadline, "something is left after a minute"
        time.sleep(0.05)
