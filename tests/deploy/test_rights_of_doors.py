"""Every door with exactly its shipped rights: it works, and nothing that it asks for is refused."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from tools.shipped_rights import NAMESPACE, account_kubeconfig, shipped_objects, shipped_rights

from fairlead.errors import ApiError
from support.admission import TIER
from support.balancer import Balancer
from support.door import DoorProcess
from support.manifests import pod
from support.policies import ON_DEMAND, SPOT, plain_policy
from support.shipped import Obj, Right, Shipped, rights_in, shipped_on
from support.what_ifs import user_of

REGISTRATION = "MutatingWebhookConfiguration"

pytestmark = [pytest.mark.real, pytest.mark.slow]

# What only happens in a pinch: an answer was lost, another was faster, an owner is not in the watch yet.
SELDOM = {
    Right("*", "*/scale", "get"),
    *(Right("apps", kind, "get") for kind in ("deployments", "replicasets", "statefulsets")),
    Right("", "replicationcontrollers", "get"),
    Right("batch", "jobs", "get"),
    Right("fairlead.dev", "placementpolicies", "get"),
    Right("fairlead.dev", "placementledgers", "get"),
    Right("", "events", "patch"),
    # Read by the rebalancer only, but every door may bring it along.
    Right("fairlead.dev", "placementledgers", "list"),
    Right("fairlead.dev", "placementledgers", "watch"),
    # For policies of a file or of flags only: seen in the scheduler's own tests.
    *(Right("", "configmaps", verb) for verb in ("list", "watch", "patch")),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Shipped]:
    with shipped_on(0, watch_lists=False) as found:
        for tier in ("spot", "on-demand"):
            found.plane.add_nodes(2, prefix=tier, labels={"capacity": tier})
        found.plane.start_scheduler()
        yield found


@contextmanager
def door(cluster: Shipped, name: str, *arguments: str) -> Iterator[DoorProcess]:
    """The door as its account, with the flags that a test needs in place of a Service."""
    cluster.apply(*shipped_rights(name), *registrations(name))
    kubeconfig = account_kubeconfig(cluster.plane, account=f"fairlead-{name}")
    process = DoorProcess(kubeconfig, name, f"--system-namespace={NAMESPACE}", *arguments)
    try:
        yield process
        assert process.stop() == 0
    finally:
        process.close()
        cluster.plane.kubectl("delete", "leases", "--all", f"--namespace={NAMESPACE}")
        cluster.plane.kubectl("delete", "mutatingwebhookconfiguration", "fairlead", "--ignore-not-found")
        cluster.plane.kubectl("delete", "secrets", "--all", f"--namespace={NAMESPACE}")


def registrations(door: str) -> list[Obj]:
    """What a door that is called finds to write itself and its certificate authority into."""
    kinds = (REGISTRATION, "Secret")
    return [one for one in shipped_objects(f"{door}/{door}.yaml") if one["kind"] in kinds]


@contextmanager
def governed(cluster: Shipped, name: str, **spec: Any) -> Iterator[str]:
    """A namespace of its own with a policy over it."""
    with cluster.namespace(name) as namespace:
        cluster.apply(plain_policy(name, SPOT, ON_DEMAND, match={"namespaces": [name]}, **spec))
        try:
            yield namespace
        finally:
            cluster.plane.kubectl("delete", "placementpolicy", name)


def deployment(namespace: str, name: str, replicas: int) -> Obj:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "main", "image": "image"}],
                },
            },
        },
    }


def called(cluster: Shipped, namespace: str) -> None:
    """Wait until the API server calls the webhook: it learns of registrations by a watch."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"

    def look() -> bool:
        try:
            made = cluster.plane.api.create(path, pod("probe"))
        except ApiError:
            return False  # it is called, but not as its certificate says
        return TIER in made["metadata"].get("annotations", {})

    cluster.wait(look, "pods to be given a tier")


def actual(cluster: Shipped, policy: str) -> str:
    path = f"/apis/fairlead.dev/v1alpha1/placementpolicies/{policy}"
    return str(cluster.plane.api.get(path).get("status", {}).get("actual"))


def check(cluster: Shipped, since: int, name: str, *, unused: frozenset[Right] = frozenset()) -> None:
    """Nothing was refused, and what was granted was used."""
    found = set(cluster.asked(since))
    assert not {right for right, granted in found if not granted}
    assert cluster.fenced_off(since) == []
    rights = set(rights_in(shipped_objects("policies/rbac.yaml", f"{name}/rbac.yaml")))
    used = {right for right in rights for one, granted in found if granted and right.covers(one)}
    assert rights - used - SELDOM - unused == set()


