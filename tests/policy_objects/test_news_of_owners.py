"""Who counts pods hears of workloads and budgets when policies would read something else of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from fairlead.doors.owners import OwnersOfPods
from fairlead.kube.meta import OwnerReference
from support.cluster import Cluster
from support.manifests import budget, deployment

LABEL = "fairlead.dev/replicas"


async def test_only_what_policies_read_is_news(cluster: Cluster) -> None:
    heard: Counter[str] = Counter()

    def hear(namespace: str, workload: str) -> None:
        if namespace == cluster.namespace:
            heard[workload] += 1

    async def until(look: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(cluster.wait, look, what)

    async with cluster.client() as client, asyncio.TaskGroup() as tasks:
        owners = OwnersOfPods(client, changed=hear)
        running = tasks.create_task(owners.run())
        await owners.synced()
        await asyncio.to_thread(cluster.create, deployment("web", 2))
        await until(lambda: cluster.get("Deployment", "web")["status"].get("replicas") == 2, "its pods")
        await until(lambda: heard == {"": 1, "Deployment/web": 1}, "the new Deployment to be news")

        def told(replicas: int, label: str) -> bool:
            found = owners.owner(OwnerReference("Deployment", "web", "", "apps/v1"), cluster.namespace)
            said = found.metadata.labels.get(LABEL, "") if found is not None else ""
            return found is not None and (found.desired, said) == (replicas, label)

        # Statuses that followed the pods, and what is nobody's business, come before these on the watch.
        cluster.patch("Deployment", "web", {"metadata": {"labels": {"other": "label"}}})
        cluster.patch("Deployment", "web", {"metadata": {"labels": {LABEL: "single"}}})
        await until(lambda: told(2, "single"), "the label to be seen")
        assert heard == {"": 1, "Deployment/web": 2}
        cluster.patch("Deployment", "web", {"spec": {"replicas": 3}})
        await until(lambda: told(3, "single"), "the number to be seen")
        assert heard == {"": 1, "Deployment/web": 3}

        await asyncio.to_thread(cluster.create, budget("web", {"app": "web"}, minAvailable=1))

        def counted() -> bool:
            return any(one.status.expected_pods == 3 for one in owners.budgets())

        await until(counted, "the budget's status to be seen")
        assert heard == {"": 2, "Deployment/web": 3}
        cluster.patch("PodDisruptionBudget", "web", {"spec": {"minAvailable": 2}})
        await until(lambda: heard[""] == 3, "the new demand to be news")
        cluster.delete("PodDisruptionBudget", "web")
        await until(lambda: heard[""] == 4, "the end of the budget to be news")
        running.cancel()
