"""The marks of all policies as every door sees them, and the one way to change them: compare and swap.

A policy of the cluster has them in its status, one of a file in ConfigMap ``fairlead-policy-NAME`` in the
system namespace. What we wrote ourselves counts at once, before the watch shows it.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.reflector import Reflector
from fairlead.client.wire import version_number
from fairlead.doors.namespaces import in_namespace
from fairlead.doors.policies import LivePolicies
from fairlead.errors import ApiError, BadObject, Conflict, FairleadError, NotFound, Unreachable
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.resources import known
from fairlead.policy.marks import Mark, Marks
from fairlead.policy.names import POLICIES

__all__ = ["Change", "LiveMarks", "config_map_name"]

_log = structlog.get_logger(__name__)

Change = Callable[[Marks], Marks | None]
"""Marks as they are in, as they should be out; None: the change is not possible (a probe is taken)."""

_CONFIG_MAP = known("ConfigMap")
_LABEL = "fairlead.dev/marks"
_KEY = "marks"
_TRIES = 8  # each lost race means that somebody else got on
_AGAIN_S = 5.0  # rights may be granted later


def config_map_name(policy: str) -> str:
    """Where the marks of a policy of a file are kept."""
    return f"fairlead-policy-{policy}"


class _Stored(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class _Read:
    """Marks as the API has them; no version: the ConfigMap does not exist yet."""

    marks: Marks
    version: str = ""
    tiers: tuple[str, ...] = ()
    """All that have something there, readable or not."""


class LiveMarks:
    """See the module. Run it beside the `LivePolicies` it reads; `on_change` hears of changed marks.

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
        self._namespace = system_namespace
        self._rng = rng or client.rng
        self._clock = clock
        self._maps: dict[str, _Stored] = {}
        self._ours: dict[str, _Read] = {}
        self._listeners: list[Callable[[], None]] = []
        self._files = asyncio.Event()  # there is a policy of a file
        self._maps_read = asyncio.Event()
        self._complained: dict[str, str] = {}
        self._claims: dict[
            tuple[str, str], asyncio.Future[Marks | None]
        ] = {}  # under way, by policy and tier
        policies.on_change(self._policies_changed)
        self._policies_changed()

    def on_change(self, call: Callable[[], None]) -> None:
        """Call back when marks may have changed; it must not await or raise."""
        self._listeners.append(call)

    @property
    def is_synced(self) -> bool:
        """Whether the marks of all policies are known."""
        return self._policies.is_synced and (not self._files.is_set() or self._maps_read.is_set())

    async def synced(self) -> None:
        """Wait until the marks of all policies are known."""
        await self._policies.synced()
        if self._files.is_set():
            await self._maps_read.wait()

    async def run(self) -> None:
        """Follow the ConfigMaps for ever; without a policy of a file there is nothing to follow."""
        await self._files.wait()
        await self._allowed()
        reflector = Reflector(
            self._client,
            _CONFIG_MAP,
            _Stored,
            namespace=self._namespace,
            labels=_LABEL,
            rng=self._rng,
            clock=self._clock,
        )
        async with aclosing(reflector.batches()) as batches:
            async for _ in batches:
                self._maps = {found.metadata.name: found for _, found in reflector.view.items()}
                if reflector.view.resume is not None:
                    self._maps_read.set()
                self._tell()

    async def _allowed(self) -> None:
        """Wait until ConfigMaps may be read. Marks are advice: until then there are none."""
        while True:
            try:
                await self._client.read(f"{_CONFIG_MAP.path(self._namespace)}?limit=1")
                return
            except ApiError as error:
                if error.code == 403 and not self._maps_read.is_set():
                    why = "marks of policies from a file are not known: every tier counts as available"
                    _log.warning("marks_unread", reason=str(error), result=why)
                    self._maps_read.set()
                    self._tell()
            except Unreachable:
                pass  # the watches of others say so
            await asyncio.sleep(_AGAIN_S)

    def of(self, policy: str) -> Marks:
        """The marks of a policy; none of a policy that is not known."""
        return self._newest(policy).marks

    def unavailable(self, policy: str) -> frozenset[str]:
        """The tiers of a policy that pods skip, all but the one that `claim_probe` lets try."""
        return frozenset(tier for tier, _ in self.of(policy))

    async def claim_probe(self, policy: str, tier: str, token: str, now: float) -> bool:
        """Be the one pod that tries a tier; whether it is.

        Of those who ask at the same time only the first writes: it answers for all. Whoever is told no skips
        the tier, and the next to come may try it if the first could not.
        """
        first = self._claims.get((policy, tier))
        if first is not None:
            await asyncio.wait((first,))
        elif self.of(policy).may_probe(tier, now):
            claim = self.change(policy, lambda marks: marks.claim_probe(tier, token, now))
            first = self._claims[policy, tier] = asyncio.ensure_future(claim)
            try:
                return await first is not None
            finally:
                first.cancel()
                del self._claims[policy, tier]
        mark = self.of(policy).get(tier)
        return mark is not None and mark.probed(now) and mark.probe == token

    async def change(self, policy: str, change: Change, *, client: Client | None = None) -> Marks | None:
        """Apply `change` to the marks as they are when it is applied; the marks that hold then.

        None when `change` says that it is not possible. Nothing is written when nothing changes. `client`
        is who writes: a fenced one for those who may only write while they lead.
        """
        client = client or self._client
        read = self._newest(policy)
        for _ in range(_TRIES):
            wanted = change(read.marks)
            if wanted is None or wanted is read.marks:
                return wanted
            try:
                version = await self._write(client, policy, read, wanted)
            except (Conflict, NotFound):
                read = await self._get(policy)
                continue
            self._ours[policy] = _Read(wanted, version, tuple(wanted.to_plain()))
            _log.info("marks", policy=policy, marks=wanted.to_plain())
            self._tell()
            return wanted
        raise FairleadError(f"the marks of policy {policy} change faster than we can write them")

    def _newest(self, policy: str) -> _Read:
        seen, ours = self._seen(policy), self._ours.get(policy)
        if ours is not None and version_number(ours.version) > version_number(seen.version):
            return ours
        self._ours.pop(policy, None)
        return seen

    def _seen(self, policy: str) -> _Read:
        if self._policies.from_file(policy):
            found = self._maps.get(config_map_name(policy))
            return self._from_map(policy, found)
        stored = self._policies.stored(policy)
        if stored is None:
            return _Read(Marks(self._cool_down_s(policy)))
        marks = self._policies.status(policy).get("marks")
        return _Read(self._marks(policy, marks), stored.metadata.resource_version, _tiers(marks))

    def _from_map(self, policy: str, found: _Stored | None) -> _Read:
        if found is None:
            return _Read(Marks(self._cool_down_s(policy)))
        text = found.data.get(_KEY, "{}")
        try:
            data = msgspec.json.decode(text)
        except msgspec.DecodeError:
            data = text  # not an object: refused as any other thing that is no marks
        return _Read(self._marks(policy, data), found.metadata.resource_version)

    def _marks(self, policy: str, data: object) -> Marks:
        try:
            found = Marks.from_plain(data, self._cool_down_s(policy))
        except BadObject as error:
            # Marks are advice: what nobody can read is as none, and the next write replaces it.
            if self._complained.get(policy) != str(error):
                _log.warning("marks_unreadable", policy=policy, reason=str(error))
                self._complained[policy] = str(error)
            return Marks(self._cool_down_s(policy))
        self._complained.pop(policy, None)
        return found

    async def _get(self, policy: str) -> _Read:
        """Read anew: the watch is behind."""
        if not self._policies.from_file(policy):
            found = await self._client.get(POLICIES, policy)
            marks = (found.get("status") or {}).get("marks")
            return _Read(self._marks(policy, marks), found["metadata"]["resourceVersion"], _tiers(marks))
        try:
            stored = await self._client.get(
                _CONFIG_MAP, config_map_name(policy), self._namespace, kind=_Stored
            )
        except NotFound:
            stored = None
        return self._from_map(policy, stored)

    async def _write(self, client: Client, policy: str, read: _Read, wanted: Marks) -> str:
        if self._policies.from_file(policy):
            return await self._write_map(client, policy, read, wanted)
        body = {
            "metadata": {"resourceVersion": read.version},
            "status": {"marks": _patch(read.tiers, wanted)},
        }
        written = await client.patch(POLICIES, policy, None, body, subresource="status")
        return str(written["metadata"]["resourceVersion"])

    async def _write_map(self, client: Client, policy: str, read: _Read, wanted: Marks) -> str:
        text = msgspec.json.encode(wanted.to_plain()).decode()
        metadata = {
            "name": config_map_name(policy),
            "namespace": self._namespace,
            "labels": {_LABEL: "", "app.kubernetes.io/name": "fairlead"},
        }
        if read.version:
            metadata["resourceVersion"] = read.version
            written = await client.replace(_CONFIG_MAP, {"metadata": metadata, "data": {_KEY: text}})
            return str(written["metadata"]["resourceVersion"])
        body = {"metadata": metadata, "data": {_KEY: text}}
        create = functools.partial(client.create, _CONFIG_MAP, body)
        written = await in_namespace(client, self._namespace, create)
        return str(written["metadata"]["resourceVersion"])

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


def _tiers(marks: object) -> tuple[str, ...]:
    return tuple(str(tier) for tier in marks) if isinstance(marks, dict) else ()


def _patch(old: Iterable[str], new: Marks) -> dict[str, Any]:
    """Marks as a merge patch: what is gone must be said, whole tiers as well as fields."""
    nothing: dict[str, Any] = dict.fromkeys(_FIELDS)
    patch: dict[str, Any] = dict.fromkeys(old)
    return patch | {tier: nothing | plain for tier, plain in new.to_plain().items()}


_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(Mark))
