"""Exactly the shipped rights and no more: everything works with them, and each of them is missed.

The API server here cannot stream lists, as older ones cannot, so that both listing and watching are seen.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tools.shipped_rights import NAMESPACE, shipped_objects, shipped_rights

from fairlead.errors import ApiError
from fairlead.feed.marks_map import MARKS_MAP
from support.shipped import Obj, Right, Shipped, rights_in, rights_without, shipped_on

pytestmark = [pytest.mark.real, pytest.mark.slow]

# Its own, and what no door needs but for policies of a file; the rest of what it may because it follows
# policies is any door's.
OF_FILES = [one for one in rights_in(shipped_objects("policies/rbac.yaml")) if one.resource == "configmaps"]
RIGHTS = sorted([*rights_in(shipped_objects("rbac.yaml")), *OF_FILES])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Shipped]:
    with shipped_on(3, watch_lists=False) as found:
        yield found


@pytest.fixture(autouse=True)
def _ended(cluster: Shipped) -> Iterator[None]:
    yield
    end(cluster)


def end(cluster: Shipped) -> None:
    """As if no scheduler had ever run here."""
    cluster.end_schedulers()
    cluster.plane.kubectl("delete", "leases", "--all", f"--namespace={NAMESPACE}")
    cluster.plane.kubectl("delete", "placementpolicies", "--all")
    cluster.plane.kubectl("taint", "node", "node-2", "rights-", check=False)
    cluster.plane.kubectl("uncordon", "node-1")
    cluster.plane.kubectl("delete", "configmap", MARKS_MAP, f"--namespace={NAMESPACE}", "--ignore-not-found")


def pod(name: str, namespace: str, *, cpu: str = "100m", claim: str = "", **spec: Any) -> Obj:
    volumes = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]} if claim else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": "fairlead",
            "containers": [{"name": "main", "image": "image", "resources": {"requests": {"cpu": cpu}}}],
            **volumes,
            **spec,
        },
    }


def priority_class(name: str, value: int) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


# What makes the scheduler use a right. Each leaves it to the caller to wait for what comes of it.


def bind(cluster: Shipped, namespace: str) -> None:
    cluster.apply(pod("plain", namespace))


def hold(cluster: Shipped, namespace: str) -> None:
    cluster.apply(pod("huge", namespace, cpu="1000"))


def hold_twice_for_the_same_reason(cluster: Shipped, namespace: str) -> None:
    """The reason changes and changes back: the second event of the first kind is counted on the first.

    A cordon helps nobody, so nobody looks again because of it; a new budget may, to whoever may preempt.
    """
    hold(cluster, namespace)
    cluster.wait(partial(held, cluster, namespace, "3 Insufficient cpu"), "the pod to be held")
    cluster.plane.kubectl("cordon", "node-0")
    try:
        cluster.apply(budget("first", namespace))
        cluster.wait(partial(held, cluster, namespace, "1 node(s) were unschedulable"), "another reason")
    finally:
        cluster.plane.kubectl("uncordon", "node-0")
    cluster.apply(budget("second", namespace))


def held(cluster: Shipped, namespace: str, reason: str) -> bool:
    status = cluster.plane.api.get(f"/api/v1/namespaces/{namespace}/pods/huge")["status"]
    return any(reason in one.get("message", "") for one in status.get("conditions", []))


def budget(name: str, namespace: str) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": name}}},
    }


def preempt(cluster: Shipped, namespace: str) -> None:
    classes = (priority_class("rights-low", 1), priority_class("rights-high", 1000))
    cluster.apply(*classes)
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    for name in (one["metadata"]["name"] for one in classes):
        probe = partial(cluster.plane.api.create, path, pod("probe", namespace, priorityClassName=name))
        cluster.wait(partial(works, probe), f"class {name} to be known")
    low = [pod(f"low-{index}", namespace, cpu="3", priorityClassName="rights-low") for index in range(3)]
    cluster.apply(*low)
    cluster.wait(lambda: bound(cluster, namespace, low), "the low-priority pods to be bound")
    cluster.apply(pod("high", namespace, cpu="3", priorityClassName="rights-high"))


def works(call: Callable[[], object]) -> bool:
    """Whether the API server does it by now: of new classes and definitions it learns by watches."""
    try:
        call()
    except ApiError:
        return False
    return True


def claim(cluster: Shipped, namespace: str) -> None:
    """A volume to be made where the pod goes, and one that is there."""
    node = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}
    for name, provisioner in (("made", "example.com/nobody"), ("local", "kubernetes.io/no-provisioner")):
        cluster.apply(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": f"{namespace}-{name}"},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "storageClassName": f"{namespace}-{name}",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        )
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": namespace},
            "spec": {
                "storageClassName": f"{namespace}-local",
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "local": {"path": "/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [node]}]}},
            },
        },
        pod("with-made", namespace, claim="made"),
        pod("with-local", namespace, claim="local"),
    )


def own(cluster: Shipped, namespace: str) -> None:
    """A custom workload whose pod is in a gang: its scale tells how large that is to become."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    cluster.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "clones.example.com"},
            "spec": {
                "group": "example.com",
                "names": {"plural": "clones", "singular": "clone", "kind": "Clone"},
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": anything},
                        "subresources": {
                            "scale": {
                                "specReplicasPath": ".spec.replicas",
                                "statusReplicasPath": ".status.replicas",
                            }
                        },
                    }
                ],
            },
        }
    )
    cluster.plane.kubectl("wait", "--for=condition=Established", "crd/clones.example.com", "--timeout=60s")
    served = f"/apis/example.com/v1/namespaces/{namespace}/clones"
    cluster.wait(partial(works, partial(cluster.plane.api.get, served)), "clones to be served")
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "Clone",
        "metadata": {"name": "clone", "namespace": namespace},
        "spec": {"replicas": 2},
    }
    cluster.apply(owner)
    path = f"{served}/clone"
    member = pod("member", namespace)
    member["metadata"]["annotations"] = {"pod-group": "clones"}
    member["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "example.com/v1",
            "kind": "Clone",
            "name": "clone",
            "uid": cluster.plane.api.get(path)["metadata"]["uid"],
            "controller": True,
        }
    ]
    cluster.apply(member)


