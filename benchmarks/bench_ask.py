"""How long do `fairlead explain` and `fairlead status` take on 5,000 nodes and 50,000 pods, in what memory?

The API server is a real one. What it takes to list the same objects, page by page and undecoded, is measured
beside them in the same rounds, by a process of its own, too: the target is about what comes on top.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.filled import NODES, PODS, SYSTEM, filled, pod
from benchmarks.rows import Row, main
from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.client.discovery import served
from fairlead.feed.cluster import queries_of

ROUNDS = 3
MORE_S = 1.0


def run() -> list[Row]:
    """All rows."""
    with filled() as config:
        asked = f"ns-{PODS % 20}/{pod(PODS)['metadata']['name']}"
        commands = {
            "the lists alone, undecoded": [sys.executable, "-m", "benchmarks.bench_ask", str(config)],
            "fairlead explain": [sys.executable, "-m", "fairlead", "explain", asked],
            "fairlead status": [sys.executable, "-m", "fairlead", "status"],
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        held: dict[str, int] = {}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                seconds, kilobytes = _measured(command, config)
                taken[name].append(seconds)
                held[name] = max(held.get(name, 0), kilobytes)
    return list(_rows(taken, held))


def _rows(taken: dict[str, list[float]], held: dict[str, int]) -> list[Row]:
    lists, *answers = taken
    alone = statistics.median(taken[lists])
    rows = [Row(f"{lists}, {NODES} nodes, {PODS} pods", f"{alone:.2f} s", "-", True)]
    for name in answers:
        more = statistics.median(taken[name]) - alone
        said = f"{more:+.2f} s, {held[name] / 1024:.0f} MB at most"
        rows.append(Row(f"  {name}, on top", said, f"at most {MORE_S:g} s more", more <= MORE_S))
    return rows


def _measured(command: list[str], config: Path) -> tuple[float, int]:
    """Seconds that a process takes, and the kilobytes that it holds at most."""
    env = {**os.environ, "KUBECONFIG": str(config)}
    with tempfile.TemporaryFile() as out:
        began = time.monotonic()
        pid = os.posix_spawnp(
            command[0],
            command,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)],
        )
        _, status, usage = os.wait4(pid, 0)
        seconds = time.monotonic() - began
        out.seek(0)
        if status:
            raise RuntimeError(f"{command} failed: {out.read().decode()[-2000:]}")
    return seconds, usage.ru_maxrss


async def _lists(config: str) -> int:
    """Read the same lists, and nothing more; how many objects there were."""
    async with Connection(load(config)) as connection:
        client = Client(connection)

        async def read(query: Any) -> int:
            pages = client.pages(query.resource, query.namespace or None)
            return sum([len(page.items) async for page in pages])

        queries = queries_of(await served(client), SYSTEM)
        return sum(await asyncio.gather(*map(read, queries)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(asyncio.run(_lists(sys.argv[1])))
    else:
        main(run)
