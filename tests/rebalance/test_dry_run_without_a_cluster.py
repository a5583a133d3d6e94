"""``rebalance --dry-run`` on a cluster that does not answer, or lets it read nothing: one line, in time."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from pathlib import Path

import structlog

from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.client.discovery import served_at_last
from fairlead.client.reflector import Reflector
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known
from support.command import run_command
from support.door import kubeconfig_of
from support.forbidding import forbidding


def dry_run(kubeconfig: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return run_command("rebalance", "--dry-run", f"--kubeconfig={kubeconfig}", *flags, timeout=120)


def test_a_cluster_that_never_answers_is_given_up_after_the_timeout(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = dry_run(kubeconfig_of(url, tmp_path), "--timeout=1s")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"error: {url} did not answer within 1s"]


def test_an_address_where_nothing_listens_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    done = dry_run(kubeconfig_of(url, tmp_path), "--timeout=1s")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert url in done.stderr


def test_missing_rights_are_named_in_one_line(tmp_path: Path) -> None:
    with forbidding(tmp_path) as kubeconfig:
        done = dry_run(kubeconfig)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "may not list" in line
    for plural in ("pods", "nodes", "poddisruptionbudgets"):
        assert plural in line


async def test_a_right_that_is_missing_for_long_is_one_line_in_the_log(tmp_path: Path) -> None:
    """However often it is asked for: kinds, discovery."""
    with forbidding(tmp_path) as kubeconfig, structlog.testing.capture_logs() as logs:
        async with Connection(load(kubeconfig)) as connection:
            client = Client(connection)
            reflector = Reflector(client, known("Pod"), Pod, rng=client.rng)
            watching = asyncio.ensure_future(reflector.run(lambda _: None))
            asking = asyncio.ensure_future(served_at_last(client))
            while reflector.counters.broken < 4:
                assert not watching.done()
                await asyncio.sleep(0.01)
            for task in (watching, asking):
                task.cancel()
            await asyncio.gather(watching, asking, return_exceptions=True)
    said = [one for one in logs if one["log_level"] != "debug"]
    assert sorted(one["event"] for one in said) == ["discovery_failed", "right_missing"]
    (missing,) = [one for one in said if one["event"] == "right_missing"]
    assert missing["right"] == "list and watch pods"
