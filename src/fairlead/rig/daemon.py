"""Keeps one control plane running after the command that asked for it has ended.

``python -m fairlead.rig.daemon FOLDER …`` is what ``fairlead dev up`` leaves behind. It holds a lock on
``FOLDER/lock`` for as long as it lives, so whether one is running is asked of the kernel and never of a
stale file; its death by any means ends the control plane (see `processes`).
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from fairlead.errors import FairleadError, RigError
from fairlead.rig import build

OPTIONAL = ("scheduler", "extender", "webhook", "karpenter")

_STARTING_S = 3600.0  # the first start may build everything
_STOPPING_S = 15.0
_LOOKING_S = 2.0
_NODES = "nodes.json"


@dataclass(frozen=True, slots=True)
class RunningPlane:
    """A control plane that runs on its own."""

    pid: int
    url: str
    kubeconfig: str
    kubectl: str
    nodes: int
    described: str
    """What the nodes are, for a reader."""
    extras: tuple[str, ...]
    asked: str
    """Changes with what was asked for, nodes or extras."""
    programs: dict[str, int]
    since: float
    kubernetes: str = build.DEFAULT


def asked_for(nodes: Sequence[dict[str, Any]], extras: Sequence[str]) -> str:
    """What `RunningPlane.asked` is for these nodes and extras."""
    return hashlib.sha256(json.dumps([nodes, list(extras)], sort_keys=True).encode()).hexdigest()[:16]


def find(folder: Path) -> RunningPlane | None:
    """The control plane held in `folder`, None when there is none (or none yet)."""
    if _holder(folder) is None:
        return None
    try:
        data = json.loads((folder / "state.json").read_text())
    except FileNotFoundError:
        return None  # it is still starting
    return RunningPlane(**{**data, "extras": tuple(data["extras"])})


def start(
    folder: Path,
    *,
    nodes: Sequence[dict[str, Any]],
    described: str,
    extras: Sequence[str],
    kubernetes: str = build.DEFAULT,
    say: Callable[[str], None],
) -> RunningPlane:
    """Start one with these nodes, `described` for a reader, and return when it is ready.

    `say` receives its progress.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _NODES).write_text(json.dumps(nodes))
    log = folder / "hold.log"
    log.write_text("")
    with log.open("ab") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "fairlead.rig.daemon", str(folder)),
                *(f"--described={described}", f"--with={','.join(extras)}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, "FAIRLEAD_KUBERNETES": kubernetes},
        )
    last = "it said nothing"
    deadline = time.monotonic() + _STARTING_S
    with log.open() as progress:
        try:
            while True:
                ended = process.poll() is not None
                for line in progress:
                    last = line.rstrip()
                    say(last)
                held = find(folder)
                if held is not None and held.pid == process.pid:
                    return held
                if ended:
                    raise RigError(f"the control plane did not start: {last}; all it said is in {log}")
                if time.monotonic() > deadline:
                    raise RigError(f"the control plane is not ready after an hour; see {log}")
                time.sleep(0.05)
        except BaseException:
            process.kill()  # a half-started one would go unnoticed
            process.wait()
            raise
        finally:
            # It outlives us on purpose; Python would warn about a child left running.
            process.returncode = process.returncode if process.returncode is not None else 0


def release(folder: Path) -> bool:
    """End the control plane held in `folder` and remove what it left; False when there was none."""
    pid = _holder(folder)
    if pid is None:
        shutil.rmtree(folder / "rig", ignore_errors=True)  # of one whose holder was killed: keys, too
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + _STOPPING_S
        while time.monotonic() < deadline:
            if _holder(folder) != pid:
                return True
            time.sleep(0.05)
    raise RigError(f"process {pid}, which holds the control plane, does not end")


def _holder(folder: Path) -> int | None:
    """The process that holds the lock."""
    try:
        with (folder / "lock").open("r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read() or 0) or None
    except FileNotFoundError:
        pass  # none was ever started here
    return None


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[TextIO]:
    with (folder / "lock").open("a+") as lock:
        deadline = time.monotonic() + _LOOKING_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # A caller of `_holder` has the lock for an instant; only a holder keeps it.
                if time.monotonic() > deadline:
                    raise RigError("another control plane is being started here") from None
                time.sleep(0.01)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield lock


def _hold(folder: Path, *, described: str, extras: tuple[str, ...]) -> None:
    from fairlead.rig.components import extender_config
    from fairlead.rig.controlplane import ControlPlane

    state = folder / "state.json"
    nodes = json.loads((folder / _NODES).read_text())
    with _locked(folder):
        state.unlink(missing_ok=True)
        shutil.rmtree(folder / "rig", ignore_errors=True)
        # SIGTERM must unwind like Ctrl-C does, so that the folder is left tidy.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        kubectl = build.binary("kubectl")
        _say("starting etcd and kube-apiserver")
        with contextlib.ExitStack() as leaving:
            leaving.callback(shutil.rmtree, folder / "rig", ignore_errors=True)
            plane = leaving.enter_context(ControlPlane(folder=folder / "rig"))
            try:
                _say("starting kube-controller-manager and KWOK")
                plane.start_controller_manager()
                plane.start_kwok()
                plane.add_system_namespace()  # where a component started by hand keeps its lease
                if "webhook" in extras:
                    _say("starting Fairlead's webhook")
                    plane.start_webhook()
                asks: dict[str, Any] = {}
                if "extender" in extras:
                    _say("starting Fairlead's extender")
                    plane.start_extender()
                    asks = extender_config(plane.port("fairlead-extender"))
                if "scheduler" in extras:
                    _say("starting kube-scheduler")
                    plane.start_scheduler(asks)
                if "karpenter" in extras:
                    _say("starting Karpenter")
                    plane.start_karpenter()
                if nodes:
                    _say(f"adding {len(nodes)} nodes {described}")
                    plane.add_these_nodes(nodes)
                held = RunningPlane(
                    pid=os.getpid(),
                    url=plane.url,
                    kubeconfig=str(plane.kubeconfig),
                    kubectl=str(kubectl),
                    nodes=len(nodes),
                    described=described,
                    extras=extras,
                    asked=asked_for(nodes, extras),
                    programs={name: program.pid for name, program in plane.programs.items()},
                    since=time.time(),
                    kubernetes=build.version(),
                )
                unfinished = folder / "state.json.new"
                unfinished.write_text(json.dumps(asdict(held), indent=1))
                unfinished.rename(state)
                while True:
                    signal.pause()
            finally:
                state.unlink(missing_ok=True)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 (the log is its standard output, and `dev up` reads it)


def main() -> int:
    """Hold a control plane until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m fairlead.rig.daemon")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--described", required=True)
    parser.add_argument("--with", dest="extras", default="")
    given = parser.parse_args()
    extras = tuple(name for name in given.extras.split(",") if name)
    try:
        _hold(given.folder, described=given.described, extras=extras)
    except FairleadError as error:
        _say(f"{error}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
