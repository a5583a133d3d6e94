"""The policies that hold now: those of the cluster, those of a file, or both.

A bad policy is left out and the rest go on: what is wrong with it is logged once and found in `refused`
(the status writer puts it into the policy's condition Accepted). Where both sources have a policy of one
name, the file's holds: the user who starts the process wrote it there on purpose.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.reflector import Reflector
from fairlead.client.retry import Backoff
from fairlead.client.view import Added, Deleted, Modified, Spoiled
from fairlead.errors import ApiError, BadInput, FairleadError, NotFound, Unreachable
from fairlead.feed.files import Stamp, follow, stamp_of
from fairlead.kube.documents import documents
from fairlead.kube.meta import ObjectMeta
from fairlead.policy.names import API_VERSION, POLICIES
from fairlead.policy.rule.model import PlacementPolicy, read_policies, read_policy

_log = structlog.get_logger(__name__)

_LOOK_S = 5.0  # how often the file is looked at
_DISCOVER_S = 10.0  # how often a cluster without the definition is asked again


def read_file(file: str) -> tuple[PlacementPolicy, ...]:
    """The policies of a YAML stream, every one of them good, in the order of their names."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: cannot be read: {error}") from error
    found: list[Any] = []
    for document in documents(text, file):
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            found += document["items"]
        elif document is not None:
            found.append(document)
    if not found:
        raise BadInput(f"{file}: has no PlacementPolicy")
    try:
        return read_policies(found)
    except FairleadError as error:
        raise BadInput(f"{file}: {error}") from error


class Stored(msgspec.Struct, frozen=True):
    """A policy as the cluster has it, unread: a mistake in its spec must not hide its name."""

    metadata: ObjectMeta
    spec: Any = None
    status: Any = None


