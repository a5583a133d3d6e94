"""No starvation: who has waited long has nodes kept for it."""

from __future__ import annotations

from fairlead.engine.planning.settings import Settings
from support.cluster_of import Running, running
from support.units import node, pod


def gang(size: int, **more) -> list[dict]:
    return [pod(f"big{index}", 1, gang="big", minimum=size, **more) for index in range(size)]


def test_after_ten_minutes_nodes_are_kept_for_the_oldest_held_unit():
    world = running(None, node("n", cpu=1), node("m", cpu=1), pod("a", on="n"), pod("b", on="m"), *gang(2))
    world.after(400)
    assert world.core.report.reservations() == {}
    world.after(200)
    (reservation,) = world.core.report.reservations().values()
    assert reservation.nodes == ("m", "n")
    world.remove("a").add(pod("small", created=650)).after(30)
    assert "default/small" not in world.bound
    world.remove("b").after(30)
    assert {"default/big0", "default/big1"} <= set(world.bound)


def test_a_large_gang_is_not_starved_by_an_endless_stream_of_small_units():
    world = running(None, *(node(f"n{i}", cpu=1) for i in range(3)))
    for index in range(3):
        world.add(pod(f"s{index}", created=index))
    world.add(*gang(3, created=10))
    started = None
    for step in range(3, 60):
        # One small pod ends and another arrives, every half minute.
        oldest = min((key for key in world.bound if "/s" in key), default=None)
        if oldest is not None:
            world.remove(oldest.partition("/")[2])
        world.add(pod(f"s{step:02}", created=30 * step)).after(30)
        if any("/big" in key for key in world.bound):
            started = step
            break
    assert started is not None
    assert len([key for key in world.bound if "/big" in key]) == 3


def test_who_ends_before_the_reservation_is_needed_may_use_it():
    busy = pod("busy", on="n", activeDeadlineSeconds=2000, started=0)
    world = running(None, node("n", cpu=2), busy, pod("big", 2), pod("x", 2, priority=-1)).after(610)
    (reservation,) = [one for one in world.core.report.reservations().values() if one.priority == 0]
    assert reservation.ready_at is not None
    world.add(pod("long", created=700), pod("short", created=701, activeDeadlineSeconds=60)).after(5)
    assert set(world.bound) == {"default/busy", "default/short"}


def test_a_higher_priority_does_not_mind_a_reservation():
    world = running(None, node("n", cpu=2), pod("busy", on="n"), pod("big", 2)).after(610)
    assert "default/urgent" in world.add(pod("urgent", priority=5, created=650)).after(5).bound


def test_one_reservation_per_priority():
    world = running(
        None,
        *(node(f"n{i}", cpu=2) for i in range(3)),
        *(pod(f"busy{i}", on=f"n{i}") for i in range(3)),
        pod("a", 2),
        pod("b", 2, memory="1Gi", created=1),
        pod("c", 2, priority=-3, preemptionPolicy="Never"),
    ).after(700)
    assert sorted(world.core.report.reservations()) == [-3, 0]
    assert world.core.report.reservations()[0].unit == "pod:uid-default-a"


def test_a_reservation_ends_with_its_unit():
    world = running(None, node("n", cpu=2), pod("busy", on="n"), pod("big", 2)).after(610)
    world.add(pod("small", created=650))
    assert "default/small" not in world.bound
    assert "default/small" in world.remove("big").after(15).bound


def test_a_unit_that_could_never_fit_reserves_nothing():
    world = Running(Settings())
    world.add(node("n", cpu=2), pod("huge", 64), pod("busy", on="n")).after(700)
    assert world.core.report.reservations() == {}


def stream_past(world: Running, started: str, *, step_s: float = 30.0, elsewhere: bool = False) -> int | None:
    """One small pod ends and another arrives, again and again; the step at which a pod called so started."""
    for step in range(100):
        oldest = min((key for key in world.bound if "/s" in key), default=None)
        if oldest is not None:
            world.remove(oldest.partition("/")[2])
        world.add(pod(f"s{step:03}", created=world.now)).after(step_s)
        if elsewhere:
            world.add(node("far", cpu=1, labels={"turn": str(step)}, taints=[TAINT]))
        if any(f"/{started}" in key for key in world.bound):
            return step
    return None


TAINT = {"key": "keep", "value": "off", "effect": "NoSchedule"}


def test_a_gang_with_several_members_on_one_node_is_not_starved_by_small_pods():
    world = running(None, node("n", cpu=4), *(pod(f"s-{i}", created=i) for i in range(4)))
    world.add(*gang(4, created=50)).after(650)
    assert stream_past(world, "big") is not None
    assert len([key for key in world.bound if "/big" in key]) == 4


def test_a_gang_of_unequal_members_has_room_kept_for_all_of_them():
    members = [
        pod("big0", 3, gang="big", minimum=3),
        *(pod(f"big{i}", 1, gang="big", minimum=3) for i in (1, 2)),
    ]
    world = running(None, node("n", cpu=5), *(pod(f"s-{i}", created=i) for i in range(5)), *members)
    assert stream_past(world.after(650), "big") is not None


def test_a_reservation_survives_changes_of_other_nodes():
    world = running(None, *(node(f"n{i}", cpu=1) for i in range(3)), node("far", cpu=1, taints=[TAINT]))
    world.add(*(pod(f"s-{i}", created=i) for i in range(3)), *gang(3, created=50)).after(650)
    assert stream_past(world, "big", step_s=1.0, elsewhere=True) is not None


def test_a_reservation_is_kept_while_its_unit_is_in_backoff():
    busy = [pod("a", 2, on="n"), pod("b", on="m"), pod("c", on="m")]
    world = running(None, node("n", cpu=2), node("m", cpu=2), *busy, *gang(4, created=50)).after(600)
    (reservation,) = world.core.report.reservations().values()
    # Room for two of four, then for three: the gang is tried and held, then helped again while it rests.
    world.remove("a").remove("b")
    world.add(node("far", cpu=1, taints=[TAINT]))
    assert world.core.report.reservations() == {0: reservation}
    assert "default/s" not in world.add(pod("s", created=world.now)).bound


def test_a_reservation_is_made_while_its_unit_is_in_backoff():
    busy = [pod("a", 2, on="n"), pod("b", on="m"), pod("c", on="m")]
    world = running(None, node("n", cpu=2), node("m", cpu=2), *busy, *gang(4, created=50)).after(540)
    world.remove("a").after(9.5).remove("b").after(1)
    assert [one.nodes for one in world.core.report.reservations().values()] == [("m", "n")]


def test_a_reservation_moves_when_its_unit_can_no_longer_fit_on_its_nodes():
    busy = [pod(name, 2, on=on) for name, on in (("a", "n"), ("b", "m"))]
    world = running(
        None, node("n", cpu=2), node("m", cpu=4), *busy, pod("c", 2, on="m"), pod("big", 2)
    ).after(610)
    (reservation,) = world.core.report.reservations().values()
    (kept,) = reservation.nodes
    other = "m" if kept == "n" else "n"
    world.add(node(kept, cpu=1)).after(5)
    (reservation,) = world.core.report.reservations().values()
    assert reservation.nodes == (other,)
