"""The status of every policy on the cluster, written by one process whichever doors it has.

Every process stands for it; only the one that holds the lease watches pods for it, and only while there
are policies on the cluster. Groups that changed, or whose workloads or budgets did, are counted again, and
after a moment of waiting for more a status is written if, and only if, it differs. Marks are not part of
it: they are written by compare and swap where they change (`fairlead.feed.marks`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.election import Terms
from fairlead.doors.leader import lead
from fairlead.doors.process import Context, Door
from fairlead.doors.tasks import beside
from fairlead.errors import ApiError, Conflict, NotFound, Unreachable
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.names import POLICIES
from fairlead.policy.report.status import GroupCount, count_group, refused_status, status_of
from fairlead.policy.rule.matching import Policies

_log = structlog.get_logger(__name__)

LEASE = "fairlead-policy-status"

_GATHER_S = 1.0  # how long changes are gathered before they are written
_AGAIN_S = 5.0  # after a write that failed


class StatusDoor(Door):
    """No way in, but part of every process. It is never what a process is not ready for.

    Cancelled, at most one write is under way, of a status that was true.
    """

    name = "status"

    def __init__(self, context: Context, *, terms: Terms = Terms()) -> None:  # noqa: B008 (frozen)
        super().__init__(context)
        self._policies = context.policies
        self._groups = context.groups
        self._terms = terms
        self._some = asyncio.Event()  # there are policies on the cluster, or just were
        self._wake = asyncio.Event()
        self._leads = False
        self._counts: dict[GroupKey, GroupCount] = {}
        self._changed: set[GroupKey] = set()  # as long as we lead
        self._of: tuple[Any, ...] | None = None  # the policies that the counts were made under
        context.marks.on_change(self._wake.set)
        context.groups.on_change(self._group_changed)
        context.policies.on_change(self._policies_changed)
        self._policies_changed()

    async def run(self) -> None:
        """Write statuses, whenever it is this process that does, until `stop`."""
        async with beside() as start:
            start(self._work())
            await self._stopping.wait()

    def _policies_changed(self) -> None:
        self._wake.set()
        if self._policies.stored_names():
            self._some.set()

    def _group_changed(self, key: GroupKey) -> None:
        if self._leads:
            self._changed.add(key)
            self._wake.set()

    async def _work(self) -> None:
        await self._some.wait()
        context = self._context
        await lead(
            context.client,
            LEASE,
            context.system_namespace,
            self._lead,
            terms=self._terms,
            clock=context.clock,
        )

    async def _lead(self, client: Client) -> None:
        """Write statuses for ever, as `client`: a fenced one."""
        await self._groups.synced()
        await self._context.marks.synced()
        self._of, self._leads = None, True
        self._wake.set()
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(_GATHER_S)
                self._wake.clear()
                try:
                    await self._write(client)
                except (ApiError, Unreachable) as error:
                    _log.warning("status_not_written", reason=str(error))
                    await asyncio.sleep(_AGAIN_S)
                    self._wake.set()
        finally:
            self._leads = False

    async def _write(self, client: Client) -> None:
        """Write what differs now."""
        await self._count_changed()
        if self._of is not self._policies.policies:
            self._wake.set()
            return  # what was counted under others says nothing about these
        for name, status in self._wanted().items():
            await self._put(client, name, status)

    def _wanted(self) -> dict[str, dict[str, Any]]:
        """The statuses of all policies of the cluster. No await in here: it is one moment's picture."""
        policies = Policies(self._policies.policies)
        overlaps = policies.overlaps()
        by_policy: dict[str, list[GroupCount]] = {}
        for count in self._counts.values():
            by_policy.setdefault(count.key.policy, []).append(count)
        now = self._context.clock.wall().timestamp()
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
                    marks=self._context.marks.of(name),
                    overlapped_by=overlaps.get(name, ()),
                )
        return found

    async def _count_changed(self) -> None:
        """Count what changed, each group as it is in one moment; nothing is forgotten when cancelled."""
        if self._of is not self._policies.policies:
            self._of = self._policies.policies
            self._counts.clear()
            self._changed = set(self._groups.index.groups)
        for key in tuple(self._changed):
            await asyncio.sleep(0)  # pods admitted meanwhile do not wait for all of them
            if (some := self._groups.index.some(key)) is not None:
                # A group is counted when its pods change, and a scale that was read before they did may be
                # the one that they changed for: then nothing would make us look again.
                await self._groups.owners.learn(some.facts.metadata, key.namespace, fresh_s=0.0)
            self._changed.discard(key)
            count = self._count(key)
            if count is None or not count.pods:
                self._counts.pop(key, None)
            else:
                self._counts[key] = count

    def _count(self, key: GroupKey) -> GroupCount | None:
        """A group's pods now; None: it has none any more."""
        index = self._groups.index
        some = index.some(key)
        if some is None:
            return None
        tiers = index.tiers(some.place, some.facts.metadata.labels)
        return count_group(some.policy, key, index.members(key), tiers, some.workload)

    async def _put(self, client: Client, name: str, wanted: Mapping[str, Any]) -> None:
        before, stored = self._policies.status(name), self._policies.stored(name)
        gone = [field for field in before if field not in wanted and field != "marks"]
        if stored is None or (not gone and all(before.get(key) == value for key, value in wanted.items())):
            return
        patch = {
            # Others write marks and conditions of their own; conditions are one list.
            "metadata": {"resourceVersion": stored.metadata.resource_version},
            "status": {**dict.fromkeys(gone), **wanted},
        }
        try:
            await client.patch(POLICIES, name, None, patch, subresource="status")
        except NotFound:
            pass  # deleted meanwhile
        except Conflict:
            self._wake.set()  # once the watch shows what we did not know, it is looked at again
        else:
            _log.info(
                "status_written", policy=name, desired=wanted.get("desired"), actual=wanted.get("actual")
            )
