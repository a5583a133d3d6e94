"""What a user sees on a terminal: stages that move, questions, colours; elsewhere, none of them."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time

from support.tenancy import Tenancy
from support.wire import PATIENCE_S


def on_terminal(tenancy: Tenancy, verb: str, *arguments: str, typed: str = "") -> tuple[int, str]:
    """The command with a terminal on all three streams; its exit code, and all that the terminal got."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fairlead", *tenancy.arguments(verb, *arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160"},
    )
    os.close(theirs)
    got = b""
    deadline = time.monotonic() + 3 * PATIENCE_S
    try:
        os.write(ours, typed.encode())
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 1.0)[0]:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # Linux' way to say that the other side is closed
                    break
                got += part
        return process.wait(PATIENCE_S), got.decode()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)


def bare(text: str) -> str:
    """Without the terminal's own commands."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_stages_are_shown_while_it_waits(tenancy: Tenancy) -> None:
    (node,) = tenancy.cluster.add_nodes(1, pods=10)
    code, said = on_terminal(tenancy, "create", "-t", "small", "--name", "a", "--wait", "--timeout", "1m")
    assert code == 0, said
    assert "\x1b[" in said
    assert "pending → node requested → node ready → scheduled → running" in bare(said)
    assert f"✓ {tenancy.home}/a" in bare(said)
    assert node in said


def test_a_deletion_is_asked_about(tenancy: Tenancy) -> None:
    tenancy.create("a")
    code, said = on_terminal(tenancy, "delete", "--name", "a", "-n", tenancy.home, typed="n\n")
    assert code == 1
    assert "Delete 1 tenant? [y/N]" in said
    assert len(tenancy.objects("a")) == 6
    code, said = on_terminal(tenancy, "delete", "--name", "a", "-n", tenancy.home, typed="y\n")
    assert code == 0, said
    assert tenancy.objects("a") == {}


def test_elsewhere_there_is_neither_colour_nor_movement(tenancy: Tenancy) -> None:
    tenancy.cluster.add_nodes(1, pods=10)
    done = tenancy.run("create", "-t", "small", "--name", "a", "--wait", "--timeout", "1m")
    assert done.returncode == 0, done.stderr
    for text in (done.stdout, done.stderr, tenancy.ok("show", "a", "-n", tenancy.home)):
        assert "\x1b" not in text
