"""The status of every policy on the cluster, written by one process whichever doors it has.

Whoever knows the groups says which changed (`touch`); only those are counted anew, and after a moment of
waiting for more a policy's status is written if, and only if, it differs. Marks are not part of it: they
are written by compare and swap where they change (`fairlead.doors.marks`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.leader import lead
from fairlead.doors.policies import LivePolicies
from fairlead.errors import ApiError, LeaseLost, NotFound, Unreachable
from fairlead.policy.groups import GroupKey
from fairlead.policy.marks import Marks
from fairlead.policy.matching import Policies
from fairlead.policy.names import POLICIES
from fairlead.policy.status import GroupCount, refused_status, status_of

__all__ = ["LEASE", "Counted", "PolicyStatuses"]

_log = structlog.get_logger(__name__)

LEASE = "fairlead-policy-status"

_GATHER_S = 1.0  # how long changes are gathered before they are written
_AGAIN_S = 5.0  # after a write that failed


class Counted(Protocol):
    """Who knows the groups of pods."""

    def groups(self) -> Iterable[GroupKey]:
        """All groups that have pods."""
        ...

    def count(self, key: GroupKey) -> GroupCount | None:
        """A group's pods now; None: it has none any more."""
        ...


class PolicyStatuses:
    """See the module. Run it; tell it of changed groups with `touch`, of anything else with `look`.

    Cancelled, at most one write is under way, of a status that was true.
    """

    def __init__(
        self,
        client: Client,
        policies: LivePolicies,
        counted: Counted,
        *,
        system_namespace: str,
        marks: Callable[[str], Marks] = lambda _: Marks(),
        nodes: Callable[[str], Mapping[str, int] | None] = lambda _: None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """`marks` and `nodes` (schedulable ones by tier) are asked by the policy's name."""
        self._client = client
        self._policies = policies
        self._counted = counted
        self._namespace = system_namespace
        self._marks = marks
        self._nodes = nodes
        self._clock = clock
        self._counts: dict[GroupKey, GroupCount] = {}
        self._changed: set[GroupKey] = set()
        self._whole = True  # every group is to be counted
        self._wake = asyncio.Event()
        self._of: tuple[Any, ...] | None = None  # the policies that the counts were made under
        policies.on_change(self.look)

    def touch(self, key: GroupKey) -> None:
        """A group's pods changed."""
        self._changed.add(key)
        self._wake.set()

    def look(self) -> None:
        """Policies, marks or nodes may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Write statuses, whenever it is this process that does, for ever."""
        await self._policies.synced()
        await lead(self._client, LEASE, self._namespace, self._write_for_ever, clock=self._clock)

    async def _write_for_ever(self, client: Client) -> None:
        self._whole = True
        self._wake.set()
        while True:
            await self._wake.wait()
            await asyncio.sleep(_GATHER_S)
            self._wake.clear()
            try:
                await self.write(client)
            except LeaseLost:
                raise
            except (ApiError, Unreachable) as error:
                _log.warning("status_not_written", reason=str(error))
                await asyncio.sleep(_AGAIN_S)
                self._wake.set()

    async def write(self, client: Client) -> int:
        """Write what differs now; how many statuses that was."""
        wanted = self._wanted()
        written = 0
        for name, status in wanted.items():
            if await self._put(client, name, status):
                written += 1
        return written

    def _wanted(self) -> dict[str, dict[str, Any]]:
        """The statuses of all policies of the cluster. No await in here: it is one moment's picture."""
        policies = Policies(self._policies.policies)
        if self._of is not self._policies.policies:
            self._of, self._whole = self._policies.policies, True
        self._count()
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
                    nodes=self._nodes(name),
                )
        return found

    def _count(self) -> None:
        if self._whole:
            self._counts.clear()
            self._changed = set(self._counted.groups())
            self._whole = False
        changed, self._changed = self._changed, set()
        for key in changed:
            count = self._counted.count(key)
            if count is None or not count.pods:
                self._counts.pop(key, None)
            else:
                self._counts[key] = count

    async def _put(self, client: Client, name: str, wanted: Mapping[str, Any]) -> bool:
        before = self._policies.status(name)
        gone = [field for field in before if field not in wanted and field != "marks"]
        if not gone and all(before.get(field) == value for field, value in wanted.items()):
            return False
        # Only this process writes these fields, and it sets them whole.
        patch = {"status": {**dict.fromkeys(gone), **wanted}}
        try:
            await client.patch(POLICIES, name, None, patch, subresource="status", repeatable=True)
        except NotFound:
            return False  # deleted meanwhile
        _log.info("status", policy=name, desired=wanted.get("desired"), actual=wanted.get("actual"))
        return True
