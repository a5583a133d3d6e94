"""A StatefulSet's pod may be seen before the set: it gets its number once the set is known."""

from __future__ import annotations

import asyncio

from fairlead.doors.grouping import GroupsOfPods
from fairlead.doors.owners import Owner, OwnersOfPods
from fairlead.doors.policies import LivePolicies
from fairlead.kube.meta import OwnerReference
from fairlead.policy.groups import GroupKey
from support.cluster import Cluster
from support.manifests import stateful_set
from support.policies import policy


class LateOwners(OwnersOfPods):
    """Whose watches have shown nothing yet, as far as it says."""

    late = True

    def owner(self, reference: OwnerReference, namespace: str) -> Owner | None:
        self._asked = reference, namespace
        return None if self.late else super().owner(reference, namespace)

    def shown(self) -> bool:
        """Whether the watch has in fact shown the owner that was asked for last."""
        return super().owner(*self._asked) is not None


async def test_a_pod_gets_its_number_once_its_set_is_known(cluster: Cluster) -> None:
    changed = asyncio.Event()

    def hear(_: GroupKey) -> None:
        changed.set()

    async with cluster.client() as client, asyncio.TaskGroup() as tasks:
        governing = policy("p", match={"namespaces": [cluster.namespace]})
        policies = LivePolicies(client, fixed=[governing], cluster=False)
        owners = LateOwners(client)
        groups = GroupsOfPods(client, policies, owners, changed=hear)
        running = [tasks.create_task(one.run()) for one in (policies, owners, groups)]
        await policies.synced()
        await groups.synced()
        await asyncio.to_thread(
            cluster.create, stateful_set("db", 3, spec={"podManagementPolicy": "Parallel"})
        )
        async with asyncio.timeout(60):
            while not (keys := [key for key in groups.groups() if len(groups.members(key)) == 3]):
                changed.clear()
                await changed.wait()
        assert [member.ordinal for member in groups.members(keys[0])] == [None] * 3
        # Sets and pods are watched apart: the pods may have come first.
        await asyncio.to_thread(cluster.wait, owners.shown, "the set to be seen")
        owners.late = False
        assert sorted(str(member.ordinal) for member in groups.members(keys[0])) == ["0", "1", "2"]
        for task in running:
            task.cancel()
