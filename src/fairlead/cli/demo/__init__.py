"""``fairlead demo``: the scheduler's story, shown on a cluster while it happens.

`story` says what is asked of the cluster and what is waited for, `observed` is the cluster as last seen,
`narrator` puts what changes in words, and `clusters` are the ones that the story can run on.
"""

from __future__ import annotations

import asyncio
import signal
import sys

import click
from rich.console import Console

from fairlead.cli.demo.cast import Cast
from fairlead.cli.demo.clusters import tell_fast, tell_live

__all__ = ["command"]


@click.command(
    epilog="""\b
Examples:
  fairlead demo
  fairlead demo --fast
  fairlead demo --fast --cast demo.cast
"""
)
@click.option("--fast", is_flag=True, help="In virtual time: the whole story in about a second.")
@click.option("--real", is_flag=True, help="On a real control plane, which is built when there is none yet.")
@click.option(
    "--stay/--no-stay", default=None, help="Keep the cluster up for kubectl (default: on a terminal)."
)
@click.option(
    "--cast", default="", metavar="FILE", help="Write a recording for terminal players (asciicast)."
)
def command(*, fast: bool, real: bool, stay: bool | None, cast: str) -> None:
    """Priorities, preemption, gangs and a dying node: the scheduler's story, shown as it happens.

    A cluster comes up, the examples arrive, a low-priority pod makes room, a gang waits and then starts
    whole, a node dies and all is repaired. The dashboard shows the same in a browser, at the address that is
    printed, and can play it again.
    """
    if fast and (real or stay):
        raise click.UsageError("--fast is in virtual time, on a cluster that exists only while the demo runs")
    recording = Cast(cast) if cast else None
    try:
        console = recording.console() if recording else Console(highlight=False, soft_wrap=True)
        _tell(console, recording, fast=fast, real=real, stay=stay)
    finally:
        if recording is not None:
            recording.save()


def _tell(console: Console, cast: Cast | None, *, fast: bool, real: bool, stay: bool | None) -> None:
    if fast:
        tell_fast(console, cast)
        return
    if stay is None:
        stay = sys.stdout.isatty()
    # Both end the story in the same way: it is cancelled, and takes down what it has brought up. A shell that
    # starts the demo in the background would have it ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        asyncio.run(tell_live(console, cast, real=real, stay=stay))
    except KeyboardInterrupt:
        console.print("\nInterrupted: the cluster is gone.")
