"""A long-running command of ours as a process beside a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from support.command import Command, start_command
from support.pauses import pause
from support.wire import PATIENCE_S


def kubeconfig_of(server: str, folder: Path) -> Path:
    """A kubeconfig for a server that asks nobody who they are, or for none at all."""
    config = {
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


class LoggedProcess:
    """A running process of ours; its log is JSON lines."""

    def __init__(self, name: str, command: Sequence[str | Path], **how: Any) -> None:
        """`how` goes to `subprocess.Popen`."""
        self._folder = tempfile.TemporaryDirectory(prefix=f"fairlead-{name}-")
        self.folder = Path(self._folder.name)
        self._log = self.folder / "log"
        self._read = 0
        self._lines: list[dict[str, Any]] = []
        with self._log.open("wb") as log:
            self._process = self._start(command, log, **how)

    def _start(
        self, command: Sequence[str | Path], log: BinaryIO, **how: Any
    ) -> subprocess.Popen[bytes] | Command:
        return subprocess.Popen(command, stderr=log, stdout=log, **how)

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self, event: str | None = None) -> list[dict[str, Any]]:
        """What it said (about one kind of event), in order."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            new, _, _ = log.read().rpartition(b"\n")  # the last line may still be being written
        if new:
            self._read += len(new) + 1
            self._lines += [json.loads(line) for line in new.splitlines() if line.startswith(b"{")]
        return [line for line in self._lines if event is None or line["event"] == event]

    def wait_for(self, event: str, number: int = 1) -> list[dict[str, Any]]:
        """Wait until it has said something that many times."""
        began = time.monotonic()
        while len(found := self.log(event)) < number:
            waited_s = time.monotonic() - began
            assert self._process.poll() is None, f"it ended: {self.text()}"
            assert waited_s < 2 * PATIENCE_S, f"it never said {event}: {self.text()}"
            pause(waited_s)
        return found

    def text(self) -> str:
        return self._log.read_text()[-4000:]

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """End it as a cluster does, and return its exit code."""
        if self._process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end: {self.text()}") from None

    def ended(self) -> int:
        """Wait until it has ended by itself, and return its exit code."""
        return self._process.wait(PATIENCE_S)

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()
        self._folder.cleanup()


class DoorProcess(LoggedProcess):
    """A running ``fairlead COMMAND``."""

    def __init__(self, kubeconfig: Path, command: str, *arguments: str) -> None:
        super().__init__(command, [command, f"--kubeconfig={kubeconfig}", *arguments])

    def _start(self, command: Sequence[str | Path], log: BinaryIO, **how: Any) -> Command:
        return start_command(*command, stdout=log.fileno(), stderr=log.fileno(), **how)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
