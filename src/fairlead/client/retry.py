"""Which requests may be repeated, and how long to wait before.

Reads: always. Writes: only when the server is known not to have applied them (nothing was sent, or a
429 or 503 that asks to come back), or when they carry a precondition that makes a second application
impossible. Everything else is the caller's to read and decide.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import structlog

from fairlead.errors import ApiError, FairleadError, NotSent, TooManyRequests, Unreachable

_log = structlog.get_logger(__name__)

T = TypeVar("T")


class Repeat(Enum):
    """What makes repeating a request safe."""

    READ = "changes nothing"
    GUARDED = "carries a precondition, or says the whole outcome: applying it twice is applying it once"
    ONCE = "may be applied twice if repeated"


def may_repeat(repeat: Repeat, error: FairleadError) -> bool:
    """Whether a request that ended in `error` may be sent again."""
    if isinstance(error, NotSent):
        return True
    if isinstance(error, Unreachable):
        return repeat is not Repeat.ONCE
    if not isinstance(error, ApiError) or is_budget_refusal(error):
        return False
    if error.code in (429, 503) and error.retry_after_s is not None:
        return True
    # Without Retry-After, a 5xx may come from something in between after the write was applied.
    return repeat is Repeat.READ and error.code in (429, 500, 502, 503, 504)


def is_budget_refusal(error: FairleadError) -> bool:
    """Whether a 429 is a PodDisruptionBudget saying no: an answer, not flow control."""
    causes = error.details.get("causes") if isinstance(error, TooManyRequests) else None
    return isinstance(causes, list) and any(
        isinstance(cause, dict) and cause.get("reason") == "DisruptionBudget" for cause in causes
    )


class Backoff:
    """Growing waits with full jitter: each is drawn from zero to a bound that doubles up to a cap.

    Full jitter, because clients cut off together must not come back together.
    """

    __slots__ = ("_bound", "_cap", "_first", "_rng")

    def __init__(self, rng: random.Random, *, first_s: float = 0.2, cap_s: float = 30.0) -> None:
        self._rng = rng
        self._first = self._bound = first_s
        self._cap = cap_s

    def next_s(self, at_least_s: float | None = None) -> float:
        """How long to wait now; what the server asked for is a lower bound."""
        wait = self._rng.uniform(0.0, self._bound)
        self._bound = min(self._bound * 2, self._cap)
        return wait if at_least_s is None else at_least_s + wait

    def reset(self) -> None:
        """It worked: start small again."""
        self._bound = self._first


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how long to try. `patience_s` bounds a single wait: a server that asks for more is
    reported to the caller.
    """

    rng: random.Random
    attempts: int = 5
    patience_s: float = 30.0
    first_s: float = 0.2

    async def run(self, call: Callable[[bool], Awaitable[T]], repeat: Repeat) -> T:
        """Call until it works or must not be repeated. `call` learns whether an earlier attempt got no
        answer and so may have been applied: a conflict may then be with ourselves.

        Cancelled while waiting, nothing is in flight; cancelled while sending, the outcome is unknown.
        """
        backoff: Backoff | None = None
        unseen = False
        for left in range(self.attempts - 1, -1, -1):
            try:
                return await call(unseen)
            except (ApiError, Unreachable) as error:
                asked = error.retry_after_s if isinstance(error, ApiError) else None
                if not left or not may_repeat(repeat, error) or (asked or 0.0) > self.patience_s:
                    raise
                unseen = unseen or (isinstance(error, Unreachable) and not isinstance(error, NotSent))
                backoff = backoff or Backoff(self.rng, first_s=self.first_s)
                wait_s = backoff.next_s(asked)
                _log.debug("request_repeated", error=str(error), wait_s=round(wait_s, 3))
            await asyncio.sleep(wait_s)
        raise AssertionError("the loop ends by return or raise")
