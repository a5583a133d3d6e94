"""The page in the real Chromium: every view, deep links, breaks, keyboard, narrow and wide."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser

from support.browser import Dashboard, Tab, chromium, dashboard, opened
from support.cluster import Cluster, Host
from support.policies import add_policy, plain_policy, serve_policies
from support.scheduler import Shop

# One event loop, because the browser that all tests share belongs to the loop that started it.
pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SERIOUS = ("serious", "critical")
FIRST_LOAD = 1_000_000


class Scene:
    """A small cluster with something in every view, and the dashboard beside its scheduler."""

    def __init__(self, cluster: Cluster, shop: Shop, board: Dashboard, browser: Browser) -> None:
        self.cluster = cluster
        self.shop = shop
        self.board = board
        self.browser = browser
        self.nodes: list[str] = []

    @property
    def namespace(self) -> str:
        return self.cluster.namespace

    @asynccontextmanager
    async def tab(self, view: str = "", **how: object) -> AsyncIterator[Tab]:
        """A browser at a view; at the end it must have done nothing that a page must not do."""
        async with opened(self.browser, self.board.address, **how) as tab:  # type: ignore[arg-type]
            await tab.page.wait_for_selector(".card")
            if view:
                await tab.see(view)
            yield tab
            assert tab.problems == []

    def fill(self) -> None:
        """A pod that runs, one that fits nowhere, a gang that is not whole, and a policy."""
        labels = {"topology.kubernetes.io/zone": "z1", "karpenter.sh/capacity-type": "spot"}
        self.nodes = self.cluster.add_nodes(
            2, cpu=4, labels={**labels, "fairlead.dev/price-per-hour": "0.25"}
        )
        self.shop.add("runs", cpu="2", priority=10)
        self.shop.add("huge", cpu="64")
        self.shop.add("member", gang="train", minimum=3)
        tier = {"name": "spot", "nodes": {"karpenter.sh/capacity-type": "spot"}}
        match = {"namespaces": [self.namespace], "labels": {"app": "web"}}
        made = add_policy(self.cluster, plain_policy("web", tier, match=match))
        self.policy = made["metadata"]["name"]
        self.shop.deployment("web", 2, cpu="500m")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Tests have contexts of their own in it, each like a browser that was never used before."""
    async with chromium() as found:
        yield found


@asynccontextmanager
async def scene_on(cluster: Cluster, browser: Browser) -> AsyncIterator[Scene]:
    shop = Shop(cluster)
    try:
        await asyncio.to_thread(serve_policies, cluster)
        async with dashboard(cluster.kubeconfig, schedulerNames=[shop.scheduler]) as board:
            found = Scene(cluster, shop, board, browser)
            await asyncio.to_thread(found.fill)
            yield found
    finally:
        await asyncio.to_thread(shop.close)


@pytest_asyncio.fixture(loop_scope="module")
async def anywhere(cluster: Cluster, browser: Browser) -> AsyncIterator[Scene]:
    """On each kind of cluster in turn."""
    async with scene_on(cluster, browser) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def scene(embedded_host: Host, browser: Browser) -> AsyncIterator[Scene]:
    cluster = Cluster(embedded_host)
    try:
        async with scene_on(cluster, browser) as found:
            yield found
    finally:
        await asyncio.to_thread(cluster.close)


