"""A policy's status on a cluster: what kubectl shows, who writes it, and when nobody writes."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.doors.policy_status import LEASE, StatusDoor
from fairlead.doors.process import Context, serve_doors
from fairlead.feed.policies import LivePolicies
from fairlead.policy.names import POLICIES
from support import manifests
from support.cluster import Cluster
from support.custom import custom_resource, gadget
from support.policies import ON_DEMAND, SPOT, add_policy, plain_policy, serve_policies


@asynccontextmanager
async def writing(cluster: Cluster, processes: int = 1) -> AsyncIterator[None]:
    """So many processes that would write statuses."""
    cluster.owns(f"/api/v1/namespaces/{system_namespace(cluster)}")
    stopping = asyncio.Event()
    running = [asyncio.create_task(_process(cluster, stopping)) for _ in range(processes)]
    try:
        yield
    finally:
        stopping.set()
        await asyncio.gather(*running)


async def _process(cluster: Cluster, stopping: asyncio.Event) -> None:
    async with Connection(load(cluster.kubeconfig)) as connection:
        client = Client(connection)
        context = Context(client, LivePolicies(client), system_namespace(cluster), random.Random(1))
        await serve_doors([StatusDoor(context)], context, stopping=stopping)


def system_namespace(cluster: Cluster) -> str:
    """Not the test's own: pods of the system namespace are no policy's business."""
    return f"{cluster.namespace}-system"


def pinned(cluster: Cluster, tier: str, *labels: str) -> dict[str, Any]:
    """A pod that is bound to a node of a tier."""
    (node,) = cluster.add_nodes(labels={"capacity": tier})
    return manifests.pod(f"on-{tier}-{'-'.join(labels)}", spec={"nodeName": node}, labels={"app": "x"})


async def status_when(cluster: Cluster, name: str, **wanted: Any) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = cluster.get(POLICIES, name).get("status") or {}
        return found if all(found.get(field) == value for field, value in wanted.items()) else None

    return await asyncio.to_thread(cluster.wait, look, f"the status of {name} to say {wanted}")


async def test_the_status_tells_desired_and_actual_per_tier(cluster: Cluster) -> None:
    await asyncio.to_thread(serve_policies, cluster)
    here = {"namespaces": [cluster.namespace]}
    name = add_policy(cluster, plain_policy("web", match=here, groupBy={"label": "app"}))["metadata"]["name"]
    for number in range(2):
        pod = await asyncio.to_thread(pinned, cluster, "spot", str(number))
        cluster.create(pod)
    async with writing(cluster):
        found = await status_when(cluster, name, actual="spot 2, on-demand 0")
        assert (found["desired"], found["misplaced"], found["groups"]) == ("spot 1, on-demand 1", 1, 1)
        assert found["groupCounts"][0]["name"] == "app=x"
        cluster.create(await asyncio.to_thread(pinned, cluster, "on-demand", "2"))
        found = await status_when(cluster, name, actual="spot 2, on-demand 1")
        assert found["misplaced"] == 0
    headings, row = cluster.kubectl("get", "placementpolicies", name).stdout.splitlines()
    assert " ".join(headings.split()) == "NAME ACCEPTED GROUPS DESIRED ACTUAL MISPLACED UNAVAILABLE AGE"
    cells = [cell.strip() for cell in row.split("   ") if cell.strip()]
    assert cells[:6] == [name, "True", "1", "spot 2, on-demand 1", "spot 2, on-demand 1", "0"]
    headings, row = cluster.kubectl("get", "pp", name, "-o", "wide").stdout.splitlines()
    assert headings.split()[-5:] == ["UNAVAILABLE", "READY", "OVERLAPPED", "MESSAGE", "AGE"]
    assert [cell.strip() for cell in row.split("   ") if cell.strip()][6:9] == [
        "True",
        "False",
        "the policy is used",
    ]


async def test_a_policy_is_ready_when_every_pod_is_where_the_rule_has_it(cluster: Cluster) -> None:
    await asyncio.to_thread(serve_policies, cluster)
    here = {"namespaces": [cluster.namespace]}
    name = add_policy(cluster, plain_policy("web", match=here, groupBy={"label": "app"}))["metadata"]["name"]

    def ready(found: dict[str, Any]) -> tuple[str, str]:
        (one,) = (one for one in found["conditions"] if one["type"] == "Ready")
        assert one["observedGeneration"] == 1
        return one["status"], one["reason"]

    async with writing(cluster):
        assert ready(await status_when(cluster, name, groups=0)) == ("True", "Settled")
        for number in range(2):
            cluster.create(await asyncio.to_thread(pinned, cluster, "spot", str(number)))
        found = await status_when(cluster, name, actual="spot 2, on-demand 0")
        assert ready(found) == ("False", "PodsMisplaced")


def test_both_kinds_are_found_by_short_name_and_category(cluster: Cluster) -> None:
    serve_policies(cluster)
    name = add_policy(cluster, plain_policy("found"))["metadata"]["name"]
    ledger = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "PlacementLedger",
        "metadata": {"name": "slots", "namespace": cluster.namespace},
        "spec": {"policy": name, "group": "*", "revision": "1"},
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(ledger))

    said = cluster.kubectl("get", "fairlead", "-o", "name").stdout.split()
    assert f"placementpolicy.fairlead.dev/{name}" in said
    assert "placementledger.fairlead.dev/slots" in said
    headings, row = cluster.kubectl("get", "pl").stdout.splitlines()
    assert headings.split() == ["NAME", "POLICY", "GROUP", "REVISION", "AGE"]
    assert row.split()[:4] == ["slots", name, "*", "1"]


async def test_a_bad_policy_says_so_in_its_status(cluster: Cluster) -> None:
    await asyncio.to_thread(serve_policies, cluster)
    name = add_policy(cluster, plain_policy("bad", singleReplica="nowhere"))["metadata"]["name"]
    async with writing(cluster):
        found = await status_when(cluster, name, observedGeneration=1)
        accepted, ready = found["conditions"]
        assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "Invalid")
        assert (accepted["type"], accepted["status"]) == ("Accepted", "False")
        assert "there is no tier 'nowhere'" in accepted["message"]
        cluster.patch(POLICIES, name, {"spec": {"singleReplica": "spot"}})
        found = await status_when(cluster, name, observedGeneration=2)
        assert found["conditions"][0]["status"] == "True"


async def test_overlapping_policies_say_who_wins(cluster: Cluster) -> None:
    await asyncio.to_thread(serve_policies, cluster)
    here = {"namespaces": [cluster.namespace]}
    less = add_policy(cluster, plain_policy("less", match=here))["metadata"]["name"]
    more = add_policy(cluster, plain_policy("more", match={**here, "labels": {"a": "b"}}))["metadata"]["name"]
    async with writing(cluster):
        found = await status_when(cluster, less, groups=0)
        overlapped = next(one for one in found["conditions"] if one["type"] == "Overlapped")
        assert overlapped["status"] == "True"
        assert more in overlapped["message"]


async def test_marks_are_left_to_who_writes_them_and_shown(cluster: Cluster) -> None:
    await asyncio.to_thread(serve_policies, cluster)
    name = add_policy(cluster, plain_policy("web", SPOT, ON_DEMAND))["metadata"]["name"]
    mark = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:01:00Z", "reason": "no room"}
    async with writing(cluster):
        await status_when(cluster, name, unavailable="")
        cluster.patch(POLICIES, name, {"status": {"marks": {"spot": mark}}}, sub="status")
        found = await status_when(cluster, name, unavailable="spot")
        assert found["marks"] == {"spot": mark}


async def test_a_steady_cluster_sees_no_writes_and_one_process_writes(cluster: Cluster) -> None:
    await asyncio.to_thread(serve_policies, cluster)
    here = {"namespaces": [cluster.namespace]}
    name = add_policy(cluster, plain_policy("web", match=here, groupBy="policy"))["metadata"]["name"]
    async with writing(cluster, processes=2):
        await status_when(cluster, name, pods=0)
        before = cluster.get(POLICIES, name)["metadata"]["resourceVersion"]
        # Something that is none of its business changes, and something that is: then it has looked.
        cluster.create(manifests.config_map("other"))
        other = add_policy(cluster, plain_policy("other", match={"namespaces": ["elsewhere"]}))
        await status_when(cluster, other["metadata"]["name"], pods=0)
        assert cluster.get(POLICIES, name)["metadata"]["resourceVersion"] == before
        path = cluster.path("Lease", LEASE, namespace=system_namespace(cluster))
        assert cluster.wire.request("GET", path).ok()["spec"]["holderIdentity"]


async def test_the_status_follows_budgets(cluster: Cluster) -> None:
    await asyncio.to_thread(serve_policies, cluster)
    here = {"namespaces": [cluster.namespace]}
    safe = {**ON_DEMAND, "min": "pdb"}
    name = add_policy(cluster, plain_policy("web", SPOT, safe, match=here))["metadata"]["name"]
    await asyncio.to_thread(cluster.create, manifests.deployment("web", 10))
    async with writing(cluster):
        await status_when(cluster, name, desired="spot 7, on-demand 3")
        cluster.create(manifests.budget("web", {"app": "web"}, minAvailable=8))
        await status_when(cluster, name, desired="spot 2, on-demand 8")
        cluster.patch("PodDisruptionBudget", "web", {"spec": {"minAvailable": 5}})
        await status_when(cluster, name, desired="spot 5, on-demand 5")
        cluster.delete("PodDisruptionBudget", "web")
        await status_when(cluster, name, desired="spot 7, on-demand 3")


@pytest.mark.parametrize("by", ["workload", {"label": "app"}])
async def test_the_status_follows_the_label_of_a_workload(cluster: Cluster, by: Any) -> None:
    await asyncio.to_thread(serve_policies, cluster)
    spec = {"match": {"namespaces": [cluster.namespace]}, "groupBy": by, "singleReplica": "on-demand"}
    name = add_policy(cluster, plain_policy("web", SPOT, {**ON_DEMAND, "min": 0}, **spec))["metadata"]["name"]
    await asyncio.to_thread(cluster.create, manifests.deployment("web", 1))
    async with writing(cluster):
        await status_when(cluster, name, desired="spot 0, on-demand 1")
        for said, desired in (("multiple", "spot 1, on-demand 0"), ("single", "spot 0, on-demand 1")):
            cluster.patch("Deployment", "web", {"metadata": {"labels": {"fairlead.dev/replicas": said}}})
            await status_when(cluster, name, desired=desired)


async def test_a_custom_workload_counts_as_many_as_its_scale_says(cluster: Cluster) -> None:
    await asyncio.to_thread(serve_policies, cluster)
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    gadgets = await asyncio.to_thread(custom_resource, cluster, subresources={"status": {}, "scale": paths})
    made = gadget(gadgets, "web", spec={"replicas": 1})
    owner = cluster.wire.request("POST", cluster.path(gadgets), made).ok()
    spec = {"match": {"namespaces": [cluster.namespace]}, "singleReplica": "on-demand"}
    tiers = SPOT, {**ON_DEMAND, "min": 0}
    name = add_policy(cluster, plain_policy("web", *tiers, **spec))["metadata"]["name"]
    pods = [await asyncio.to_thread(pinned, cluster, "on-demand", str(number)) for number in range(3)]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [manifests.owned_by(owner, controller=True)]
    cluster.create(pods[0])
    async with writing(cluster):
        await status_when(cluster, name, desired="spot 0, on-demand 1", misplaced=0)
        # At once, so that what was just read of it is no longer so.
        cluster.patch(gadgets, "web", {"spec": {"replicas": 3}})
        for pod in pods[1:]:
            cluster.create(pod)
        await status_when(cluster, name, desired="spot 3, on-demand 0", misplaced=3)
