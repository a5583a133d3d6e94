"""The what-if form in the real Chromium, from an empty form to an answer on the map and in tables."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser

from support.browser import Dashboard, Tab, chromium, dashboard, opened
from support.cluster import Cluster, Host
from support.manifests import deployment
from support.policies import add_policy, plain_policy, serve_policies

pytestmark = pytest.mark.slow

SERIOUS = ("serious", "critical")
ASK = ".whatif-form .primary"


class Scene:
    """Two zones of a node group with web servers on them, a policy with a tier for each zone."""

    def __init__(self, cluster: Cluster, board: Dashboard, browser: Browser) -> None:
        self.cluster = cluster
        self.board = board
        self.browser = browser
        self.group = cluster.unique("group")
        self.zones = [cluster.unique("za"), cluster.unique("zb")]
        self.nodes: list[str] = []

    def fill(self) -> None:
        cluster = self.cluster
        for zone in self.zones:
            labels = {"topology.kubernetes.io/zone": zone, "eks.amazonaws.com/nodegroup": self.group}
            self.nodes += cluster.add_nodes(
                1, cpu=4, labels={**labels, "fairlead.dev/price-per-hour": "0.25"}
            )
        tiers = [
            {"name": name, "nodes": {"topology.kubernetes.io/zone": zone}}
            for name, zone in zip(("first", "second"), self.zones, strict=True)
        ]
        match = {"namespaces": [cluster.namespace], "labels": {"app": "none"}}
        self.policy = add_policy(cluster, plain_policy("split", *tiers, match=match))["metadata"]["name"]
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        selector = {"eks.amazonaws.com/nodegroup": self.group}
        pods = {"schedulerName": "default-scheduler", "nodeSelector": selector, "containers": [container]}
        cluster.create(deployment("web", 6, pods=pods))
        cluster.wait(lambda: len(self.homes()) == 6, "the pods to be placed")

    def homes(self) -> list[str]:
        pods = self.cluster.list("Pod")["items"]
        return sorted(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))

    @property
    def web(self) -> str:
        return f"{self.cluster.namespace}/Deployment/web"

    def link(self, *changes: tuple[str, str]) -> str:
        return f"#/whatif?changes={quote(json.dumps(changes))}"

    @asynccontextmanager
    async def tab(self, view: str = "#/whatif", **how: Any) -> AsyncIterator[Tab]:
        async with opened(self.browser, self.board.address, **how) as tab:
            await tab.page.wait_for_selector(".card")
            await tab.see(view)
            await tab.page.wait_for_selector(ASK)
            yield tab
            assert tab.problems == []


@asynccontextmanager
async def scene_on(cluster: Cluster) -> AsyncIterator[Scene]:
    await asyncio.to_thread(serve_policies, cluster)
    async with chromium() as browser, dashboard(cluster.kubeconfig, scheduler=False) as board:
        found = Scene(cluster, board, browser)
        await asyncio.to_thread(found.fill)
        yield found


@pytest.fixture
async def anywhere(cluster: Cluster) -> AsyncIterator[Scene]:
    """On each kind of cluster in turn."""
    async with scene_on(cluster) as found:
        yield found


@pytest.fixture
async def scene(embedded_host: Host) -> AsyncIterator[Scene]:
    cluster = Cluster(embedded_host)
    try:
        async with scene_on(cluster) as found:
            yield found
    finally:
        await asyncio.to_thread(cluster.close)


async def answered(tab: Tab) -> dict[str, Any]:
    """The answer that is shown, as the server gave it."""
    await tab.page.click(ASK)
    await tab.page.wait_for_selector(".answer .headline")
    await tab.page.wait_for_function("() => !document.querySelector('.whatif-form .primary').disabled")
    found: dict[str, Any] = await tab.script("fairlead.whatIf.answer")
    return found


async def test_the_form_is_used_from_an_empty_one_to_an_answer(anywhere: Scene) -> None:
    scene, (first, second) = anywhere, anywhere.nodes
    async with scene.tab() as tab:
        page = tab.page
        # What there is is offered.
        for name, value in (
            ("nodes", first),
            ("zones", scene.zones[0]),
            ("groups", scene.group),
            ("tiers", f"{scene.policy}/first"),
            ("workloads", scene.web),
        ):
            await page.wait_for_selector(f"#whatif-{name} option[value='{value}']", state="attached")
        await page.fill("#change-1", first)
        await page.click("text=Add a change")
        await page.select_option(".change:nth-child(2) select", "scale")
        await page.fill("#change-2", scene.web)
        amount = page.locator(".change:nth-child(2) .amount")
        assert await amount.input_value() == "6", "the number that it has is filled in"
        await amount.fill("8")
        await page.click("text=The same on a command line")
        await tab.shows(f"fairlead whatif --drain {first} --scale {scene.web}=8", ".command pre")

        found = await answered(tab)
        assert found["changes"] == [f"drain node {first}", f"scale {scene.cluster.namespace}/web to 8"]
        evicted = scene.homes().count(first)
        await tab.shows(f"4 more pods would wait for a node; {evicted} would be evicted", ".headline")
        assert found["with"]["pending"] - found["without"]["pending"] == 4
        marks = await tab.script(
            "[...fairlead.view.map.difference.nodes.values()].map((n) => [n.name, n.mark])"
        )
        assert dict(marks)[first] == "cordoned"
        assert dict(marks)[second] == ""
        drawn = await drawn_pods(tab)
        assert drawn[first] == {"evicted": evicted}
        assert drawn[second] == {"stays": 6 - evicted, "comes": 4 - (6 - evicted)}
        await tab.shows("Insufficient cpu", ".beside")
        await tab.shows(f"{scene.cluster.namespace}/web", ".beside")
        assert len(scene.homes()) == 6, "nothing was done to the cluster"


async def drawn_pods(tab: Tab) -> dict[str, dict[str, int]]:
    """By node, how many pods of what is drawn in its box."""
    counts = "[...fairlead.view.map.difference.nodes.values()].map((node) => [node.name, node.counts])"
    return dict(await tab.script(counts))


async def test_a_node_that_comes_and_one_that_goes_are_on_the_map_and_in_its_table(scene: Scene) -> None:
    gone, added = scene.nodes[0], f"{scene.group}-added-0"
    async with scene.tab(scene.link(("remove-node", gone), ("add-nodes", f"{scene.group}=1"))) as tab:
        await answered(tab)
        if await tab.page.get_attribute("button:text('Only what differs')", "aria-pressed") == "true":
            await tab.page.click("button:text('Only what differs')")
        boxes = (
            "() => fairlead.view.map?.canvas.made && [...fairlead.view.map.canvas.made.boxes.keys()].sort()"
        )
        names = await (await tab.page.wait_for_function(boxes)).json_value()
        assert {gone, added} <= set(names)
        await tab.page.click(".difference button:text('Table')")
        await tab.page.wait_for_selector(".difference tbody th")
        rows = await tab.page.eval_on_selector_all(
            ".difference tbody th", "cells => cells.map((cell) => cell.innerText).sort()"
        )
        assert rows == names
        row = f".difference tr:has(th:text-is('{gone}'))"
        assert await tab.text(f"{row} td[data-label=What]") == "gone"
        row = f".difference tr:has(th:text-is('{added}'))"
        assert await tab.text(f"{row} td[data-label=What]") == "new"
        # By keyboard, too.
        await tab.page.click(".difference button:text('Table')")
        await tab.page.wait_for_selector(".difference canvas[tabindex]")
        await tab.page.focus(".difference canvas[tabindex]")
        await tab.page.keyboard.press("Home")
        await tab.page.keyboard.press("Enter")
        await tab.page.wait_for_selector(".chosen h2")
        assert await tab.text(".chosen h2") in names


async def test_a_link_brings_the_form_and_asks_nothing_until_it_is_told_to(scene: Scene) -> None:
    manifest = "kind: ConfigMap\nmetadata: {name: 'a & b'}\n"
    async with scene.tab() as tab:
        await tab.page.select_option(".change select", "lose-tier")
        await tab.page.fill("#change-1", f"{scene.policy}/first")
        await tab.page.click("text=Add a change")
        await tab.page.select_option(".change:nth-child(2) select", "apply")
        await tab.page.fill("#change-2", manifest)
        await tab.page.click("text=Add a change")
        await tab.page.select_option(".change:nth-child(3) select", "add-nodes")
        await tab.page.fill("#change-3", "x")
        await tab.page.fill(".change:nth-child(3) .amount", "2")
        address = await tab.script("location.hash")
        command = await tab.script("fairlead.view.command.textContent")
        assert command.startswith("cat > change-2.yaml <<'EOF'\nkind: ConfigMap")
        assert command.endswith(f"--lose-tier {scene.policy}/first --apply change-2.yaml --add-nodes x=2")
    async with scene.tab(address) as other:
        found = await other.script(
            "fairlead.view.form.changes.map((one) => [one.name, one.what, one.number])"
        )
        assert found == [
            ["lose-tier", f"{scene.policy}/first", "1"],
            ["apply", manifest, "1"],
            ["add-nodes", "x", "2"],
        ]
        assert await other.page.input_value("#change-2") == manifest
        asked = (
            "performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/whatif')).length"
        )
        assert await other.script(asked) == 0
        await other.see("#/whatif?changes=nonsense")
        await other.shows("The changes in this address cannot be read.")
        await other.see(scene.link(("reboot", "n")))
        await other.shows("The changes in this address cannot be read.")


async def test_what_is_wrong_stands_at_its_field_and_nothing_is_lost(scene: Scene) -> None:
    good, bad = scene.nodes[0], "no-such-node"
    async with scene.tab(scene.link(("drain", good), ("drain", ""), ("scale", "shop/web=x"))) as tab:
        await tab.page.click(ASK)
        await tab.shows("Node is missing.", ".change:nth-child(2) .field-problem")
        await tab.shows("Replicas: write a whole number.", ".change:nth-child(3) .field-problem")
        assert await tab.script("document.activeElement.id") == "change-2"
        assert await tab.page.get_attribute("#change-2", "aria-invalid") == "true"
        await tab.page.click("[aria-label='Remove change 3']")
        await tab.page.fill("#change-2", bad)
        assert await tab.text(".change:nth-child(2) .field-problem") == ""
        await tab.page.click(ASK)
        await tab.shows(f"There is no node '{bad}'", ".change:nth-child(2) .field-problem")
        assert await tab.script("document.activeElement.id") == "change-2"
        assert await tab.page.input_value("#change-1") == good
        assert await tab.page.input_value("#change-2") == bad
        assert await tab.page.is_hidden(".answer .headline")
        await tab.page.click("[aria-label='Remove change 2']")
        await answered(tab)
        # Another view and back: the form and its answer are there.
        await tab.page.click("nav >> text=Map")
        await tab.shows("Group by")
        await tab.page.click("nav >> text=What if")
        await tab.page.wait_for_selector(".answer .headline")
        assert await tab.page.input_value("#change-1") == good
        assert "drain" in await tab.script("location.hash")
        # What was changed since is said to be: the answer is that of before.
        assert await tab.page.is_hidden(".stale")
        await tab.page.fill("#change-1", scene.nodes[1])
        assert await tab.page.is_visible(".stale")


async def test_changes_are_put_in_order(scene: Scene) -> None:
    async with scene.tab(scene.link(("drain", "a"), ("drain", "b"), ("drain", "c"))) as tab:
        await tab.page.click("[aria-label='Make change 3 earlier']")
        await tab.page.click("[aria-label='Make change 1 later']")
        order = "fairlead.view.form.changes.map((one) => one.what).join('')"
        assert await tab.script(order) == "cab"
        assert await tab.script("document.activeElement.id") == "change-2"


async def test_another_browser_hears_that_the_server_is_busy_and_a_cancelled_one_makes_room(
    scene: Scene,
) -> None:
    what_if = scene.board.door._server._what_if
    view = scene.link(("drain", scene.nodes[0]))
    async with scene.tab(view) as first, scene.tab(view) as second:
        await first.page.click(ASK)
        await first.shows("Reading the cluster")
        os.kill(what_if.process.pid, signal.SIGSTOP)  # it never ends by itself
        await second.page.click(ASK)
        await second.shows("Another what-if is being worked out by this server; try again when it is done.")
        assert await second.page.input_value("#change-1") == scene.nodes[0]
        process = what_if.process
        await first.page.click("text=Cancel")
        assert await process.wait() == -signal.SIGKILL
        assert await first.page.is_enabled(ASK)
        await answered(second)
        assert await second.page.is_hidden(".problem")
        second.problems = [one for one in second.problems if "503" not in one]
        # Who leaves the page gives up, too.
        await first.page.click(ASK)
        await first.shows("Reading the cluster")
        process = what_if.process
        os.kill(process.pid, signal.SIGSTOP)
        await first.page.goto("about:blank")
        assert await process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_it_has_no_serious_barrier(scene: Scene, dark: bool) -> None:
    view = scene.link(("lose-zone", scene.zones[0]), ("add-nodes", f"{scene.group}=1"), ("apply", ""))
    async with scene.tab(view, dark=dark, motion=False) as tab:
        await tab.page.click(ASK)
        await tab.shows("Paste the manifests.")
        await no_barrier(tab)
        await tab.page.click("[aria-label='Remove change 3']")
        await answered(tab)
        await tab.page.click("text=The same on a command line")
        await no_barrier(tab)
        await tab.page.focus(".difference canvas[tabindex]")
        await tab.page.keyboard.press("Home")
        await tab.page.keyboard.press("Enter")
        await tab.page.wait_for_selector(".chosen h2")
        await no_barrier(tab)
        await tab.page.click(".difference button:text('Table')")
        await no_barrier(tab)


async def no_barrier(tab: Tab) -> None:
    found = await Axe().run(tab.page)
    bad = [one for one in found.response["violations"] if one["impact"] in SERIOUS]
    assert not bad, [(one["id"], [node["html"] for node in one["nodes"]]) for one in bad]


@pytest.mark.parametrize("width", [400, 1280])
async def test_it_is_not_wider_than_the_window(scene: Scene, width: int) -> None:
    long = "kind: ConfigMap\nmetadata: {name: a}\n# " + "long " * 100
    async with scene.tab(scene.link(("remove-node", scene.nodes[0]), ("apply", long)), width=width) as tab:
        over = "document.documentElement.scrollWidth - innerWidth"
        await tab.page.click("text=The same on a command line")
        assert await tab.script(over) <= 0
        await tab.page.click("[aria-label='Remove change 2']")
        await answered(tab)
        assert await tab.script(over) <= 0
        boxes = (
            "() => fairlead.view.map?.canvas.made?.width <= document.querySelector('.difference').clientWidth"
        )
        await tab.page.wait_for_function(boxes)


async def test_what_users_write_is_never_markup(scene: Scene) -> None:
    hostile = '<img src=x onerror="document.title=1">'
    async with scene.tab(scene.link(("drain", hostile))) as tab:
        await tab.page.click(ASK)
        await tab.shows(hostile, ".field-problem")
        assert await tab.page.query_selector("main img") is None


async def test_what_fails_on_the_way_is_said_and_the_form_stays(scene: Scene) -> None:
    scene.board.door._server._what_if._memory = 60 * 2**20
    async with scene.tab(scene.link(("add-nodes", f"{scene.group}=5000"))) as tab:
        await tab.page.click(ASK)
        await tab.shows("takes more memory than it may have here, 60 MiB", ".problem:not([hidden])")
        assert await tab.page.input_value("#change-1") == scene.group
        await scene.board.stop()
        await tab.page.click(ASK)
        await tab.shows("The server does not answer.")
        assert await tab.page.input_value("#change-1") == scene.group
        tab.problems = [one for one in tab.problems if "ERR_" not in one]
    await scene.board.start(scheduler=False)
