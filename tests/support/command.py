"""``fairlead`` commands as processes of their own, forked from one that has imported the product.

What a behaviour needs of a process it has: a PID, signals, streams, an environment, a working folder, an exit
code. What it saves is the second of CPU that a new interpreter spends on imports, some eight hundred times
in a run. Commands as they are shipped are started by tests/deploy and tests/world/machinery/test_demo.py, and
where tests/cli and tests/docs need a shell.

Subtle: the process that forks has a single thread and has begun nothing (no loop, no connection), so a child
differs from ``python -m fairlead`` only in what it has imported; and at its end, when threads, exit functions
and garbage are done with, it leaves modules to the kernel: to take each apart costs an interpreter 50 ms.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["Command", "needs_no_shell", "run_command", "start_command"]

_STREAMS = 3
_STATUS = _STREAMS  # the fourth file that is sent: where the PID and then the exit code are reported
_REQUEST_BYTES = 1 << 18
_OF_SHELLS = re.compile(r"[|&;<>$`*?~{}()#\\\n]")


class Command:
    """A running ``fairlead``, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self._lock = threading.Lock()
        self.pid = int(status.recv(32))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for the signal that ended it; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        with self._lock:
            if self.returncode is None:
                self._status.settimeout(timeout)
                try:
                    said = self._status.recv(32)
                except (BlockingIOError, TimeoutError):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
                assert said, "the process that forks commands is gone"
                self.returncode = int(said)
                self._status.close()
            return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start_command(
    *arguments: str | Path,
    stdin: int = -1,
    stdout: int,
    stderr: int,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Command:
    """Start ``fairlead ARGUMENTS``; the streams are file descriptors, without `stdin` there is no input."""
    request = {
        "arguments": [str(one) for one in arguments],
        "cwd": str(cwd or Path.cwd()),
        "env": dict(os.environ if env is None else env),
    }
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with open(os.devnull, "rb") as nothing, theirs:
        files = [nothing.fileno() if stdin < 0 else stdin, stdout, stderr, theirs.fileno()]
        socket.send_fds(_forker(), [json.dumps(request).encode()], files)
    return Command(ours)


def run_command(
    *arguments: str | Path,
    input: str | None = None,  # noqa: A002 (as `subprocess.run` has it)
    timeout: float | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``fairlead ARGUMENTS`` to its end; what it said, and its exit code."""
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write((input or "").encode())
        stdin.seek(0)
        command = start_command(
            *arguments,
            stdin=-1 if input is None else stdin.fileno(),
            stdout=stdout.fileno(),
            stderr=stderr.fileno(),
            cwd=cwd,
            env=env,
        )
        try:
            code = command.wait(timeout)
        except BaseException:
            command.kill()
            command.wait()
            raise
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(
            ["fairlead", *map(str, arguments)], code, stdout.read().decode(), stderr.read().decode()
        )


def needs_no_shell(line: str) -> bool:
    """Whether a line for a shell is a ``fairlead`` command and nothing more."""
    return line.startswith("fairlead ") and not _OF_SHELLS.search(line)


@cache
def _forker() -> socket.socket:
    """The connection to the process that forks, which is started once and ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# What follows runs in the process that forks.


def _become_a_command(asked: socket.socket) -> None:
    """Fork a process for each request until there are no more; only such a process returns.

    That one has ended is learnt from SIGCHLD: not every build of Python has `os.pidfd_open`.
    """
    running: dict[int, socket.socket] = {}  # by PID
    ended, wakes = socket.socketpair()
    ended.setblocking(False)
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    with selectors.DefaultSelector() as watched:
        watched.register(asked, selectors.EVENT_READ)
        watched.register(ended, selectors.EVENT_READ)
        while True:
            for key, _ in watched.select():
                if key.fileobj is asked:
                    data, files = _received(asked)
                    if not data:
                        _end(running)
                    pid = os.fork()
                    if pid == 0:
                        signal.set_wakeup_fd(-1)
                        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                        for other in (asked, ended, wakes, *running.values()):
                            other.close()
                        _take_on(json.loads(data), files)
                        return
                    for file in files[:_STREAMS]:
                        os.close(file)
                    running[pid] = socket.socket(fileno=files[_STATUS])
                    _report(running[pid], pid)
                else:
                    ended.recv(1 << 12)
                    for pid, code in _ended():
                        with running.pop(pid) as status:
                            _report(status, code)


def _ended() -> Iterator[tuple[int, int]]:
    """The processes that have ended since the last look, with their exit codes."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found[0], os.waitstatus_to_exitcode(found[1])


def _received(asked: socket.socket) -> tuple[bytes, array.array[int]]:
    files = array.array("i")
    data, sent, flags, _ = asked.recvmsg(_REQUEST_BYTES, socket.CMSG_SPACE((_STATUS + 1) * files.itemsize))
    assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC), "a request that is too long"
    for _, _, raw in sent:
        files.frombytes(raw)
    return data, files


def _report(status: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for this one
        status.send(str(number).encode())


def _end(running: Iterable[int]) -> None:
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def _take_on(request: dict[str, Any], files: array.array[int]) -> None:
    """Be the process that was asked for, up to its first line."""
    for number in range(_STREAMS):
        os.dup2(files[number], number)
    for file in files:
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["fairlead", *request["arguments"]]


def _leave(code: int) -> NoReturn:
    """End as an interpreter does, up to where it takes modules apart."""
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _import_everything() -> None:
    import fairlead

    for module in pkgutil.walk_packages(fairlead.__path__, "fairlead."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    os.setsid()  # Ctrl-C is for who asks
    _import_everything()
    from fairlead.cli import main

    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _become_a_command(connection)
    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, int):
            _leave(end.code)
        raise
