"""Who may look at the page.

On a laptop the page shows what the kubeconfig of the user who started it may see, to that user: an address
with a token that works once, and is exchanged for a cookie. On a cluster every user brings a bearer token of
that cluster, which the API server reviews; it is exchanged for a cookie, because the stream of changes cannot
send a header. What that user may read is asked of the API server for each read.

The subtle thing is other pages in the same browser. They can send requests here, but not read the answers: no
other origin is allowed, the cookie is not sent along from other sites, and a host name that is not ours is
refused, so that no name server can make this page part of another site.
"""

from __future__ import annotations

import hmac
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from aiohttp import web

from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.caller_review import Caller, CallerReview, Refusal, Right

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SESSION_S = 8 * 3600.0
"""How long a user stays signed in on a cluster."""
_VERDICT_S = 10.0  # how long what a user may read is taken for granted
_MOST = 1_000
_RIGHTS = (
    Right("list", "", "pods"),
    Right("list", "", "nodes"),
    Right("list", "", "events"),
    Right("list", "fairlead.dev", "placementpolicies"),
)


class Access(ABC):
    """See the module."""

    def __init__(self, hosts: Iterable[str]) -> None:
        """`hosts` are the names under which the page may be called, without ports."""
        self._hosts = frozenset(host.lower() for host in hosts)

    def of_origin(self, request: web.Request) -> Refusal | None:
        """Why a request must not be answered, whoever sends it: it is for another host, or another page's."""
        host = urlsplit(f"//{request.host}")
        try:
            name, port = (host.hostname or "").lower(), host.port
        except ValueError:
            return Refusal(400, "the header Host makes no sense")
        if name not in self._hosts:
            return Refusal(421, f"this is not {name}: name the host with --dashboard-host, if it is")
        origin = request.headers.get("Origin")
        if origin is not None:
            of = urlsplit(origin)
            try:
                same = ((of.hostname or "").lower(), of.port) == (name, port)
            except ValueError:
                same = False
            if not same:
                return Refusal(403, "requests of other pages are not answered")
        # A link on another page may lead here; what that page itself sends is not answered.
        navigates = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.method == "GET"
        if not navigates and request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            return Refusal(403, "requests of other pages are not answered")
        return None

    @abstractmethod
    async def of_reader(self, request: web.Request) -> Refusal | None:
        """Why the sender of a request may not read the board; None: it may."""

    @abstractmethod
    def routes(self) -> Iterable[tuple[str, str, Callable[[web.Request], object]]]:
        """Method, path below the page's own and handler of what it answers itself."""

    def _set(self, request: web.Request, response: web.StreamResponse, name: str, value: str) -> None:
        response.set_cookie(
            name,
            value,
            path=request.path.rpartition("/")[0] + "/",
            httponly=True,
            samesite="Strict",
            secure=request.secure,
        )


class OneTimeToken(Access):
    """For one user on the same machine: whoever brings the token of the moment.

    Invariant: a token opens one session; then there is another, which `renewed` receives.
    """

    def __init__(self, renewed: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(LOOPBACK)
        self.token = secrets.token_urlsafe(24)
        self._renewed = renewed
        self._sessions: set[str] = set()

    async def of_reader(self, request: web.Request) -> Refusal | None:
        """See `Access`."""
        if request.cookies.get(self._cookie(request), "") in self._sessions:
            return None
        return Refusal(401, "open the address that fairlead printed; each works once")

    def routes(self) -> Iterable[tuple[str, str, Callable[[web.Request], object]]]:
        """See `Access`."""
        return [("GET", "/open", self._open)]

    async def _open(self, request: web.Request) -> web.StreamResponse:
        given = request.query.get("token", "")
        # Sent on, so that the token is not in the address any more.
        response = web.Response(status=303, headers={"Location": "./"})
        if hmac.compare_digest(given.encode(), self.token.encode()):
            self.token = secrets.token_urlsafe(24)
            self._renewed(self.token)
            session = secrets.token_urlsafe(24)
            self._sessions.add(session)
            self._set(request, response, self._cookie(request), session)
        return response

    def _cookie(self, request: web.Request) -> str:
        # Cookies are for all ports of a host.
        return f"fairlead-{urlsplit(f'//{request.host}').port or 80}"


@dataclass(slots=True)
class _Session:
    caller: Caller
    token: str
    until: float
    verdict: Refusal | None = None
    verdict_until: float = field(default=0.0)


class ReviewedCallers(Access):
    """For users of a cluster. Tokens are kept in memory as long as the session, to be reviewed again. That
    reviews are not to be had for a moment is not a verdict.

    Invariant: no session outlives `SESSION_S`, and none is answered by a verdict older than ten seconds.
    """

    def __init__(self, review: CallerReview, *, hosts: Iterable[str] = (), clock: Clock = WALL_CLOCK) -> None:
        super().__init__((*LOOPBACK, *hosts))
        self._review = review
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    async def of_reader(self, request: web.Request) -> Refusal | None:
        """See `Access`."""
        now = self._clock.now()
        session = self._sessions.get(request.cookies.get(_COOKIE, ""))
        if session is None or session.until <= now:
            return Refusal(401, "sign in with a bearer token of this cluster")
        if session.verdict_until <= now:
            session.verdict = await self._verdict(session)
            passes = session.verdict is not None and session.verdict.status in (429, 503)
            session.verdict_until = self._clock.now() + (0.0 if passes else _VERDICT_S)
            if session.verdict is not None and session.verdict.status == 401:
                self._sessions.pop(request.cookies[_COOKIE], None)
        return session.verdict

    def routes(self) -> Iterable[tuple[str, str, Callable[[web.Request], object]]]:
        """See `Access`."""
        return [("POST", "/session", self._sign_in), ("DELETE", "/session", self._sign_out)]

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        authorization = request.headers.get("Authorization", "")
        caller = await self._review.of(authorization)
        if isinstance(caller, Refusal):
            return web.Response(status=caller.status, text=caller.why)
        refusal = await self._review.of_rights(caller, _RIGHTS)
        if refusal is not None:
            return web.Response(status=refusal.status, text=refusal.why)
        now = self._clock.now()
        self._sessions = {key: one for key, one in self._sessions.items() if one.until > now}
        while len(self._sessions) >= _MOST:
            del self._sessions[next(iter(self._sessions))]
        key = secrets.token_urlsafe(24)
        self._sessions[key] = _Session(caller, authorization, now + SESSION_S, None, now + _VERDICT_S)
        response = web.Response(status=204)
        self._set(request, response, _COOKIE, key)
        return response

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        self._sessions.pop(request.cookies.get(_COOKIE, ""), None)
        response = web.Response(status=204)
        response.del_cookie(_COOKIE, path=request.path.rpartition("/")[0] + "/")
        return response

    async def _verdict(self, session: _Session) -> Refusal | None:
        caller = await self._review.of(session.token)  # tokens end, and are withdrawn
        if isinstance(caller, Refusal):
            return caller
        session.caller = caller
        return await self._review.of_rights(caller, _RIGHTS)


_COOKIE = "fairlead-session"
