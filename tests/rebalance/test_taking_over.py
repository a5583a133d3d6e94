"""What a replica knows that took over: it has observed while it stood by, or is careful."""

from __future__ import annotations

from typing import Any

import pytest

from support.pictured import NOW, Picture, unschedulable
from support.policies import policy
from support.units import EPOCH, at

EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
# One pod of three belongs on demand, two on spot.
STRAYED = ("d1", "d1", "d2")


def following(*nodes: str, **spec: Any) -> Picture:
    """A replica that stands by and has seen a Deployment's pods."""
    picture = Picture(policy(**spec)).pods(*nodes)
    picture.machine.follow()
    observe(picture)
    return picture


def observe(picture: Picture) -> None:
    picture.machine.observe({picture.policy.name: picture.marks}, EPOCH.timestamp() + picture.now)


def takes_over(picture: Picture) -> Picture:
    picture.machine.follow(following=False)
    observe(picture)
    return picture


def moved(picture: Picture, number: int, to: str, *, seconds: float = 1.0) -> None:
    """Who leads evicts a pod, and its controller recreates it."""
    name = f"web-{number}"
    going = picture.web(name, "d2", slot=number)
    going["status"]["conditions"].append(EVICTED)
    picture.add(going)
    going["metadata"]["deletionTimestamp"] = at(picture.now)
    picture.add(going)
    picture.now += seconds
    picture.remove("Pod", name)
    picture.add(picture.web(f"{name}-again", to, slot=number, created=picture.now))
    observe(picture)


class TestMovesOfTheOther:
    def test_one_under_way_is_waited_for(self) -> None:
        picture = following(*STRAYED)
        going = picture.web("web-3", "d2", slot=3)
        going["status"]["conditions"].append(EVICTED)
        picture.add(going)
        picture.remove("Pod", "web-3")
        waiting = picture.web("web-4", slot=3, tier="spot", created=NOW - 3000)
        picture.add(waiting)
        takes_over(picture)
        assert picture.waits() == "the replacement of default/web-3 is not Ready yet"

    def test_they_count_against_what_a_minute_allows(self) -> None:
        spec = {"minPodAge": "0s", "stabilize": "0s", "perMinute": 1}
        picture = following(*STRAYED, rebalance=spec)
        moved(picture, 3, "s1")
        assert takes_over(picture).waits() == "1 moves were made within a minute"

    def test_a_failed_one_doubles_the_wait(self) -> None:
        spec = {"minPodAge": "0s", "stabilize": "0s", "perMinute": 1}
        picture = following(*STRAYED, rebalance=spec)
        moved(picture, 3, "d2", seconds=70)
        assert takes_over(picture).waits() == "a move failed once"

    def test_an_eviction_of_a_pod_that_is_right_where_it_is_is_a_drain(self) -> None:
        spec = {"minPodAge": "0s", "stabilize": "0s", "perMinute": 1}
        picture = following("d1", "s1", "s2", rebalance=spec)
        going = picture.web("web-3", "s2", slot=3)
        going["status"]["conditions"].append(EVICTED)
        picture.add(going)
        takes_over(picture)
        assert picture.machine.history.of("web/default/Deployment/web").flight is None

    @pytest.mark.parametrize("leads", [True, False])
    def test_who_leads_or_led_does_not_count_its_own_twice(self, leads: bool) -> None:
        picture = takes_over(following(*STRAYED))
        picture.sent(picture.move())
        picture.machine.follow(following=not leads)
        going = picture.web("web-3", "d2", slot=3)
        going["status"]["conditions"].append(EVICTED)
        picture.add(going)
        called = "web/default/Deployment/web"
        assert len(picture.machine.history.of(called).moves) == 1


class TestNodesLost:
    def test_a_tier_lost_while_nobody_leads_is_interrupted_by_who_takes_over(self) -> None:
        picture = following("d1", "s1")
        for name in ("s1", "s2"):
            picture.remove("Node", name)
        observe(picture)
        takes_over(picture)
        mark = picture.fall_back().marks.get("spot")
        assert mark is not None
        assert mark.interrupted

    @pytest.mark.parametrize("asleep", [False, True])
    def test_one_that_the_other_marked_is_not_counted_again(self, asleep: bool) -> None:
        picture = following("d1", "s1")
        for name in ("s1", "s2"):
            picture.remove("Node", name)
        picture.marks = picture.marks.interrupted("spot", EPOCH.timestamp() + picture.now)
        if not asleep:
            observe(picture)
        picture.now += 70  # longer than the cool-down
        takes_over(picture)
        picture.fall_back()
        mark = picture.marks.get("spot")
        assert mark is not None
        assert mark.cool_downs == 1

    def test_nodes_that_came_while_nobody_leads_end_the_cool_down(self) -> None:
        picture = following("d1", "d2")
        picture.failed(ago=10)
        observe(picture)
        picture.add(Picture.spot("s3"))
        observe(picture)
        takes_over(picture)
        assert not list(picture.fall_back().marks)


class TestFromNothing:
    def test_a_pod_that_is_not_ready_may_be_a_replacement(self) -> None:
        picture = Picture().deployment(3)
        for number in (1, 2):
            picture.add(picture.web(f"web-{number}", "d1"))
        made = picture.web("web-3", "d2", created=NOW - 400)
        made["status"]["conditions"] = []
        assert picture.add(made).waits() == "web-3 is not Ready yet"
        picture.now += 300
        picture.move()

    def test_young_pods_may_be_moved_ones(self) -> None:
        spec = {"minPodAge": "0s", "stabilize": "0s", "perMinute": 1}
        picture = Picture(policy(rebalance=spec)).deployment(3)
        for number, created in ((1, 0.0), (2, 0.0), (3, NOW - 20)):
            picture.add(picture.web(f"web-{number}", "d1", created=created))
        assert picture.waits() == "1 moves were made within a minute"
        picture.now += 41
        picture.move()

    def test_a_pod_that_waits_for_a_tier_without_nodes_tries_it_for_all(self) -> None:
        picture = Picture(nodes=False).add(*(Picture.on_demand(name) for name in ("d1", "d2")))
        picture.pods(*STRAYED).deployment(1, "app")
        waits = picture.web("app-1", slot=1, tier="spot")
        waits["metadata"]["ownerReferences"][0] |= {"name": "app-1", "uid": "uid-ReplicaSet-app-1"}
        picture.add(unschedulable(waits, NOW))
        reasons = [wait.reason for wait in picture.plan().waits]
        assert "tier spot has no node and is being tried" in reasons
