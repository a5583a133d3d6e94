"""AdmissionReviews as the API server sends them, and an endpoint to send them to."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp

from fairlead.client.authority import Authority, KeyPair
from fairlead.client.tls import client_context
from fairlead.doors.certificates import Shown
from fairlead.doors.health import serving
from fairlead.doors.webhook.metrics import Metrics
from fairlead.doors.webhook.registration import PATH
from fairlead.doors.webhook.server import Admit, Endpoint

Sessions = Callable[[KeyPair | None], aiohttp.ClientSession]


def review(obj: Any, *, uid: str = "u1", namespace: str = "shop", **more: Any) -> dict[str, Any]:
    """A review of the creation of a pod."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {
        "uid": uid,
        "kind": kind,
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": kind,
        "operation": "CREATE",
        "namespace": namespace,
        "userInfo": {"username": "someone"},
        "object": obj,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps in an answer."""
    if "patch" not in response:
        return []
    assert response["patchType"] == "JSONPatch"
    found: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
    return found


class Caller:
    """Calls an endpoint as the API server would."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def send(self, body: bytes, path: str = PATH) -> tuple[int, bytes]:
        async with self._session.post(self.url + path, data=io.BytesIO(body)) as response:
            return response.status, await response.read()

    async def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The response to a review; must be well-formed."""
        status, body = await self.send(json.dumps(asked).encode())
        assert status == 200, body
        return well_formed(body, asked["request"]["uid"])


def well_formed(body: bytes, uid: str) -> dict[str, Any]:
    answer = json.loads(body)
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = answer["response"]
    assert response["uid"] == uid
    assert response["allowed"] is True
    return response


@asynccontextmanager
async def endpoint(admit: Admit) -> AsyncIterator[Caller]:
    """An endpoint on the loopback that answers with `admit`."""
    async with guarded(admit) as (_, session, url):
        yield Caller(session(None), url)


@asynccontextmanager
async def guarded(
    admit: Admit, callers: Authority | None = None
) -> AsyncIterator[tuple[Shown, Sessions, str]]:
    """The same, with `callers` only for those who show a certificate of theirs.

    Yields what is shown, what makes a session of somebody with a certificate (or without), and the URL.
    """
    authority, shown = Authority(), Shown(ask=callers is not None)
    shown.show(authority.server(["localhost"], ["127.0.0.1"]))
    if callers is not None:
        shown.trust(callers.pair.public.decode())
    metrics = Metrics()
    answering = Endpoint(admit, metrics, certified_only=callers is not None)
    answering.open()

    def session(pair: KeyPair | None) -> aiohttp.ClientSession:
        certificate = (pair.public.decode(), pair.private.decode()) if pair is not None else None
        trusting = client_context(ca_pem=authority.pair.public.decode(), certificate=certificate)
        made = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting))
        stack.push_async_callback(made.close)
        return made

    async with (
        serving(
            "127.0.0.1:0",
            checks=dict,
            metrics=metrics.text,
            routes=answering.routes,
            tls=shown,
        ) as url,
        AsyncExitStack() as stack,
    ):
        yield shown, session, url
