"""The ConfigMap that holds the marks of policies from files and flags: one key for each policy.

It is shipped with the manifests, so that an account needs no right but to read and patch this one. Where it
is missing and may not be created, marks hold in this process only.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.client.namespaces import in_namespace
from fairlead.client.reflector import Reflector
from fairlead.client.wire import version_number
from fairlead.errors import ApiError, Unreachable
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.resources import known

_log = structlog.get_logger(__name__)

MARKS_MAP = "fairlead-marks"

_CONFIG_MAP = known("ConfigMap")
_ONLY = f"metadata.name={MARKS_MAP}"  # a right that is limited by name covers no other list or watch
_AGAIN_S = 5.0  # rights may be granted later
_KEY = re.compile(r"(?!\.\.)[-._a-zA-Z0-9]{1,253}")


def key_of(policy: str) -> str:
    """The key of a policy: its name, or a digest of a name that the API server would refuse as a key.

    >>> key_of("web"), key_of("web/1")[:15], key_of(".")[:15]
    ('web', 'sha256.1f01da37', 'sha256.cdb4ee2a')
    """
    if policy != "." and _KEY.fullmatch(policy) is not None:
        return policy
    return f"sha256.{hashlib.sha256(policy.encode()).hexdigest()}"


class StoredMarks(msgspec.Struct, frozen=True):
    """The ConfigMap; without a version there is none."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}

    @property
    def version(self) -> str:
        """What a write compares with."""
        return self.metadata.resource_version


NO_MARKS = StoredMarks()


class MarksMap:
    """See the module. `changed` is called after each change that the watch shows.

    Invariant: `newest` never goes back behind what this process wrote or read.
    """

    def __init__(
        self, client: Client, namespace: str, changed: Callable[[], None], *, rng: random.Random, clock: Clock
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._changed = changed
        self._rng = rng
        self._clock = clock
        self._seen = NO_MARKS
        self._ours = NO_MARKS
        self._complained = False
        self.read = asyncio.Event()

    async def run(self) -> None:
        """Follow the ConfigMap for ever."""
        await self._allowed()
        reflector = Reflector(
            self._client,
            _CONFIG_MAP,
            StoredMarks,
            namespace=self._namespace,
            fields=_ONLY,
            rng=self._rng,
            clock=self._clock,
        )
        async with aclosing(reflector.batches()) as batches:
            async for _ in batches:
                self._seen = next((found for _, found in reflector.view.items()), NO_MARKS)
                resume = reflector.view.resume
                if self._seen.version:
                    self._complained = False
                elif 0 < version_number(self._ours.version) <= version_number(resume or ""):
                    self._ours = NO_MARKS  # it was deleted, and with it what we wrote
                if resume is not None:
                    self.read.set()
                self._changed()

    async def _allowed(self) -> None:
        """Wait until the ConfigMap may be read. Marks are advice: until then there are none."""
        while True:
            try:
                await self.reread()
                return
            except ApiError as error:
                if error.code == 403 and not self.read.is_set():
                    why = "marks of policies from a file are not known: every tier counts as available"
                    _log.warning("marks_unread", reason=str(error), result=why)
                    self.read.set()
                    self._changed()
            except Unreachable:
                pass  # the watches of others say so
            await asyncio.sleep(_AGAIN_S)

    def newest(self) -> StoredMarks:
        """The ConfigMap as it was last seen, read or written."""
        if not self._seen.version or version_number(self._ours.version) > version_number(self._seen.version):
            return self._ours
        return self._seen

    async def reread(self) -> StoredMarks:
        """Read it from the API server: the watch is behind."""
        listed = await self._client.list(_CONFIG_MAP, self._namespace, fields=_ONLY, kind=StoredMarks)
        self._ours = next(iter(listed.items), NO_MARKS)
        return self._ours

    async def write(self, client: Client, before: StoredMarks, changes: Mapping[str, str | None]) -> None:
        """Set keys (None removes one) of the ConfigMap as `before` has it; Conflict where it has changed."""
        if before.version:
            body = {"metadata": {"resourceVersion": before.version}, "data": changes}
            self._ours = await client.patch(_CONFIG_MAP, MARKS_MAP, self._namespace, body, kind=StoredMarks)
            return
        data = {key: text for key, text in {**before.data, **changes}.items() if text is not None}
        try:
            self._ours = await self._create(client, data)
        except ApiError as error:
            if error.code != 403:
                raise
            self._ours = StoredMarks(data=data)
            if not self._complained:
                self._complained = True
                _log.warning(
                    "marks_not_shared",
                    reason=f"ConfigMap {self._namespace}/{MARKS_MAP} is missing: {error}",
                    result="other processes do not see the marks of policies from a file",
                    todo="kubectl apply -k deploy/policies",
                )

    async def _create(self, client: Client, data: dict[str, str]) -> StoredMarks:
        metadata = {
            "name": MARKS_MAP,
            "namespace": self._namespace,
            "labels": {"app.kubernetes.io/name": "fairlead"},
        }

        async def create() -> StoredMarks:
            return await client.create(_CONFIG_MAP, {"metadata": metadata, "data": data}, kind=StoredMarks)

        return await in_namespace(client, self._namespace, create)
