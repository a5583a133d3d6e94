"""A live cluster's objects as plain data: all that a copy of it in virtual time can make use of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fairlead.client.api import Client
from fairlead.feed.cluster import first_answer, queries_of
from fairlead.feed.cluster_read import ClusterRead, Progress, Query, TakePage, read_cluster
from fairlead.kube.resources import Resource, known
from fairlead.policy.names import LEDGERS

# Beside what the engine reads: what controllers, admission and the question of who acts are about.
_MORE = ("DaemonSet", "LimitRange", "MutatingWebhookConfiguration", "PriorityClass", "ServiceAccount")
_NODE_POOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)


async def read_objects(
    client: Client,
    *,
    own: str = "",
    system_namespace: str = "fairlead-system",
    progress: Progress | None = None,
    take_page: TakePage | None = None,
    paged: bool = True,
) -> ClusterRead:
    """Everything, in one round. `own` is the namespace that is read where all may not be.

    See `read_cluster` for the rest. With `take_page` it may raise Gone: begin again, not `paged`.
    """
    queries = _queries(await first_answer(client), system_namespace)
    return await read_cluster(client, queries, own=own, progress=progress, take_page=take_page, paged=paged)


def _queries(served: Iterable[Resource], system_namespace: str) -> list[Query]:
    """What every question is answered from, and more; all as plain data. Leases of others are not copied."""
    listed = list(served)
    offered = {(one.group, one.plural) for one in listed}
    more = (*(known(kind) for kind in _MORE), LEDGERS, _NODE_POOLS)
    asked = [
        replace(query, kind=None)
        for query in queries_of(listed, system_namespace)
        if query.namespace in ("", system_namespace)
    ]
    return [*asked, *(Query(one) for one in more if (one.group, one.plural) in offered)]
