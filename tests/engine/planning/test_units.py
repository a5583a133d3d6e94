"""From pods and gangs to units, and the line they stand in."""

from __future__ import annotations

from fairlead.engine.core.queue import Queue, Verdict
from fairlead.engine.gangs.gangs import Gangs
from fairlead.engine.planning.units import Unit, gang_unit, pod_unit
from support.units import EPOCH, pod, typed


def unit(name: str, **more) -> Unit:
    one = typed(pod(name, **more))
    return pod_unit(one, "smallest")


def gang(*pods: dict) -> Unit:
    gangs = Gangs()
    for one in pods:
        gangs.pod_seen(typed(one))
    found = gangs.get("default/g")
    return gang_unit(found, "smallest")


def test_a_gang_has_its_lowest_members_priority_and_its_oldest_pending_members_age():
    found = gang(
        pod("a", gang="g", minimum=2, priority=7, created=5),
        pod("b", gang="g", minimum=2, priority=3, created=9),
    )
    assert (found.priority, found.since, found.needed) == (3, EPOCH.timestamp() + 5, 2)


def test_a_gang_needs_only_what_it_lacks():
    found = gang(
        pod("a", gang="g", minimum=3, on="n"),
        pod("b", gang="g", minimum=3),
        pod("c", gang="g", minimum=3),
        pod("d", gang="g", minimum=3),
    )
    assert (found.needed, len(found.members)) == (2, 3)


def test_one_member_that_never_preempts_speaks_for_all():
    found = gang(pod("a", gang="g", minimum=2), pod("b", gang="g", minimum=2, preemptionPolicy="Never"))
    assert not found.may_preempt


def test_a_unit_ends_when_its_last_member_must():
    with_deadlines = gang(
        pod("a", gang="g", minimum=2, activeDeadlineSeconds=60),
        pod("b", gang="g", minimum=2, activeDeadlineSeconds=90),
    )
    assert with_deadlines.deadline_s == 90
    without = gang(pod("a", gang="g", minimum=2, activeDeadlineSeconds=60), pod("b", gang="g", minimum=2))
    assert without.deadline_s is None


class TestQueue:
    refused = Verdict(frozenset(), "no room")

    def test_serves_the_first_of_all_lines(self):
        queue = Queue(1.0, 10.0)
        queue.put(unit("late", created=5), "x")
        queue.put(unit("early", created=1), "y")
        queue.put(unit("important", priority=3, created=9), "x2")
        assert queue.next(0.0).head.name == "default/important"

    def test_tells_how_many_come_before_anybody_elses_turn(self):
        queue = Queue(1.0, 10.0)
        for age in (1, 2, 3, 7):
            queue.put(unit(f"x{age}", created=age), "x")
        queue.put(unit("y", created=5), "y")
        line = queue.next(0.0)
        assert queue.run_length(line) == 3
        queue.take(line, 3)
        assert queue.next(0.0).head.name == "default/y"

    def test_a_held_line_is_not_served_until_woken_and_rested(self):
        queue = Queue(1.0, 10.0)
        line = queue.put(unit("a"), "x")
        queue.hold(queue.next(100.0), self.refused, 100.0)
        assert queue.next(200.0) is None
        queue.wake(line, 100.5)
        assert queue.next(100.5) is None
        assert queue.wake_at() == 101.0
        assert queue.next(101.0) is line

    def test_rests_double_up_to_their_limit(self):
        queue = Queue(1.0, 10.0)
        line = queue.put(unit("a"), "x")
        now, rests = 0.0, []
        for _ in range(6):
            queue.hold(line, self.refused, now)
            queue.wake(line, now)
            rests.append(queue.wake_at() - now)
            now = queue.wake_at()
            assert queue.next(now) is line
        assert rests == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]

    def test_a_unit_that_is_dropped_is_gone_from_its_line(self):
        queue = Queue(1.0, 10.0)
        first, second = unit("a", created=1), unit("b", created=2)
        queue.put(first, "x")
        queue.put(second, "x")
        queue.drop(first.id)
        assert queue.next(0.0).head is second
        queue.drop(second.id)
        assert queue.next(0.0) is None

    def test_a_unit_whose_key_changes_changes_lines(self):
        queue = Queue(1.0, 10.0)
        one = unit("a")
        queue.put(one, "x")
        queue.put(one, "y")
        assert [line.key for line in queue.lines()] == ["y"]
