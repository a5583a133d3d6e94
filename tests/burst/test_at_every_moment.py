"""What holds the whole time, not only when all is quiet; each story is watched through the API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from support.burst import Bursting, Manifest, is_living
from support.cluster import PACE, EmbeddedHost, Host

pytestmark = pytest.mark.slow


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)], scope="module")
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """Each kind of cluster in turn; on the embedded one pods use up the grace that they are given."""
    if request.param == "real":
        yield request.getfixturevalue("real_host")
        return
    own = EmbeddedHost(pace=replace(PACE, stop=timedelta(hours=1)))
    yield own
    own.stop()


def test_never_more_than_the_value_live_on_base_and_who_is_on_its_way_out_does_not_count(either: Bursting):
    either.run(either.nodes(), 10, "--return-after=1s")
    with either.watching("web") as moments:
        either.deploy("web", 5, lingers=True)
        either.lies("web", base=5)
        either.scale("web", 20)
        either.lies("web", base=10, virtual=10)
        either.scale("web", 8)
        either.lies("web", base=8)
        either.scale("web", 2)
        either.lies("web", base=2)
        gone = either.split(either.leaving("web"))
        assert gone["base"] >= 8, "they stay on base, terminating"
        either.scale("web", 20)
        either.lies("web", base=10, virtual=10)
        still = either.split(either.leaving("web"))
        assert still["base"] >= gone["base"], "whose places were taken before they were gone"
        assert most_on_base(either, moments()) == 10


def test_pods_of_jobs_are_never_moved_unless_asked_for(either: Bursting):
    door = either.run(either.nodes(), 4, "--return-after=1s")
    either.deploy("one", 4)
    either.lies("one", base=4)
    either.deploy("two", 2)
    either.lies("two", virtual=2)
    # Of the highest slot, it would be the first to return if it were let.
    either.job("long")
    (before,) = either.lies("jobs", virtual=1)
    with either.watching("jobs") as moments:
        either.scale("one", 0)
        returned = either.lies("two", base=2)
        assert len(returned) == 2
        for pods in moments():
            assert [one["metadata"]["uid"] for one in pods] == [before["metadata"]["uid"]]
            assert all(map(is_living, pods))
    (after,) = either.lies("jobs", virtual=1)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert not [one for one in door.log("moved") if one["pod"].endswith(before["metadata"]["name"])]


def most_on_base(either: Bursting, moments: Iterator[list[Manifest]]) -> int:
    """The highest number of living pods that were bound to base nodes at one moment."""
    selector = f"test={either.home},kind=base"
    base = {one["metadata"]["name"] for one in either.cluster.list("Node", labelSelector=selector)["items"]}
    return max(
        sum(is_living(one) and one["spec"].get("nodeName") in base for one in pods) for pods in moments
    )
