"""The webhook's end of the wire: a review comes in, an answer goes out, and TLS that can be renewed.

Every body gets a well-formed answer or an HTTP error. An error is also what we answer when we cannot
decide: then the registration's failurePolicy says whether the pod goes on without us.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from aiohttp import web

from fairlead.client.authority import KeyPair
from fairlead.client.tls import load_pair
from fairlead.doors.webhook.metrics import Metrics
from fairlead.doors.webhook.registration import PATH
from fairlead.doors.webhook.reviews import LIMIT, BadReview, Request, allowed, read_review
from fairlead.errors import BadInput, FairleadError

__all__ = ["Answer", "Endpoint", "Shown"]

_log = structlog.get_logger(__name__)

# The API server gives up after ten seconds; an error that still reaches it says more than a silence.
_PATIENCE_S = 9.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of a pod: steps of a JSON patch, and what its maker should know."""

    patch: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()


class Admit(Protocol):
    """Decides on a pod that is about to be made."""

    def __call__(self, pod: dict[str, Any], namespace: str, *, dry_run: bool) -> Awaitable[Answer]:
        """The answer; raises a FairleadError when none can be given."""


class Shown:
    """The certificate that new connections are shown. Connections that are open are left alone."""

    def __init__(self) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # Asked for every handshake, also where the client names no server.
        self.context.sni_callback = self._choose
        self._present = self.context

    def show(self, pair: KeyPair) -> None:
        """From the next handshake on; BadInput where the pair cannot be used, and the last one stays."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            load_pair(context, pair.public.decode(), pair.private.decode())
        except (ssl.SSLError, ValueError) as error:
            raise BadInput(f"the certificate and key cannot be used together: {error}") from error
        self._present = context

    def _choose(self, connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._present


class Endpoint:
    """Answers the API server's calls."""

    def __init__(self, admit: Admit, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._admit = admit
        self._metrics = metrics
        self._clock = clock
        self._opened = asyncio.Event()
        self._draining = False

    def open(self) -> None:
        """From now on there is enough known to decide; who called before waits for it."""
        self._opened.set()

    def drain(self) -> None:
        """From now on close each connection after its answer, so that the next call goes elsewhere."""
        self._draining = True

    @property
    def routes(self) -> tuple[web.RouteDef, ...]:
        """What to serve."""
        return (web.post(PATH, self._answer),)

    async def _answer(self, http: web.Request) -> web.Response:
        began = self._clock()
        result, response = await self._decide(http)
        self._metrics.admissions.labels(result).inc()
        self._metrics.admission_s.observe(self._clock() - began)
        if self._draining:
            response.force_close()
        return response

    async def _decide(self, http: web.Request) -> tuple[str, web.Response]:
        if (http.content_length or 0) > LIMIT:
            return "malformed", web.Response(status=413, text=f"more than {LIMIT} bytes")
        body = await http.read()
        if len(body) > LIMIT:
            return "malformed", web.Response(status=413, text=f"more than {LIMIT} bytes")
        try:
            request = read_review(body)
        except BadReview as error:
            _log.info("review_refused", reason=str(error)[:500])
            return "malformed", web.Response(status=400, text=str(error)[:500])
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answer = await self._of(request)
        except (FairleadError, TimeoutError) as error:
            reason = str(error) or "no answer from the API server in time"
            _log.warning("not_decided", namespace=request.namespace, pod=request.name, reason=reason)
            return "failed", web.Response(status=503, text=reason[:500])
        except Exception:  # noqa: BLE001 (whatever a pod makes us stumble over; the log has it all)
            _log.exception("not_decided", namespace=request.namespace, pod=request.name)
            return "failed", web.Response(status=500, text="fairlead failed; its log says why")
        result = "patched" if answer.patch else "unchanged"
        return result, web.Response(
            body=allowed(request.uid, answer.patch, answer.warnings), content_type="application/json"
        )

    async def _of(self, request: Request) -> Answer:
        if not request.is_new_pod:
            return Answer()
        await self._opened.wait()
        return await self._admit(request.object, request.namespace, dry_run=bool(request.dry_run))
