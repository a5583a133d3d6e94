"""Tenants on a cluster: which exist, and how far each is.

Nodes and events are read only for tenants that wait, and only the nodes that they may go to: a look costs
what the tenants need, not what the cluster holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fairlead.client.api import Client, Listing
from fairlead.errors import ApiError, Unreachable
from fairlead.kube.event import Event
from fairlead.kube.node import Node
from fairlead.kube.resources import Resource, known
from fairlead.policy.names import CAPACITY_ANNOTATION
from fairlead.tenants.apply import Deadline
from fairlead.tenants.live_objects import release_of, together
from fairlead.tenants.names import TENANT_LABEL, TYPE_LABEL, belongs, selector_of
from fairlead.tenants.progress import Progress, Seen, Stage, is_living, progress_of
from fairlead.tenants.tenant import Tenant

Object = dict[str, Any]
T = TypeVar("T")
Key = tuple[str, str]
"""A tenant's namespace and name."""

_LOOK_AGAIN_S = 0.5
_EACH_S = 0.05
_CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False)


@dataclass(frozen=True, slots=True)
class LiveTenant:
    """A tenant that a cluster holds. `release` is the Helm release it was made by; `created` is a time."""

    name: str
    namespace: str
    type: str
    created: str
    progress: Progress
    release: str = ""
    own_namespace: bool = False
    meets: tuple[str, ...] = ()
    """Other tenants on its nodes (``namespace/name on node``), where both are to have their nodes alone."""

    @property
    def tenant(self) -> Tenant:
        """The tenant that these objects belong to."""
        return Tenant(self.name, self.type, self.namespace, own_namespace=self.own_namespace)


async def find_tenants(client: Client, namespace: str | None = None) -> list[LiveTenant]:
    """All tenants of a namespace or, without one, of all; half-made and half-removed ones, too."""
    try:
        listings = await together(
            client.list(known(kind), namespace, labels=selector_of())
            for kind in ("ServiceAccount", "Deployment", "Pod")
        )
    except ApiError as error:
        if error.code == 403 and namespace is None:
            said = f"{error.message}: name a namespace with -n"
            raise ApiError.of(error.code, error.reason, said, details=error.details) from error
        raise
    accounts, deployments, pods = (listing.items for listing in listings)
    namespaces: list[Object] = []
    try:
        if namespace is None:
            namespaces = list((await client.list(known("Namespace"), labels=selector_of())).items)
        else:
            namespaces = [await client.get(known("Namespace"), namespace)]
    except ApiError as error:
        if error.code not in (403, 404):
            raise
    found: dict[Key, list[Object]] = {}
    own: set[Key] = set()
    for item in namespaces:
        tenant = (item["metadata"].get("labels") or {}).get(TENANT_LABEL, "")
        if tenant and belongs(item, tenant):
            own.add((item["metadata"]["name"], tenant))
            found[item["metadata"]["name"], tenant] = [item]
    for item in (*accounts, *deployments):
        if belongs(item, _key(item)[1]):
            found.setdefault(_key(item), []).append(item)
    progress = await _progress_of_all(client, found, deployments, pods)
    meetings = _meetings(pods)
    return [
        LiveTenant(
            name,
            place,
            items[-1]["metadata"]["labels"].get(TYPE_LABEL, ""),
            min(item["metadata"]["creationTimestamp"] for item in items),
            progress[place, name],
            next(filter(None, map(release_of, items)), ""),
            (place, name) in own,
            meetings.get((place, name), ()),
        )
        for (place, name), items in sorted(found.items())
    ]


async def look(client: Client, tenants: Sequence[Tenant]) -> list[Progress]:
    """How far tenants are now; those of one namespace are looked at together."""
    here: dict[str, list[Tenant]] = {}
    for tenant in tenants:
        here.setdefault(tenant.namespace, []).append(tenant)
    found: dict[Key, Progress] = {}
    for namespace, those in here.items():
        labels = selector_of(those[0].name if len(those) == 1 else "")
        deployments, pods = await together(
            client.list(known(kind), namespace, labels=labels) for kind in ("Deployment", "Pod")
        )
        keys = [(namespace, tenant.name) for tenant in those]
        found |= await _progress_of_all(client, keys, deployments.items, pods.items)
    return [found[tenant.namespace, tenant.name] for tenant in tenants]


