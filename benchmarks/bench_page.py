"""Does the dashboard keep up with 100 changes a second on 5,000 nodes and 50,000 pods, and in what memory?

The API server is a real one, the page is open in the real Chromium. Its frames are compared with those of an
empty canvas of the same size, in the same browser and run. The memory of page and server is that of the last
minutes against that of the first ones after a minute has passed: by then the server has answered about the
cluster a few times, for which it holds it twice. ``FAIRLEAD_PAGE_S`` makes it shorter than ten minutes.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Page, async_playwright
from tools.browser import find

from benchmarks.filled import NODES, PODS, filled, pod
from benchmarks.rows import Row, main
from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.kube.resources import known

DURATION_S = float(os.environ.get("FAIRLEAD_PAGE_S", "600"))
RATE = 100.0
TIMES, FIRST_LOAD, GROWTH = 3.0, 1_000_000, 1.10
_EMPTY_S = 20.0
_LOOK_S = 10.0
_WARM_S = 60.0
_AT_ONCE = 8
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
# Notes how long each frame took since the one before.
_FRAMES = """() => {
  window.frames_ = [];
  let last = performance.now();
  const note = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(note); };
  requestAnimationFrame(note);
}"""
_EMPTY = """<canvas width="1600" height="900"></canvas>"""


def run() -> list[Row]:
    """All rows."""
    with filled() as config:
        return asyncio.run(_run(config))


async def _run(config: Path) -> list[Row]:
    program = find()
    if program is None:
        raise RuntimeError("there is no Chromium: python -m tools.browser")
    async with _serving(config) as (address, server), async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        context = await browser.new_context(viewport={"width": 1600, "height": 900})
        page = await context.new_page()
        await page.set_content(_EMPTY)
        await page.evaluate(_FRAMES)
        await asyncio.sleep(_EMPTY_S)
        empty = _p95(await page.evaluate("window.frames_"))

        loaded: dict[str, int] = {"page": 0, "data": 0}

        page.on("requestfinished", lambda request: asyncio.ensure_future(_count(request, loaded)))
        began = time.monotonic()
        await page.goto(address)
        await page.wait_for_function(
            f"() => fairlead.view?.canvas?.made?.boxes.size === {NODES}", timeout=60_000
        )
        drawn_s = time.monotonic() - began
        painted = await page.evaluate(
            "performance.getEntriesByType('paint')"
            ".find((one) => one.name === 'first-contentful-paint').startTime"
        )
        unpacked = await page.evaluate(
            "performance.getEntriesByType('resource').filter((one) => !one.name.includes('/api/'))"
            ".reduce((sum, one) => sum + one.decodedBodySize, 0)"
        )
        first = dict(loaded)
        changes = _Changes(config)
        changing = asyncio.create_task(changes.run())
        await page.evaluate(_FRAMES)
        held = await _watch(page, server, changing)
        frames = await page.evaluate("window.frames_")
        rate = changes.rate
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)
        seen = await page.evaluate("fairlead.board.pods.size")
        await browser.close()
    return list(_rows(empty, frames, held, drawn_s, painted, unpacked, first, rate, seen))


def _rows(
    empty: float,
    frames: list[float],
    held: list[tuple[float, float]],
    drawn_s: float,
    painted: float,
    unpacked: int,
    first: dict[str, int],
    rate: float,
    seen: int,
) -> list[Row]:
    part = max(1, len(held) // 5)
    growth = [
        statistics.median(one[kind] for one in held[-part:])
        / statistics.median(one[kind] for one in held[:part])
        for kind in (0, 1)
    ]
    p95 = _p95(frames)
    megabytes = ", ".join(f"{held[0][kind]:.0f} to {held[-1][kind]:.0f} MB" for kind in (0, 1))
    return [
        Row(
            f"frame of the map, p95, {NODES} nodes, {PODS} pods, {rate:.0f} changes a second",
            f"{p95:.1f} ms, {p95 / empty:.2f}x of an empty canvas"
            f" (of {len(frames)} the longest {max(frames):.0f} ms)",
            f"at most {TIMES:g}x",
            p95 <= TIMES * empty,
        ),
        Row(
            f"memory after {DURATION_S:.0f} s: page, server",
            f"{megabytes} ({growth[0]:.2f}x, {growth[1]:.2f}x)",
            f"at most {GROWTH:g}x",
            max(growth) <= GROWTH,
        ),
        Row("changes that the page has by then", f"{seen} pods", f"about {PODS}", abs(seen - PODS) < 1_000),
        Row("first paint; map drawn", f"{painted:.0f} ms; {drawn_s * 1000:.0f} ms", "-", True),
        Row(
            "first load: page, and what it shows",
            f"{unpacked / 1e3:.0f} kB ({first['page'] / 1e3:.0f} kB sent), {first['data'] / 1e3:.0f} kB sent",
            f"page at most {FIRST_LOAD / 1e3:.0f} kB",
            unpacked <= FIRST_LOAD,
        ),
    ]


async def _count(request: Any, loaded: dict[str, int]) -> None:
    sizes = await request.sizes()
    loaded["data" if "/api/" in request.url else "page"] += sizes["responseBodySize"]


@asynccontextmanager
async def _serving(config: Path) -> AsyncIterator[tuple[str, int]]:
    """The dashboard as a user starts it: its address, and its process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "fairlead",
        "dashboard",
        "--kubeconfig",
        str(config),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        yield line.split()[-1], process.pid
    finally:
        process.terminate()
        await process.communicate()


async def _watch(page: Page, server: int, changing: asyncio.Task[Any]) -> list[tuple[float, float]]:
    """What page and server hold in MB, every ten seconds."""
    session = await page.context.new_cdp_session(page)
    held = []
    await asyncio.sleep(_WARM_S)
    ends = time.monotonic() + DURATION_S
    while time.monotonic() < ends:
        await asyncio.sleep(min(_LOOK_S, max(0.1, ends - time.monotonic())))
        if changing.done():
            changing.result()
        usage = await session.send("Runtime.getHeapUsage")
        held.append((usage["usedSize"] / 1e6, _resident(server)))
    return held


class _Changes:
    """Pods that are deleted, and others created in their place, at a steady rate."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self._number = 0
        self._began = 0.0

    @property
    def rate(self) -> float:
        """Changes a second so far."""
        return 2 * self._number / (time.monotonic() - self._began)

    async def run(self) -> None:
        """Until cancelled."""
        async with Connection(load(self._config)) as connection:
            client = Client(connection)
            self._began = time.monotonic()
            async with asyncio.TaskGroup() as group:
                for _ in range(_AT_ONCE):
                    group.create_task(self._work(client))

    async def _work(self, client: Client) -> None:
        resource = known("Pod")
        while True:
            number = self._number
            self._number += 1
            await asyncio.sleep(max(0.0, self._began + 2 * number / RATE - time.monotonic()))
            body = pod(number % PODS)
            await client.delete(resource, body["metadata"]["name"], body["metadata"]["namespace"], grace_s=0)
            await client.create(resource, body)


def _resident(process: int) -> float:
    """The megabytes that a process holds."""
    (kilobytes,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(kilobytes) / 1e3


def _p95(frames: list[float]) -> float:
    return sorted(frames)[int(len(frames) * 0.95)]


if __name__ == "__main__":
    main(run)
