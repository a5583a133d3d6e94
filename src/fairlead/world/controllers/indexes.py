"""Completion indexes of an Indexed Job, written as ranges: ``0,3-5,7``."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["format_indexes", "parse_indexes"]


def parse_indexes(text: str, below: int) -> list[int]:
    """The indexes that a Job's status lists, those out of range left out.

    >>> parse_indexes("0,3-5,7", 7)
    [0, 3, 4, 5]
    """
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return [index for index in found if index < below]


def format_indexes(indexes: Iterable[int]) -> str:
    """Indexes as ranges; two neighbours are written as two.

    >>> format_indexes([5, 0, 3, 4, 7, 8])
    '0,3-5,7,8'
    """
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(str(index) for index in run) for run in runs
    )