async def test_every_view_shows_the_cluster(anywhere: Scene) -> None:
    scene, namespace = anywhere, anywhere.namespace
    async with scene.tab() as tab:
        await tab.shows("Map")
        await tab.shows("3 pods without a node".replace("3", "2"))
        await tab.shows("Waiting", "#strip")
        await tab.see(f"#/map?table=1&node={scene.nodes[0]}")
        await tab.shows(scene.nodes[1])
        await tab.shows("0.25")

        await tab.see("#/queue")
        await tab.shows(f"{namespace}/huge")
        await tab.shows("Insufficient cpu")
        await tab.shows(f"{namespace}/train")
        await tab.shows("1 of 3")
        waits_since = ".tabled:has(caption:text-is('Gangs')) tbody td[data-label=Since] time"
        assert await tab.page.locator(waits_since).count() == 1

        await tab.see("#/decisions")
        await tab.shows(f"{namespace}/runs")
        await tab.shows("placed on")
        await tab.shows("held")

        await tab.see("#/policies")
        await tab.shows(scene.policy)
        await tab.shows("2 of 2")

        await tab.see(f"#/pods/{namespace}/huge")
        await tab.shows("What would help")
        await tab.shows("more CPUs on")
        await tab.shows("NodeResourcesFit")
        await tab.see(f"#/pods/{namespace}/runs")
        await tab.shows("is on")
        await tab.shows("placed on")


async def test_what_happens_is_seen_at_once(scene: Scene) -> None:
    async with scene.tab("#/decisions") as tab:
        await tab.shows("held")
        await asyncio.to_thread(scene.shop.add, "later", cpu="1")
        await tab.shows(f"{scene.namespace}/later")
        await tab.see(f"#/map?node={scene.nodes[0]}")
        before = await tab.script("fairlead.board.pods.size")
        await asyncio.to_thread(scene.cluster.delete, "Pod", "later", gracePeriodSeconds=0)
        await tab.page.wait_for_function("before => fairlead.board.pods.size < before", arg=before)


async def test_an_address_leads_to_the_same_place_for_everybody(scene: Scene) -> None:
    async with scene.tab("#/map") as tab:
        await tab.page.select_option("#by", f"tier:{scene.policy}")
        await tab.page.select_option("#colour", "namespace")
        await tab.page.keyboard.press("Escape")
        address = await tab.script("location.hash")
        assert f"by={quote(f'tier:{scene.policy}')}" in address
        assert "colour=namespace" in address
    async with scene.tab(address) as other:
        await other.page.wait_for_function("() => document.querySelector('#colour')?.value === 'namespace'")
        await other.page.wait_for_function(
            f"() => document.querySelector('#by').value === 'tier:{scene.policy}'"
        )
        await other.see("#/decisions?kinds=placed&q=nothing-has-this-name")
        await other.shows("No line has these kinds and words.")
        await other.see(f"#/queue?gang={scene.namespace}%2Ftrain")
        await other.shows(f"Gang {scene.namespace}/train")
        await other.see("#/no/such/view")
        await other.shows("There is no such view")
        await other.see("#/pods/nowhere/nothing")
        await other.shows("there is no pod nowhere/nothing")
        other.problems = [one for one in other.problems if "404" not in one]


async def test_a_line_has_an_address_of_its_own(scene: Scene) -> None:
    placed = f".line:has-text('{scene.namespace}/runs'):has-text('placed')"
    async with scene.tab("#/decisions") as tab:
        await tab.page.click(f"{placed} time a")
        await tab.page.wait_for_selector(f"{placed}.chosen")
        address = await tab.script("location.hash")
    # Whatever else is filtered, and while newer lines come in, that line is shown.
    async with scene.tab(f"{address}&kinds=held&q=nothing-has-this-name") as other:
        await other.page.wait_for_selector(f"{placed}.chosen")
        assert await other.page.locator(".line").count() == 1
        await other.page.click("text=Follow")
        await other.page.wait_for_selector(".line.chosen", state="detached")
        await other.see("#/decisions?line=1-1")
        await other.shows("is no longer remembered")


async def test_it_goes_on_after_the_server_was_away(scene: Scene) -> None:
    async with scene.tab() as tab:
        await tab.shows("live", ".lamp")
        known = await tab.script("fairlead.feed.last")
        await scene.board.stop()
        await tab.shows("not connected", ".lamp")
        await tab.shows("What you see is how it was", "#notice")
        assert await tab.script("fairlead.board.pods.size") > 0
        await asyncio.to_thread(scene.shop.add, "meanwhile", cpu="100m")
        await scene.board.start()
        # Another process knows nobody: it asks to sign in, and its own address opens it.
        await tab.shows("Sign in")
        await tab.page.goto(scene.board.address)
        await tab.shows("live", ".lamp")
        await tab.page.wait_for_function(
            "key => fairlead.board.pods.has(key)", arg=f"{scene.namespace}/meanwhile"
        )
        assert (await tab.script("fairlead.feed.last")).split("-")[0] != known.split("-")[0]
        tab.problems = [one for one in tab.problems if "ERR_" not in one and "401" not in one]


