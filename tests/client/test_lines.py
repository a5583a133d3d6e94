"""Watch streams are split into lines, whatever the chunks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.client.lines import Lines, TooLong


@given(
    lines=st.lists(st.binary(min_size=1, max_size=40).filter(lambda line: b"\n" not in line), max_size=12),
    sizes=st.lists(st.integers(1, 30), max_size=60),
)
def test_any_chunking_gives_the_same_lines(lines: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter, found = Lines(), []
    for size in [*sizes, len(stream)]:
        chunk, stream = stream[:size], stream[size:]
        found += splitter.feed(chunk)
    assert found == lines
    assert splitter.pending == 0


def test_a_line_of_several_mebibytes_comes_whole() -> None:
    line = b"x" * (5 << 20)
    splitter = Lines()
    found = [
        part for start in range(0, len(line), 65536) for part in splitter.feed(line[start : start + 65536])
    ]
    assert found == []
    assert splitter.feed(b"\n") == [line]


def test_a_line_beyond_the_limit_is_named_by_its_start_and_the_next_is_whole() -> None:
    splitter = Lines(limit=100)
    splitter.feed(b"start" + b"x" * 90)
    for _ in range(1000):
        splitter.feed(b"y" * 1000)
    found = splitter.feed(b"\nnext\n")
    assert isinstance(found[0], TooLong)
    assert found[0].start.startswith(b"startx")
    assert found[0].size == 95 + 1_000_000
    assert found[1] == b"next"


def test_what_a_too_long_line_holds_in_memory_stays_small() -> None:
    splitter = Lines(limit=100)
    for _ in range(1000):
        splitter.feed(b"y" * 1000)
    assert sum(map(len, splitter._held)) <= 16 * 1024 + 1000


def test_a_broken_off_line_is_known_to_be_pending() -> None:
    splitter = Lines()
    splitter.feed(b"whole\nhal")
    assert splitter.pending == 3
