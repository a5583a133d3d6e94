"""Slopes of memory and descriptors: what counts as growth, and what as a start."""

from __future__ import annotations

import os

import pytest
from tools.soak.vitals import Sample, slopes

from tools.soak import vitals


def life(mib_per_hour: float, *, lasts_s: int = 1800, start: float = 100.0, fds: int = 20) -> list[Sample]:
    return [
        Sample(float(at), "scheduler-a", 1, start + mib_per_hour * at / 3600, fds, at_rest=True)
        for at in range(0, lasts_s, 5)
    ]


def test_memory_that_grows_beyond_the_limit_is_found():
    (found,) = slopes(life(mib_per_hour=90))
    assert found.mib_per_hour == pytest.approx(90)
    assert found.grows


def test_flat_memory_is_fine():
    (found,) = slopes(life(mib_per_hour=0))
    assert not found.grows


def test_what_a_process_takes_while_it_starts_is_no_growth():
    (found,) = slopes([*life(mib_per_hour=3600, lasts_s=600, start=0), *life(0)[120:]])
    assert not found.grows


def test_a_short_life_is_not_judged():
    (found,) = slopes(life(mib_per_hour=900, lasts_s=120))
    assert not found.judged
    assert not found.grows


def test_descriptors_that_grow_are_found():
    samples = [Sample(one.at, one.door, one.pid, 100, 20 + int(one.at / 60), at_rest=True) for one in life(0)]
    (found,) = slopes(samples)
    assert found.grows


def test_what_is_in_use_under_load_is_no_growth():
    busy = [Sample(one.at + 1, one.door, one.pid, 100 + one.at, 20 + int(one.at)) for one in life(0)]
    (found,) = slopes(sorted([*life(0), *busy], key=lambda one: one.at))
    assert not found.grows


def test_each_process_has_its_own_slope():
    again = [Sample(one.at + 2000, one.door, 2, one.rss_mib, one.fds, at_rest=True) for one in life(0)]
    assert [one.pid for one in slopes([*life(0), *again])] == [1, 2]


def test_this_process_has_memory_and_descriptors():
    found = vitals.sample(1.0, "this", os.getpid())
    assert found is not None
    assert found.rss_mib > 1
    assert found.fds > 2


def test_a_process_that_has_ended_has_none():
    assert vitals.sample(1.0, "gone", 2**22 + 1) is None