def tolerate(cluster: Shipped, namespace: str) -> None:
    """A policy whose only tier is tainted: a pod that nobody admitted does not tolerate that yet.

    Other pods may go there all the same, and need to.
    """
    taint = f"rights={namespace}:PreferNoSchedule"
    cluster.plane.kubectl("taint", "node", "node-2", taint, "--overwrite")
    policy = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "match": {"namespaces": [namespace], "labels": {"app": "tolerating"}},
            "tiers": [
                {
                    "name": "tainted",
                    "names": ["node-2"],
                    "tolerations": [{"key": "rights", "operator": "Exists"}],
                }
            ],
        },
    }
    governed = pod("tolerating", namespace)
    governed["metadata"]["labels"] = {"app": "tolerating"}
    cluster.apply(policy)
    cluster.schedulers[-1].wait_for("policy_accepted")  # pods are watched apart
    cluster.apply(governed)


def interrupt(cluster: Shipped, namespace: str) -> None:
    """A tier of a file's policy loses its only node."""
    cluster.schedulers[-1].wait_for("synced")
    cluster.plane.kubectl("cordon", "node-1")


def many(cluster: Shipped, namespace: str) -> None:
    """Pods for two at once, until one finds a pod bound already, and looks at whose it is."""
    since = cluster.mark()

    def met() -> bool:
        group = next(groups)
        made = [pod(f"many-{group}-{index}", namespace, cpu="10m") for index in range(20)]
        cluster.apply(*made)
        cluster.wait(lambda: bound(cluster, namespace, made), "all of them to be bound")
        return any(Right("", "pods", "get").covers(one) for one, _ in cluster.asked(since))

    groups = itertools.count()
    cluster.wait(met, "two to have meant the same pod")


def bound(cluster: Shipped, namespace: str, made: list[Obj]) -> bool:
    nodes = cluster.nodes_of(namespace)
    return all(nodes.get(one["metadata"]["name"]) for one in made)


def ask(cluster: Shipped, namespace: str) -> None:
    """A caller asks for a pod's place in the queue, and is told, or why not."""
    url = cluster.schedulers[-1].wait_for("listening")[0]["url"]
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    cluster.wait(partial(works, partial(cluster.plane.api.create, path, request)), "the account to be there")
    token = cluster.plane.api.create(path, request)["status"]["token"]
    asked = urllib.request.Request(f"{url}/queue/{namespace}/any")
    asked.add_header("Authorization", f"Bearer {token}")
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(asked).close()


