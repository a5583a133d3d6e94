"""The dashboard as a component of a process: what it follows, asks and answers, in one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairlead.doors.process import Context, Door
from fairlead.doors.tasks import beside
from fairlead.engine.ask.cost import Price
from fairlead.engine.ask.timeline import Happening
from fairlead.engine.planning.settings import Settings
from fairlead.nodegroups import NodeGroup
from fairlead.web.access import Access
from fairlead.web.answers import Answers
from fairlead.web.board import Board
from fairlead.web.history import History
from fairlead.web.live import Live
from fairlead.web.server import Server
from fairlead.web.whatif import WhatIf

if TYPE_CHECKING:
    from aiohttp import web


class DashboardDoor(Door):
    """See the module. A process is ready whether or not the page has something to show.

    Cancelled, every watch and every stream ends.
    """

    name = "dashboard"

    def __init__(
        self,
        context: Context,
        access: Access,
        settings: Settings,
        *,
        lease: str,
        prices: Sequence[Price] = (),
        groups: Sequence[NodeGroup] = (),
        title: str = "",
        sign_in: str = "",
        flags: Sequence[str] = (),
    ) -> None:
        """`lease` is the one that our scheduler is elected by; `title` names the cluster; `sign_in` says how
        a user gets in: with an ``address``, or a ``token``. `groups` are what an autoscaler may bring in a
        what-if; `flags` are what ``fairlead whatif`` needs besides the changes to ask the same.
        """
        super().__init__(context)
        self._history = History()
        board = Board(settings, prices=prices)
        self._live = Live(context, board, self._history, lease=lease)
        self._answers = Answers(self._live.collect, settings, lease=lease, made=self._made)
        self._live.answers = self._answers
        what_if = WhatIf(
            context.client,
            settings,
            policies=self._live.file_policies,
            clock=context.clock,
            system_namespace=context.system_namespace,
            prices=prices,
            groups=groups,
        )
        self._server = Server(
            access,
            board,
            self._history,
            self._answers,
            what_if,
            workloads=self._live.workloads,
            trouble=lambda: self._live.trouble,
            now=lambda: context.clock.wall().timestamp(),
            more={"title": title, "signIn": sign_in, "flags": list(flags)},
        )

    def routes(self) -> Iterable[web.RouteDef]:
        """See `Door`."""
        return self._server.routes()

    def checks(self) -> Mapping[str, str]:
        """See `Door`."""
        return {}

    def say(self, kind: str, text: str) -> None:
        """Put something on the page that no watch shows: a chapter of a story."""
        now = self._context.clock.wall().timestamp()
        self._live.say(Happening(now, kind, "", text))

    async def run(self) -> None:
        """Show the cluster until `stop`."""
        async with beside() as start:
            start(self._live.run())
            start(self._answers.run())
            try:
                await self._stopping.wait()
            finally:
                self._history.close()

    def _made(self, overview: dict[str, Any]) -> None:
        if self._history.beginning.is_set():
            self._live.add("answers", overview["at"], overview)
