"""A leader in a process of its own, to be stopped and continued by a test: see test_suspension.py.

Leads, and creates ConfigMaps ``w0``, ``w1``, … through its fence for as long as it may, saying so. Its
times are Kubernetes' own divided by three.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys

from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.client.election import ApiLease, Election, Terms
from fairlead.errors import FairleadError, Unreachable
from fairlead.kube.resources import known

TERMS = Terms(lease_s=5, renew_s=3.5, retry_s=0.7, margin_s=0.3, least_s=0.1)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main(kubeconfig: str, namespace: str) -> None:
    async with Connection(load(kubeconfig)) as connection:
        client = Client(connection)
        election = Election(
            ApiLease(client, "fairlead", namespace),
            "stopped",
            rng=random.Random(),
            terms=TERMS,
            on_resume=connection.reset,
        )
        fenced = client.fenced(election.fence)

        async def lead() -> None:
            for number in itertools.count():
                metadata = {"name": f"w{number}", "namespace": namespace}
                try:
                    await fenced.create(known("ConfigMap"), {"metadata": metadata})
                    say(f"wrote w{number}")
                except Unreachable:
                    say("no answer")  # the one under way when it was stopped; then the next is tried

        await election.run(lead)


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except FairleadError as error:
        say(f"ended: {type(error).__name__}")
        sys.exit(3)
