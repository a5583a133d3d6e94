"""``fairlead demo`` itself: which cluster the story is told on, and how it ends."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine

import click
from rich.console import Console

from fairlead.cli.demo.stages import tell_fast, tell_live

__all__ = ["command"]


@click.command(epilog="Example: fairlead demo --fast")
@click.option("--fast", is_flag=True, help="In virtual time: the whole story in about a second.")
@click.option("--real", is_flag=True, help="On a real control plane, which is built when there is none yet.")
@click.option(
    "--stay/--no-stay", default=None, help="Keep the cluster up for kubectl (default: on a terminal)."
)
def command(*, fast: bool, real: bool, stay: bool | None) -> None:
    """Priorities, preemption, gangs and a dying node: the scheduler's story, told as it happens.

    A cluster comes up, the examples arrive, a low-priority pod makes room, a gang waits and then starts
    whole, a node dies and all is repaired.
    """
    if fast and (real or stay):
        raise click.UsageError("--fast is in virtual time, on a cluster that exists only while it is told")
    console = Console(highlight=False, soft_wrap=True)
    if fast:
        tell_fast(console)
        return
    if stay is None:
        stay = sys.stdout.isatty()
    told = asyncio.run(_unless_interrupted(tell_live(console, real=real, stay=stay)))
    if not told:
        console.print("\nInterrupted: the cluster is gone.")


async def _unless_interrupted(telling: Coroutine[None, None, None]) -> bool:
    """Run to the end, or until SIGINT or SIGTERM; either way everything is cleaned up. Whether it ended."""
    task = asyncio.ensure_future(telling)
    interrupted = asyncio.Event()

    def interrupt() -> None:
        interrupted.set()
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        await task
    except asyncio.CancelledError:
        if not interrupted.is_set():
            raise
        return False
    return True