async def test_a_broken_stream_is_resumed_where_it_was(scene: Scene) -> None:
    async with scene.tab() as tab:
        await tab.shows("live", ".lamp")
        await tab.script("() => { window.loads = 0; fairlead.feed.loaded = () => { window.loads += 1; }; }")
        await tab.context.set_offline(True)
        await tab.script("fairlead.feed.source.dispatchEvent(new Event('error'))")
        await tab.shows("not connected", ".lamp")
        await asyncio.to_thread(scene.shop.add, "meanwhile", cpu="100m")
        await tab.context.set_offline(False)
        await tab.page.wait_for_function(
            "key => fairlead.board.pods.has(key)", arg=f"{scene.namespace}/meanwhile"
        )
        assert await tab.script("window.loads") == 0
        tab.problems = [one for one in tab.problems if "ERR_INTERNET_DISCONNECTED" not in one]


async def test_two_browsers_see_the_same(scene: Scene) -> None:
    first_address = scene.board.address
    async with scene.tab() as first, scene.tab() as second:
        assert scene.board.address != first_address
        await asyncio.to_thread(scene.shop.add, "both", cpu="100m")
        for tab in (first, second):
            await tab.page.wait_for_function(
                "key => fairlead.board.pods.get(key)?.state === 'running'", arg=f"{scene.namespace}/both"
            )
        rows = "JSON.stringify([...fairlead.board.pods.values()].sort((a, b) => a.key < b.key ? -1 : 1))"
        assert await first.script(rows) == await second.script(rows)
    async with opened(scene.browser, first_address) as late:
        await late.shows("Sign in")
        await late.shows("is in the terminal")


async def test_the_map_can_be_used_without_a_mouse(scene: Scene) -> None:
    async with scene.tab("#/map?by=") as tab:
        await tab.page.wait_for_function("() => fairlead.view?.canvas?.made?.boxes.size >= 2")
        await tab.page.focus(".map canvas[tabindex]")
        await tab.page.keyboard.press("Home")
        await tab.page.keyboard.press("ArrowRight")
        chosen = await tab.script("fairlead.view.canvas.selected")
        assert chosen
        await tab.shows(f"{chosen}: Ready", "#said")
        await tab.page.keyboard.press("Enter")
        await tab.shows("Pods", ".side")
        await tab.page.keyboard.press("Escape")
        assert await tab.page.is_hidden(".side")
        await tab.page.keyboard.press("/")
        await tab.page.keyboard.type("huge")
        await tab.page.keyboard.press("ArrowDown")
        await tab.page.keyboard.press("Enter")
        await tab.shows("What would help")


async def test_every_canvas_has_a_table_that_says_the_same(scene: Scene) -> None:
    async with scene.tab("#/map?by=") as tab:
        await tab.page.wait_for_function("() => fairlead.view?.canvas?.made?.boxes.size >= 2")
        boxes = await tab.script("[...fairlead.view.canvas.made.boxes.keys()].sort()")
        await tab.page.click("text=Table")
        rows = await tab.page.eval_on_selector_all(
            ".map-view tbody th", "cells => cells.map((cell) => cell.innerText).sort()"
        )
        assert rows == boxes


