"""Why a pod waits: for each reason a small cluster, and the first line names it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from fairlead import Cluster
from fairlead.engine.ask.diagnosis import CAUSES
from fairlead.engine.ask.objects import is_policy, read
from fairlead.engine.planning.settings import Settings
from fairlead.engine.rules import ORDER
from support.policies import plain_policy
from support.units import EPOCH, at, budget, node, pod, workload

NOW = EPOCH.timestamp() + 3600
ZONE = "topology.kubernetes.io/zone"
APP = {"labels": {"app": "web"}}


def claim(name: str = "data", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "annotations": spec.pop("annotations", {})},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
        "status": {"phase": "Bound" if spec.get("volumeName") else "Pending"},
    }


def volume(name: str = "pv", **more: Any) -> dict[str, Any]:
    labels = more.pop("labels", {})
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": "data"},
            **more,
        },
        "status": {"phase": "Bound"},
    }


def with_claim(name: str = "x", **more: Any) -> dict[str, Any]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return pod(name, volumes=volumes, **more)


def lease(name: str = "fairlead-scheduler", holder: str = "one", renewed: float = 3595.0) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "fairlead-system"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": at(0.0).replace("Z", ".000000Z"),
            "renewTime": at(renewed).replace("Z", ".000000Z"),
        },
    }


def apart(when: str = "podAntiAffinity", **labels: str) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return {when: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]
SPOT = plain_policy(
    "web",
    {"name": "spot", "nodes": {"kind": "spot"}, "max": 1},
    {"name": "firm", "nodes": {"kind": "firm"}, "max": 1},
    groupBy="policy",
)
MARKED = SPOT | {
    "status": {
        "marks": {
            "spot": {"since": at(3590), "until": at(3700), "reason": "no room for 2m"},
            "firm": {"since": at(3590), "until": at(3700), "reason": "no room for 2m"},
        }
    }
}


class Case(NamedTuple):
    objects: list[dict[str, Any]]
    code: str
    words: str
    rule: str = ""


def ruled(name: str, words: str, *objects: dict[str, Any]) -> Case:
    return Case(list(objects), "rule", words, name)


CASES = {
    # Before a scheduler even tries
    "a gate": Case(
        [node("n"), pod("x", schedulingGates=[{"name": "quota"}])],
        "gate",
        "waits for another controller to remove the scheduling gate quota",
    ),
    "two gates": Case(
        [node("n"), pod("x", schedulingGates=[{"name": "a"}, {"name": "b"}])], "gate", "gates a, b"
    ),
    "a misspelt scheduler": Case(
        [node("n"), pod("x", scheduler="fairlaed")], "no-scheduler", "fairlaed: it has placed no pod"
    ),
    "a scheduler that nobody runs": Case(
        [node("n"), pod("x", scheduler="yunikorn")],
        "no-scheduler",
        "no scheduler answers to the name yunikorn",
    ),
    "our scheduler is down": Case(
        [node("n"), lease(renewed=0), pod("x")], "scheduler-away", "scheduler fairlead does not run"
    ),
    "nobody leads": Case([node("n"), lease(holder=""), pod("x")], "scheduler-away", "has no holder"),
    "kube-scheduler is down": Case(
        [node("n"), lease("kube-scheduler", renewed=0), pod("x", scheduler="default-scheduler")],
        "scheduler-away",
        "scheduler default-scheduler does not run",
    ),
    # Gangs
    "a gang that is not whole": Case(
        [node("n"), pod("x", gang="g", minimum=3)], "gang-incomplete", "1 of 3 members are there"
    ),
    "a gang without its PodGroup": Case(
        [node("n"), pod("x", labels={"scheduling.volcano.sh/group-name": "g"})],
        "gang-object",
        "PodGroup (scheduling.volcano.sh) does not exist",
    ),
    "a gang whose size settles": Case(
        [node("n"), pod("x", gang="g", created=3599)], "gang-settling", "size to settle"
    ),
    "a gang that is too large": Case(
        [node("n", 2), *(pod(name, gang="g", minimum=3) for name in "xyz")],
        "gang-room",
        "gang default/g needs 3 places at once; there is room for 2 now",
    ),
    "a gang with a member that makes no sense": Case(
        [node("n"), pod("x", gang="g", minimum=2), pod("bad", "-1", gang="g", minimum=2)],
        "gang-incomplete",
        "1 cannot be used",
    ),
    # Policies
    "a full group": Case(
        [
            SPOT,
            node("s", labels={"kind": "spot"}),
            node("f", labels={"kind": "firm"}),
            pod("a", on="s"),
            pod("b", on="f"),
            pod("x"),
        ],
        "policy-full",
        "Policy web: every tier has reached its max",
    ),
    "a tier without nodes": Case(
        [SPOT, node("f", labels={"kind": "firm"}), pod("x")],
        "policy-tier",
        "policy web: it waits for tier spot",
    ),
    "a full tier": Case(
        [
            SPOT,
            node("s", 1, labels={"kind": "spot"}),
            node("f", labels={"kind": "firm"}),
            pod("other", on="s", namespace="kube-system"),
            pod("x"),
        ],
        "policy-tier",
        "1 Insufficient cpu",
    ),
    "marked tiers": Case(
        [
            MARKED,
            node("s", 1, labels={"kind": "spot"}),
            node("f", 1, labels={"kind": "firm"}),
            node("other"),
            pod("a", on="s", namespace="kube-system"),
            pod("b", on="f", namespace="kube-system"),
            pod("x"),
        ],
        "policy-mark",
        "no other has room",
    ),
    # Each rule
    "cordoned": ruled("NodeUnschedulable", "unschedulable", node("n", unschedulable=True), pod("x")),
    "tainted": ruled(
        "TaintToleration",
        "1 node(s) had untolerated taint(s)",
        node("n", taints=[{"key": "size", "value": "large", "effect": "NoSchedule"}]),
        pod("x"),
    ),
    "no such label": ruled(
        "NodeAffinity",
        "didn't match Pod's node affinity/selector",
        node("n"),
        pod("x", nodeSelector={"a": "b"}),
    ),
    "a port is taken": ruled(
        "NodePorts",
        "free ports",
        node("n"),
        *(
            pod(name, on=on, containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}])
            for name, on in (("x", ""), ("other", "n"))
        ),
    ),
    "no cpu": ruled("NodeResourcesFit", "1 Insufficient cpu", node("n", 1), pod("x", 2)),
    "no memory": ruled("NodeResourcesFit", "Insufficient memory", node("n"), pod("x", memory="1Ti")),
    "too many pods": ruled("NodeResourcesFit", "Too many pods", node("n", pods=0), pod("x")),
    "no gpu": ruled(
        "NodeResourcesFit",
        "Insufficient nvidia.com/gpu",
        node("n"),
        pod("x", containers=[{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]),
    ),
    "a claim in use": ruled(
        "VolumeRestrictions",
        "ReadWriteOncePod",
        node("n"),
        volume(accessModes=["ReadWriteOncePod"]),
        claim(
            accessModes=["ReadWriteOncePod"],
            volumeName="pv",
            annotations={"pv.kubernetes.io/bind-completed": "yes"},
        ),
        with_claim("other", on="n"),
        with_claim(),
    ),
    "too many volumes": ruled(
        "NodeVolumeLimits",
        "exceed max volume count",
        node("n"),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": "n"},
            "spec": {"drivers": [{"name": "disk", "nodeID": "n", "allocatable": {"count": 0}}]},
        },
        volume(csi={"driver": "disk", "volumeHandle": "h"}),
        claim(volumeName="pv", annotations={"pv.kubernetes.io/bind-completed": "yes"}),
        with_claim(),
    ),
    "no such claim": ruled(
        "VolumeRestrictions",
        'persistentvolumeclaim "data" not found',
        node("n"),
        claim("another"),
        with_claim(),
    ),
    "a claim that nobody binds": ruled(
        "VolumeBinding",
        "unbound immediate PersistentVolumeClaims",
        node("n"),
        volume("other"),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "p",
            "volumeBindingMode": "Immediate",
        },
        claim(storageClassName="fast"),
        with_claim(),
    ),
    "a volume in another zone": ruled(
        "VolumeZone",
        "no available volume zone",
        node("n", labels={ZONE: "a"}),
        volume(labels={ZONE: "b"}),
        claim(volumeName="pv", annotations={"pv.kubernetes.io/bind-completed": "yes"}),
        with_claim(),
    ),
    "too uneven": ruled(
        "PodTopologySpread",
        "didn't match pod topology spread constraints",
        node("n", labels={ZONE: "a"}),
        node("full", 0, labels={ZONE: "b"}),
        pod("other", on="n", **APP),
        pod("x", topologySpreadConstraints=SPREAD, **APP),
    ),
    "nobody to be with": ruled(
        "InterPodAffinity",
        "didn't match pod affinity rules",
        node("n"),
        pod("x", affinity=apart("podAffinity", app="db")),
    ),
    "somebody to be apart from": ruled(
        "InterPodAffinity",
        "didn't match pod anti-affinity rules",
        node("n"),
        pod("other", on="n", **APP),
        pod("x", affinity=apart(app="web")),
    ),
    "a node of its own": ruled(
        "Exclusive",
        "in use while the pod needs a node to itself",
        node("n"),
        pod("other", on="n"),
        pod("x", annotations={"fairlead.dev/capacity": "exclusive"}),
    ),
    "dynamic resources": ruled(
        "DynamicResources",
        "resource claims",
        node("n"),
        pod("x", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]),
    ),
    "no room, for a pod of kube-scheduler's": ruled(
        "NodeResourcesFit", "1 Insufficient cpu", node("n", 1), pod("x", 2, scheduler="default-scheduler")
    ),
    # Room that is not there yet
    "victims are to leave": Case(
        [node("n", 1), pod("low", on="n", priority=1), pod("x", priority=9)],
        "to-preempt",
        "default/low has to leave for it first",
    ),
    "victims are leaving": Case(
        [node("n", 1), pod("low", on="n", priority=1, terminating=True), pod("x", priority=9, nominated="n")],
        "victims",
        "promised node n, which pods have to leave",
    ),
    "a budget protects": ruled(
        "NodeResourcesFit",
        "Insufficient cpu",
        node("n", 1),
        budget("b", {"app": "web"}, 0),
        pod("low", on="n", priority=1, **APP),
        pod("x", priority=9),
    ),
    "its turn has not come": Case([node("n"), pod("x")], "not-tried", "it would go to n now"),
    "kube-scheduler has not come to it": Case(
        [node("n"), pod("x", scheduler="default-scheduler")], "not-tried", "it fits, on n best"
    ),
    "kube-scheduler's victims leave": Case(
        [
            node("n", 1),
            pod("low", on="n", terminating=True),
            pod("x", nominated="n", scheduler="default-scheduler"),
        ],
        "victims",
        "promised node n",
    ),
    # What cannot be known
    "no nodes were given": Case([pod("x")], "unknown", "Nodes: the state that was given has none"),
    "no claims were given": Case([node("n"), with_claim()], "unknown", "PersistentVolumeClaims"),
}


def read_now(case: Case) -> Cluster:
    """The cluster as it would be an hour after the epoch."""
    cluster = Cluster.from_objects(case.objects)
    cluster.read_at = NOW
    if not cluster.of_kind("Lease"):
        cluster.unread["Lease"] = "it was not asked for"
    return cluster


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_first_line_names_the_cause(case: Case) -> None:
    found = read_now(case).diagnose("x")
    assert found.cause is not None
    assert (found.cause.code, found.cause.rule) == (case.code, case.rule)
    assert case.words in found.headline
    assert found.headline.startswith("default/x is pending: ")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_asked_of_all_at_once_the_cause_is_the_same(case: Case) -> None:
    alone = read_now(case).diagnose("x").cause
    (among,) = [cause for pod, cause in read_now(case).asked.waiting() if pod.metadata.name == "x"]
    assert among == alone


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_no_answer_leaves_a_trace(case: Case) -> None:
    """Whatever was asked before, each answer is that of a cluster of which nothing was asked."""
    asked = read_now(case)
    for key in list(asked.pods):
        asked.explain(key)
        asked.preempt(key)
        asked.diagnose(key)
    asked.survey()
    for key in list(asked.pods):
        fresh = read_now(case)
        assert asked.explain(key) == fresh.explain(key)
        assert asked.preempt(key) == fresh.preempt(key)
        assert asked.diagnose(key).to_dict() == fresh.diagnose(key).to_dict()


def test_every_cause_has_a_case_or_a_reason_for_none() -> None:
    covered = {case.code for case in CASES.values()}
    elsewhere = {
        "unusable",  # below: such a pod has no verdict
        "other-namespace",  # below: it needs a configuration
        "gang-outdated",  # below: it needs a workload that is rolled out
        "gang-leaving",  # below: it needs a gang that runs
        "reserved",  # below: it needs time to pass
        "no-nodes",  # below: a whole cluster without nodes, not files without them
        "terms",  # tests/engine/core/test_term_limit.py
        "none",  # what nothing explains
    }
    assert covered | elsewhere == set(CAUSES)


def test_every_rule_has_a_case() -> None:
    without = {
        "NodeName",
        "NodeDeclaredFeatures",
    }  # a pod with a node's name is not pending; kubelets declare
    assert {rule.name for rule in ORDER} - {case.rule for case in CASES.values()} == without


def live(objects: list[dict[str, Any]], unread: dict[str, str]) -> Cluster:
    """A cluster as an API server has it: what is not in it is not there."""
    cluster = Cluster.begin(read_at=NOW)
    typed = [(thing, read(thing)) for thing in objects if not is_policy(thing)]
    for _, found in typed:
        if found is not None:
            cluster.take(*found)
    policies = [thing for thing in objects if is_policy(thing)]
    cluster.complete([*policies, *(thing for thing, found in typed if found is None)], unread=unread)
    return cluster


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    "case",
    [case for name, case in CASES.items() if "no sense" not in name],
    ids=[name for name in CASES if "no sense" not in name],
)
def test_a_cluster_that_comes_object_by_object_is_planned_alike(case: Case, order: int) -> None:
    whole, piecemeal = read_now(case), live(case.objects[::order], dict(read_now(case).unread))
    assert piecemeal.plan().to_dict() == whole.plan().to_dict()
    assert piecemeal.plan().to_dict() == whole.plan().to_dict(), "the second plan is made from nothing"


def test_a_pod_that_makes_no_sense_is_named_with_its_field() -> None:
    found = Cluster.from_objects([node("n"), pod("x", "-1")]).diagnose("default/x")
    assert (found.state, found.cause.code if found.cause else "") == ("unusable", "unusable")
    assert "spec.containers" in found.headline


def test_a_cluster_without_nodes_is_called_that() -> None:
    found = live([pod("x")], unread={"Lease": "?"}).diagnose("x")
    assert found.cause is not None
    assert (found.cause.code, found.cause.text) == ("no-nodes", "there are no nodes")


def test_a_kind_that_may_not_be_read_is_named_instead_of_a_false_cause() -> None:
    found = live([pod("x")], unread={"Node": "nodes is forbidden", "Lease": "?"}).diagnose("x")
    assert found.headline == "default/x is pending: why cannot be known: Nodes: nodes is forbidden"


def test_of_a_pod_that_runs_is_said_where_and_what_else_was_possible() -> None:
    cluster = Cluster.from_objects([node("a", 1), node("b", 2), pod("x", on="a")])
    found = cluster.diagnose("x")
    assert found.headline == "default/x is on a"
    assert found.explanation is not None
    assert (found.explanation.feasible, found.best) == (["a", "b"], "b")
    assert found.cause is None


def test_a_gang_is_shown_with_its_members_and_what_it_waits_for() -> None:
    found = Cluster.from_objects([node("n"), pod("x", gang="g", minimum=3), pod("y", gang="g")]).diagnose("x")
    assert found.gang is not None
    assert (found.gang.name, found.gang.minimum, found.gang.present) == ("default/g", 3, 2)
    assert found.gang.waits_for == "2 of 3 members are there"
    assert dict(found.gang.members) == {"default/x": "", "default/y": ""}


def test_a_gang_that_its_scheduler_does_not_heed_is_noted() -> None:
    things = [node("n"), pod("x", gang="g", scheduler="default-scheduler")]
    assert "may not heed" in Cluster.from_objects(things).diagnose("x").notes[0]


def test_the_queue_names_who_is_ahead_and_why_each_is_held() -> None:
    things = [
        node("n", 1),
        pod("late", 2, created=2),
        pod("first", 4, priority=5, created=3),
        pod("early", 2, created=1),
    ]
    cluster = Cluster.from_objects(things)
    assert [one.unit for one in cluster.queue()] == ["default/first", "default/early", "default/late"]
    assert cluster.queue()[0].why == "0/1 nodes are available: 1 Insufficient cpu."
    position = cluster.diagnose("late").queue
    assert position is not None
    assert position.ahead == ("default/first", "default/early")


def test_an_unknown_name_is_answered_with_those_that_are_near() -> None:
    with pytest.raises(Exception, match="pod default/web-l is not in the cluster; there is default/web-1"):
        Cluster.from_objects([node("n"), pod("web-1")]).diagnose("web-l")


def test_everything_is_plain_data_too() -> None:
    for case in CASES.values():
        cluster = Cluster.from_objects(case.objects)
        plain = cluster.diagnose("x").to_dict()
        assert plain["cause"]["meaning"] == CAUSES[plain["cause"]["code"]]
        assert cluster.survey().to_dict()["waiting"][0]["pods"] >= 1


def test_a_gang_that_leaves_whole_says_that_it_starts_again_so() -> None:
    mark = {"type": "fairlead.dev/Evicted", "status": "True", "reason": "Gang"}
    leaving = [pod(name, gang="g", minimum=3, on="n", terminating=name == "z") for name in "yz"]
    for each in leaving:
        each["status"]["conditions"] = [mark]
    found = Cluster.from_objects([node("n"), *leaving, pod("x", gang="g", minimum=3)]).diagnose("x")
    assert found.cause is not None
    assert found.cause.code == "gang-leaving"
    assert "it is being evicted, and starts again as a whole" in found.headline


def test_a_namespace_that_its_scheduler_does_not_serve_is_named() -> None:
    settings = Settings(namespaces=("shop",))
    found = Cluster.from_objects([node("n"), pod("x")], settings=settings).diagnose("x")
    assert found.cause is not None
    assert (found.cause.code, found.cause.text) == (
        "other-namespace",
        "scheduler fairlead places pods of shop only",
    )


def test_room_that_is_kept_for_another_is_called_that() -> None:
    """After ten minutes the unit that has waited longest reserves the node that it needs."""
    big = pod("big", 4, created=0)
    things = [
        node("n", 4),
        pod("runs", 2, on="n", activeDeadlineSeconds=7200),
        big,
        pod("x", 1, created=3500),
    ]
    cluster = Cluster.from_objects(things, settings=Settings(reserve_after_s=600.0, order="fifo"))
    cluster.read_at = NOW
    cluster.unread["Lease"] = "not asked for"
    found = cluster.diagnose("x")
    assert found.cause is not None
    assert found.cause.code == "reserved"
    assert "kept for a unit that has waited longer" in found.headline


def test_a_member_of_an_older_revision_says_that_the_newer_ones_count() -> None:
    deployment = workload("Deployment", "g", replicas=1, gang="g")
    sets = [
        workload("ReplicaSet", f"g-{number}", gang="g", owner=owner_of(deployment), replicas=1)
        for number in (1, 2)
    ]
    for number, each in enumerate(sets, 1):
        each["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": str(number)}
    old, new = (pod(name, 9, gang="g", owner=owner_of(of)) for name, of in zip(("x", "y"), sets, strict=True))
    cluster = Cluster.from_objects([node("n"), deployment, *sets, old, new])
    cluster.read_at, cluster.unread["Lease"] = NOW, "it was not asked for"
    found = cluster.diagnose("x")
    assert found.cause is not None
    assert found.cause.code == "gang-outdated"
    assert "members of a newer revision count instead of this one" in found.headline


def owner_of(thing: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": thing["apiVersion"],
        "kind": thing["kind"],
        "name": thing["metadata"]["name"],
        "uid": thing["metadata"]["uid"],
        "controller": True,
    }