def test_the_webhook(cluster: Shipped) -> None:
    since = cluster.mark()
    with Balancer() as balancer, governed(cluster, "hooked") as namespace:
        arguments = ("--register", f"--url={balancer.url}", "--listen=127.0.0.1:0")
        with door(cluster, "webhook", *arguments) as process:
            balancer.ports.append(int(process.wait_for("listening")[0]["url"].rpartition(":")[2]))
            process.wait_for("registered")
            called(cluster, namespace)
            cluster.apply(deployment(namespace, "web", 10))
            cluster.wait(lambda: actual(cluster, "hooked") == "spot 7, on-demand 3", "the split")
    # Ledgers mostly go with their workload.
    check(cluster, since, "webhook", unused=frozenset({Right("fairlead.dev", "placementledgers", "delete")}))


@pytest.mark.parametrize("missing", [REGISTRATION, "Secret"])
def test_a_webhook_that_misses_what_is_shipped_says_what_to_apply(cluster: Shipped, missing: str) -> None:
    cluster.plane.kubectl("delete", "mutatingwebhookconfiguration", "fairlead", "--ignore-not-found")
    cluster.plane.kubectl("delete", "secrets", "--all", f"--namespace={NAMESPACE}")
    cluster.apply(*shipped_rights("webhook"))
    cluster.apply(*(one for one in registrations("webhook") if one["kind"] != missing))
    kubeconfig = account_kubeconfig(cluster.plane, account="fairlead-webhook")
    flags = (
        f"--system-namespace={NAMESPACE}",
        "--register",
        "--listen=127.0.0.1:0",
        "--url=https://127.0.0.1:1",
    )
    process = DoorProcess(kubeconfig, "webhook", *flags)
    try:
        assert process.ended() == 2
        assert "kubectl apply -k deploy/webhook" in process.text()
    finally:
        process.close()


def test_the_account_of_a_webhook_can_write_no_other_registration_or_secret(cluster: Shipped) -> None:
    cluster.apply(*shipped_rights("webhook"))
    account = f"--as=system:serviceaccount:{NAMESPACE}:fairlead-webhook"

    def may(*what: str) -> bool:
        return cluster.plane.kubectl("auth", "can-i", *what, account, check=False).stdout.strip() == "yes"

    secrets = f"--namespace={NAMESPACE}"
    assert may("update", "secrets/fairlead-webhook-ca", secrets)
    assert not may("update", "secrets/other", secrets)
    assert not may("create", "secrets", secrets)
    assert may("update", f"{REGISTRATION}/fairlead")
    assert not may("update", f"{REGISTRATION}/other")
    assert not may("create", REGISTRATION)
    assert not may("delete", f"{REGISTRATION}/fairlead")


def test_several_doors_in_one(cluster: Shipped) -> None:
    since = cluster.mark()
    with Balancer() as balancer, governed(cluster, "served") as namespace:
        arguments = ("--register", f"--url={balancer.url}", "--listen=127.0.0.1:0")
        with door(cluster, "serve", *arguments) as process:
            balancer.ports.append(int(process.wait_for("listening")[0]["url"].rpartition(":")[2]))
            process.wait_for("registered")
            called(cluster, namespace)
            ours = deployment(namespace, "ours", 10)
            ours["spec"]["template"]["spec"]["schedulerName"] = "fairlead"
            cluster.apply(ours, deployment(namespace, "theirs", 10))
            cluster.wait(lambda: actual(cluster, "served") == "spot 14, on-demand 6", "the split")
    assert not {right for right, granted in cluster.asked(since) if not granted}
    assert cluster.fenced_off(since) == []


def test_burst(cluster: Shipped) -> None:
    since = cluster.mark()
    flags = ("--burst-node=on-demand-1", "--burst-value=3", "--all-namespaces")
    with cluster.namespace("bursting") as namespace, door(cluster, "burst", *flags) as process:
        process.wait_for("synced")
        ours = deployment(namespace, "ours", 5)
        ours["spec"]["template"]["spec"]["schedulerName"] = "fairlead"
        cluster.apply(ours)

        def split() -> bool:
            nodes = list(cluster.nodes_of(namespace).values())
            return len(nodes) == 5 and all(nodes) and nodes.count("on-demand-1") == 2

        cluster.wait(split, "three pods on base and two on the burst node")
    assert not {right for right, granted in cluster.asked(since) if not granted}
    assert cluster.fenced_off(since) == []


