"""The process that starts a control plane's programs and ends with its parent: run as a script of its own.

It reads one JSON request a line and answers each with one line. When its input ends, or its parent
is gone (even by SIGKILL), it kills every program and exits. It has a single thread on purpose: the
kernel's parent-death signal, which covers the guard's own death, is tied to the *thread* that forked.
Only the standard library is imported, so that it starts in milliseconds with ``python -I -S``.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_LOOK_S = 1.0


def main() -> None:
    """Serve requests until the input ends or the parent is gone."""
    folder = sys.argv[1]
    parent = os.getppid()
    os.setsid()  # Ctrl-C is for the process that started us; we follow when its end of the pipe closes
    programs: dict[int, subprocess.Popen[bytes]] = {}
    pending = b""
    try:
        while os.getppid() == parent:
            ready, _, _ = select.select([0], [], [], _LOOK_S)
            if not ready:
                continue
            chunk = os.read(0, 65536)
            if not chunk:
                break
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                answer = _serve(json.loads(line), programs)
                os.write(1, json.dumps(answer).encode() + b"\n")
    except BrokenPipeError:
        pass  # the asker left between asking and the answer: the same as the end of the input
    finally:
        for program in programs.values():
            program.kill()
        for program in programs.values():
            program.wait()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _serve(request: dict[str, Any], programs: dict[int, subprocess.Popen[bytes]]) -> dict[str, Any]:
    if request["do"] == "start":
        try:
            with open(request["log"], "ab") as log:
                program = subprocess.Popen(
                    request["argv"],
                    env=request["env"],
                    cwd=request["cwd"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    preexec_fn=_die_with_parent,  # noqa: PLW1509 (this process has one thread)
                )
        except OSError as error:
            return {"problem": str(error)}
        programs[program.pid] = program
        return {"pid": program.pid}
    program = programs[request["pid"]]
    if request["do"] == "stop":
        program.send_signal(request["signal"])
        try:
            program.wait(request["patience_s"])
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
    elif request["do"] == "signal":
        program.send_signal(request["signal"])
    return {"code": program.poll()}


_LIBC = ctypes.CDLL(None, use_errno=True)
_GUARD = os.getpid()


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != _GUARD:  # it died between fork and prctl: no signal will come
        os._exit(1)


if __name__ == "__main__":
    main()
