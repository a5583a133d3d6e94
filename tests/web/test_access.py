"""Who gets to see the page: this machine's user by an address that works once, a cluster's by token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from fairlead.web import server
from support.browser import Dashboard, chromium, dashboard, opened
from support.cluster import Cluster, Host
from support.command import run_command
from support.door import DoorProcess

ROOT = Path(__file__).resolve().parents[2]
READS = (
    "state",
    "stream",
    "replay",
    "lines",
    "workloads",
    "queue",
    "gangs",
    "policies",
    "tiers",
    "pods/shop/web",
)


@pytest.fixture
async def board(embedded_host: Host) -> AsyncIterator[Dashboard]:
    async with dashboard(embedded_host.kubeconfig, scheduler=False) as found:
        yield found


@asynccontextmanager
async def session(**headers: str) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.CookieJar(unsafe=True)) as found:
        yield found


async def test_the_address_works_once_and_leaves_a_cookie_that_no_script_reads(board: Dashboard) -> None:
    address = board.address
    async with session() as first, session() as second:
        async with first.get(address, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "./")
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "Path=/dashboard/" in cookie
        async with first.get(f"{board.url}/dashboard/api/state") as answer:
            assert answer.status == 200
        async with second.get(address) as answer:
            assert "Set-Cookie" not in answer.headers
        async with second.get(f"{board.url}/dashboard/api/state") as answer:
            assert answer.status == 401
        assert board.address != address
        async with second.get(board.address), second.get(f"{board.url}/dashboard/api/state") as answer:
            assert answer.status == 200


@pytest.mark.parametrize("path", READS)
async def test_nothing_is_read_without_a_session(board: Dashboard, path: str) -> None:
    url = f"{board.url}/dashboard/api/{path}"
    async with session(Cookie="fairlead-1=x; fairlead-session=y") as caller, caller.get(url) as answer:
        assert answer.status == 401
        assert set(await answer.json()) == {"why"}


async def test_every_answer_keeps_other_pages_out(board: Dashboard) -> None:
    async with session() as caller:
        for path in ("", "page/main.js", "page/style.css", "api/state"):
            async with caller.get(f"{board.url}/dashboard/{path}") as answer:
                for name, value in server.HEADERS.items():
                    assert answer.headers[name] == value, (path, name)
        async with caller.get(f"{board.url}/dashboard/page/..%2Fserver.py") as answer:
            assert answer.status == 404


REFUSED = {
    "another host": ({"Host": "evil.example"}, 421),
    "another page": ({"Origin": "http://evil.example"}, 403),
    "another port's page": ({"Origin": "http://127.0.0.1:1"}, 403),
    "no page at all": ({"Origin": "null"}, 403),
    "sent by another site": ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
    "a host without sense": ({"Host": "127.0.0.1:x"}, 400),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_requests_of_other_pages_are_not_answered(board: Dashboard, what: str) -> None:
    headers, status = REFUSED[what]
    async with session() as caller:
        await (await caller.get(board.address)).read()
        async with caller.get(f"{board.url}/dashboard/api/state", headers=headers) as answer:
            assert answer.status == status


async def test_a_link_on_another_site_leads_to_the_page(board: Dashboard) -> None:
    async with session() as caller:
        headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        async with caller.get(f"{board.url}/dashboard/", headers=headers) as answer:
            assert answer.status == 200


async def test_nothing_can_be_written(board: Dashboard) -> None:
    async with session() as caller:
        await (await caller.get(board.address)).read()
        for path in ("", *(f"api/{path}" for path in READS)):
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                async with caller.request(method, f"{board.url}/dashboard/{path}") as answer:
                    assert answer.status == 405, (method, path)


async def test_pages_beyond_the_most_are_refused(board: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_STREAMS", 2)
    async with session() as caller:
        await (await caller.get(board.address)).read()
        state = await (await caller.get(f"{board.url}/dashboard/api/state")).json()
        stream = f"{board.url}/dashboard/api/stream?from={state['epoch']}-{state['number']}"
        open_ones = [await caller.get(stream) for _ in range(2)]
        assert [one.status for one in open_ones] == [200, 200]
        async with caller.get(stream) as answer:
            assert answer.status == 503
        open_ones[0].close()
        while True:  # the server learns of it when it writes next, or at once
            async with caller.get(stream) as answer:
                if answer.status == 200:
                    break
            await asyncio.sleep(0.01)
        open_ones[1].close()


@pytest.mark.parametrize("last", ["", "nonsense", "0-1", "{epoch}-999999", "{epoch}--1", "{epoch}-x"])
async def test_a_place_that_is_not_known_means_to_begin_again(board: Dashboard, last: str) -> None:
    async with session() as caller:
        await (await caller.get(board.address)).read()
        state = await (await caller.get(f"{board.url}/dashboard/api/state")).json()
        headers = {"Last-Event-ID": last.format(epoch=state["epoch"])} if last else {}
        async with caller.get(f"{board.url}/dashboard/api/stream", headers=headers) as answer:
            assert b"event: reset" in await answer.content.read()


@pytest.mark.parametrize("listen", ["0.0.0.0:0", ":8080", "10.0.0.1:80"])
def test_a_laptops_page_is_for_the_laptop_alone(listen: str) -> None:
    done = run_command("dashboard", f"--listen={listen}")
    assert done.returncode == 2
    assert "is not an address of this machine alone" in done.stderr


def test_tokens_are_not_sent_over_an_open_network() -> None:
    done = run_command("serve", "--doors=scheduler", "--dashboard", "--listen=0.0.0.0:0")
    assert done.returncode == 2
    assert "which would not speak TLS" in done.stderr


@pytest.mark.parametrize("host", ["https://a.example", "a.example:80", "", "a b"])
def test_a_host_is_a_name(host: str) -> None:
    done = run_command(
        "serve", "--doors=scheduler", "--dashboard", "--listen=127.0.0.1:0", f"--dashboard-host={host}"
    )
    assert done.returncode == 2
    assert "is not the name of a host" in done.stderr


# On a cluster


class Served:
    """``fairlead serve --dashboard`` on a real control plane, and its users."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        for document in yaml.safe_load_all((ROOT / "deploy/serve-dashboard/dashboard.yaml").read_text()):
            if document["metadata"]["name"] == "fairlead-dashboard-viewer":
                self.role: dict[str, Any] = document
        self.role["metadata"]["name"] = cluster.unique("viewer")
        self.process = DoorProcess(
            cluster.kubeconfig,
            "serve",
            "--doors=scheduler",
            "--dashboard",
            "--listen=127.0.0.1:0",
            f"--system-namespace={cluster.namespace}",
        )
        self.url: str = self.process.wait_for("listening")[0]["url"]

    def user(self, name: str, *, may_view: bool) -> str:
        """The token of a service account."""
        cluster = self.cluster
        cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        if may_view:
            group = "rbac.authorization.k8s.io"
            path = f"/apis/{group}/v1/clusterroles"
            cluster.wire.request("POST", path, self.role).ok()
            cluster.owns(f"{path}/{self.role['metadata']['name']}")
            binding = {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": self.role["metadata"]["name"]},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": self.role["metadata"]["name"]},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": cluster.namespace}],
            }
            self.binding = f"/apis/{group}/v1/clusterrolebindings/{binding['metadata']['name']}"  # type: ignore[index]
            cluster.wire.request("POST", f"/apis/{group}/v1/clusterrolebindings", binding).ok()
            cluster.owns(self.binding)
        path = cluster.path("ServiceAccount", name, "token")
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        found: str = cluster.wire.request("POST", path, request).ok()["status"]["token"]
        return found


