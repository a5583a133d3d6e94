"""The marks of all policies as every door sees them, and the one way to change them: compare and swap.

A policy of the cluster has them in its status, one of a file under a key of its own in ConfigMap
``fairlead-marks`` in the system namespace. What we wrote ourselves counts at once, before the watch shows it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.retry import Backoff
from fairlead.client.wire import version_number
from fairlead.errors import BadObject, Conflict, FairleadError, NotFound
from fairlead.feed.marks_map import NO_MARKS, MarksMap, StoredMarks, key_of
from fairlead.feed.policies import LivePolicies
from fairlead.policy.names import POLICIES
from fairlead.policy.tiers.marks import Mark, Marks

_log = structlog.get_logger(__name__)

Change = Callable[[Marks], Marks | None]
"""Marks as they are in, as they should be out; None: the change is not possible (a probe is taken)."""

_TRIES = 12  # each lost race means that another writer got on
_WAIT_S = 0.02  # before another try, at most: doubled each time
_GONE_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Read:
    """Marks as the API has them."""

    marks: Marks
    version: str = ""
    stored: StoredMarks = NO_MARKS
    """What they are in, for a policy of a file."""
    tiers: tuple[str, ...] = ()
    """All that have something there, readable or not."""


class LiveMarks:
    """See the module. Run it beside the `LivePolicies` it reads; `on_change` calls back for changed marks.

    Cancelled in `change`, the write may or may not have been applied.
    """

    def __init__(
        self,
        client: Client,
        policies: LivePolicies,
        system_namespace: str,
        *,
        rng: random.Random | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self._client = client
        self._policies = policies
        self._rng = rng or client.rng
        self._clock = clock
        self._map = MarksMap(client, system_namespace, self._tell, rng=self._rng, clock=clock)
        self._map_writes = asyncio.Lock()  # policies of a file share an object: no race with ourselves
        self._ours: dict[str, _Read] = {}
        self._listeners: list[Callable[[], None]] = []
        self._files = asyncio.Event()  # there is a policy of a file
        self._complained: dict[str, str] = {}
        self._claims: dict[
            tuple[str, str], asyncio.Future[Marks | None]
        ] = {}  # under way, by policy and tier
        policies.on_change(self._policies_changed)
        self._policies_changed()

    def on_change(self, call: Callable[[], None]) -> None:
        """Call back when marks may have changed; it must not await or raise."""
        self._listeners.append(call)

    async def synced(self) -> None:
        """Wait until the marks of all policies are known."""
        await self._policies.synced()
        if self._files.is_set():
            await self._map.read.wait()

    async def run(self) -> None:
        """Follow the ConfigMap for ever; without a policy of a file there is nothing to follow."""
        await self._files.wait()
        await self._map.run()

    def of(self, policy: str) -> Marks:
        """The marks of a policy; none of a policy that is not known."""
        return self._newest(policy).marks

    def unavailable(self, policy: str) -> frozenset[str]:
        """The tiers of a policy that pods skip, all but the one that `claim_probe` lets try."""
        return frozenset(tier for tier, _ in self.of(policy))

    async def claim_probe(self, policy: str, tier: str, token: str, now: float) -> bool:
        """Be the one pod that tries a tier; whether it is.

        Of callers that ask at the same time only the first writes: it answers for all. A caller that gets
        False skips the tier, and the next to come may try it if the first could not. A claim that cannot be
        written is logged.
        """
        first = self._claims.get((policy, tier))
        if first is not None:
            await asyncio.wait((first,))
        elif self.of(policy).may_probe(tier, now):
            claim = self.change(policy, lambda marks: marks.claim_probe(tier, token, now))
            first = self._claims[policy, tier] = asyncio.ensure_future(claim)
            try:
                return await first is not None
            except FairleadError as error:
                _log.warning("probe_not_claimed", policy=policy, tier=tier, reason=str(error))
                return False
            finally:
                first.cancel()
                del self._claims[policy, tier]
        mark = self.of(policy).get(tier)
        return mark is not None and mark.probed(now) and mark.probe == token

    async def change(self, policy: str, change: Change, *, client: Client | None = None) -> Marks | None:
        """Apply `change` to the marks as they are when it is applied; the marks that hold then.

        None when `change` says that it is not possible. Nothing is written when nothing changes. `client`
        does the write: a fenced one for components that may only write while they lead.
        """
        client = client or self._client
        backoff = Backoff(self._rng, first_s=_WAIT_S)
        async with self._map_writes if self._policies.from_file(policy) else nullcontext():
            read = self._newest(policy)
            for _ in range(_TRIES):
                wanted = change(read.marks)
                if wanted is None or wanted is read.marks:
                    return wanted
                try:
                    await self._write(client, policy, read, wanted)
                except (Conflict, NotFound):
                    await asyncio.sleep(backoff.next_s())
                    read = await self._get(policy)
                    continue
                _log.info("marks_written", policy=policy, marks=wanted.to_plain())
                self._tell()
                return wanted
        raise FairleadError(f"the marks of policy {policy} change faster than we can write them")

    def _newest(self, policy: str) -> _Read:
        if self._policies.from_file(policy):
            return self._from_map(policy, self._map.newest())
        seen, ours = self._seen(policy), self._ours.get(policy)
        if ours is not None and version_number(ours.version) > version_number(seen.version):
            return ours
        self._ours.pop(policy, None)
        return seen

    def _seen(self, policy: str) -> _Read:
        stored = self._policies.stored(policy)
        if stored is None:
            return _Read(Marks(self._cool_down_s(policy)))
        marks = self._policies.status(policy).get("marks")
        return _Read(self._marks(policy, marks), stored.metadata.resource_version, tiers=_tiers(marks))

    def _from_map(self, policy: str, stored: StoredMarks) -> _Read:
        data = _decoded(stored.data.get(key_of(policy), "{}"))
        return _Read(self._marks(policy, data), stored.version, stored)

    def _marks(self, policy: str, data: object) -> Marks:
        try:
            found = Marks.from_plain(data, self._cool_down_s(policy))
        except BadObject as error:
            # Marks are advice: what cannot be read counts as none, and the next write replaces it.
            if self._complained.get(policy) != str(error):
                _log.warning("marks_unreadable", policy=policy, reason=str(error))
                self._complained[policy] = str(error)
            return Marks(self._cool_down_s(policy))
        self._complained.pop(policy, None)
        return found

    async def _get(self, policy: str) -> _Read:
        """Read from the API server: the watch is behind."""
        if self._policies.from_file(policy):
            return self._from_map(policy, await self._map.reread())
        found = await self._client.get(POLICIES, policy)
        marks = (found.get("status") or {}).get("marks")
        return _Read(self._marks(policy, marks), found["metadata"]["resourceVersion"], tiers=_tiers(marks))

    async def _write(self, client: Client, policy: str, read: _Read, wanted: Marks) -> None:
        if self._policies.from_file(policy):
            plain = wanted.to_plain()
            text = msgspec.json.encode(plain).decode() if plain else None
            changes = dict.fromkeys(self._gone(read.stored)) | {key_of(policy): text}
            await self._map.write(client, read.stored, changes)
            return
        body = {
            "metadata": {"resourceVersion": read.version},
            "status": {"marks": _patch(read.tiers, wanted)},
        }
        written = await client.patch(POLICIES, policy, None, body, subresource="status")
        version = str(written["metadata"]["resourceVersion"])
        self._ours[policy] = _Read(wanted, version, tiers=tuple(wanted.to_plain()))

    def _gone(self, stored: StoredMarks) -> list[str]:
        """Keys of policies that are gone: unknown here, and left alone by every other process.

        Another process may have other files, so that a policy is not gone because this one does not know it.
        """
        known = {key_of(policy.name) for policy in self._policies.policies}
        now = self._clock.wall().timestamp()
        return [key for key, text in stored.data.items() if key not in known and _is_over(text, now)]

    def _cool_down_s(self, policy: str) -> float:
        found = self._policies.get(policy)
        return found.spec.fallback.cool_down_s if found is not None else Marks().cool_down_s

    def _policies_changed(self) -> None:
        if any(self._policies.from_file(policy.name) for policy in self._policies.policies):
            self._files.set()
        self._tell()

    def _tell(self) -> None:
        for call in self._listeners:
            call()


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text  # not an object: refused as any other thing that is no marks


def _is_over(text: str, now: float) -> bool:
    """Whether every cool-down ended so long ago that a process with pods for these tiers would have tried."""
    try:
        marks = Marks.from_plain(_decoded(text), Marks().cool_down_s)
    except BadObject:
        return True
    return all(mark.until.timestamp() + _GONE_S < now and not mark.probed(now) for _, mark in marks)


def _tiers(marks: object) -> tuple[str, ...]:
    return tuple(str(tier) for tier in marks) if isinstance(marks, dict) else ()


def _patch(old: Iterable[str], new: Marks) -> dict[str, Any]:
    """Marks as a merge patch: what is gone must be said, whole tiers as well as fields."""
    nothing: dict[str, Any] = dict.fromkeys(_FIELDS)
    patch: dict[str, Any] = dict.fromkeys(old)
    return patch | {tier: nothing | plain for tier, plain in new.to_plain().items()}


_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(Mark))
