"""The public `Cluster`: the engine's questions, asked of a live cluster as well as of files.

A live cluster is read once and then does not change: an answer is about the moment `read_at`. The subtle
thing is patience: a person waits, so the first answer of the API server has to come within seconds, while
lists of a large cluster may take as long as they take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK
from fairlead.client.discovery import served
from fairlead.engine.ask import cluster as asked
from fairlead.engine.ask.schedulers import LEASE_NAMESPACES
from fairlead.engine.core.events import Event, Seen
from fairlead.engine.core.kinds import KINDS
from fairlead.engine.gangs.membership import gang_of
from fairlead.engine.planning.settings import Settings
from fairlead.errors import ApiError, Gone, Unreachable
from fairlead.feed.cluster_read import Progress, Query, read_cluster
from fairlead.feed.scales import Scales
from fairlead.feed.sources import sources
from fairlead.kube.meta import Object
from fairlead.kube.resources import Resource, known
from fairlead.policy.names import POLICIES

FIRST_ANSWER_S = 4.0
"""How long the first request may take: a cluster that does not answer by then is called unreachable."""

More = Callable[[Iterable[Resource]], list[Query]]
"""What else to read, of the resources that are served."""


class Cluster(asked.Cluster):
    """A cluster at one instant: `from_objects` makes it of files' objects, `from_context` reads a live one.

    >>> pod = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "c"}]}}
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "10"}}}
    >>> Cluster.from_objects([node, pod]).explain("web").feasible
    ['n1']
    """

    @classmethod
    def from_context(
        cls,
        context: str = "",
        *,
        kubeconfig: str = "",
        system_namespace: str = "fairlead-system",
        settings: Settings | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """The live cluster that a context of the kubeconfig names, by default the current one, read once.

        Only reads. What may not be read is found in `unread`, and answers that rest on it say so. Raises
        Unreachable where no answer comes within seconds. `settings` are those of the scheduler to agree with.
        """

        async def read() -> Self:
            from fairlead.client.config import load
            from fairlead.client.connection import Connection

            target = load(kubeconfig or None, context=context or None)
            async with Connection(target, connect_timeout_s=FIRST_ANSWER_S) as connection:
                return await cls.read(
                    Client(connection),
                    own=target.namespace,
                    system_namespace=system_namespace,
                    settings=settings,
                    progress=progress,
                )

        # A thread of its own: notebooks run a loop already.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(read())).result()

    @classmethod
    async def read(
        cls,
        client: Client,
        *,
        more: More | None = None,
        own: str = "",
        system_namespace: str = "fairlead-system",
        settings: Settings | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """The same over a client's connection. `own` is the namespace that is read where all may not be."""
        settings = settings or Settings()
        resources = await first_answer(client)
        queries = [*queries_of(resources, system_namespace), *(more(resources) if more is not None else ())]
        for paged in (True, False):
            cluster = cls.begin(settings, read_at=WALL_CLOCK.wall().timestamp())
            try:
                read = await read_cluster(
                    client, queries, own=own, progress=progress, take=cluster.take, paged=paged
                )
                break
            except Gone:
                if not paged:
                    raise
        for kind, owner in await _custom_owners(client, cluster, settings):
            cluster.take(kind, owner)
        cluster.complete(read.plain, read.spoiled, read.unread)
        return cluster


def queries_of(served_resources: Iterable[Resource], system_namespace: str) -> list[Query]:
    """What every question is answered from: all that the engine reads, policies, and who leads."""
    listed = list(served_resources)
    found = [Query(resource, KINDS[resource.kind]) for resource in sources(listed)]
    if POLICIES in listed:
        found.append(Query(POLICIES))
    for namespace in dict.fromkeys((*LEASE_NAMESPACES, system_namespace)):
        found.append(Query(known("Lease"), namespace=namespace))
    return found


async def first_answer(client: Client) -> tuple[Resource, ...]:
    """What is served; whether there is anybody to ask is found out without patience."""
    url = client.connection.target.server.url
    try:
        async with asyncio.timeout(FIRST_ANSWER_S):
            await client.connection.request("GET", "/version")
    except TimeoutError:
        raise Unreachable(f"{url}: no answer within {FIRST_ANSWER_S:.0f} s") from None
    except ApiError as error:
        if error.code not in (403, 404):
            raise
    return await served(client)


async def _custom_owners(
    client: Client, cluster: asked.Cluster, settings: Settings
) -> list[tuple[str, Object]]:
    """The scales that tell how large gangs of custom owners are to become, as the scheduler reads them."""
    members: list[Event] = [
        Seen("Pod", pod)
        for pod in cluster.pods.values()
        if not pod.spec.node_name and gang_of(pod.metadata, pod.spec)
    ]
    if not members:
        return []
    scales = Scales(client, lambda pod: pod.spec.scheduler_name in settings.scheduler_names, WALL_CLOCK)
    return [(one.kind, one.object) for one in await scales.before(members) if isinstance(one, Seen)]
