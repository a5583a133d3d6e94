"""Create what belongs in our own namespace, and that along with it if need be.

In a cluster the namespace is ours and exists; outside of one it may not exist yet. Looking first would need
a right that is good for nothing else, so only a refusal makes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from fairlead.client.api import Client
from fairlead.errors import Conflict, NotFound
from fairlead.kube.resources import known

T = TypeVar("T")


async def in_namespace(client: Client, namespace: str, create: Callable[[], Awaitable[T]]) -> T:
    """What `create` returns; called again, in a new namespace, when it found none.

    Cancelled between the two, the namespace stays: the next call uses it.
    """
    try:
        return await create()
    except NotFound:
        pass  # a create is refused so only for its namespace
    with suppress(Conflict):  # another replica was faster
        await client.create(known("Namespace"), {"metadata": {"name": namespace}})
    return await create()
