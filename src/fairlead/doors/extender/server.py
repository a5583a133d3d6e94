"""The extender's end of the wire: ``/filter``, ``/prioritize`` and ``/preempt``.

kube-scheduler takes anything but 200 for an error and, with ``ignorable: true``, goes on without us. So
that is what it gets while we do not know enough or another replica leads: no opinion is better than one
that contradicts the leader's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog
from aiohttp import web

from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.bodies import BODIES, Refused
from fairlead.doors.certificates import certified
from fairlead.doors.extender import wire
from fairlead.doors.extender.ledgers import Ledgers
from fairlead.doors.extender.metrics import Metrics
from fairlead.errors import BadInput, FairleadError
from fairlead.feed.groups import LiveGroups
from fairlead.policy.decide.admission import cost_is_ours
from fairlead.policy.decide.filter.extender import Extender
from fairlead.policy.decide.filter.filter_state import FilterAnswer, FilterRequest
from fairlead.policy.groups.member import read_mark

_log = structlog.get_logger(__name__)

VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt"}

# A node not listed has no points. In large clusters kube-scheduler takes longer to read a list of zeros
# than we take to decide.
_LISTED = 100
LIMIT = 16 * 1024 * 1024
"""Bytes of a body that names nodes; larger ones come with every node, and one at a time."""
LARGEST = 64 * 1024 * 1024
"""Bytes of a body with every node, unless configured."""
_SHOWN_S = 1.0  # how long our watch may be behind kube-scheduler's
_SAID = 253
_NO_CERTIFICATE = "calls are answered only with a client certificate of --client-ca-file"
_JSON = {"Content-Type": "application/json"}


class ClaimProbe(Protocol):
    """Makes a pod the one that tries a tier after its cool-down."""

    async def __call__(self, policy: str, tier: str, token: str) -> bool:
        """Whether the pod may try."""


class Endpoint:
    """Answers kube-scheduler's calls. `closed` says why we may not answer, "" when we may."""

    def __init__(
        self,
        extender: Extender,
        groups: LiveGroups,
        ledgers: Ledgers,
        metrics: Metrics,
        *,
        closed: Callable[[], str],
        claim_probe: ClaimProbe,
        called: Callable[[], None] = lambda: None,
        decided: Callable[[], None] = lambda: None,
        certified_only: bool = False,
        largest: int = LARGEST,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """`called` runs at every call, `decided` at every answer to filter that refused.

        With `certified_only`, callers that show no certificate are refused. `largest` is how many bytes
        a body may have that comes with every node.
        """
        self._extender = extender
        self._state = extender.state
        self._groups = groups
        self._ledgers = ledgers
        self._metrics = metrics
        self._closed = closed
        self._claim_probe = claim_probe
        self._called = called
        self._decided = decided
        self._certified_only = certified_only
        self._largest = largest
        self._clock = clock

    @property
    def routes(self) -> tuple[web.RouteDef, ...]:
        """What to serve."""
        return (
            web.post("/filter", self._on_filter),
            web.post("/prioritize", self._on_prioritize),
            web.post("/preempt", self._on_preempt),
        )

    async def _on_filter(self, http: web.Request) -> web.Response:
        return await self._answer("filter", http, self.filter)

    async def _on_prioritize(self, http: web.Request) -> web.Response:
        return await self._answer("prioritize", http, self.prioritize)

    async def _on_preempt(self, http: web.Request) -> web.Response:
        return await self._answer("preempt", http, self.preempt)

    async def _answer(self, verb: str, http: web.Request, decide: _Decide) -> web.Response:
        began = time.perf_counter()
        status, headers = 200, _JSON
        try:
            if self._certified_only and not certified(http):
                raise Refused(401, _NO_CERTIFICATE)
            self._check_open()
            async with http.app[BODIES].of(http, LIMIT, largest=self._largest, typed=True) as body:
                result, answer = await decide(body)
        except _Closed as error:
            result, answer, status = "unready", _error(verb, str(error)), 503
        except Refused as error:
            _log.info("call_refused", verb=verb, reason=str(error))
            status, headers = error.status, _JSON | error.headers
            result = {401: "unauthenticated", 503: "busy"}.get(status, "malformed")
            answer = _error(verb, str(error))
        except BadInput as error:
            _log.info("call_refused", verb=verb, reason=str(error)[:500])
            result, answer, status = "malformed", _error(verb, str(error)[:500]), 400
        except _Unshown as error:
            _log.info("call_refused", verb=verb, reason=str(error))
            result, answer, status = "unshown", _error(verb, str(error)), 503
        except FairleadError as error:
            _log.warning("not_decided", verb=verb, reason=str(error))
            result, answer, status = "failed", _error(verb, str(error)), 503
        except Exception:  # noqa: BLE001 (whatever a pod makes us stumble over; the log has it all)
            _log.exception("not_decided", verb=verb)
            result, answer, status = "failed", _error(verb, "fairlead failed; its log says why"), 500
        if result not in ("malformed", "unauthenticated", "busy", "unshown"):
            self._called()  # a caller that sends nonsense is no scheduler
        self._metrics.calls.labels(verb, result).inc()
        self._metrics.call_s.labels(verb).observe(time.perf_counter() - began)
        response = web.Response(status=status, body=answer, headers=headers)
        if result == "unready" or status == 401:
            # Or kube-scheduler would keep the connection, and call us instead of the leader for ever.
            response.force_close()
        return response

    async def filter(self, body: bytes | bytearray) -> tuple[str, bytes]:
        """What became of the call, and the answer."""
        args = wire.read_args(body)
        offered = args.names()
        ask = await self._ask(args.pod)
        if ask is None:
            return "ungoverned", wire.encode(wire.FilterResult(args.nodes, args.node_names))
        probing = ""
        if tiers := self._state.may_try(ask, offered, self._clock.now()):
            policy = ask.place.policy
            probing = await self._claimed(policy.name, tiers, ask.member.uid)
            ask = await self._ask(args.pod)  # policies may have changed meanwhile
            if ask is None:
                return "ungoverned", wire.encode(wire.FilterResult(args.nodes, args.node_names))
            if ask.place.policy is not policy:
                probing = ""
        verdict = self._state.filter(ask, offered, self._clock.now(), probing)
        self._say(ask, verdict)
        failed, hopeless = verdict.refusals(offered)
        kept = verdict.nodes
        if not kept:
            self._decided()
        answer = wire.FilterResult(
            nodes=args.only(set(kept), offered) if args.node_names is None else None,
            node_names=tuple(kept) if args.node_names is not None else None,
            failed_nodes=failed,
            failed_and_unresolvable_nodes=hopeless,
        )
        return "answered" if kept else "refused", wire.encode(answer)

    async def _claimed(self, policy: str, tiers: Sequence[str], uid: str) -> str:
        """The first of these tiers whose probe the pod has now; "" for none."""
        for tier in tiers:
            if await self._claim_probe(policy, tier, uid):
                return tier
        return ""

    async def prioritize(self, body: bytes | bytearray) -> tuple[str, bytes]:
        """What became of the call, and the answer."""
        args = wire.read_args(body)
        offered = args.names()
        ask = await self._ask(args.pod)
        scores = (
            [0] * len(offered)
            if ask is None
            else self._state.scores(ask, offered, highest=wire.HIGHEST_SCORE)
        )
        every = len(offered) <= _LISTED
        ranked = [
            wire.HostPriority(name, score)
            for name, score in zip(offered, scores, strict=True)
            if score or every
        ]
        return "ungoverned" if ask is None else "answered", wire.encode(ranked)

    async def preempt(self, body: bytes | bytearray) -> tuple[str, bytes]:
        """What became of the call, and the answer: victims stay as kube-scheduler chose them."""
        args = wire.read_preemption(body)
        candidates = args.candidates()
        ask = await self._ask(args.pod)
        result = "ungoverned"
        if ask is not None:
            victims = {node: {pod.uid for pod in one.pods or ()} for node, one in candidates.items()}
            kept = set(self._state.preempt(ask, victims, self._clock.now()))
            candidates = {node: victims for node, victims in candidates.items() if node in kept}
            result = "answered" if candidates else "refused"
        return result, wire.encode(wire.PreemptionResult(candidates))

    async def _ask(self, asking: wire.AskingPod | None) -> FilterRequest | None:
        """Where the pod belongs; None: no policy governs it.

        The pod as our watch shows it, whatever the call says of it: slots are counted for pods that exist.
        """
        assert asking is not None  # checked when it was read
        called = asking.metadata
        if not len(self._groups.index.policies):
            return None
        pod = await self._groups.when_shown(called.key, called.uid, _SHOWN_S)
        if pod is None:
            raise _Unshown(
                f"fairlead's watch has not shown pod {called.key[:_SAID]} ({called.uid[:_SAID]}) yet"
            )
        namespace = pod.metadata.namespace
        await self._groups.owners.learn(pod.metadata, namespace)
        place = self._groups.index.place(pod.metadata, namespace)
        if place is not None and (mark := read_mark(pod.metadata.annotations)) is not None and mark.token:
            await self._ledgers.look_up(place.key, called.uid, mark.token)
        self._check_open()  # that may have taken seconds
        return self._extender.request(pod, costed=not cost_is_ours(called.annotations))

    def _check_open(self) -> None:
        if why := self._closed():
            raise _Closed(f"fairlead does not answer: {why}")

    def _say(self, ask: FilterRequest, verdict: FilterAnswer) -> None:
        if verdict.choice is None:
            return
        policy, tier = ask.place.policy, verdict.choice.tier
        for passed in verdict.passed:
            self._metrics.passed_on.labels(policy.name, passed).inc()
        _log.info(
            "filtered",
            pod=f"{ask.namespace}/{ask.member.name}",
            policy=policy.name,
            slot=verdict.slot,
            tier=policy.spec.tiers[tier].name if tier is not None else None,
            reason=verdict.choice.why,
            nodes=len(verdict.nodes),
        )


class _Closed(FairleadError):  # noqa: N818 (reads as what happened)
    """Another replica leads, or we do not know enough yet."""


class _Unshown(FairleadError):  # noqa: N818 (reads as what happened)
    """A pod that does not exist, or is newer than what our watch has shown."""


class _Decide(Protocol):
    async def __call__(self, body: bytes | bytearray) -> tuple[str, bytes]: ...


def _error(verb: str, reason: str) -> bytes:
    """What is wrong, in the shape of the verb's answer where that has a place for it."""
    if verb == "filter":
        return wire.encode(wire.FilterResult(error=reason))
    return wire.encode_error(reason)
