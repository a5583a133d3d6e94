"""The webhook's end of the wire: a review comes in, an answer goes out, and TLS that can be renewed.

Every body gets a well-formed answer or an HTTP error. An error is also what we answer when we cannot
decide: then the registration's failurePolicy says whether the pod goes on without us.
"""

from __future__ import annotations

import asyncio
import math
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

__all__ = ["Answer", "Endpoint", "Shown", "certified"]

_log = structlog.get_logger(__name__)

# The API server gives up after ten seconds; an error that still reaches it says more than a silence.
_PATIENCE_S = 9.0
_COMPLAIN_S = 60.0
_NO_CERTIFICATE = (
    "reviews are taken only with a client certificate of --client-ca-file; the API server shows one when its "
    "--admission-control-config-file says so: see docs/how-to/webhook.md"
)


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
    """The certificate that new connections are shown, and whose callers' certificates are believed.

    Connections that are open are left alone.
    """

    def __init__(self, *, ask: bool = False) -> None:
        """With `ask`, callers may show a certificate too: one that `trust` was told the signer of, or none.

        None must do, because the kubelet asks for our health without one; `certified` tells who has one.
        """
        self._ask = ask
        self._pair: KeyPair | None = None
        self._callers = ""
        self.context = self._new(None, "")
        # Asked for every handshake, also where the client names no server.
        self.context.sni_callback = self._choose
        self._present = self.context

    def show(self, pair: KeyPair) -> None:
        """From the next handshake on; BadInput where the pair cannot be used, and the last one stays."""
        self._present = self._new(pair, self._callers)
        self._pair = pair

    def trust(self, callers: str) -> None:
        """Believe callers whose certificate one of these (PEM) signed, and no others, from the next one on.

        BadInput where that cannot be used, and the last one stays.
        """
        if not callers.strip():
            raise BadInput("it has no certificates")
        self._present = self._new(self._pair, callers)
        self._callers = callers

    def _new(self, pair: KeyPair | None, callers: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if self._ask:
            # The mode is the first context's; whom it is about is asked of the one that it is swapped for.
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # many clusters' authorities are not that strict
        if callers:
            try:
                context.load_verify_locations(cadata=callers)
            except (ssl.SSLError, ValueError) as error:
                raise BadInput(f"it has no certificates that can be used: {error}") from error
        if pair is not None:
            try:
                load_pair(context, pair.public.decode(), pair.private.decode())
            except (ssl.SSLError, ValueError) as error:
                raise BadInput(f"the certificate and key cannot be used together: {error}") from error
        return context

    def _choose(self, connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._present


def certified(http: web.Request) -> bool:
    """Whether the caller has shown a certificate; the handshake has seen to it that it is to be believed."""
    return http.transport is not None and bool(http.transport.get_extra_info("peercert"))


class Endpoint:
    """Answers the API server's calls; with `certified_only`, nobody's who did not show a certificate."""

    def __init__(
        self,
        admit: Admit,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        *,
        certified_only: bool = False,
    ) -> None:
        self._admit = admit
        self._metrics = metrics
        self._clock = clock
        self._certified_only = certified_only
        self._complained = -math.inf
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
        if self._certified_only and not certified(http):
            self._complain(http)
            return "unauthenticated", web.Response(status=401, text=_NO_CERTIFICATE)
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

    def _complain(self, http: web.Request) -> None:
        """Now and then: with failurePolicy Ignore nobody else would say that all calls are in vain."""
        if self._clock() >= self._complained + _COMPLAIN_S:
            self._complained = self._clock()
            _log.warning("review_refused", reason=_NO_CERTIFICATE, caller=http.remote)

    async def _of(self, request: Request) -> Answer:
        if not request.is_new_pod:
            return Answer()
        await self._opened.wait()
        return await self._admit(request.object, request.namespace, dry_run=bool(request.dry_run))