async def wait_until_running(
    client: Client,
    tenants: Iterable[Tenant],
    deadline: Deadline,
    on_change: Callable[[Tenant, Progress], None],
) -> dict[str, Progress]:
    """Look until all tenants run or the deadline is over; `on_change` receives every change of each.

    Returns how far each is at the end, by its key. An API server that is away is waited for, too.
    """
    waiting = {tenant.key: tenant for tenant in tenants}
    last = {key: Progress(Stage.PENDING, "nothing is known yet") for key in waiting}
    while True:
        try:
            seen = await look(client, list(waiting.values()))
        except Unreachable:
            if not deadline.left_s:
                raise
            seen = []
        for tenant, progress in zip(list(waiting.values()) if seen else [], seen, strict=True):
            before = last[tenant.key]
            if before.stage is Stage.NODE_REQUESTED and progress.stage > Stage.NODE_READY:
                # Too short to be seen, but it must have been.
                nodes = ", ".join(progress.nodes)
                on_change(tenant, replace(progress, stage=Stage.NODE_READY, reason=f"node {nodes} is ready"))
            if before != progress:
                last[tenant.key] = progress
                on_change(tenant, progress)
            if progress.done:
                del waiting[tenant.key]
        if not waiting or not deadline.left_s:
            return last
        # A look asks for the events of each: many tenants are looked at less often.
        await asyncio.sleep(min(max(_LOOK_AGAIN_S, _EACH_S * len(waiting)), deadline.left_s))


async def _progress_of_all(
    client: Client, keys: Iterable[Key], deployments: Iterable[Object], pods: Iterable[Object]
) -> dict[Key, Progress]:
    # Tenants' own Deployments have their name; types may have further ones.
    own = {_key(item): item for item in deployments if item["metadata"]["name"] == _key(item)[1]}
    of: dict[Key, list[Object]] = {}
    for pod in pods:
        of.setdefault(_key(pod), []).append(pod)
    keys = list(keys)
    found = await together(_progress(client, own.get(key), of.get(key, [])) for key in keys)
    return dict(zip(keys, found, strict=True))


async def _progress(client: Client, deployment: Object | None, pods: Sequence[Object]) -> Progress:
    waiting = [pod for pod in pods if is_living(pod) and not pod["spec"].get("nodeName")]
    if not waiting:
        return progress_of(Seen(deployment, pods))
    events: list[Event] = []
    for pod in waiting:
        fields = f"involvedObject.name={pod['metadata']['name']},involvedObject.kind=Pod"
        namespace = pod["metadata"]["namespace"]
        events += await _allowed(client.list(known("Event"), namespace, kind=Event, fields=fields))
    selector = ",".join(
        f"{key}={value}" for key, value in (waiting[0]["spec"].get("nodeSelector") or {}).items()
    )
    nodes = await _allowed(client.list(known("Node"), kind=Node, labels=selector))
    claims: list[Any] = []
    if any("nodeclaim/" in event.message for event in events):
        claims = await _allowed(client.list(_CLAIMS))
    return progress_of(Seen(deployment, pods, events, nodes, claims))


async def _allowed(listing: Coroutine[Any, Any, Listing[T]]) -> list[T]:
    """A list that only explains: empty where it may not be read."""
    try:
        return list((await listing).items)
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        return []


def _key(item: Mapping[str, Any]) -> Key:
    return item["metadata"]["namespace"], item["metadata"]["labels"][TENANT_LABEL]


def _meetings(pods: Iterable[Object]) -> dict[Key, tuple[str, ...]]:
    """The pods that tenants with nodes of their own meet there, though each is to be alone."""
    on: dict[str, set[Key]] = {}
    for pod in pods:
        alone = (pod["metadata"].get("annotations") or {}).get(CAPACITY_ANNOTATION) == "exclusive"
        if alone and is_living(pod) and (node := pod["spec"].get("nodeName")):
            on.setdefault(node, set()).add(_key(pod))
    found: dict[Key, tuple[str, ...]] = {}
    for node, keys in sorted(on.items()):
        for key in sorted(keys):
            others = tuple(f"{'/'.join(other)} on {node}" for other in sorted(keys) if other != key)
            found[key] = found.get(key, ()) + others
    return found
