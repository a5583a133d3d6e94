"""A live cluster's objects as plain data: all that a copy of it in virtual time can make use of."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.client.api import Client
from fairlead.engine.ask.schedulers import LEASE_NAMESPACES
from fairlead.feed.cluster import first_answer
from fairlead.feed.cluster_read import ClusterRead, Progress, Query, read_cluster
from fairlead.feed.sources import sources
from fairlead.kube.resources import Resource, known
from fairlead.policy.names import POLICIES

# Beside what the engine reads: what controllers, admission and the question of who acts are about.
_MORE = ("DaemonSet", "LimitRange", "MutatingWebhookConfiguration", "PriorityClass", "ServiceAccount")


async def read_objects(
    client: Client,
    *,
    own: str = "",
    system_namespace: str = "fairlead-system",
    progress: Progress | None = None,
) -> ClusterRead:
    """Everything, in one round. `own` is the namespace that is read where all may not be."""
    served = await first_answer(client)
    return await read_cluster(client, _queries(served, system_namespace), own=own, progress=progress)


def _queries(served: Iterable[Resource], system_namespace: str) -> list[Query]:
    listed = list(served)
    offered = {(one.group, one.plural) for one in listed}
    more = [known(kind) for kind in _MORE]
    wanted = [*sources(listed), *(one for one in more if (one.group, one.plural) in offered)]
    if POLICIES in listed:
        wanted.append(POLICIES)
    found = [Query(resource) for resource in dict.fromkeys(wanted)]
    for namespace in dict.fromkeys((*LEASE_NAMESPACES, system_namespace)):
        found.append(Query(known("Lease"), namespace=namespace))
    return found
