"""The webhook's end of the wire: a review comes in, an answer goes out.

Every body gets a well-formed answer or an HTTP error. An error is also what we answer when we cannot
decide: then the registration's failurePolicy says whether the pod goes on without us.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from aiohttp import web

from fairlead.doors.bodies import BODIES, Refused
from fairlead.doors.certificates import certified
from fairlead.doors.webhook.metrics import Metrics
from fairlead.doors.webhook.registration import PATH
from fairlead.doors.webhook.reviews import LIMIT, BadReview, Request, allowed, read_review
from fairlead.errors import FairleadError

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


class Endpoint:
    """Answers the API server's calls; with `certified_only`, only of callers that show a certificate."""

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
        """From now on there is enough known to decide; earlier calls wait for it."""
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
        try:
            async with http.app[BODIES].of(http, LIMIT) as body:
                return await self._review(read_review(body))
        except Refused as error:
            _log.info("review_refused", reason=str(error))
            result = "failed" if error.status == 503 else "malformed"
            return result, web.Response(status=error.status, text=str(error), headers=error.headers)
        except BadReview as error:
            _log.info("review_refused", reason=str(error)[:500])
            return "malformed", web.Response(status=400, text=str(error)[:500])

    async def _review(self, request: Request) -> tuple[str, web.Response]:
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
        """Log it now and then: with failurePolicy Ignore nothing else would report that all calls fail."""
        if self._clock() >= self._complained + _COMPLAIN_S:
            self._complained = self._clock()
            _log.warning("review_refused", reason=_NO_CERTIFICATE, caller=http.remote)

    async def _of(self, request: Request) -> Answer:
        if not request.is_new_pod:
            return Answer()
        await self._opened.wait()
        return await self._admit(request.object, request.namespace, dry_run=bool(request.dry_run))
