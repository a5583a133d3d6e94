"""A group is reported when policies would read something else of its workloads or budgets, and only then."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from fairlead.doors.process import Context
from fairlead.feed.policies import LivePolicies
from fairlead.policy.groups.member import GroupKey, Member
from support.cluster import Cluster
from support.manifests import budget, deployment
from support.policies import policy

LABEL = "fairlead.dev/replicas"


async def test_only_what_policies_read_is_news(cluster: Cluster) -> None:
    heard: Counter[str] = Counter()

    known: dict[GroupKey, list[Member]] = {}

    def hear(key: GroupKey) -> None:
        before, known[key] = known.get(key), groups.index.members(key)
        if before == known[key]:  # it is not for its pods
            heard[key.name] += 1

    async def until(look: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(cluster.wait, look, what)

    async with cluster.client() as client, asyncio.TaskGroup() as tasks:
        governing = policy(
            "p",
            {"name": "a", "nodes": {"a": "a"}},
            {"name": "b", "min": "pdb"},
            match={"namespaces": [cluster.namespace]},
        )
        policies = LivePolicies(client, fixed=[governing], cluster=False)
        context = Context(client, policies, "fairlead-system", random.Random(1))
        groups = context.groups
        groups.on_change(hear)
        running = [tasks.create_task(context.follow())]
        await groups.synced()
        await asyncio.to_thread(cluster.create, deployment("web", 2))

        def settled() -> bool:
            found = groups.index.owners.get("Deployment", cluster.namespace, "web")
            return found is not None and any(len(members) == 2 for members in known.values())

        await until(settled, "its pods")

        def told(replicas: int, label: str) -> bool:
            found = groups.index.owners.get("Deployment", cluster.namespace, "web")
            said = found.metadata.labels.get(LABEL, "") if found is not None else ""
            return found is not None and (found.desired, said) == (replicas, label)

        def workload() -> tuple[int | None, bool | None]:
            (key,) = [one for one in groups.index.groups if one.name == "Deployment/web"]
            some = groups.index.some(key)
            assert some is not None
            return some.workload.replicas, some.workload.single

        # Statuses that followed the pods, and other labels, come before these on the watch.
        heard.clear()
        cluster.patch("Deployment", "web", {"metadata": {"labels": {"other": "label"}}})
        cluster.patch("Deployment", "web", {"metadata": {"labels": {LABEL: "multiple"}}})
        await until(lambda: told(2, "multiple"), "the label to be seen")
        assert heard == {"Deployment/web": 1}
        assert workload() == (2, False)

        await asyncio.to_thread(cluster.create, budget("web", {"app": "web"}, minAvailable=1))

        def counted() -> bool:
            return any(one.status.expected_pods == 2 for one in groups.index.budgets(cluster.namespace))

        await until(counted, "the budget's status to be seen")
        assert heard == {"Deployment/web": 2}
        cluster.patch("PodDisruptionBudget", "web", {"spec": {"minAvailable": 2}})
        await until(lambda: heard["Deployment/web"] == 3, "the new demand to be news")
        cluster.delete("PodDisruptionBudget", "web")
        await until(lambda: heard["Deployment/web"] == 4, "the end of the budget to be news")
        for task in running:
            task.cancel()