def test_the_rebalancer(cluster: Shipped) -> None:
    since = cluster.mark()
    with governed(
        cluster,
        "balanced",
        rebalance={"minPodAge": "0s", "stabilize": "0s", "perMinute": 60},
    ) as namespace:
        cluster.plane.kubectl("cordon", "on-demand-0", "on-demand-1")
        cluster.apply(deployment(namespace, "web", 4))

        def on_spot() -> bool:
            nodes = list(cluster.nodes_of(namespace).values())
            return len(nodes) == 4 and all(nodes)

        cluster.wait(on_spot, "the pods to be on spot")
        cluster.plane.kubectl("uncordon", "on-demand-0", "on-demand-1")
        with door(cluster, "rebalance"):
            right = Right("", "pods/eviction", "create")
            cluster.wait(partial(asked, cluster, since, right), f"{right} to be used")
            cluster.wait(
                partial(asked, cluster, since, Right("fairlead.dev", "placementpolicies/status", "patch")),
                "the status to be written",
            )
    # A pod that waits in vain is passed on: seen in the rebalancer's own tests.
    check(cluster, since, "rebalance", unused=frozenset({Right("", "pods", "delete")}))


def test_the_extender(cluster: Shipped) -> None:
    since = cluster.mark()
    with (
        governed(cluster, "extended") as namespace,
        door(cluster, "extender", "--listen=127.0.0.1:0") as process,
    ):
        url = process.wait_for("listening")[0]["url"]
        process.wait_for("answering")
        waiting = deployment(namespace, "web", 1)
        waiting["spec"]["template"]["spec"]["schedulerName"] = "the-test"
        cluster.apply(waiting)
        pods = f"/api/v1/namespaces/{namespace}/pods"
        (pod,) = cluster.wait(lambda: cluster.plane.api.get(pods)["items"], "the pod")

        def allowed() -> list[str]:
            """Ask as kube-scheduler would, until the extender has seen the pod's owners too."""
            body = {"Pod": pod, "Nodes": None, "NodeNames": ["spot-0", "on-demand-0"]}
            request = urllib.request.Request(f"{url}/filter", json.dumps(body).encode(), method="POST")
            with urllib.request.urlopen(request) as answer:
                found: list[str] = json.load(answer)["NodeNames"]
            return found

        (node,) = cluster.wait(allowed, "a node that is allowed")
        binding = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": node}}
        name = pod["metadata"]["name"]
        cluster.plane.api.create(f"{pods}/{name}/binding", {**binding, "metadata": {"name": name}})
        cluster.wait(partial(asked, cluster, since, Right("", "pods", "patch")), "the slot to be written")
        cluster.wait(lambda: actual(cluster, "extended") != "None", "the status")
    check(cluster, since, "extender", unused=frozenset({Right("", "pods", "get")}))


def asked(cluster: Shipped, since: int, right: Right) -> bool:
    return any(right.covers(one) and granted for one, granted in cluster.asked(since))


async def test_a_what_if_on_the_page_reads_all_it_needs_and_nothing_is_refused(cluster: Shipped) -> None:
    rights = [
        one
        for one in shipped_objects("serve-dashboard/dashboard.yaml")
        if not one["kind"].startswith("Service")
    ]
    cluster.apply(*shipped_rights("serve"), *rights)
    kubeconfig = account_kubeconfig(cluster.plane, account="fairlead-serve")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    held = {"holderIdentity": "serve-0", "leaseDurationSeconds": 600, "renewTime": _now()}
    meta = {"name": "fairlead-rebalancer", "namespace": NAMESPACE}
    cluster.apply({**lease, "metadata": meta, "spec": held})
    (name, *_) = (node["metadata"]["name"] for node in cluster.plane.api.get("/api/v1/nodes")["items"])
    async with user_of(kubeconfig) as user:
        end, _ = await user.ask(("drain", name))
    assert end["answer"]["unread"] == {}
    assert end["answer"]["components"] == ["rebalancer"]
    cluster.plane.kubectl("delete", "leases", "--all", f"--namespace={NAMESPACE}")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
