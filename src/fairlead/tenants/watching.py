"""Look at tenants on a cluster: those there are, and how far each is.

Nodes and events are read only for tenants that wait, and only the nodes that they may go to: a look costs
what the tenants need, not what the cluster holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairlead.client.api import Client
from fairlead.errors import ApiError, Unreachable
from fairlead.kube.event import Event
from fairlead.kube.node import Node
from fairlead.kube.resources import Resource, known
from fairlead.policy.names import CAPACITY_ANNOTATION
from fairlead.tenants.applying import Deadline
from fairlead.tenants.live import belongs, release_of, together
from fairlead.tenants.names import TENANT_LABEL, TYPE_LABEL, selector_of
from fairlead.tenants.progress import Progress, Seen, Stage, is_living, progress_of
from fairlead.tenants.tenant import Tenant

__all__ = ["Held", "find_tenants", "look", "wait_until_running"]

Object = dict[str, Any]

_LOOK_AGAIN_S = 0.5
_EACH_S = 0.05
_CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False)


@dataclass(frozen=True, slots=True)
class Held:
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
        """Who it is."""
        return Tenant(self.name, self.type, self.namespace, own_namespace=self.own_namespace)


async def find_tenants(client: Client, namespace: str | None = None) -> list[Held]:
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
    found: dict[tuple[str, str], list[Object]] = {}
    own: set[tuple[str, str]] = set()
    for item in namespaces:
        tenant = (item["metadata"].get("labels") or {}).get(TENANT_LABEL, "")
        if tenant and belongs(item, tenant):
            own.add((item["metadata"]["name"], tenant))
            found[item["metadata"]["name"], tenant] = [item]
    for item in (*accounts, *deployments):
        if belongs(item, _key(item)[1]):
            found.setdefault(_key(item), []).append(item)
    own_deployments = _mains(deployments)
    of = _by_key(pods)
    meetings = _meetings(of)

    async def held(key: tuple[str, str]) -> Held:
        items = found[key]
        progress = await _progress(client, own_deployments.get(key), of.get(key, ()))
        return Held(
            key[1],
            key[0],
            items[-1]["metadata"]["labels"].get(TYPE_LABEL, ""),
            min(item["metadata"]["creationTimestamp"] for item in items),
            progress,
            next(filter(None, map(release_of, items)), ""),
            key in own,
            meetings.get(key, ()),
        )

    return await together(held(key) for key in sorted(found))


async def look(client: Client, tenants: Sequence[Tenant]) -> list[Progress]:
    """How far tenants are now; those of one namespace are looked at together."""
    here: dict[str, list[Tenant]] = {}
    for tenant in tenants:
        here.setdefault(tenant.namespace, []).append(tenant)
    found: dict[str, Progress] = {}
    for namespace, those in here.items():
        labels = selector_of(those[0].name if len(those) == 1 else "")
        deployments, pods = await together(
            client.list(known(kind), namespace, labels=labels) for kind in ("Deployment", "Pod")
        )
        own = _mains(deployments.items)
        of = _by_key(pods.items)
        keys = [(namespace, tenant.name) for tenant in those]
        progress = await together(_progress(client, own.get(key), of.get(key, ())) for key in keys)
        found |= {tenant.key: one for tenant, one in zip(those, progress, strict=True)}
    return [found[tenant.key] for tenant in tenants]


async def wait_until_running(
    client: Client,
    tenants: Iterable[Tenant],
    deadline: Deadline,
    told: Callable[[Tenant, Progress], None],
) -> dict[str, Progress]:
    """Look until all tenants run or the deadline is over; `told` hears of every change of each.

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
                told(tenant, replace(progress, stage=Stage.NODE_READY, reason=f"node {nodes} is ready"))
            if before != progress:
                last[tenant.key] = progress
                told(tenant, progress)
            if progress.done:
                del waiting[tenant.key]
        if not waiting or not deadline.left_s:
            return last
        # A look asks for the events of each: many tenants are looked at less often.
        await asyncio.sleep(min(max(_LOOK_AGAIN_S, _EACH_S * len(waiting)), deadline.left_s))


async def _progress(client: Client, deployment: Object | None, pods: Iterable[Object]) -> Progress:
    pods = list(pods)
    waiting = [pod for pod in pods if is_living(pod) and not pod["spec"].get("nodeName")]
    if not waiting:
        return progress_of(Seen(deployment, pods))
    events: list[Event] = []
    for pod in waiting:
        fields = f"involvedObject.name={pod['metadata']['name']},involvedObject.kind=Pod"
        namespace = pod["metadata"]["namespace"]
        events += await _allowed(client, known("Event"), namespace, Event, fields=fields)
    selector = ",".join(
        f"{key}={value}" for key, value in (waiting[0]["spec"].get("nodeSelector") or {}).items()
    )
    nodes = await _allowed(client, known("Node"), None, Node, labels=selector)
    claims: list[Any] = []
    if any("nodeclaim/" in event.message for event in events):
        claims = await _allowed(client, _CLAIMS, None, None)
    return progress_of(Seen(deployment, pods, events, nodes, claims))


async def _allowed(
    client: Client,
    resource: Resource,
    namespace: str | None,
    kind: Any,
    *,
    labels: str = "",
    fields: str = "",
) -> list[Any]:
    """A list that only explains: who may not read it does without."""
    try:
        listing = await client.list(resource, namespace, kind=kind, labels=labels, fields=fields)
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        return []
    return list(listing.items)


def _key(item: Mapping[str, Any]) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["labels"][TENANT_LABEL]


def _by_key(items: Iterable[Object]) -> dict[tuple[str, str], list[Object]]:
    found: dict[tuple[str, str], list[Object]] = {}
    for item in items:
        found.setdefault(_key(item), []).append(item)
    return found


def _meetings(of: Mapping[tuple[str, str], Sequence[Object]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Whom tenants that are to have their nodes alone meet there, though it is to be alone, too."""
    on: dict[str, dict[tuple[str, str], None]] = {}
    for key, pods in of.items():
        for pod in pods:
            alone = (pod["metadata"].get("annotations") or {}).get(CAPACITY_ANNOTATION) == "exclusive"
            if alone and is_living(pod) and (node := pod["spec"].get("nodeName")):
                on.setdefault(node, {})[key] = None
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for node, keys in sorted(on.items()):
        for key in keys:
            others = tuple(f"{'/'.join(other)} on {node}" for other in sorted(keys) if other != key)
            found[key] = found.get(key, ()) + others
    return found


def _mains(deployments: Iterable[Object]) -> dict[tuple[str, str], Object]:
    """Tenants' own Deployments, which have their name; types may have further ones."""
    return {_key(item): item for item in deployments if item["metadata"]["name"] == _key(item)[1]}
