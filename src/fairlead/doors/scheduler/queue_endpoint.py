"""The leader's queue, read-only: ``GET /queue/NAMESPACE/POD``, for callers who may get that pod.

What it tells is known to this process alone: the order as it is now, how often a unit was tried, and when it
is tried again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from fairlead.doors.caller_review import CallerReview
from fairlead.engine.core.report import QueuePosition

Answer = Callable[[str], Awaitable[QueuePosition | None]]


class QueueEndpoint:
    """Answers for the session that leads; `ask` is None while none does."""

    def __init__(self, review: CallerReview, ask: Callable[[], Answer | None]) -> None:
        self._review = review
        self._ask = ask

    def routes(self) -> list[web.RouteDef]:
        """What it adds to the port."""
        return [web.get("/queue/{namespace}/{name}", self.answer)]

    async def answer(self, request: web.Request) -> web.Response:
        """The position, or why there is none: 401, 403, 404, 429 or 503 with a sentence."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        refusal = await self._review.of_pod(request.headers.get("Authorization", ""), namespace, name)
        if refusal is not None:
            return web.Response(status=refusal.status, text=refusal.why)
        ask = self._ask()
        if ask is None:
            return web.Response(
                status=503, text="this replica does not lead; the lease names the one that does"
            )
        found = await ask(f"{namespace}/{name}")
        if found is None:
            return web.Response(status=404, text=f"pod {namespace}/{name} does not wait for this scheduler")
        return web.json_response(found.to_dict())
