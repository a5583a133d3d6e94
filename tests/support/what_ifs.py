"""Asks the dashboard's server what would happen, as its page does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from support.browser import Dashboard, dashboard


class User:
    """Asks what would happen, as the page does."""

    def __init__(self, board: Dashboard, session: aiohttp.ClientSession) -> None:
        self.board = board
        self.session = session
        self.url = f"{board.url}/dashboard/api/whatif"

    def asking(self, *changes: tuple[str, str]) -> Any:
        return self.session.post(self.url, json={"changes": changes})

    async def ask(self, *changes: tuple[str, str]) -> tuple[dict[str, Any], list[str]]:
        """How it ends, and what is said on the way there."""
        async with self.asking(*changes) as answer:
            assert answer.status == 200, await answer.text()
            lines = [json.loads(line) for line in (await answer.read()).splitlines() if line]
        said = [one["say"] for one in lines if "say" in one]
        (end,) = (one for one in lines if "say" not in one)
        return end, said

    async def process_of(self, answer: aiohttp.ClientResponse) -> asyncio.subprocess.Process:
        """The process that works out an answer; there is one once it has begun."""
        assert json.loads(await answer.content.readline()) == {"say": "reading the cluster"}
        process: asyncio.subprocess.Process = self.board.door._server._what_if.process
        return process

    async def refused(self, status: int, **sent: Any) -> str:
        async with self.session.post(self.url, **sent) as answer:
            assert answer.status == status
            why: str = (await answer.json())["why"]
            return why


@asynccontextmanager
async def user_of(kubeconfig: Any, **how: Any) -> AsyncIterator[User]:
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        dashboard(kubeconfig, scheduler=False, **how) as board,
        aiohttp.ClientSession(cookie_jar=jar) as session,
    ):
        await (await session.get(board.address)).read()
        yield User(board, session)
