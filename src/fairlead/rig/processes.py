"""Programs that end with the process that started them, with logs in files and readiness polled.

Invariant: a program started here is dead at most a few seconds after this Python process is, however it
dies. A `guard` process (see guard.py) is the programs' parent, so which thread starts them is no matter.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from fairlead.errors import RigError

_TAIL_BYTES = 3000
_POLL_S = 0.03
_LISTENING = range(20_000, 32_000)


class Guard:
    """Starts programs through one guard process; `close` kills them all.

    Calls may come from any thread; they are served one at a time.
    """

    def __init__(self, remove: Path | None = None) -> None:
        """`remove` is a folder that disappears with the last program."""
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py")), str(remove or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def start(
        self, name: str, argv: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None
    ) -> Program:
        """Start a program with nothing of our environment but what programs need everywhere, and `env`."""
        base = {
            key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR", "SSL_CERT_FILE") if key in os.environ
        }
        answer = self.ask(
            do="start",
            argv=[str(part) for part in argv],
            env=base | dict(env or {}),
            cwd=str(log.parent),
            log=str(log),
        )
        if "problem" in answer:
            raise RigError(f"{name} could not be started: {answer['problem']}")
        return Program(name=name, pid=answer["pid"], log=log, guard=self)

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request, one answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            try:
                stdin.write(json.dumps(request).encode() + b"\n")
                stdin.flush()
                line = stdout.readline()
            except (OSError, ValueError) as error:
                raise RigError(f"the guard of the control plane's programs is gone: {error}") from error
        if not line:
            raise RigError("the guard of the control plane's programs is gone, and with it the programs")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def close(self) -> None:
        """Kill everything, and return when it is gone."""
        with self._lock:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):  # unsent bytes to a guard that is gone
                        pipe.close()
        self._process.wait()

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Program:
    """One running program."""

    name: str
    pid: int
    log: Path
    guard: Guard

    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        code = self.guard.ask(do="poll", pid=self.pid)["code"]
        assert code is None or isinstance(code, int)
        return code

    def stop(self, *, with_signal: int = signal.SIGKILL, patience_s: float = 10.0) -> None:
        """End it; what does not heed the signal within `patience_s` is killed."""
        self.guard.ask(do="stop", pid=self.pid, signal=int(with_signal), patience_s=patience_s)

    def signal(self, number: int) -> None:
        """Send a signal, e.g. SIGSTOP to freeze it, and do not wait for what comes of it."""
        self.guard.ask(do="signal", pid=self.pid, signal=int(number))

    def tail(self) -> str:
        """The last lines of its log."""
        try:
            with self.log.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - _TAIL_BYTES))
                return log.read().decode(errors="replace")
        except OSError as error:
            return f"(no log: {error})"

    def wait_ready(self, ready: Callable[[], bool], *, timeout_s: float) -> None:
        """Until `ready` says so; a program that ended or takes too long is an error with its last words."""
        try:
            wait_until(ready, f"{self.name} to be ready", timeout_s=timeout_s, running=self)
        except RigError as error:
            raise RigError(f"{error}; the end of its log:\n{self.tail()}") from None


def wait_until(
    ready: Callable[[], bool], what: str, *, timeout_s: float, running: Program | None = None
) -> None:
    """Poll `ready`, more slowly the longer one answer takes; give up early when `running` has ended."""
    deadline = time.monotonic() + timeout_s
    while True:
        asked = time.monotonic()
        if ready():
            return
        now = time.monotonic()
        if running is not None and (code := running.exit_code()) is not None:
            raise RigError(f"{running.name} ended with code {code}")
        if now > deadline:
            raise RigError(f"timed out after {timeout_s:.0f} s waiting for {what}")
        time.sleep(max(_POLL_S, now - asked))


def answers(port: int, path: str, *, tls: ssl.SSLContext | None = None) -> bool:
    """Whether ``GET path`` on the loopback `port` answers 200."""
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        if tls is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=tls)
    )
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        return response.status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False  # not listening yet, or not yet speaking: what polling is for
    finally:
        connection.close()


def free_ports(number: int) -> list[int]:
    """Loopback ports that are free now.

    They are below those that outgoing connections get, so that only another listener could take one before
    it is used; it would have to pick the same of thousands.
    """
    sockets: list[socket.socket] = []
    try:
        for port in random.SystemRandom().sample(_LISTENING, len(_LISTENING)):
            if len(sockets) == number:
                break
            one = socket.socket()
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                one.close()  # taken
            else:
                sockets.append(one)
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
