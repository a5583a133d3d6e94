"""Which requests may be repeated, and how long to wait before."""

from __future__ import annotations

import random

import pytest

from fairlead.client.retry import Backoff, Repeat, Retry, is_budget_refusal, may_repeat
from fairlead.errors import (
    ApiError,
    BadObject,
    FairleadError,
    LeaseLost,
    NotSent,
    TooManyRequests,
    Unreachable,
)
from support.virtual_loop import VirtualLoop, run_virtually

BUDGET = TooManyRequests(
    429,
    "TooManyRequests",
    "Cannot evict pod as it would violate the pod's disruption budget.",
    retry_after_s=10,
    details={"causes": [{"reason": "DisruptionBudget", "message": "needs 2"}]},
)


def says(code: int, retry_after_s: float | None = None) -> ApiError:
    return ApiError.of(code, "x", "x", retry_after_s=retry_after_s)


@pytest.mark.parametrize(
    ("error", "read", "guarded", "once"),
    [
        (NotSent("refused"), True, True, True),
        (Unreachable("broke off"), True, True, False),
        (says(429, 1), True, True, True),
        (says(503, 1), True, True, True),
        (says(429), True, False, False),
        (says(503), True, False, False),
        (says(500), True, False, False),
        (says(500, 1), True, False, False),
        (says(504), True, False, False),
        (says(404), False, False, False),
        (says(409), False, False, False),
        (says(422), False, False, False),
        (BUDGET, False, False, False),
        (LeaseLost("x"), False, False, False),
        (BadObject("x", "", ""), False, False, False),
    ],
)
def test_what_may_be_repeated(error: FairleadError, read: bool, guarded: bool, once: bool) -> None:
    assert [may_repeat(how, error) for how in (Repeat.READ, Repeat.GUARDED, Repeat.ONCE)] == [
        read,
        guarded,
        once,
    ]


def test_a_budgets_no_is_told_from_flow_control() -> None:
    assert is_budget_refusal(BUDGET)
    assert not is_budget_refusal(says(429, 1))


def test_waits_grow_to_a_cap_and_differ() -> None:
    backoff = Backoff(random.Random(1), first_s=1.0, cap_s=8.0)
    waits = [backoff.next_s() for _ in range(200)]
    bounds = [1.0, 2.0, 4.0] + [8.0] * 197
    assert all(0 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))
    assert max(waits) > 4.0
    assert len(set(waits)) == len(waits)
    backoff.reset()
    assert backoff.next_s() <= 1.0


def test_what_the_server_asked_for_is_waited_at_least() -> None:
    async def main(loop: VirtualLoop) -> list[float]:
        times = []

        async def call(_: bool) -> int:
            times.append(loop.time())
            if len(times) < 3:
                raise says(429, 7.0)
            return 1

        assert await Retry(random.Random(1)).run(call, Repeat.ONCE) == 1
        return times

    first, second, third = run_virtually(main)
    assert second - first >= 7.0
    assert third - second >= 7.0


def test_it_gives_up_with_the_last_error() -> None:
    calls = 0

    async def main(_: VirtualLoop) -> None:
        async def call(_: bool) -> None:
            nonlocal calls
            calls += 1
            raise NotSent(f"attempt {calls}")

        await Retry(random.Random(1), attempts=4).run(call, Repeat.READ)

    with pytest.raises(NotSent, match="attempt 4"):
        run_virtually(main)


def test_a_server_that_asks_for_more_patience_than_we_have_is_told_to_the_caller() -> None:
    async def main(_: VirtualLoop) -> None:
        async def call(_: bool) -> None:
            raise says(503, 3600)

        await Retry(random.Random(1)).run(call, Repeat.READ)

    with pytest.raises(ApiError, match="503"):
        run_virtually(main)


def test_later_attempts_know_whether_an_earlier_one_may_have_been_applied() -> None:
    async def main(_: VirtualLoop) -> list[bool]:
        told: list[bool] = []
        errors = [NotSent("a"), says(429, 0), Unreachable("b"), NotSent("c")]

        async def call(unseen: bool) -> None:
            told.append(unseen)
            if errors:
                raise errors.pop(0)

        await Retry(random.Random(1)).run(call, Repeat.GUARDED)
        return told

    assert run_virtually(main) == [False, False, False, True, True]
