"""Runs played by processes of this machine, each a new interpreter.

A process that dies takes down only the run that it was playing. That run is played once more in a new
process, because the first may have been ended by something else (lack of memory, a signal); then it has
failed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable
from multiprocessing.connection import Connection, wait

from fairlead.simulation.sweep.run import Played, Run, Shared

_TRIES = 2
_DYING_S = 5


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def play_locally(shared: Shared, runs: Iterable[Run], workers: int) -> Generator[Played, None, None]:
    """Each run's outcome, as they end. Closing the iterator ends the processes."""
    waiting = deque((run, _TRIES) for run in runs)
    idle: list[_Worker] = []
    busy: dict[Connection, _Worker] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = idle.pop() if idle else _Worker(shared)
                worker.take(*waiting.popleft())
                busy[worker.connection] = worker
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                worker = busy.pop(ready)
                run, tries = worker.given
                found = worker.outcome()
                if found is not None:
                    idle.append(worker)
                    yield found
                    continue
                how = worker.end(_DYING_S)
                if tries > 1:
                    waiting.appendleft((run, tries - 1))
                else:
                    yield Played(run.id, b"", f"its process {how}, twice")
    finally:
        for worker in (*idle, *busy.values()):
            worker.end()


class _Worker:
    """One process, and the run that it was given last.

    Invariant: it has at most one run at a time, so its death says which run was lost.
    """

    given: tuple[Run, int]

    def __init__(self, shared: Shared) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # -P: what lies in the current folder is not for import.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "fairlead.simulation.sweep.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.connection = Connection(ours.detach())
        self._send(shared)

    def take(self, run: Run, tries: int) -> None:
        """Give it a run."""
        self.given = run, tries
        self._send(run)

    def outcome(self) -> Played | None:
        """What came of the run; None where the process has died."""
        try:
            found = self.connection.recv()
        except (EOFError, OSError):
            return None
        assert isinstance(found, Played)
        return found

    def end(self, patience_s: float = 0) -> str:
        """End the process, unless it ends by itself meanwhile; how it ended."""
        self.connection.close()
        try:
            code = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def _send(self, what: Shared | Run) -> None:
        with contextlib.suppress(OSError):  # it has died, and `outcome` says so
            self.connection.send(what)
