"""The status of every policy on the cluster, written by one process whichever doors it has.

Every process stands for it; only the one that holds the lease watches pods for it, and only while there
are policies on the cluster. Groups that changed, or whose workloads or budgets did, are counted anew, and
after a moment of waiting for more a status is written if, and only if, it differs. Marks are not part of
it: they are written by compare and swap where they change (`fairlead.doors.marks`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.election import Terms
from fairlead.doors.grouping import GroupsOfPods
from fairlead.doors.leader import lead
from fairlead.doors.marks import LiveMarks
from fairlead.doors.owners import OwnersOfPods
from fairlead.doors.policies import LivePolicies
from fairlead.doors.running import Door, Surroundings
from fairlead.errors import ApiError, Conflict, NotFound, Unreachable
from fairlead.policy.demands import asks_budgets
from fairlead.policy.groups import GroupKey
from fairlead.policy.marks import Marks
from fairlead.policy.matching import Policies
from fairlead.policy.names import POLICIES
from fairlead.policy.status import GroupCount, count_group, refused_status, status_of

__all__ = ["LEASE", "Counted", "PolicyStatuses", "StatusDoor"]

_log = structlog.get_logger(__name__)

LEASE = "fairlead-policy-status"

_GATHER_S = 1.0  # how long changes are gathered before they are written
_AGAIN_S = 5.0  # after a write that failed


class Counted(Protocol):
    """Who knows the groups of pods."""

    def groups(self) -> Iterable[GroupKey]:
        """All groups that have pods."""
        ...

    async def learn(self, key: GroupKey) -> None:
        """Have at hand what `count` reads of the group's workload."""
        ...

    def count(self, key: GroupKey) -> GroupCount | None:
        """A group's pods now; None: it has none any more."""
        ...


class StatusDoor(Door):
    """No way in, but part of every process. It is never what a process is not ready for."""

    name = "status"

    def __init__(self, around: Surroundings, *, terms: Terms = Terms()) -> None:  # noqa: B008 (frozen)
        self._around = around
        self._terms = terms
        self._stopping = asyncio.Event()
        self._some = asyncio.Event()  # there are policies on the cluster, or just were
        self._statuses: PolicyStatuses | None = None
        self._marks = LiveMarks(
            around.client, around.policies, around.system_namespace, rng=around.rng, clock=around.clock
        )
        self._marks.on_change(self._marks_changed)
        around.policies.on_change(self._look)
        self._look()

    def stop(self) -> None:
        """See `Door`."""
        self._stopping.set()

    async def run(self) -> None:
        """Write statuses, whenever it is this process that does, until `stop`."""
        async with asyncio.TaskGroup() as group:
            working = group.create_task(self._work())
            await self._stopping.wait()
            working.cancel()

    def _marks_changed(self) -> None:
        if self._statuses is not None:
            self._statuses.look()

    def _groups_changed(self, key: GroupKey) -> None:
        if self._statuses is not None:
            self._statuses.touch(key)

    def _owners_changed(self, namespace: str, workload: str) -> None:
        if self._statuses is not None:
            self._statuses.hear(namespace, workload)

    def _look(self) -> None:
        if self._around.policies.stored_names():
            self._some.set()

    async def _work(self) -> None:
        await self._some.wait()
        around = self._around
        await lead(
            around.client, LEASE, around.system_namespace, self._lead, terms=self._terms, clock=around.clock
        )

    async def _lead(self, client: Client) -> None:
        around = self._around
        common: Any = {"rng": around.rng, "clock": around.clock}
        # A group is counted when its pods change, and a scale that was read before they did may be the one
        # that they changed for: then nobody would look again.
        owners = OwnersOfPods(client, changed=self._owners_changed, fresh_s=0.0, **common)
        groups = GroupsOfPods(
            client,
            around.policies,
            owners,
            exempt=around.exempt,
            changed=self._groups_changed,
            alone=True,
            **common,
        )
        async with asyncio.TaskGroup() as group:
            for watch in (owners.run(), groups.run(), self._marks.run()):
                group.create_task(watch)
            await groups.synced()
            await self._marks.synced()
            self._statuses = PolicyStatuses(
                around.policies, _Groups(groups), marks=self._marks.of, clock=around.clock
            )
            try:
                await self._statuses.run(client)
            finally:
                self._statuses = None


class _Groups:
    """`GroupsOfPods`, counted."""

    def __init__(self, groups: GroupsOfPods) -> None:
        self._groups = groups

    def groups(self) -> Iterable[GroupKey]:
        return self._groups.groups()

    async def learn(self, key: GroupKey) -> None:
        pod = self._groups.some_pod(key)
        if pod is not None:
            await self._groups.owners.learn(pod, pod.metadata.namespace)

    def count(self, key: GroupKey) -> GroupCount | None:
        members = self._groups.members(key)
        pod = self._groups.some_pod(key)
        place = self._groups.place(pod) if pod is not None else None
        if pod is None or place is None or place.key != key:
            return None
        tiers = self._groups.tiers(place, pod.metadata.labels)
        return count_group(place.policy, key, members, tiers, place.workload)


