"""What a cluster holds of a tenant: its objects, by label, of every kind that it may have.

An object belongs to a tenant when its labels say so and no controller made it: pods and endpoints
carry the same labels, but are others' to keep. One that a Helm release holds is that release's to change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from fairlead.client.api import Client
from fairlead.client.discovery import served
from fairlead.errors import ApiError, Missing, NotFound
from fairlead.kube.resources import BUILT_IN, Resource
from fairlead.tenants.manifests import KINDS
from fairlead.tenants.names import FURTHER_ANNOTATION, belongs, noted, selector_of

T = TypeVar("T")
Object = dict[str, Any]

_RELEASE = "meta.helm.sh/release-name"


class Kinds:
    """Which resource a kind is; asks the cluster, once, for kinds that not every cluster has."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._known = {(one.api_version, one.kind): one for one in BUILT_IN}
        self._asked = False
        self._asking = asyncio.Lock()

    async def find(self, api_version: str, kind: str) -> Resource:
        """The resource, or Missing."""
        async with self._asking:
            if (api_version, kind) not in self._known and not self._asked:
                for one in await served(self.client):
                    self._known.setdefault((one.api_version, one.kind), one)
                self._asked = True
        found = self._known.get((api_version, kind))
        if found is None:
            raise Missing(f"the cluster does not serve {kind} ({api_version}): install what defines it first")
        return found

    async def of(self, item: Mapping[str, Any]) -> Resource:
        """The resource of an object."""
        return await self.find(item["apiVersion"], item["kind"])


def is_going(item: Mapping[str, Any]) -> bool:
    """Whether an object is on its way out: what is applied to it is lost with it."""
    return bool(item["metadata"].get("deletionTimestamp"))


def release_of(item: Mapping[str, Any]) -> str:
    """The Helm release that holds an object; empty when none does."""
    return str((item["metadata"].get("annotations") or {}).get(_RELEASE, ""))


def further_of(items: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """The further kinds that are noted on a tenant's ServiceAccount."""
    said = (one.rpartition("/") for item in items for one in noted(item, FURTHER_ANNOTATION))
    return {(version, kind) for version, _, kind in said if version and kind}


async def objects_of(
    kinds: Kinds, tenant: str, namespace: str, further: Iterable[tuple[str, str]] = ()
) -> list[Object]:
    """All objects of a tenant in its namespace, and that namespace if it is the tenant's own.

    `further` are kinds to look for beside those that the tenant's objects themselves name.
    """

    async def listed(api_version: str, kind: str) -> list[Object]:
        try:
            resource = await kinds.find(api_version, kind)
            if kind == "Namespace":
                found = [await kinds.client.get(resource, namespace)]
            elif resource.namespaced:
                listing = await kinds.client.list(resource, namespace, labels=selector_of(tenant))
                found = list(listing.items)
            else:
                return []  # belongs to no namespace, so to no tenant
        except (NotFound, Missing):
            return []  # a namespace that is not there, or a kind that is no longer served
        except ApiError as error:
            if error.code == 403 and kind == "Namespace":
                return []  # an account that may not read namespaces creates none
            raise
        return [
            {"apiVersion": api_version, "kind": kind, **item}
            for item in found
            if belongs(item, tenant) and not _controlled(item)
        ]

    known = await together(listed(*one) for one in KINDS)
    found = [item for part in known for item in part]
    more = sorted((further_of(found) | set(further)) - set(KINDS))
    for part in await together(listed(*one) for one in more):
        found += part
    return found


async def together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in the order of the calls. The first error ends the others and is raised by itself;
    cancelled, all of them are.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _controlled(item: Mapping[str, Any]) -> bool:
    owners = item["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") for owner in owners)
