"""A scenario that is played in a moment, sweeps over it, and what to do to one while it runs."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from support.command import Command, run_command, start_command
from support.wire import PATIENCE_S

__all__ = ["SCENARIO", "children", "kept", "kill", "started", "table_of", "varied", "wait_until"]

SCENARIO = """
apiVersion: fairlead.dev/v1alpha1
kind: Scenario
metadata: {name: tiny}
spec:
  duration: 2h
  sampleEvery: 30m
  nodeGroups:
  - {name: big, nodes: 2, resources: {cpu: 4, memory: 8Gi}, pricePerHour: 0.5}
  arrivals:
  - {name: train, perHour: 20, pods: 2, requests: {cpu: 1}, runsFor: 20m, runTimes: exponential}
"""


def varied(runs: int) -> tuple[str, ...]:
    """Arguments that make so many runs of it, an even number."""
    return "--vary", "nodeGroups.big.nodes=2,4", "--vary", f"seed=1..{runs // 2}", "-o", "csv"


def table_of(*arguments: str | Path) -> str:
    """What a sweep prints in the end."""
    done = run_command("sweep", *arguments, timeout=10 * PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def started(*arguments: str | Path) -> Iterator[tuple[Command, IO[bytes], IO[bytes]]]:
    """A sweep that runs, its standard output and its standard error."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        command = start_command("sweep", *arguments, stdout=out.fileno(), stderr=errors.fileno())
        try:
            yield command, out, errors
        finally:
            command.kill()
            command.wait()


def kept(folder: Path) -> list[Path]:
    """The results that a folder has."""
    return sorted((folder / "results").glob("[!.]*.json"))


def children(pid: int) -> list[int]:
    """The processes that a process has started and that run."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = each.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has ended meanwhile
        if int(parent) == pid and state != "Z":
            found.append(int(each.parent.name))
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def wait_until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 4 * PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(0.01)
