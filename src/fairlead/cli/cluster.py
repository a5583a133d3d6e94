"""Call a cluster once from a command: connect, await one answer, disconnect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from fairlead.cli.change_notice import print_change_notice

if TYPE_CHECKING:
    from fairlead.client.config import Target
    from fairlead.client.connection import Connection


T = TypeVar("T")


def call_cluster(
    kubeconfig: str,
    context: str,
    call: Callable[[Connection, Target], Awaitable[T]],
    *,
    changes: bool = False,
    log_format: str = "auto",
    log_level: str = "warning",
) -> T:
    """Await `call` with an open connection to the cluster that the flags name; "" is the default one.

    One that `changes` something says first which cluster it is about to change.
    """
    from fairlead.client.config import load
    from fairlead.client.connection import Connection
    from fairlead.doors.process import configure_logging, event_loop

    configure_logging(log_format, log_level)  # before anything logs: standard output is for the answer

    async def connected() -> T:
        target = load(kubeconfig or None, context=context or None)
        if changes:
            print_change_notice(target)
        async with Connection(target) as connection:
            return await call(connection, target)

    with event_loop() as runner:
        return runner.run(connected())