class PolicyStatuses:
    """See the module. Run it; tell it of changed groups with `touch`, of what policies read of workloads and
    budgets with `hear`, of anything else with `look`.

    Cancelled, at most one write is under way, of a status that was true.
    """

    def __init__(
        self,
        policies: LivePolicies,
        counted: Counted,
        *,
        marks: Callable[[str], Marks] = lambda _: Marks(),
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """`marks` are asked for by the policy's name."""
        self._policies = policies
        self._counted = counted
        self._marks = marks
        self._clock = clock
        self._counts: dict[GroupKey, GroupCount] = {}
        self._changed: set[GroupKey] = set()
        self._heard: dict[str, set[str]] = {}  # by namespace, names of workloads; empty: budgets
        self._whole = True  # every group is to be counted
        self._wake = asyncio.Event()
        self._of: tuple[Any, ...] | None = None  # the policies that the counts were made under

    def touch(self, key: GroupKey) -> None:
        """A group's pods changed."""
        self._changed.add(key)
        self._wake.set()

    def hear(self, namespace: str, workload: str) -> None:
        """Something of a workload changed; with no name, budgets of the namespace did or who shares them."""
        self._heard.setdefault(namespace, set()).add(workload)
        self._wake.set()

    def look(self) -> None:
        """Policies or marks may have changed."""
        self._wake.set()

    async def run(self, client: Client) -> None:
        """Write statuses for ever, as `client`: a fenced one."""
        self._whole = True
        self._wake.set()
        with self._policies.told(self.look):
            while True:
                await self._wake.wait()
                await asyncio.sleep(_GATHER_S)
                self._wake.clear()
                try:
                    await self.write(client)
                except (ApiError, Unreachable) as error:
                    _log.warning("status_not_written", reason=str(error))
                    await asyncio.sleep(_AGAIN_S)
                    self._wake.set()

    async def write(self, client: Client) -> int:
        """Write what differs now; how many statuses that was."""
        await self._count()
        if self._of is not self._policies.policies:
            self._wake.set()
            return 0  # what was counted under others says nothing about these
        wanted = self._wanted()
        written = 0
        for name, status in wanted.items():
            if await self._put(client, name, status):
                written += 1
        return written

    def _wanted(self) -> dict[str, dict[str, Any]]:
        """The statuses of all policies of the cluster. No await in here: it is one moment's picture."""
        policies = Policies(self._policies.policies)
        overlaps = policies.overlaps()
        by_policy: dict[str, list[GroupCount]] = {}
        for count in self._counts.values():
            by_policy.setdefault(count.key.policy, []).append(count)
        now = self._clock.wall().timestamp()
        found: dict[str, dict[str, Any]] = {}
        for name in self._policies.stored_names():
            before = self._policies.status(name)
            policy = self._policies.get(name)
            if (why := self._policies.refused.get(name)) is not None:
                stored = self._policies.stored(name)
                generation = stored.metadata.generation if stored is not None else 0
                found[name] = refused_status(why, generation=generation, now=now, before=before)
            elif policy is not None and not self._policies.from_file(name):
                found[name] = status_of(
                    policy,
                    by_policy.get(name, []),
                    now=now,
                    before=before,
                    marks=self._marks(name),
                    overlapped_by=overlaps.get(name, ()),
                )
        return found

    async def _count(self) -> None:
        """Count what changed, each group as it is in one moment; nothing is forgotten when cancelled."""
        if self._of is not self._policies.policies:
            self._of, self._whole = self._policies.policies, True
        if self._whole:
            self._counts.clear()
            self._changed = set(self._counted.groups())
            self._whole = False
        elif self._heard:
            self._changed.update(key for key in self._counted.groups() if self._concerned(key))
        self._heard.clear()
        for key in tuple(self._changed):
            await asyncio.sleep(0)  # whoever is admitted beside it does not wait for all of them
            await self._counted.learn(key)  # just before: what was read is not kept for long
            self._changed.discard(key)
            count = self._counted.count(key)
            if count is None or not count.pods:
                self._counts.pop(key, None)
            else:
                self._counts[key] = count

    def _concerned(self, key: GroupKey) -> bool:
        """Whether what was heard may change what is desired of a group."""
        heard, policy = self._heard.get(key.namespace), self._policies.get(key.policy)
        if not heard or policy is None:
            return False
        if "" in heard and asks_budgets(policy):
            return True
        # Whose pods are in a group of several workloads its name does not tell.
        return key.name in heard if policy.spec.group_by == "workload" else heard != {""}

    async def _put(self, client: Client, name: str, wanted: Mapping[str, Any]) -> bool:
        before = self._policies.status(name)
        gone = [field for field in before if field not in wanted and field != "marks"]
        if not gone and all(before.get(field) == value for field, value in wanted.items()):
            return False
        stored = self._policies.stored(name)
        if stored is None:
            return False
        patch = {
            # Others write marks and conditions of their own; conditions are one list.
            "metadata": {"resourceVersion": stored.metadata.resource_version},
            "status": {**dict.fromkeys(gone), **wanted},
        }
        try:
            await client.patch(POLICIES, name, None, patch, subresource="status")
        except NotFound:
            return False  # deleted meanwhile
        except Conflict:
            self._wake.set()  # once the watch shows what we did not know, it is looked at again
            return False
        _log.info("status", policy=name, desired=wanted.get("desired"), actual=wanted.get("actual"))
        return True
