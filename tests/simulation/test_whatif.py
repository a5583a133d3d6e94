"""What if: a cluster's copy goes on as the cluster itself would, and tells what the changes come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import BadInput
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.names import SLOT_ANNOTATION, TOKEN_ANNOTATION
from fairlead.policy.slots.ledger import Ledger
from fairlead.policy.tiers.marks import Marks
from fairlead.simulation.changes import (
    AddNodes,
    Apply,
    Change,
    Delete,
    DrainNode,
    LoseTier,
    LoseZone,
    RemoveNode,
    Scale,
)
from fairlead.simulation.cluster_copy import ClusterCopy, load
from fairlead.simulation.contents import EXTENDER, REBALANCER, SCHEDULER, WEBHOOK, Contents, share_parts
from fairlead.simulation.outcome import Outcome
from fairlead.simulation.whatif import Question, compare, fewest_nodes, play
from fairlead.world.clock import EPOCH
from fairlead.world.world import World
from support.manifests import budget, deployment, job, pod, stateful_set
from support.worlds import Obj, asking, group, node, seconds

ZONE = "topology.kubernetes.io/zone"
DEFAULT = {"schedulerName": "default-scheduler"}
SPOT_FIRST = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "PlacementPolicy",
    "metadata": {"name": "split"},
    "spec": {
        "match": {"namespaces": ["default"], "labels": {"app": "web"}},
        "tiers": [
            {"name": "spot", "nodes": {"tier": "spot"}, "volatile": True},
            {"name": "on-demand", "nodes": {"tier": "on-demand"}, "min": "50%"},
        ],
    },
}


def contents(*objects: Obj, components: Sequence[str] = (), after: float = 30.0, **more: Any) -> Contents:
    """A cluster in which these were created and came to rest, as an API server would list it."""
    world = World()
    for one in objects:
        if one["kind"] != "PlacementPolicy":
            world.create(one)
    world.run_until(seconds(after))
    found = [item for resource in world.store.resources() for item in world.store.list(resource)]
    found += [one for one in objects if one["kind"] == "PlacementPolicy"]
    at = world.clock.now()
    world.close()
    return Contents(tuple(found), at, components=frozenset(components), **more)


def nodes(number: int, tier: str = "", zone: str = "", cpu: int = 4) -> list[Obj]:
    labels = ({"tier": tier} if tier else {}) | ({ZONE: zone} if zone else {})
    prefix = tier or zone or "n"
    return [node(f"{prefix}{index}", cpu=cpu, labels=labels) for index in range(1, number + 1)]


def web(replicas: int, cpu: str = "1", **spec: Any) -> Obj:
    return deployment("web", replicas, pods=asking(cpu, **spec))


def changed(cluster: Contents, *changes: Change, **more: Any) -> Outcome:
    return play(cluster, Question(changes, **more))


def test_a_cluster_at_rest_stays_as_it_is() -> None:
    cluster = contents(*nodes(2), web(4), stateful_set("db", 2, pods=asking("500m")))
    found = changed(cluster)
    assert (found.placed, found.pending, found.evicted, found.nodes) == (6, 0, 0, 2)
    assert found.quiet.after == timedelta()
    assert found.quiet.reached


def test_pods_of_a_removed_node_are_evicted_and_placed_elsewhere() -> None:
    cluster = contents(*nodes(3, cpu=2), web(6))
    found = changed(cluster, RemoveNode("n2"))
    assert found.evicted == 2
    assert (found.placed, found.pending, found.nodes) == (4, 2, 2)
    (reason,) = found.waiting
    assert reason.text == "0/2 nodes are available: 2 Insufficient cpu."
    (share,) = found.evicted_by
    assert share.workload == "default/Deployment/web"
    assert share.revision


def test_changes_are_made_in_order() -> None:
    cluster = contents(*nodes(1), web(2))
    with pytest.raises(BadInput, match="there is no"):
        changed(cluster, Delete("deployment", "default", "web"), Scale("default", "", "web", 3))
    found = changed(cluster, Scale("default", "", "web", 3), Delete("deployment", "default", "web"))
    assert found.placed == 0


def test_a_drain_waits_for_budgets_and_says_what_it_could_not_evict() -> None:
    cluster = contents(*nodes(2), web(2, "3"), budget("web", {"app": "web"}, minAvailable=2))
    home = next(one for one in cluster.of_kind("Pod"))["spec"]["nodeName"]
    found = changed(cluster, DrainNode(home))
    assert found.evicted == 0
    (why,) = found.refused.values()
    assert "disruption budget" in why


def test_a_drain_moves_all_but_daemons_once_there_is_room() -> None:
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": asking("100m")},
        },
    }
    cluster = contents(*nodes(2), web(3), daemon)
    found = changed(cluster, DrainNode("n1"))
    assert found.refused == {}
    assert (found.placed, found.pending) == (5, 0)
    assert {share.workload for share in found.evicted_by} == {"default/Deployment/web"}


def test_a_higher_pod_that_is_applied_takes_the_place_of_lower_ones() -> None:
    cluster = contents(*nodes(1), web(4))
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    more = pod("urgent", spec=asking("2", priorityClassName="high", **DEFAULT), namespace="default")
    found = changed(cluster, Apply("urgent.yaml", [high, more]))
    assert found.evicted == 2
    assert (found.placed, found.pending) == (3, 2)


def test_a_gang_of_ours_starts_whole_or_not_at_all() -> None:
    gang = {"pod-group": "train", "pod-group-min-member": "3"}
    members = [
        pod(f"m{n}", spec=asking("3", schedulerName="fairlead"), namespace="default", annotations=gang)
        for n in range(3)
    ]
    cluster = contents(*nodes(2), *members, components=[SCHEDULER])
    assert (changed(cluster).placed, changed(cluster).pending) == (0, 3)
    whole = changed(cluster, Apply("n3", [node("n3")]))
    assert (whole.placed, whole.pending) == (3, 0)


def test_without_our_scheduler_its_pods_stay_where_they_are() -> None:
    cluster = contents(*nodes(1), pod("a", spec=asking("1", schedulerName="fairlead"), namespace="default"))
    assert changed(cluster).pending == 1


@pytest.mark.parametrize("component", [WEBHOOK, EXTENDER])
def test_a_lost_tier_s_pods_go_to_the_next_one_and_count_by_tier(component: str) -> None:
    both = [*nodes(2, "spot"), *nodes(2, "on-demand")]
    cluster = contents(*both, SPOT_FIRST, components=[component, REBALANCER])
    started = contents_after(cluster, web(4))
    by_tier = {share.tier: count for share, count in changed(started).placed_by.items()}
    assert by_tier == {"spot": 2, "on-demand": 2}
    found = changed(started, LoseTier("split/spot"))
    assert found.evicted == 2
    assert {share.tier for share in found.evicted_by} == {"spot"}
    assert {share.tier: count for share, count in found.placed_by.items()} == {"on-demand": 4}


def contents_after(cluster: Contents, *objects: Obj) -> Contents:
    """The contents of a copy to which objects were applied, once it is at rest."""
    copy = ClusterCopy(cluster)
    for one in objects:
        copy.create({**one, "metadata": {"namespace": "default", **one["metadata"]}})
    copy.settle(timedelta(minutes=5), timedelta(hours=1))
    store = copy.world.store
    found = [item for resource in store.resources() for item in store.list(resource)]
    at = copy.clock.now()
    copy.close()
    policies = cluster.of_kind("PlacementPolicy")
    return Contents((*found, *policies), at, cluster.settings, cluster.components, cluster.groups)


def test_a_policy_that_is_tried_holds_instead_of_the_one_of_its_name() -> None:
    both = [*nodes(2, "spot"), *nodes(2, "on-demand")]
    cluster = contents(*both, SPOT_FIRST, components=[WEBHOOK])
    spec = {**SPOT_FIRST["spec"], "tiers": [{"name": "spot", "nodes": {"tier": "spot"}}]}  # type: ignore[dict-item]
    found = changed(cluster, Apply("web", [web(4)]), policies=[{**SPOT_FIRST, "spec": spec}])
    assert {share.tier: count for share, count in found.placed_by.items()} == {"spot": 4}


def test_a_lost_zone_takes_its_nodes_alone() -> None:
    cluster = contents(*nodes(2, zone="a"), *nodes(2, zone="b"), web(8))
    found = changed(cluster, LoseZone("a"))
    assert (found.nodes, found.evicted) == (2, 4)


def test_nodes_are_added_like_those_that_are_there() -> None:
    there = [node(f"large-{n}", labels={"eks.amazonaws.com/nodegroup": "large"}) for n in (1, 2)]
    cluster = contents(*there, web(12))
    found = changed(cluster, AddNodes("large", 1))
    assert (found.nodes, found.placed, found.pending) == (3, 12, 0)


def test_the_fewest_nodes_that_make_all_fit_are_found() -> None:
    there = [node(f"large-{n}", labels={"eks.amazonaws.com/nodegroup": "large"}) for n in (1, 2)]
    cluster = contents(*there, web(27))
    assert fewest_nodes(cluster, Question(), "large", 100) == 5
    assert changed(cluster, AddNodes("large", 4)).pending == 3
    assert changed(cluster, AddNodes("large", 5)).pending == 0
    with pytest.raises(BadInput, match="with 3 more nodes pods still wait"):
        fewest_nodes(cluster, Question(), "large", 3)


def test_an_autoscaler_brings_nodes_of_the_groups_that_are_known() -> None:
    cluster = contents(*nodes(1), web(4), groups=(group("more", max=2),))
    found = changed(cluster, Scale("default", "", "web", 8))
    assert (found.nodes, found.placed, found.pending) == (2, 8, 0)
    assert found.quiet.after >= timedelta(seconds=30), "a node takes its time to boot"


def test_a_pod_whose_owner_was_not_read_is_kept_but_not_recreated() -> None:
    cluster = contents(*nodes(2), web(2))
    known = [one for one in cluster.objects if one["kind"] in ("Node", "Pod")]
    alone = Contents(tuple(known), cluster.at)
    assert changed(alone).placed == 2
    home = next(one["spec"]["nodeName"] for one in known if one["kind"] == "Pod")
    gone = changed(alone, RemoveNode(home))
    assert gone.placed + gone.evicted == 2
    assert gone.pending == 0


def test_a_node_that_was_not_ready_stays_so() -> None:
    cluster = contents(*nodes(2), web(2))
    objects = []
    ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "no runtime"}
    for one in cluster.objects:
        is_first = one["kind"] == "Node" and one["metadata"]["name"] == "n1"
        objects.append({**one, "status": {**one["status"], "conditions": [ready]}} if is_first else one)
    found = changed(Contents(tuple(objects), cluster.at), Scale("default", "", "web", 8))
    assert found.pending > 0


def test_jobs_that_run_go_on_running() -> None:
    work = job("batch", spec={"parallelism": 2, "completions": 2}, pods=asking("1", **DEFAULT))
    cluster = contents(*nodes(1), work, after=4.0)
    running = [one for one in cluster.of_kind("Pod") if one["status"]["phase"] == "Running"]
    assert len(running) == 2
    assert changed(cluster).placed == 2


def test_the_difference_is_that_of_the_changes_alone() -> None:
    """What would happen anyway is in both outcomes."""
    cluster = contents(*nodes(2), web(4), after=0.0)
    found = compare(cluster, Question([Scale("default", "", "web", 5)]))
    assert (found.without.placed, found.changed.placed) == (4, 5)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (RemoveNode("nowhere"), "there is no node 'nowhere'"),
        (DrainNode("nowhere"), "there is no node 'nowhere'"),
        (DrainNode("a1,nowhere"), "there is no node 'nowhere'"),
        (DrainNode("b*"), "there is no node 'b\\*'"),
        (DrainNode("pool=old"), "there is no node with labels pool=old"),
        (AddNodes("large", 1), "there is no node group 'large'"),
        (LoseTier("spot"), "there is no placement policy"),
        (LoseZone("z"), "there is no zone 'z'; there are a"),
        (Scale("default", "", "api", 1), "there is no Deployment, StatefulSet or ReplicaSet api"),
        (Delete("deployment", "default", "api"), "there is no deployment api in namespace default"),
        (Apply("f", [{"kind": "Rollout", "metadata": {"name": "x"}}]), "has no objects of this kind"),
        (Apply("f", [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}]), "Pod x: "),
    ],
)
def test_a_change_that_cannot_be_made_says_what_there_is(change: Change, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        changed(contents(*nodes(1, zone="a")), change)


@settings(max_examples=15)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    replicas=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    removed=st.integers(0, 3),
)
def test_every_pod_is_counted_once_and_two_copies_end_alike(
    sizes: list[int], replicas: list[int], removed: int
) -> None:
    machines = [node(f"n{number}", cpu=size) for number, size in enumerate(sizes)]
    workloads = [deployment(f"w{number}", count, pods=asking("1")) for number, count in enumerate(replicas)]
    cluster = contents(*machines, *workloads)
    question = Question([RemoveNode(f"n{removed % len(sizes)}")])
    found, again = play(cluster, question), play(cluster, question)
    assert found.to_dict() == again.to_dict()
    assert found.placed + found.pending == sum(replicas)
    room = sum(sizes) - sizes[removed % len(sizes)]
    assert found.placed == min(sum(replicas), room)
    assert sum(found.placed_by.values()) == found.placed
    assert sum(one.pods for one in found.waiting) == found.pending


def test_a_copy_of_a_copy_gives_no_uid_twice() -> None:
    cluster = contents_after(contents(*nodes(2)), web(2))
    again = contents_after(cluster, deployment("api", 2, pods=asking("1")))
    uids = [one["metadata"]["uid"] for one in again.objects]
    assert len(uids) == len(set(uids))
    assert changed(again).placed == 4


def test_what_was_read_is_never_changed() -> None:
    import copy

    cluster = contents(*nodes(2), web(3))
    before = copy.deepcopy(cluster.objects)
    changed(cluster, RemoveNode("n1"), Scale("default", "", "web", 9))
    assert cluster.objects == before


def with_spot_marked(at: float) -> Obj:
    return {**SPOT_FIRST, "status": {"marks": Marks(1800).interrupted("spot", at).to_plain()}}


def test_a_tier_that_is_marked_is_left_alone_in_the_copy_too() -> None:
    both = [*nodes(2, "spot"), *nodes(2, "on-demand")]
    for policy, tiers in (
        (SPOT_FIRST, {"spot": 2, "on-demand": 2}),
        (with_spot_marked(EPOCH.timestamp()), {"on-demand": 4}),
    ):
        cluster = contents(*both, policy, components=[WEBHOOK])
        found = changed(cluster, Apply("web", [web(4)]))
        assert {share.tier: count for share, count in found.placed_by.items()} == tiers


def test_a_policy_that_is_tried_keeps_the_marks_of_the_one_of_its_name() -> None:
    both = [*nodes(2, "spot"), *nodes(2, "on-demand")]
    # Policies are told apart by their names, in whichever order they come.
    other = {
        **SPOT_FIRST,
        "metadata": {"name": "zz"},
        "spec": {**SPOT_FIRST["spec"], "match": {"namespaces": ["x"]}},
    }  # type: ignore[dict-item]
    cluster = contents(*both, with_spot_marked(EPOCH.timestamp()), other, components=[WEBHOOK])
    found = changed(cluster, Apply("web", [web(4)]), policies=[SPOT_FIRST])
    assert {share.tier: count for share, count in found.placed_by.items()} == {"on-demand": 4}


def test_slots_are_those_of_the_ledgers() -> None:
    """A slot that is held by a pod which is still to come is not given to another one.

    Of one pod in slot 1 no more can be told from the pods: without the ledger the next one is in slot 2.
    """
    both = [*nodes(2, "spot"), *nodes(2, "on-demand")]
    cluster = contents_after(contents(*both, SPOT_FIRST, components=[WEBHOOK]), web(1))
    (first,) = cluster.of_kind("Pod")
    revision = first["metadata"]["labels"]["pod-template-hash"]
    held = Ledger(GroupKey("split", "default", "Deployment/web", revision))
    for token, tier in (
        (first["metadata"]["annotations"][TOKEN_ANNOTATION], "on-demand"),
        ("coming", "spot"),
    ):
        held, _ = held.take(token, cluster.at.timestamp(), lambda _, tier=tier: tier)  # type: ignore[misc]
    bigger = Scale("default", "", "web", 2)
    for objects, slots in ((cluster.objects, ["1", "2"]), ((*cluster.objects, held.to_object()), ["1", "3"])):
        copy = ClusterCopy(replace(cluster, objects=objects))
        bigger.apply(copy)
        copy.go_on(seconds(5))
        assert (
            sorted(one["metadata"]["annotations"][SLOT_ANNOTATION] for one in copy.world.all("Pod")) == slots
        )
        copy.close()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a1,b2", ["a2", "b1"]),
        ("a*", ["b1", "b2"]),
        ("a1, b*", ["a2"]),
        (f"{ZONE}=b", ["a1", "a2"]),
    ],
)
def test_several_nodes_are_named_at_once(text: str, left: list[str]) -> None:
    copy = ClusterCopy(contents(*nodes(2, zone="a"), *nodes(2, zone="b")))
    RemoveNode(text).apply(copy)
    assert [one["metadata"]["name"] for one in copy.nodes()] == left
    copy.close()


def test_of_nodes_that_are_drained_together_none_takes_another_s_pods() -> None:
    cluster = contents(*nodes(4), web(4, "2"))
    homes = sorted({one["spec"]["nodeName"] for one in cluster.of_kind("Pod")})
    found = changed(cluster, DrainNode("n1,n2"))
    assert homes
    assert found.evicted == sum(one["spec"]["nodeName"] in ("n1", "n2") for one in cluster.of_kind("Pod"))
    assert (found.placed, found.pending) == (4, 0)


def test_what_another_kubelet_wrote_stays_as_it_is() -> None:
    cluster = contents(*nodes(1), web(2))
    objects = []
    for one in cluster.objects:
        status = one.get("status")
        if one["kind"] == "Pod":
            containers = [{**each, "imageID": "sha256:1"} for each in status["containerStatuses"]]
            status = {**status, "containerStatuses": containers}
        objects.append({**one, "status": status} if status else one)
    copy = ClusterCopy(replace(cluster, objects=tuple(objects)))
    version = copy.world.store.rv
    copy.settle(timedelta(minutes=5), timedelta(hours=1))
    assert copy.world.store.rv == version
    copy.close()


def test_how_far_a_copy_is_can_be_told() -> None:
    said: list[str] = []
    cluster = contents(*nodes(1), web(4))
    compare(cluster, Question([Scale("default", "", "web", 6)]), said.append)
    assert said[0] == "with the changes"
    assert [one for one in said if one.startswith("with the changes: ")][-1].endswith(
        " passed, 2 pods pending"
    )
    assert said[-1].startswith("the cluster as it is: ")
    assert said[-1].endswith(" passed, 0 pods pending")


def test_copies_of_one_original_know_nothing_of_each_other() -> None:
    cluster = contents(*nodes(2), web(4))
    original = load(cluster)
    alone = play(cluster, Question([RemoveNode("n1")]), original).to_dict()
    assert play(cluster, Question([Scale("default", "", "web", 9)]), original).placed == 8
    assert play(cluster, Question([RemoveNode("n1")]), original).to_dict() == alone


def test_equal_parts_of_pods_are_held_once() -> None:
    def read() -> list[Obj]:
        volumes = [{"name": f"token-{number}"} for number in range(2)]
        return [
            {
                "kind": "Pod",
                "spec": {
                    "nodeName": name,
                    "tolerations": [{"key": "a"}],
                    "containers": [{"name": "c", "env": [{"name": "x"}], "volumeMounts": [volume]}],
                },
            }
            for name, volume in zip("ab", volumes, strict=True)
        ]

    first, second = objects = read()
    share_parts([*objects, {"kind": "Pod"}, {"kind": "Node", "spec": None}])
    assert objects == read()
    assert first["spec"]["tolerations"] is second["spec"]["tolerations"]
    assert first["spec"]["containers"][0]["env"] is second["spec"]["containers"][0]["env"]
    assert first["spec"]["containers"] != second["spec"]["containers"]
