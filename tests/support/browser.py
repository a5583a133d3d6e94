"""The dashboard in the real Chromium; and all that a page must never do, collected while it is used."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, async_playwright
from tools.browser import find

from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.doors.process import Context, Door, serve_doors
from fairlead.doors.scheduler.configuration import Configuration, merged
from fairlead.doors.scheduler.door import SchedulerDoor
from fairlead.feed.policies import LivePolicies
from fairlead.web.local import LocalDashboard

ABSENT = "no Chromium here"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 30_000


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The browser; without one the test is skipped, in CI it fails."""
    program = find()
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail(ABSENT, pytrace=False)
        pytest.skip(ABSENT)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


class Tab:
    """One page. `problems` are errors on its console, uncaught errors, and requests to other places."""

    def __init__(self, page: Page, context: BrowserContext, origin: str) -> None:
        self.page = page
        self.context = context
        self.origin = origin
        self.problems: list[str] = []
        self.bytes = 0
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("request", self._requested)

    async def see(self, hash_: str) -> None:
        """Go to a view by its address."""
        await self.page.goto(f"{self.origin}/dashboard/{hash_}")

    async def text(self, selector: str = "main") -> str:
        """What is there to read."""
        return await self.page.inner_text(selector)

    async def shows(self, text: str, selector: str = "main") -> None:
        """Wait until a text is there."""
        await self.page.wait_for_function(
            "([selector, text]) => document.querySelector(selector)?.innerText.includes(text)",
            arg=[selector, text],
        )

    async def script(self, script: str, argument: object = None) -> Any:
        """What a script finds."""
        return await self.page.evaluate(script, argument)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text} {message.location.get('url', '')}")

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((f"{self.origin}/", "data:", "blob:")):
            self.problems.append(f"left the origin: {request.url}")


@asynccontextmanager
async def opened(
    browser: Browser,
    address: str,
    *,
    width: int = 1280,
    height: int = 800,
    dark: bool = False,
    motion: bool = True,
) -> AsyncIterator[Tab]:
    """A browser of its own (its own cookies) at an address."""
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="no-preference" if motion else "reduce",
    )
    try:
        tab = Tab(await context.new_page(), context, address.partition("/dashboard/")[0])
        await tab.page.goto(address)
        yield tab
    finally:
        await context.close()


class Dashboard:
    """The dashboard beside a scheduler, in this process; can be ended and started again on the same port."""

    def __init__(self, kubeconfig: Path, configuration: Configuration) -> None:
        self._kubeconfig = kubeconfig
        self.configuration = configuration
        self.addresses: list[str] = []
        self.url = ""
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.door: Any = None

    @property
    def address(self) -> str:
        """The one that works now."""
        return self.addresses[-1]

    async def start(self, *, scheduler: bool = True) -> None:
        """Start, on the port that it had."""
        self._stopping = asyncio.Event()
        ready = asyncio.Event()
        listen = self.url.partition("://")[2] or "127.0.0.1:0"

        def at(url: str) -> None:
            self.url = url
            ready.set()

        self._running = asyncio.create_task(self._run(listen, at, scheduler=scheduler))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((self._running, waiting), return_when=asyncio.FIRST_COMPLETED)
        if self._running.done():
            waiting.cancel()
            self._running.result()

    async def stop(self) -> None:
        """End it in order."""
        self._stopping.set()
        if self._running is not None:
            await self._running

    async def _run(self, listen: str, at: Callable[[str], None], *, scheduler: bool) -> None:
        target = load(self._kubeconfig)
        async with Connection(target, in_flight=96) as connection:
            client = Client(connection)
            context = Context(client, LivePolicies(client), "fairlead-system", client.rng)
            lease = self.configuration.leader_election.lease_name
            settings = self.configuration.settings()
            dashboard = LocalDashboard(context, settings, self.addresses.append, lease=lease, title="test")
            self.door = dashboard.door
            doors: list[Door] = [dashboard.door]
            if scheduler:
                doors.append(SchedulerDoor(context, self.configuration))

            def ready(url: str) -> None:
                dashboard.opened_at(url)
                at(url)

            await serve_doors(doors, context, listen=listen, stopping=self._stopping, ready=ready)


@asynccontextmanager
async def dashboard(kubeconfig: Path, *, scheduler: bool = True, **fields: Any) -> AsyncIterator[Dashboard]:
    """A dashboard that is ended with the block."""
    settings = {"leaderElection.enabled": False, "gangs.settle": "1s", **fields}
    found = Dashboard(kubeconfig, merged({}, settings))
    await found.start(scheduler=scheduler)
    try:
        yield found
    finally:
        await found.stop()
