"""Files that are rewritten while a door runs, and that cannot be read at every look."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from structlog.testing import capture_logs

from fairlead.client.api import Client
from fairlead.doors import certificates
from fairlead.doors.certificates import Callers
from fairlead.feed import policies
from fairlead.feed.files import stamp_of
from fairlead.feed.policies import LivePolicies
from support.policies import plain_policy
from support.wire import PATIENCE_S


class Closed:
    """Has reading this one file fail for some time."""

    def __init__(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = file
        self.tries = 0
        self.closed = False
        read_text = Path.read_text

        def read(path: Path, *arguments: Any, **options: Any) -> str:
            if path == file and self.closed:
                self.tries += 1
                raise PermissionError(13, "Permission denied", str(file))
            return read_text(path, *arguments, **options)

        monkeypatch.setattr(Path, "read_text", read)
        for module in (policies, certificates):
            monkeypatch.setattr(module, "_LOOK_S", 0.01)

    async def rewritten(self, text: str) -> list[str]:
        """Write it while it cannot be read; what was logged of several looks at it."""
        self.closed = True
        self.file.write_text(text)
        with capture_logs() as told:
            await until(lambda: self.tries > 2)
        self.closed = False
        return [line["event"] for line in told]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.01)


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    running = asyncio.create_task(work)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_policies_that_cannot_be_read_for_a_moment_are_read_when_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump(plain_policy("one")))
    closed = Closed(file, monkeypatch)
    live = LivePolicies(cast(Client, None), file=str(file), cluster=False)
    async with beside(live.run()):
        assert await closed.rewritten(yaml.safe_dump(plain_policy("two"))) == ["policies_refused"]
        await until(lambda: [policy.name for policy in live.policies] == ["two"])


async def test_callers_that_cannot_be_read_for_a_moment_are_read_when_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, trusted = tmp_path / "callers.pem", list[str]()
    file.write_text("one")
    closed = Closed(file, monkeypatch)
    callers = Callers(str(file), trusted.append)
    callers.first()
    async with beside(callers.run()):
        assert await closed.rewritten("two") == ["callers_refused"]
        await until(lambda: trusted == ["one", "two"])


async def test_a_file_with_a_mistake_is_read_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, reads = tmp_path / "policies.yaml", list[str]()
    file.write_text(yaml.safe_dump(plain_policy("one")))
    monkeypatch.setattr(policies, "_LOOK_S", 0.01)
    live = LivePolicies(cast(Client, None), file=str(file), cluster=False)
    read = policies.read_file
    monkeypatch.setattr(policies, "read_file", lambda file: (reads.append(file), read(file))[1])
    async with beside(live.run()):
        with capture_logs() as told:
            file.write_text("a: [")
            await until(lambda: bool(told))
            await asyncio.sleep(0.1)
        # A look may fall between emptying and writing it.
        assert len(reads) == len(told) <= 2


def test_a_file_that_becomes_readable_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "callers.pem"
    file.write_text("one")
    before = stamp_of(str(file))
    time.sleep(0.05)  # file systems' clocks are coarse
    os.chmod(file, 0o640)
    assert stamp_of(str(file)) != before
