"""Pods of controllers that are not known to recreate them: such pods are never deleted, evicted or moved."""

from __future__ import annotations

from support.members import owner_reference
from support.pictured import NOW, Picture, unschedulable

RUN = owner_reference("TaskRun", "build", "tekton.dev/v1")


def test_they_are_not_moved() -> None:
    picture = Picture()
    picture.add(*(picture.web(f"build-{number}", "d1", owner=RUN) for number in range(1, 4)))
    assert picture.waits() == "no controller would recreate build-3"


def test_they_are_not_deleted_for_waiting_too_long() -> None:
    picture = Picture()
    waiting = unschedulable(picture.web("build-1", tier="spot", owner=RUN), NOW - 10_000)
    assert picture.add(waiting).fall_back().deletions == ()
