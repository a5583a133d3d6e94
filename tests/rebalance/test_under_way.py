"""What is under way counts: the room of replacements to come, and which pod is the replacement."""

from __future__ import annotations

from typing import Any

from support.pictured import NOW, Picture, unschedulable
from support.policies import policy
from support.units import EPOCH, pod, workload

JOB = {"kind": "Job", "name": "batch", "uid": "uid-Job-batch", "apiVersion": "batch/v1", "controller": True}


def strayed(picture: Picture, *names: str) -> Picture:
    """Deployments of three pods on demand where the rule wants one there and two on spot."""
    for name in names:
        picture.deployment(3, name)
        for number in (1, 2, 3):
            picture.add(of(picture, name, f"{name}-{number}", "d2", slot=number))
    return picture


def of(picture: Picture, name: str, called: str, on: str, **more: Any) -> dict[str, Any]:
    made = picture.web(called, on, **more)
    made["metadata"]["ownerReferences"][0] |= {"name": f"{name}-1", "uid": f"uid-ReplicaSet-{name}-1"}
    made["metadata"]["labels"] = {"app": name, "pod-template-hash": "1"}
    return made


def one_place_left() -> Picture:
    """There is one place on spot, and app-3 has been sent for it."""
    picture = strayed(Picture(cpu=1), "app", "web").add(pod("other", on="s1"))
    (move,) = picture.plan().moves
    assert move.pod == "default/app-3"
    picture.sent(move)
    return picture


def reasons(picture: Picture) -> list[str]:
    planned = picture.plan()
    assert not planned.moves, planned
    return [wait.reason for wait in planned.waits]


def test_the_room_of_a_replacement_to_come_is_not_given_to_another_group() -> None:
    picture = one_place_left()
    full = "no node of tier spot has room for web-3"
    assert reasons(picture)[1] == full, "the pod has not gone yet"
    picture.remove("Pod", "app-3")
    assert reasons(picture) == ["2 of 3 pods are there", full]
    coming = of(picture, "app", "app-4", "", slot=3, tier="spot", created=NOW)
    picture.add(coming)
    assert reasons(picture)[1] == full, "its replacement waits for the place"
    picture.add(of(picture, "app", "app-4", "s2", slot=3, created=NOW))
    assert full in reasons(picture)


def test_the_room_of_a_replacement_that_went_elsewhere_is_free_again() -> None:
    picture = one_place_left()
    picture.remove("Pod", "app-3")
    picture.add(of(picture, "app", "app-4", "d1", slot=3, created=NOW))
    assert [move.pod for move in picture.plan().moves] == ["default/web-3"]


def test_the_room_of_pods_that_wait_for_a_tier_is_not_given_away() -> None:
    picture = strayed(Picture(cpu=1), "web").add(pod("other", on="s1")).deployment(1, "app")
    waiting = of(picture, "app", "app-1", "", slot=1, tier="spot", created=NOW)
    picture.add(unschedulable(waiting, NOW))
    assert "no node of tier spot has room for web-3" in reasons(picture)


def test_a_job_s_new_pod_does_not_end_the_move_of_a_deployment_s() -> None:
    used = policy(groupBy="policy", rebalance={"minPodAge": "0s", "stabilize": "0s"})
    picture = Picture(used).pods("d1", "d1", "d2")
    picture.add(workload("Job", "batch", parallelism=1))
    move = picture.move()
    picture.sent(move)
    picture.remove("Pod", move.pod.partition("/")[2])
    picture.add(picture.web("batch-x", "d1", slot=4, owner=JOB, created=NOW))
    picture.plan()
    assert picture.machine.history.of(move.group).flight is not None
    assert picture.machine.history.of(move.group).failures == 0


