"""The embedded cluster in virtual time, yet served over HTTP: for commands that know nothing of virtual time.

Whatever is written takes effect at once, at the same moment of virtual time; time passes only when a test
waits. So what several commands do one after the other happens at one moment, and hours take seconds.
"""

from __future__ import annotations

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path

from fairlead.world.clock import VirtualClock
from fairlead.world.http.server import serve, write_kubeconfig
from fairlead.world.world import World
from support.cluster import PACE, EmbeddedHost

__all__ = ["VirtualHost"]

_SHORTEST, _LONGEST = timedelta(seconds=1), timedelta(seconds=10)


class VirtualHost(EmbeddedHost):
    """A world in virtual time, served from a thread of its own."""

    _reacts = False

    def pass_time(self, waited_s: float) -> None:
        """Until the next thing is due; a little at least, and not too much at once."""

        def on() -> None:
            now = self._clock.now()
            due = self._clock.next_at() or now
            self.world.run_until(min(max(due, now + _SHORTEST), now + _LONGEST))

        self.on_loop(on)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._clock = VirtualClock()
        world = World(clock=self._clock, pace=PACE, **self._shape)
        with tempfile.TemporaryDirectory(prefix="fairlead-virtual-") as folder:
            async with await serve(world.api) as server:
                kubeconfig = write_kubeconfig(Path(folder) / "kubeconfig", server.address)
                stop = world.store.subscribe(lambda change: self._react(world))
                self._react(world)
                self._started.set_result((world, server.address, kubeconfig))
                await self._ended.wait()
                stop()
        world.close()

    def _react(self, world: World) -> None:
        if not self._reacts:
            self._reacts = True
            self._loop.call_soon(self._settle, world)

    def _settle(self, world: World) -> None:
        self._reacts = False
        world.run_until(timedelta())
