"""A leader that is really stopped, past its lease, writes nothing when it is continued."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlead.client.election import ApiLease, Election, Terms
from fairlead.kube.resources import known

if TYPE_CHECKING:
    from client.conftest import Through

MAPS = known("ConfigMap")
PATIENT = Terms(lease_s=60, renew_s=40, retry_s=0.5)  # the other must not lose what it took meanwhile


async def written(through: Through) -> set[str]:
    listing = await through.client.list(MAPS, through.namespace)
    return {name for item in listing.items if (name := item["metadata"]["name"]).startswith("w")}


@pytest.mark.slow
async def test_a_stopped_leader_writes_nothing_after_another_took_over(through: Through) -> None:
    async with asyncio.timeout(60):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("leader.py")),
            str(through.cluster.kubeconfig),
            through.namespace,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            while not (line := await process.stdout.readline()).startswith(b"wrote w5"):
                assert line, "it ended before it was stopped"
            process.send_signal(signal.SIGSTOP)  # in the middle of writing, as fast as it can

            lease = ApiLease(through.client, "fairlead", through.namespace)
            other = Election(lease, "other", rng=random.Random(1), terms=PATIENT)
            before: set[str] = set()
            after: set[str] = set()

            async def lead() -> None:
                nonlocal before, after
                before = await written(through)
                process.send_signal(signal.SIGCONT)
                rest = await process.stdout.read() if process.stdout else b""
                assert b"ended: LeaseLost" in rest, rest.decode()
                after = await written(through)

            await other.run(lead)
            assert await process.wait() == 3
            assert len(before) >= 5
            # Stopped in the very system call that hands over a request, it finishes that; no more than that.
            assert before <= after
            assert len(after - before) <= 1
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