VIEWS = ("#/map", "#/map?table=1", "#/queue", "#/decisions", "#/policies", "#/pods/{namespace}/huge")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_no_view_has_a_serious_barrier(scene: Scene, dark: bool) -> None:
    async with scene.tab(dark=dark, motion=False) as tab:
        for view in (*VIEWS, f"#/map?node={scene.nodes[0]}"):
            await tab.see(view.format(namespace=scene.namespace))
            await tab.page.wait_for_selector(".view h1")
            await tab.page.wait_for_function("() => !document.querySelector('.loading:not([hidden])')")
            found = await Axe().run(tab.page)
            bad = [one for one in found.response["violations"] if one["impact"] in SERIOUS]
            assert not bad, (view, [(one["id"], [node["html"] for node in one["nodes"]]) for one in bad])


@pytest.mark.parametrize("width", [400, 1280, 3840])
async def test_no_view_is_wider_than_the_window(scene: Scene, width: int) -> None:
    async with scene.tab(width=width, height=900) as tab:
        for view in VIEWS:
            await tab.see(view.format(namespace=scene.namespace))
            await tab.page.wait_for_selector(".view h1")
            await tab.page.wait_for_function("() => !document.querySelector('.loading:not([hidden])')")
            over = await tab.script("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, view


async def test_a_matrix_of_many_rules_scrolls_within_a_phone(scene: Scene) -> None:
    names = await asyncio.to_thread(scene.cluster.add_nodes, 3, cpu=4)
    change = scene.cluster.patch
    await asyncio.to_thread(change, "Node", names[0], {"spec": {"unschedulable": True}})
    taint = {"key": "only", "value": "some", "effect": "NoSchedule"}
    await asyncio.to_thread(change, "Node", names[1], {"spec": {"taints": [taint]}})
    body = scene.shop.pod("picky", cpu="64")
    body["spec"]["nodeSelector"] = {"topology.kubernetes.io/zone": "z1"}
    await asyncio.to_thread(scene.cluster.create, body)
    async with scene.tab(f"#/pods/{scene.namespace}/picky", width=400) as tab:
        await tab.shows("NodeUnschedulable")
        await tab.page.wait_for_function("() => document.querySelectorAll('.matrix thead th').length >= 5")
        assert await tab.script("document.documentElement.scrollWidth - innerWidth") <= 0
        widest = (
            "Math.max(...[...document.querySelectorAll('.matrix tbody th')].map((one) => one.offsetHeight))"
        )
        assert await tab.script(widest) < 60, "a node's name is broken into letters"


async def test_no_name_leaves_its_box(scene: Scene) -> None:
    long = "w" * 60
    await asyncio.to_thread(scene.shop.add, long, cpu="500m")
    async with scene.tab("#/map?by=") as tab:
        await tab.page.wait_for_function(
            "key => fairlead.board.pods.get(key)?.node", arg=f"{scene.namespace}/{long}"
        )
        cut, width = await tab.script(
            """(text) => {
              const {canvas} = fairlead.view;
              canvas.pen.font = "11px system-ui";
              const cut = canvas.fit(text, 100);
              return [cut, canvas.pen.measureText(cut).width];
            }""",
            long,
        )
        assert width <= 100
        assert cut.startswith("w")
        assert "…" in cut


async def test_what_users_name_their_objects_is_never_markup(scene: Scene) -> None:
    hostile = '<img src=x onerror="document.title=1">'
    body = scene.shop.pod("named", cpu="64")
    body["metadata"]["annotations"] = {"pod-group": hostile, "pod-group-min-member": "2"}
    await asyncio.to_thread(scene.cluster.create, body)
    async with scene.tab() as tab:
        for view in ("#/map?colour=gang", "#/queue", "#/decisions", f"#/pods/{scene.namespace}/named"):
            await tab.see(view)
            await tab.shows(hostile)
        assert await tab.page.query_selector("main img") is None


async def test_the_first_load_is_small(scene: Scene) -> None:
    async with scene.tab() as tab:
        loaded = await tab.script(
            "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
            ".filter((one) => !one.name.includes('/api/')).map((one) => [one.name, one.decodedBodySize])"
        )
        assert sum(size for _, size in loaded) < FIRST_LOAD
        assert len(loaded) > 10