@pytest.fixture
def served(real_host: Host) -> Iterator[Served]:
    cluster = Cluster(real_host)
    own = None
    try:
        own = Served(cluster)
        yield own
    finally:
        if own is not None:
            own.process.close()
        cluster.close()


@pytest.mark.real
async def test_a_user_without_rights_sees_403_and_nothing_else(served: Served) -> None:
    token = await asyncio.to_thread(served.user, "nobody", may_view=False)
    async with session() as caller:
        headers = {"Authorization": f"Bearer {token}"}
        async with caller.post(f"{served.url}/dashboard/session", headers=headers) as answer:
            assert answer.status == 403
            assert "needs the right to list pods in all namespaces" in await answer.text()
            assert "Set-Cookie" not in answer.headers
        for path in READS:
            # A header is no session: only what was reviewed is.
            async with caller.get(f"{served.url}/dashboard/api/{path}", headers=headers) as answer:
                assert answer.status == 401
        what_if = {"changes": [["drain", "n"]]}
        for path in ("session", "api/whatif"):
            async with caller.post(f"{served.url}/dashboard/{path}", json=what_if) as answer:
                assert answer.status == 401
    async with chromium() as browser, opened(browser, f"{served.url}/dashboard/") as tab:
        await tab.shows("Sign in")
        await tab.page.fill("#token", token)
        await tab.page.click("main button")
        await tab.shows("403: not allowed")
        await tab.shows("needs the right to list pods in all namespaces")
        assert await tab.text("#strip") == ""
        assert await tab.script("fairlead.board.nodes.size + fairlead.board.pods.size") == 0


WHAT_IF = """fetch("api/whatif", {method: "POST", body: '{"changes": [["drain", "n"]]}'})
  .then((answer) => answer.status)"""
UNTIL_FORBIDDEN = """new Promise((done) => {
  const ask = async () => ((await fetch("api/state")).status === 403 ? done() : setTimeout(ask, 200));
  ask();
})"""


@pytest.mark.real
async def test_a_user_with_the_shipped_role_signs_in_and_is_out_when_it_is_withdrawn(served: Served) -> None:
    served.cluster.add_nodes(1)
    token = await asyncio.to_thread(served.user, "viewer", may_view=True)
    async with chromium() as browser, opened(browser, f"{served.url}/dashboard/#/queue") as tab:
        await tab.shows("Sign in")
        await tab.page.fill("#token", "made up")
        await tab.page.click("main button")
        await tab.shows("The API server does not accept the token")
        await tab.page.fill("#token", token)
        await tab.page.click("main button")
        await tab.shows("live", ".lamp")
        await tab.shows("Queue and gangs")
        cookies = await tab.context.cookies()
        assert [(one["httpOnly"], one["sameSite"]) for one in cookies] == [(True, "Strict")]
        assert token not in cookies[0]["value"]
        await asyncio.to_thread(served.cluster.wire.request, "DELETE", served.binding)
        # Nothing tells when the verdict ends, so it is asked for again and again.
        await tab.script(UNTIL_FORBIDDEN)
        assert await tab.script(WHAT_IF) == 403
        await tab.page.reload()
        await tab.shows("403: not allowed")
        assert await tab.text("#strip") == ""


@pytest.mark.real
async def test_a_user_can_sign_out(served: Served) -> None:
    token = await asyncio.to_thread(served.user, "viewer", may_view=True)
    async with chromium() as browser, opened(browser, f"{served.url}/dashboard/") as tab:
        await tab.page.fill("#token", token)
        await tab.page.click("main button")
        await tab.page.click("text=Sign out")
        await tab.shows("You are signed out")
        assert await tab.script("fetch('api/state').then((answer) => answer.status)") == 401
