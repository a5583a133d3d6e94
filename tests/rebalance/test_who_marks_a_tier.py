"""Only a pod that would fit on an empty node of a tier can mark that tier unavailable for everybody."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.nodegroups import read_groups
from support.pictured import NOW, Picture, unschedulable
from support.policies import policy
from support.units import EPOCH

ELSEWHERE = {"nodeSelector": {"capacity": "on-demand"}}
ZONES = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}


def near(app: str, kind: str = "podAffinity") -> dict[str, Any]:
    """Required affinity, or anti-affinity, to the pods of an app on the same node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


# What of a pod can keep it out of a tier however many nodes that has.
OWN_WISHES = [
    {"nodeSelector": {"disk": "fast"}},
    near("database"),
    {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    {"topologySpreadConstraints": [{**ZONES, "labelSelector": {"matchLabels": {"app": "web"}}}]},
    {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
]


def waiting(picture: Picture | None = None, **spec: Any) -> Picture:
    """Pod ``late`` has waited for spot for longer than `after`; two of three pods have their place."""
    picture = (picture or Picture(policy(fallback={"after": "2m"}))).deployment(3)
    picture.add(picture.web("safe", "d1"), picture.web("fine", "d2"))
    picture.add(unschedulable(picture.web("late", tier="spot", **spec), NOW - 500))
    return picture


def without_spot() -> Picture:
    """There is no spot node, and there never was one."""
    picture = Picture(policy(fallback={"after": "2m"}), nodes=False)
    return picture.add(picture.on_demand("d1"), picture.on_demand("d2"))


def lost_spot() -> Picture:
    """The spot nodes were lost so long ago that their loss is no longer marked."""
    picture = Picture(policy(fallback={"after": "2m"}))
    picture.fall_back()
    for name in ("s1", "s2"):
        picture.remove("Node", name)
    picture.fall_back()
    picture.marks = picture.marks.cleared("spot")
    return picture


def marked(picture: Picture) -> list[str]:
    return [tier for tier, _ in picture.fall_back().marks]


def test_a_pod_that_would_fit_on_an_empty_node_marks_its_tier() -> None:
    assert marked(waiting(cpu=8)) == ["spot"]


@pytest.mark.parametrize(
    "spec",
    [
        ELSEWHERE,
        {"nodeSelector": {"disk": "fast"}},
        {"cpu": 9},
        {"memory": "65Gi"},
        near("database"),
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]},
    ],
)
def test_a_pod_that_even_an_empty_node_would_not_take_marks_nothing(spec: dict[str, Any]) -> None:
    assert marked(waiting(**spec)) == []


def test_a_pod_that_tolerates_less_than_the_tier_s_taints_marks_nothing() -> None:
    picture = Picture(policy(fallback={"after": "2m"}), nodes=False)
    picture.add(picture.spot("s1", taints=[{"key": "gpu", "effect": "NoSchedule"}]), picture.on_demand("d1"))
    picture.add(picture.on_demand("d2"))
    assert marked(waiting(picture)) == []


def test_a_pod_with_rules_that_an_empty_node_satisfies_marks_its_tier() -> None:
    spread = {**ZONES, "topologyKey": "kubernetes.io/hostname"} | {"labelSelector": {"matchLabels": {}}}
    own = near("web", "podAntiAffinity") | {"topologySpreadConstraints": [spread]} | OWN_WISHES[4]
    assert marked(waiting(**own)) == ["spot"]


def test_what_passes_by_itself_on_a_node_says_nothing_of_the_pod() -> None:
    picture = Picture(policy(fallback={"after": "2m"}))
    taint = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
    for name in ("s1", "s2"):
        picture.add(picture.spot(name, taints=[taint]))
    assert marked(waiting(picture)) == ["spot"]


def test_a_claim_that_can_be_bound_in_the_tier_keeps_no_pod_from_marking_it() -> None:
    picture = waiting(volumes=OWN_WISHES[2]["volumes"])
    picture.add(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "disks"},
            "provisioner": "disks.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"storageClassName": "disks", "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        },
    )
    assert marked(picture) == ["spot"]


def test_without_a_node_the_last_one_that_was_seen_counts() -> None:
    assert marked(waiting(lost_spot(), cpu=8)) == ["spot"]
    assert marked(waiting(lost_spot(), cpu=9)) == []
    assert marked(waiting(lost_spot(), **ELSEWHERE)) == []


def test_without_a_node_the_template_of_the_tier_s_node_group_counts() -> None:
    spot = {"name": "spot", "labels": {"capacity": "spot", "disk": "fast"}}
    groups = read_groups([spot | {"instanceTypes": [{"capacity": {"cpu": "4", "memory": "8Gi"}}]}])
    for expected, spec in (
        (["spot"], {"cpu": 4, "nodeSelector": {"disk": "fast"}}),
        ([], {"cpu": 5}),
        ([], {"nodeSelector": {"disk": "slow"}}),
    ):
        picture = without_spot()
        picture.machine.node_groups(groups)
        assert marked(waiting(picture, **spec)) == expected


def test_where_nothing_is_known_of_a_tier_a_pod_that_asks_for_resources_only_marks_it() -> None:
    assert marked(waiting(without_spot(), cpu=900)) == ["spot"]


@pytest.mark.parametrize("spec", OWN_WISHES)
def test_where_nothing_is_known_of_a_tier_a_pod_with_wishes_of_its_own_marks_nothing(
    spec: dict[str, Any],
) -> None:
    assert marked(waiting(without_spot(), **spec)) == []


def test_a_selector_that_every_node_of_the_tier_matches_is_no_obstacle() -> None:
    assert marked(waiting(without_spot(), nodeSelector={"capacity": "spot"})) == ["spot"]


def test_what_admission_added_is_no_wish_of_the_pod_s_own() -> None:
    terms = [{"matchExpressions": [{"key": "capacity", "operator": "In", "values": ["spot"]}]}]
    nodes = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spread = {**ZONES, "whenUnsatisfiable": "ScheduleAnyway"}
    steered = {"affinity": {"nodeAffinity": nodes}, "topologySpreadConstraints": [spread]}
    assert marked(waiting(without_spot(), **steered)) == ["spot"]


def test_a_pod_that_no_node_of_its_tier_could_ever_take_moves_on_by_itself() -> None:
    picture = Picture(policy(fallback={"after": "2m"}))
    picture.add(picture.on_demand("d3", 16))
    decision = waiting(picture, cpu=9).fall_back()
    assert [one.pod for one in decision.deletions] == ["default/late"]
    assert "even an empty node" in decision.deletions[0].why


def test_a_pod_that_no_tier_could_ever_take_is_not_deleted() -> None:
    assert not waiting(cpu=9).fall_back().deletions


def test_a_pod_whose_own_rules_keep_it_out_is_not_deleted_again_and_again() -> None:
    assert not waiting(**near("database")).fall_back().deletions


def test_it_is_asked_again_when_the_nodes_have_changed() -> None:
    picture = waiting(cpu=9)
    assert marked(picture) == []
    picture.add(picture.spot("s3", 16))
    picture.now += 1000
    assert picture.machine.fall_back(picture.policy, picture.marks, EPOCH.timestamp() + picture.now).marks
    assert marked(picture) == ["spot"]
