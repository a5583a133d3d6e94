"""Which resources an API server serves: asked of the server, because gates and versions decide.

One aggregated answer where the server has it, else one request per group and version.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.client.retry import Backoff
from fairlead.errors import ApiError, BadObject, Unreachable
from fairlead.kube.resources import Resource

_log = structlog.get_logger(__name__)

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


async def served(client: Client) -> tuple[Resource, ...]:
    """All served resources, preferred versions of a group first; subresources are left out.

    A group whose own server is away (an APIService without a backend) is left out, not an error.
    """
    found: list[Resource] = []
    for root in ("/api", "/apis"):
        answer = await client.read(root, accept=_AGGREGATED)
        try:
            said = msgspec.json.decode(answer, type=_Root)
        except msgspec.MsgspecError as error:
            raise BadObject(f"discovery {root}", "", str(error)) from error
        if said.kind == "APIGroupDiscoveryList":
            found += _aggregated(said)
        else:
            paths = [f"/api/{version}" for version in said.versions]
            paths += [f"/apis/{version.group_version}" for group in said.groups for version in group.versions]
            for path in paths:
                found += await _one(client, path)
    return tuple(found)


async def served_at_last(client: Client) -> tuple[Resource, ...]:
    """All served resources, asked for until there is an answer: an API server that is away for a while is
    no reason to end. Cancelled, nothing happens.
    """
    backoff, told = Backoff(client.rng), ""
    while True:
        try:
            return await served(client)
        except (ApiError, Unreachable) as error:
            wait_s = backoff.next_s(error.retry_after_s if isinstance(error, ApiError) else None)
            if str(error) != told:
                told = str(error)
                _log.warning("discovery_failed", reason=told, wait_s=round(wait_s, 3))
        await asyncio.sleep(wait_s)


async def scalable(client: Client, api_version: str, kind: str) -> Resource | None:
    """The resource of a kind, as an owner reference names it, if it is served with a scale subresource."""
    group, _, version = api_version.rpartition("/")
    listed = await _listed(client, f"/apis/{group}/{version}" if group else f"/api/{version}")
    names = {entry.name for entry in listed}
    for entry in listed:
        if entry.kind == kind and f"{entry.name}/scale" in names:
            return Resource(group, version, entry.name, kind, namespaced=entry.namespaced)
    return None


class _Kind(msgspec.Struct):
    kind: str = ""


class _Served(msgspec.Struct, rename="camel"):
    resource: str
    scope: str = ""
    response_kind: _Kind = msgspec.field(default_factory=_Kind)


class _Version(msgspec.Struct, rename="camel"):
    version: str = ""
    group_version: str = ""
    resources: list[_Served] = []


class _Meta(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    versions: list[_Version] = []


class _Root(msgspec.Struct):
    kind: str = ""
    items: list[_Group] = []
    groups: list[_Group] = []
    versions: list[str] = []


class _Listed(msgspec.Struct):
    name: str
    kind: str = ""
    namespaced: bool = False


class _ResourceList(msgspec.Struct):
    resources: list[_Listed] = []


def _aggregated(said: _Root) -> list[Resource]:
    return [
        Resource(
            group.metadata.name,
            version.version,
            entry.resource,
            entry.response_kind.kind,
            namespaced=entry.scope == "Namespaced",
        )
        for group in said.items
        for version in group.versions
        for entry in version.resources
    ]


async def _one(client: Client, path: str) -> list[Resource]:
    group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
    return [
        Resource(group, version, entry.name, entry.kind, namespaced=entry.namespaced)
        for entry in await _listed(client, path)
        if "/" not in entry.name
    ]


async def _listed(client: Client, path: str) -> list[_Listed]:
    """What a group's version serves, subresources too; nothing when it is not served, or its server away."""
    try:
        return msgspec.json.decode(await client.read(path), type=_ResourceList).resources
    except ApiError as error:
        if error.code not in (404, 503):
            raise
        return []
    except msgspec.MsgspecError as error:
        raise BadObject(f"discovery {path}", "", str(error)) from error
