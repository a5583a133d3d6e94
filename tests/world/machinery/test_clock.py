from __future__ import annotations

import asyncio
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from fairlead.world.clock import EPOCH, VirtualClock, WallClock


@given(delays=st.lists(st.integers(0, 50)))
def test_virtual_timers_run_in_the_order_of_their_times_and_equal_ones_as_asked_for(
    delays: list[int],
) -> None:
    clock, ran = VirtualClock(), []
    for number, delay in enumerate(delays):
        clock.call_at(EPOCH + timedelta(seconds=delay), lambda n=number: ran.append((clock.now(), n)))
    while clock.step():
        pass
    assert ran == sorted((EPOCH + timedelta(seconds=delay), number) for number, delay in enumerate(delays))


def test_a_virtual_year_with_nothing_to_do_takes_one_step() -> None:
    clock = VirtualClock()
    clock.call_at(EPOCH + timedelta(days=365), lambda: None)
    assert clock.step()
    assert clock.now() == EPOCH + timedelta(days=365)
    assert not clock.step()


def test_stepping_up_to_a_time_leaves_later_timers_alone() -> None:
    clock, ran = VirtualClock(), []
    clock.call_at(EPOCH + timedelta(seconds=10), lambda: ran.append("late"))
    assert not clock.step(EPOCH + timedelta(seconds=5))
    assert clock.now() == EPOCH + timedelta(seconds=5)
    assert ran == []


def test_a_cancelled_timer_does_not_run() -> None:
    clock, ran = VirtualClock(), []
    timer = clock.call_at(EPOCH, lambda: ran.append("no"))
    timer.cancel()
    timer.cancel()
    assert not clock.step()
    assert ran == []


def test_a_timer_in_the_past_is_due_now_and_time_does_not_go_back() -> None:
    clock = VirtualClock()
    clock.call_at(EPOCH + timedelta(seconds=5), lambda: None)
    clock.step()
    clock.call_at(EPOCH, lambda: None)
    clock.step()
    assert clock.now() == EPOCH + timedelta(seconds=5)


async def test_wall_timers_run_on_the_loop_in_order() -> None:
    clock, ran, done = WallClock(), [], asyncio.Event()
    now = clock.now()
    clock.call_at(now + timedelta(milliseconds=20), done.set)
    clock.call_at(now + timedelta(milliseconds=10), lambda: ran.append("second"))
    clock.call_at(now, lambda: ran.append("first"))
    clock.call_at(now, lambda: ran.append("never")).cancel()
    await done.wait()
    assert ran == ["first", "second"]


async def test_the_wall_clock_never_goes_back() -> None:
    clock = WallClock()
    times = [clock.now() for _ in range(1000)]
    assert times == sorted(times)
    assert times[0].tzinfo is not None