class LivePolicies:
    """See the module. Run it, wait until `synced`, and read `policies`; `on_change` calls back at changes.

    Invariant: `policies` are in the order of their names, and each is exactly as its source last had it
    in a usable state of that moment: a policy that turned bad is left out, not kept in its old form.
    Cancelled, nothing is left behind.
    """

    def __init__(
        self,
        client: Client,
        *,
        file: str = "",
        fixed: Iterable[PlacementPolicy] = (),
        cluster: bool = True,
        rng: random.Random | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """`file` and `cluster` are the sources; a bad file at the start is an error, later only a report.

        `fixed` are policies that hold as long as the process runs; they count as the file's.
        """
        self._client = client
        self._file = file
        self._cluster = cluster
        self._rng = rng or random.Random()
        self._clock = clock
        self._listeners: list[Callable[[], None]] = []
        self._synced = asyncio.Event()
        self._of_cluster: dict[str, PlacementPolicy] = {}
        self._stored: dict[str, Stored] = {}
        self._refused: dict[str, str] = {}
        self._policies: tuple[PlacementPolicy, ...] = ()
        self.optional = False
        """Whether a process that may not read the cluster's policies goes on without them."""
        self.trouble = ""
        """Why the sources cannot be read at the moment; "" when they can."""
        self._stamp: Stamp | None = None
        self._fixed = {policy.name: policy for policy in fixed}
        self._of_file = dict(self._fixed)
        if file:
            self._stamp = stamp_of(file)
            self._of_file |= {policy.name: policy for policy in read_file(file)}
        self._merge()

    @property
    def policies(self) -> tuple[PlacementPolicy, ...]:
        """Those that hold now, by name. The same object until something changes."""
        return self._policies

    @property
    def refused(self) -> Mapping[str, str]:
        """Policies of the cluster that are left out, and why."""
        return self._refused

    def get(self, name: str) -> PlacementPolicy | None:
        """The policy of a name."""
        return self._of_file.get(name) or self._of_cluster.get(name)

    def from_file(self, name: str) -> bool:
        """Whether it comes from the file: then it has no status of its own on the cluster."""
        return name in self._of_file

    def stored(self, name: str) -> Stored | None:
        """A policy of the cluster as it came, bad ones included, with its status and version."""
        return self._stored.get(name)

    def stored_names(self) -> tuple[str, ...]:
        """The names of all policies of the cluster, bad ones included."""
        return tuple(sorted(self._stored))

    def status(self, name: str) -> Mapping[str, Any]:
        """What a policy's status says; empty for those of a file."""
        found = self._stored.get(name)
        return found.status if found is not None and isinstance(found.status, dict) else {}

    def on_change(self, call: Callable[[], None]) -> None:
        """Call back after every change of a policy or of its status; it must not await or raise."""
        self._listeners.append(call)

    async def synced(self) -> None:
        """Wait until every source was read once."""
        await self._synced.wait()

    @property
    def is_synced(self) -> bool:
        """Whether every source was read once."""
        return self._synced.is_set()

    def checks(self) -> dict[str, str]:
        """For ``/readyz``."""
        return {"policies": "" if self.is_synced else self.trouble or "not read yet"}

    async def run(self) -> None:
        """Follow the sources for ever."""
        async with asyncio.TaskGroup() as group:
            if self._file:
                group.create_task(self._follow_file())
            if self._cluster:
                group.create_task(self._follow_cluster())
            else:
                self._synced.set()

    async def _follow_cluster(self) -> None:
        await self._until_served()
        reflector = Reflector(self._client, POLICIES, Stored, rng=self._rng, clock=self._clock)
        async with aclosing(reflector.batches()) as batches:
            async for batch in batches:
                changed = False
                for event in batch:
                    match event:
                        case Added(object=stored) | Modified(object=stored):
                            changed |= self._take(stored)
                        case Deleted(key=name) | Spoiled(key=name):
                            changed |= self._drop(name)
                            if isinstance(event, Spoiled):
                                self._refuse(name, str(event.error))
                if changed:
                    self._merge()
                if reflector.view.resume is not None:
                    self._synced.set()

    async def _until_served(self) -> None:
        """Wait until the cluster serves policies. One that does not has none: nothing else waits for that."""
        backoff = Backoff(self._rng)
        while True:
            try:
                await self._client.read(f"{POLICIES.path()}?limit=1")
                self.trouble = ""
                return
            except NotFound:
                if not self._synced.is_set():
                    _log.info("no_policy_crd", looking_again_s=_DISCOVER_S)
                self._synced.set()
                await asyncio.sleep(_DISCOVER_S * self._rng.uniform(1.0, 1.5))
            except (ApiError, Unreachable) as error:
                wait_s = backoff.next_s(error.retry_after_s if isinstance(error, ApiError) else None)
                if str(error) != self.trouble:
                    _log.warning("policies_unread", reason=str(error), wait_s=round(wait_s, 3))
                self.trouble = str(error)
                if isinstance(error, ApiError) and error.code == 403 and (self._file or self.optional):
                    # The file stands alone where the cluster's policies are not ours to read.
                    self._synced.set()
                await asyncio.sleep(wait_s)

    def _take(self, stored: Stored) -> bool:
        name = stored.metadata.name
        known = self._stored.get(name)
        self._stored[name] = stored
        if known is not None and known.spec == stored.spec and known.metadata.uid == stored.metadata.uid:
            return bool(known.status != stored.status)
        whole = {
            "apiVersion": API_VERSION,
            "kind": POLICIES.kind,
            "metadata": stored.metadata,
            "spec": stored.spec,
        }
        try:
            policy = read_policy(_plain(whole))
        except FairleadError as error:
            self._of_cluster.pop(name, None)
            self._refuse(name, str(error))
            return True
        self._refused.pop(name, None)
        self._of_cluster[name] = policy
        _log.info("policy_accepted", name=name, generation=stored.metadata.generation)
        return True

    def _drop(self, name: str) -> bool:
        self._refused.pop(name, None)
        self._of_cluster.pop(name, None)
        return self._stored.pop(name, None) is not None

    def _refuse(self, name: str, why: str) -> None:
        if self._refused.get(name) != why:
            _log.error("policy_refused", name=name, reason=why)
        self._refused[name] = why

    def _merge(self) -> None:
        both = {**self._of_cluster, **self._of_file}
        merged = tuple(both[name] for name in sorted(both))
        if merged != self._policies:  # a status that changed leaves the policies the same object
            self._policies = merged
        for call in self._listeners:
            call()

    async def _follow_file(self) -> None:
        """Read the file again when it changes; one that cannot be used changes nothing."""
        await follow(self._file, self._stamp, self._reread_file, look_s=_LOOK_S, refused="policies_refused")

    def _reread_file(self) -> None:
        found = self._fixed | {policy.name: policy for policy in read_file(self._file)}
        if found != self._of_file:
            self._of_file = found
            _log.info("policies_reloaded", file=self._file, policies=len(found))
            self._merge()


def _plain(whole: Mapping[str, Any]) -> Any:
    return msgspec.to_builtins(whole)
