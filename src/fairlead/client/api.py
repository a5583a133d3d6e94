"""The API's verbs, typed: read, write, bind, evict.

Each verb says whether it may be repeated after a lost answer (see `retry`). A bind whose answer was
lost is resolved by reading the pod, so its caller gets a plain yes or no. Objects go in as plain data
(our structs hold only the fields we read: writing one back would drop the rest) and come out as plain
data or as the struct that `kind` names.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, Literal

import msgspec

from fairlead.client.connection import JSON, Connection, Fence
from fairlead.client.retry import Repeat, Retry
from fairlead.client.wire import (
    Page,
    Plain,
    T,
    meta,
    object_path,
    page_of,
    plain,
    read_as,
    typed,
)
from fairlead.errors import Conflict, Gone, NotFound
from fairlead.kube.patch import JsonPatch
from fairlead.kube.pod import Pod
from fairlead.kube.resources import Resource, known

PatchKind = Literal["merge", "strategic"]

PAGE = 500  # objects a page: the API server's own default for chunked lists

_POD = known("Pod")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A whole list, and the point from which a watch goes on."""

    items: tuple[T, ...]
    resource_version: str


class Client:
    """The verbs over one connection.

    Cancelled half-way, a read is simply gone; a write may or may not have been applied.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        rng: random.Random | None = None,
        retry: Retry | None = None,
        fence: Fence | None = None,
        lane: asyncio.Semaphore | None = None,
    ) -> None:
        self.connection = connection
        self.rng = rng or random.Random()
        self._retry = retry or Retry(self.rng)
        self._fence = fence
        self._lane = lane

    def fenced(self, fence: Fence) -> Client:
        """The same client, whose writes ask `fence` first."""
        return Client(self.connection, rng=self.rng, retry=self._retry, fence=fence, lane=self._lane)

    def in_lane(self, in_flight: int) -> Client:
        """The same client with requests under way counted apart, so that they delay no others."""
        lane = asyncio.Semaphore(in_flight)
        return Client(self.connection, rng=self.rng, retry=self._retry, fence=self._fence, lane=lane)

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, kind: type[T] | None = None
    ) -> T:
        """One object."""
        return read_as(await self.read(object_path(resource, namespace, name)), kind)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        kind: type[T] | None = None,
        labels: str = "",
        fields: str = "",
        page: int = PAGE,
    ) -> Listing[T]:
        """All objects, as they were at one instant; read page by page.

        A list that changed so long that its next page was compacted away is read again in one piece.
        """
        for size in (page, 0):
            pages = self.pages(resource, namespace, labels=labels, fields=fields, page=size)
            items: list[T] = []
            version = ""
            try:
                async with aclosing(pages):
                    async for part in pages:
                        items.extend(read_as(bytes(item), kind) for item in part.items)
                        version = part.resource_version
            except Gone:
                if not size:
                    raise
                continue
            return Listing(tuple(items), version)
        raise AssertionError("the loop ends by return or raise")

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        page: int = PAGE,
        accept: str = JSON,
    ) -> AsyncGenerator[Page, None]:
        """The pages of a list, each read when it is asked for; raises Gone when the next one is too old."""
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(page) if page else ""}
        more = ""
        while True:
            path = object_path(resource, namespace, query={**query, "continue": more})
            read = page_of(await self.read(path, accept=accept), resource)
            more = read.more
            yield read
            if not more:
                return

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        kind: type[T] | None = None,
    ) -> T:
        """Create an object. Never repeated after a lost answer: a generated name would be made twice."""
        namespace = namespace or meta(body, "namespace")
        path = object_path(resource, namespace)
        return read_as(await self.write("POST", path, typed(resource, body), Repeat.ONCE), kind)

    async def replace(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        kind: type[T] | None = None,
    ) -> T:
        """Replace an object. With a resourceVersion in it, this is compare-and-swap and may be repeated;
        a Conflict after a lost answer may then be with our own first attempt.
        """
        path = object_path(resource, meta(body, "namespace"), meta(body, "name"), subresource)
        repeat = Repeat.GUARDED if meta(body, "resourceVersion") else Repeat.ONCE
        return read_as(await self.write("PUT", path, typed(resource, body), repeat), kind)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: JsonPatch | Mapping[str, Any],
        *,
        how: PatchKind = "merge",
        subresource: str | None = None,
        repeatable: bool = False,
        kind: type[T] | None = None,
    ) -> T:
        """Patch an object: a JsonPatch, or plain data to merge (`how` tells which way).

        ``subresource="status"`` patches the status. `repeatable` is the caller's word that no other writer
        writes these fields and that they are set, not added to.
        """
        if isinstance(patch, JsonPatch):
            body, content_type = patch.encode(), "application/json-patch+json"
            guarded = any(
                step["op"] == "test" and step["path"] == "/metadata/resourceVersion"
                for step in patch.operations
            )
        else:
            body = msgspec.json.encode(patch)
            content_type = f"application/{'strategic-merge' if how == 'strategic' else 'merge'}-patch+json"
            guarded = bool(meta(patch, "resourceVersion"))
        repeat = Repeat.GUARDED if guarded or repeatable else Repeat.ONCE
        path = object_path(resource, namespace, name, subresource)
        return read_as(await self.write("PATCH", path, body, repeat, content_type=content_type), kind)

    async def apply(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        dry_run: bool = False,
    ) -> Plain:
        """Server-side apply. It says the whole outcome, so it may be repeated."""
        flags = {"force": "true" if force else "", "dryRun": "All" if dry_run else ""}
        query = {"fieldManager": manager, **flags}
        path = object_path(resource, meta(body, "namespace"), meta(body, "name"), query=query)
        answer = await self.write(
            "PATCH", path, typed(resource, body), Repeat.GUARDED, content_type="application/apply-patch+yaml"
        )
        return plain(answer)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
        grace_s: int | None = None,
    ) -> None:
        """Delete an object. With its UID, only this very object, and then it may be repeated."""
        held = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {key: value for key, value in held.items() if value} or None,
            "propagationPolicy": propagation,
            "gracePeriodSeconds": grace_s,
        }
        body = msgspec.json.encode({key: value for key, value in options.items() if value is not None})
        path = object_path(resource, namespace, name)
        await self._remove("DELETE", path, body, Repeat.GUARDED if uid else Repeat.ONCE)

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        """Ask for a pod to go. TooManyRequests with `is_budget_refusal` is a budget's no, never repeated."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        path = object_path(_POD, namespace, name, "eviction")
        await self._remove("POST", path, msgspec.json.encode(body), Repeat.GUARDED)

    async def _remove(self, method: str, path: str, body: bytes, repeat: Repeat) -> None:
        async def call(unseen: bool) -> None:
            try:
                await self._send(method, path, body)
            except (NotFound, Conflict):
                if not unseen:
                    raise
                # The attempt without an answer did it: gone, or replaced by another of the same name.

        await self._retry.run(call, repeat)

    async def bind(
        self, name: str, namespace: str, node: str, *, uid: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Bind a pod, known by its UID, to a node; the API server merges `annotations` into the pod.

        After a lost answer the bind is sent again, which cannot bind twice; a Conflict is then looked
        into, and only raised when the pod is not where we wanted it.
        """
        metadata: Plain = {"name": name, "namespace": namespace, "uid": uid}
        if annotations:
            metadata["annotations"] = annotations
        body = msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": metadata,
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }
        )
        path = object_path(_POD, namespace, name, "binding")

        async def call(unseen: bool) -> None:
            try:
                await self._send("POST", path, body)
            except Conflict:
                if not unseen:
                    raise
                pod = await self.get(_POD, name, namespace, kind=Pod)
                if pod.metadata.uid != uid or pod.spec.node_name != node:
                    raise

        await self._retry.run(call, Repeat.GUARDED)

    async def read(self, path: str, *, accept: str = JSON) -> bytes:
        """GET a path, repeated as reads may be."""

        async def call(_: bool) -> bytes:
            return await self.connection.request("GET", path, accept=accept, lane=self._lane)

        return await self._retry.run(call, Repeat.READ)

    async def write(
        self, method: str, path: str, body: bytes, repeat: Repeat, *, content_type: str = JSON
    ) -> bytes:
        """Send a write to a path, fenced, repeated only as `repeat` allows."""

        async def call(_: bool) -> bytes:
            return await self._send(method, path, body, content_type)

        return await self._retry.run(call, repeat)

    async def _send(self, method: str, path: str, body: bytes, content_type: str = JSON) -> bytes:
        return await self.connection.request(
            method, path, body, content_type=content_type, fence=self._fence, lane=self._lane
        )
