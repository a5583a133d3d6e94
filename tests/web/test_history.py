"""What changed is kept for a while: browsers go on where they were, and the past begins whole."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from fairlead.web.board import Delta
from fairlead.web.history import History


def filled(frames: int, *, part: int = 40) -> History:
    history = History(part=part)
    history.begin(Delta(0.0))
    for number in range(1, frames + 1):
        history.add("delta", float(number), b"x" * 10, lambda number=number: Delta(float(number)))
    return history


@given(st.integers(0, 60), st.integers(-2, 70))
def test_a_browser_gets_all_that_it_lacks_or_has_to_begin_again(frames: int, at: int) -> None:
    history = filled(frames)
    found = history.after(at)
    if found is None:
        base, kept = history.replay()
        first = kept[0].number if kept else frames + 1
        assert at < 0 or at > frames or at < first - 1
        assert base.at == first - 1
    else:
        assert [frame.number for frame in found] == list(range(at + 1, frames + 1))


@given(st.integers(0, 200))
def test_the_past_begins_with_the_board_before_its_first_frame(frames: int) -> None:
    base, kept = filled(frames).replay()
    assert [frame.number for frame in kept] == list(range(int(base.at) + 1, frames + 1))


def test_no_more_is_kept_than_two_parts() -> None:
    history = filled(10_000, part=1_000)
    _, kept = history.replay()
    assert 100 <= len(kept) <= 200


async def test_whoever_waits_is_woken_by_news_and_by_the_end() -> None:
    history = filled(3)
    assert await history.more(2)
    waiting = asyncio.ensure_future(history.more(3))
    await asyncio.sleep(0)
    assert not waiting.done()
    history.add("delta", 4.0, b"x", lambda: Delta(4.0))
    assert await waiting
    ending = asyncio.ensure_future(history.more(4))
    await asyncio.sleep(0)
    history.close()
    assert not await ending


def test_two_histories_are_told_apart() -> None:
    assert History().epoch != History().epoch
