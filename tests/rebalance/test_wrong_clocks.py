"""A clock that was a day ahead, and was put right or belonged to another, leaves nobody alone for a day."""

from __future__ import annotations

from fairlead.policy.tiers.marks import PROBE_S, Marks
from support.pictured import NOW, Picture, unschedulable
from support.policies import ON_DEMAND, SPOT, policy
from support.units import EPOCH

DAY_S = 86_400.0
START = EPOCH.timestamp() + NOW


def ahead(picture: Picture) -> Picture:
    """The machine's clock is put ahead by a day."""
    picture.now += DAY_S
    picture.plan()
    return picture


def test_a_tier_marked_by_a_clock_that_was_ahead_may_be_tried() -> None:
    marks = Marks(cool_down_s=60).failed("spot", START + DAY_S)
    assert marks.may_probe("spot", START)
    claimed = marks.claim_probe("spot", "a", START)
    assert claimed is not None
    failed = claimed.failed("spot", START + 10, "a").get("spot")
    assert failed is not None
    assert failed.until.timestamp() == START + 10 + 120


def test_a_mark_of_a_clock_that_is_a_little_ahead_counts() -> None:
    marks = Marks(cool_down_s=60).failed("spot", START + 59)
    assert not marks.may_probe("spot", START)
    claimed = Marks(cool_down_s=60).failed("spot", START - 100).claim_probe("spot", "a", START + 59)
    assert claimed is not None
    assert not claimed.may_probe("spot", START)


def test_a_probe_claimed_by_a_clock_that_was_ahead_is_over() -> None:
    claimed = Marks(cool_down_s=60).failed("spot", START - 100).claim_probe("spot", "gone", START + DAY_S)
    assert claimed is not None
    assert claimed.may_probe("spot", START)


def test_a_pod_that_tries_a_tier_since_a_wrong_time_goes_on_being_the_one() -> None:
    picture = Picture().deployment(3).failed(ago=100)
    picture.add(unschedulable(picture.web("late", tier="spot"), NOW))
    picture.fall_back()
    claimed = picture.marks.claim_probe("spot", "token-late", START + DAY_S)
    assert claimed is not None
    picture.marks = claimed
    mark = picture.fall_back().marks.get("spot")
    assert mark is not None
    assert mark.probe == "token-late"
    assert mark.probe_since is not None
    assert mark.probe_since.timestamp() == START
    assert not picture.marks.may_probe("spot", START + PROBE_S - 1)


def test_pods_return_to_a_tier_that_a_clock_that_was_ahead_had_marked() -> None:
    picture = Picture().pods("d1", "d1", "d1")
    picture.marks = picture.marks.failed("spot", START + DAY_S)
    picture.fall_back()
    assert picture.move().probe


def test_a_refused_eviction_does_not_count_for_longer_when_the_clock_is_set_back() -> None:
    picture = ahead(Picture().pods("d1", "d1", "d1"))
    move = picture.move()
    picture.sent(move)
    picture.machine.refused(move, EPOCH.timestamp() + picture.now)
    picture.now = NOW
    assert picture.waits() == "an eviction was refused"
    picture.now += 16
    assert picture.move()


def test_moves_and_changes_do_not_count_for_longer_when_the_clock_is_set_back() -> None:
    used = policy(rebalance={"minPodAge": "0s", "stabilize": "5m", "perMinute": 1})
    picture = ahead(Picture(used).pods("d1", "d1", "d1"))
    picture.sent(picture.move())
    picture.remove("Pod", "web-3")
    picture.add(picture.web("new", "s1", slot=3, created=NOW)).deployment(4)
    picture.plan()
    picture.now = NOW
    picture.add(picture.web("more", "d1", slot=4, created=NOW))
    assert picture.waits().startswith("the number of pods changed")
    picture.now += 301
    assert picture.move()


def test_a_move_under_way_ends_in_its_time_although_the_clock_is_set_back() -> None:
    picture = ahead(Picture().pods("d1", "d1", "d1"))
    move = picture.move()
    picture.sent(move)
    picture.now = NOW
    assert picture.waits() == f"the replacement of {move.pod} is not Ready yet"
    picture.now += 61
    assert picture.move().uid == move.uid, "it never left"


def test_a_group_first_seen_with_pods_of_a_later_time_is_not_left_alone_until_then() -> None:
    picture = Picture(policy(rebalance={"minPodAge": "0s"})).pods("d1", "d1")
    picture.deployment(3).add(picture.web("young", "s1", created=NOW + DAY_S))
    picture.add(picture.web("web-1", "d1", slot=1), picture.web("web-2", "d1", slot=2))
    picture.plan()
    picture.now += 301
    assert picture.move()


def test_new_hope_of_a_clock_that_was_ahead_does_not_make_a_pod_patient_for_a_day() -> None:
    safe = {**ON_DEMAND, "fallback": False}
    picture = Picture(policy("web", SPOT, safe, fallback={"after": "2m"}), nodes=False).deployment(2)
    picture.add(picture.spot("s1"), unschedulable(picture.web("late", tier="on-demand"), NOW))
    picture.add(picture.web("fine", "s1"))
    picture.now += DAY_S
    picture.fall_back()
    assert list(picture.marks)
    picture.add(picture.on_demand("d1"))
    assert not list(picture.fall_back().marks)
    picture.now = NOW + 121
    assert list(picture.fall_back().marks)
