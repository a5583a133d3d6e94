"""An event loop in virtual time: when nothing is ready, time jumps to the next timer.

For code without real I/O. A test over minutes takes milliseconds and always happens the same way.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from fairlead.client.clock import Clock

T = TypeVar("T")

_EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


class VirtualLoop(asyncio.SelectorEventLoop):
    """`jump` moves the clock without waking anybody: what a suspended process sees when it resumes."""

    def __init__(self) -> None:
        super().__init__(_Selector(self))
        self._now = 1000.0

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds

    @property
    def clock(self) -> Clock:
        return Clock(self.time, lambda: _EPOCH + timedelta(seconds=self._now))


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("every task waits for something that will not happen")
        if timeout > 0:
            self._loop.jump(timeout)
        return super().select(0)


async def pass_by(seconds: float) -> None:
    """Let so much virtual time pass, with all that is due in it; nobody waits for a clock on the wall."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop)
    await asyncio.sleep(seconds)


def run_virtually(main: Callable[[VirtualLoop], Awaitable[T]]) -> T:
    """Run a coroutine in virtual time, and close its loop."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:

        async def call() -> T:
            return await main(loop)

        return runner.run(call())
