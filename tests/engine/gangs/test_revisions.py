"""Gangs that are edited while they wait: which members count, and what is said where editing cannot help."""

from __future__ import annotations

from typing import Any

from support.cluster_of import Running, running
from support.units import node, pod, workload

DEPLOYMENT = {"kind": "Deployment", "name": "train", "uid": "uid-Deployment-train", "controller": True}


def replica_set(revision: int, **more: Any) -> dict[str, Any]:
    made = workload("ReplicaSet", f"train-{revision}", gang="g", owner=DEPLOYMENT, created=revision, **more)
    made["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": str(revision)}
    return made


def member(name: str, revision: int, cpu: int = 1, **more: Any) -> dict[str, Any]:
    uid = f"uid-ReplicaSet-train-{revision}"
    owner = {"kind": "ReplicaSet", "name": f"train-{revision}", "uid": uid, "controller": True}
    return pod(name, cpu, gang="g", minimum=3, owner=owner, **more)


def stateful(name: str, revision: str, **more: Any) -> dict[str, Any]:
    owner = {"kind": "StatefulSet", "name": "set", "uid": "uid-StatefulSet-set", "controller": True}
    labels = {"controller-revision-hash": revision}
    return pod(name, gang="g", minimum=3, owner=owner, labels=labels, **more)


def edited(*things: dict[str, Any], strategy: str = "RollingUpdate") -> Running:
    """A Deployment whose gang of revision 1 waits, since each member is too large, and was edited."""
    return running(
        None,
        node("n", cpu=4),
        workload("Deployment", "train", replicas=3, gang="g", strategy={"type": strategy}),
        replica_set(1),
        *(member(f"old-{index}", 1, cpu=4) for index in range(3)),
        replica_set(2),
        *things,
    )


def bound(world: Running) -> set[str]:
    return {key.partition("/")[2] for key in world.bound}


def test_members_of_an_older_revision_do_not_count_while_there_are_newer_ones():
    world = running(None, node("n", cpu=8), workload("Deployment", "train", replicas=3, gang="g"))
    world.add(node("n", cpu=1), replica_set(1), *(member(f"old-{index}", 1) for index in range(3)))
    world.add(replica_set(2), member("new-0", 2), node("n", cpu=8)).after(20)
    assert bound(world) == set()
    assert not any(hold.unschedulable for hold in world.holds().values())
    assert "1 of 3 members are there" in world.holds()["default/new-0"].message


def test_they_count_as_long_as_there_is_no_newer_one():
    world = running(None, node("n", cpu=4), workload("Deployment", "train", replicas=3, gang="g"))
    world.add(replica_set(1), replica_set(2), *(member(f"old-{index}", 1) for index in range(3)))
    assert bound(world) == {"old-0", "old-1", "old-2"}


def test_they_count_once_one_of_their_gang_runs():
    world = running(None, node("n", cpu=4), workload("Deployment", "train", replicas=3, gang="g"))
    world.add(replica_set(1), replica_set(2))
    world.add(member("old-0", 1, on="n", started=99), member("old-1", 1), member("new-0", 2))
    assert bound(world) == {"old-0", "old-1", "new-0"}


def test_a_gang_starts_with_the_newer_revision_once_that_is_complete():
    world = edited(*(member(f"new-{index}", 2) for index in range(3)))
    assert bound(world) == {"new-0", "new-1", "new-2"}


def test_their_priority_does_not_count_either():
    news = [member(f"new-{index}", 2, priority=9) for index in range(3)]
    world = edited(*(pod(f"low-{index}", on="n", priority=5) for index in range(4)), *news)
    assert bound(world) >= {"new-0", "new-1", "new-2"}


def test_the_revision_that_is_rolled_back_to_is_the_newest():
    world = edited(*(member(f"mid-{index}", 2, cpu=4) for index in range(3)))
    world.remove("old-0", "old-1", "old-2")
    back = replica_set(1)
    back["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "3"
    world.add(back, *(member(f"back-{index}", 1) for index in range(3)))
    assert bound(world) == {"back-0", "back-1", "back-2"}


def test_a_deployment_that_replaces_its_waiting_pods_one_by_one_is_told_to_recreate_them():
    world = edited(member("new-0", 2))
    assert bound(world) == set()
    message = world.holds()["default/new-0"].message
    assert "Deployment train replaces waiting pods one by one: use strategy: Recreate" in message


def test_nothing_is_advised_where_all_pods_are_recreated_together():
    world = edited(member("new-0", 2), strategy="Recreate")
    assert "Recreate" not in world.holds()["default/new-0"].message


def test_a_running_gang_is_rolled_out_one_by_one_as_before():
    world = running(
        None,
        node("n", cpu=4),
        workload("Deployment", "train", replicas=3, gang="g"),
        replica_set(1),
        *(member(f"old-{index}", 1) for index in range(3)),
    )
    world.add(replica_set(2), member("new-0", 2, created=50))
    assert bound(world) == {"old-0", "old-1", "old-2", "new-0"}


def test_a_stateful_set_that_creates_one_pod_after_the_other_is_told_the_cure():
    owner = workload("StatefulSet", "set", replicas=3, gang="g")
    world = running(None, node("n", cpu=4), owner, stateful("set-0", "r1"))
    message = world.holds()["default/set-0"].message
    assert message.startswith("gang default/g: 1 of 3 members are there; StatefulSet set creates")
    assert "--cascade=orphan" in message
    assert "podManagementPolicy: Parallel" in message


def test_a_stateful_set_whose_waiting_pods_are_outdated_is_told_to_delete_them():
    owner = workload("StatefulSet", "set", replicas=3, gang="g", podManagementPolicy="Parallel")
    owner["status"] = {"updateRevision": "r2"}
    pods = [stateful("set-0", "r1"), stateful("set-1", "r1"), stateful("set-2", "r2")]
    world = running(None, node("n", cpu=2), owner, *pods)
    assert "delete its pods of the older revision" in world.holds()["default/set-2"].message