def test_a_job_s_pod_that_is_not_ready_does_not_keep_a_move_under_way() -> None:
    used = policy(groupBy="policy", rebalance={"minPodAge": "0s", "stabilize": "0s"})
    picture = Picture(used).pods("d1", "d1", "d2")
    picture.add(workload("Job", "batch", parallelism=1))
    move = picture.move()
    picture.sent(move)
    picture.remove("Pod", move.pod.partition("/")[2])
    slow = picture.web("batch-x", "d1", slot=4, owner=JOB, created=NOW)
    slow["status"]["conditions"] = []
    picture.add(slow, picture.web("new", "s1", slot=3, created=NOW))
    picture.plan()
    assert picture.machine.history.of(move.group).flight is None


def set_pod(picture: Picture, name: str, number: int, slot: int, **more: Any) -> dict[str, Any]:
    owner = JOB | {"kind": "StatefulSet", "name": name, "uid": f"uid-StatefulSet-{name}"}
    return picture.web(f"{name}-{number}", "d1", slot=slot, owner=owner | {"apiVersion": "apps/v1"}, **more)


def test_a_move_ends_when_the_job_that_was_to_make_the_pod_anew_has_ended() -> None:
    picture = Picture(policy(groupBy="policy", rebalance={"jobs": True})).pods("d1", "d1")
    picture.add(workload("Job", "batch", parallelism=1), picture.web("batch-x", "d2", slot=3, owner=JOB))
    move = picture.move()
    assert move.pod == "default/batch-x"
    picture.sent(move)
    picture.remove("Pod", "batch-x")
    picture.remove("Job", "batch")
    picture.now += 59
    assert reasons(picture) == ["the replacement of default/batch-x is not Ready yet"], "it may yet be made"
    picture.now += 1
    assert picture.move().pod == "default/web-2"


def test_a_move_ends_when_another_set_took_the_place_of_the_one_that_was_to_make_the_pod_anew() -> None:
    picture = Picture(policy(groupBy="policy"))
    picture.add(workload("StatefulSet", "a", replicas=2), workload("StatefulSet", "b", replicas=2))
    picture.add(*(set_pod(picture, name, n, at + n) for at, name in ((1, "a"), (3, "b")) for n in (0, 1)))
    move = picture.move()
    picture.sent(move)
    for name in ("b-0", "b-1"):
        picture.remove("Pod", name)
    picture.remove("StatefulSet", "b")
    picture.add(workload("StatefulSet", "c", replicas=2))
    picture.add(*(set_pod(picture, "c", n, 3 + n, created=picture.now) for n in (0, 1)))
    picture.now += 60
    picture.plan()
    assert picture.machine.history.of(move.group).flight is None
    assert picture.machine.history.of(move.group).failures == 1, "the group is as far off as before"
    picture.now += 600
    assert picture.move()


def test_a_move_whose_replacement_nobody_makes_ends_as_a_failed_one() -> None:
    picture = Picture(policy(groupBy="policy", rebalance={"jobs": True})).pods("d1", "d1")
    picture.add(workload("Job", "batch", parallelism=2))
    picture.add(*(picture.web(f"batch-{n}", "d2", slot=2 + n, owner=JOB) for n in (1, 2)))
    move = picture.move()
    picture.sent(move)
    picture.remove("Pod", move.pod.partition("/")[2])
    picture.add(picture.web("other", "d2", slot=5, owner=JOB | {"name": "more", "uid": "uid-Job-more"}))
    wait = picture.plan().waits[0]
    assert wait.reason == f"the replacement of {move.pod} is not Ready yet"
    assert wait.until is not None
    picture.now = wait.until - EPOCH.timestamp()
    assert reasons(picture) == ["a move failed once"]


def test_a_replacement_that_is_not_ready_is_waited_for_however_long_that_takes() -> None:
    picture = Picture().pods("d1", "d1", "d2")
    move = picture.move()
    picture.sent(move)
    picture.remove("Pod", move.pod.partition("/")[2])
    broken = picture.web("new", "s1", slot=3, created=NOW)
    broken["status"]["conditions"] = []
    picture.add(broken)
    picture.now += 86_400
    wait = picture.plan().waits[0]
    assert wait.reason == f"the replacement of {move.pod} is not Ready yet"
    assert wait.until is None, "time alone will not change that"