def nothing(cluster: Shipped, namespace: str) -> None:
    """Starting is enough."""


Deed = Callable[[Shipped, str], None]
LISTENING = ("--listen=127.0.0.1:0",)
TWO_AT_ONCE = ("--leader-elect=false",)
FROM_FILE = (f"--policies={Path(__file__).with_name('policy-of-a-file.yaml')}",)

# Verbs that are not used by starting alone, what uses them, and with which flags.
DEEDS: dict[Right, tuple[Deed, tuple[str, ...]]] = {
    Right("", "pods/binding", "create"): (bind, ()),
    Right("", "events", "create"): (bind, ()),
    Right("", "pods/status", "patch"): (hold, ()),
    Right("", "events", "patch"): (hold_twice_for_the_same_reason, ()),
    Right("", "pods", "patch"): (tolerate, ()),
    # Promises of nodes are listened to where there are policies.
    Right("", "events", "list"): (tolerate, ()),
    Right("", "events", "watch"): (tolerate, ()),
    Right("", "configmaps", "list"): (nothing, FROM_FILE),
    Right("", "configmaps", "watch"): (nothing, FROM_FILE),
    Right("", "configmaps", "patch"): (interrupt, FROM_FILE),
    Right("", "pods/eviction", "create"): (preempt, ()),
    Right("", "pods", "delete"): (preempt, ("--evict=delete",)),
    Right("", "persistentvolumeclaims", "patch"): (claim, ()),
    Right("", "persistentvolumes", "patch"): (claim, ()),
    Right("*", "*/scale", "get"): (own, ()),
    Right("", "pods", "get"): (many, TWO_AT_ONCE),
    Right("authentication.k8s.io", "tokenreviews", "create"): (ask, LISTENING),
    Right("authorization.k8s.io", "subjectaccessreviews", "create"): (ask, LISTENING),
    Right("coordination.k8s.io", "leases", "get"): (nothing, ()),
    Right("coordination.k8s.io", "leases", "create"): (nothing, ()),
    Right("coordination.k8s.io", "leases", "update"): (nothing, ()),
}


def deed_for(right: Right) -> tuple[Deed, tuple[str, ...]]:
    if right not in DEEDS and right.verb in ("list", "watch"):
        return nothing, ()
    return DEEDS[right]


def start(cluster: Shipped, flags: tuple[str, ...], rights: list[Obj]) -> None:
    cluster.run(*flags, rights=rights)
    if flags == TWO_AT_ONCE:
        cluster.run(*flags, rights=rights)
        for process in cluster.schedulers:
            process.wait_for("synced")


def test_with_them_nothing_is_refused_and_each_is_used(cluster: Shipped) -> None:
    since = cluster.mark()
    flag_sets = dict.fromkeys(flags for _, flags in DEEDS.values())
    for number, flags in enumerate(flag_sets):
        needed = {right: deed for right, (deed, with_flags) in DEEDS.items() if with_flags == flags}
        with cluster.namespace(f"whole-{number}") as namespace:
            start(cluster, flags, shipped_rights())
            for deed in dict.fromkeys(needed.values()):
                deed(cluster, namespace)
            for right in needed:
                cluster.wait(partial(asked, cluster, since, right, granted=True), f"{right} to be used")
            end(cluster)
    found = set(cluster.asked(since))
    assert not {right for right, granted in found if not granted}
    used = {right for right in RIGHTS for one, granted in found if granted and right.covers(one)}
    assert sorted(used) == RIGHTS
    assert cluster.fenced_off(since) == []


def test_without_one_of_them_something_is_missed(cluster: Shipped, count: Callable[[int, int], int]) -> None:
    sample = random.Random(12).sample(RIGHTS, count(4, len(RIGHTS)))
    for number, right in enumerate(sample):
        since = cluster.mark()
        with cluster.namespace(f"less-{number}") as namespace:
            deed, flags = deed_for(right)
            start(cluster, flags, rights_without(shipped_rights(), right))
            deed(cluster, namespace)
            cluster.wait(partial(asked, cluster, since, right, granted=False), f"{right} to be missed")
            end(cluster)


def asked(cluster: Shipped, since: int, right: Right, *, granted: bool) -> bool:
    return any(right.covers(one) and was == granted for one, was in cluster.asked(since))
