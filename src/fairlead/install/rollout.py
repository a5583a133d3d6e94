"""Whether what was applied works: definitions established, Deployments rolled out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.errors import Overdue
from fairlead.install.installed import Installed
from fairlead.install.manifests import Obj
from fairlead.install.order import ref_of

OnWait = Callable[[str], None]
"""Receives what is waited for, each time that it changes."""

_LOOK_AGAIN_S = 0.25


async def until(
    look: Callable[[], Awaitable[str]],
    on_wait: OnWait,
    *,
    timeout_s: float,
    clock: Clock = WALL_CLOCK,
) -> None:
    """Look again until there is nothing to wait for; Overdue with the last reason."""
    end, last = clock.now() + timeout_s, ""
    while reason := await look():
        if reason != last:
            on_wait(reason)
            last = reason
        if clock.now() >= end:
            raise Overdue(f"{reason}, after {timeout_s:g}s; fairlead status and the events there may say why")
        await asyncio.sleep(_LOOK_AGAIN_S)


async def pending(installed: Installed, objects: Sequence[Obj]) -> str:
    """The first of the objects that is not there or not ready yet, and why; "" when all are."""
    for item in objects:
        live = await installed.live(item)
        reason = "it is not there" if live is None else unready(live | {"kind": item["kind"]})
        if reason:
            return f"{ref_of(item)}: {reason}"
    return ""


def unready(item: Obj) -> str:
    """Why an object does not work yet.

    >>> unready({"kind": "Service"})
    ''
    """
    status = item.get("status") or {}
    if item["kind"] == "CustomResourceDefinition":
        said = {one["type"]: one["status"] for one in status.get("conditions") or ()}
        return "" if said.get("Established") == "True" else "it is not established"
    if item["kind"] != "Deployment":
        return ""
    if status.get("observedGeneration", 0) < item["metadata"].get("generation", 0):
        return "its controller has not seen it yet"
    wanted = item["spec"].get("replicas", 1)
    # Where all may be unavailable during a rollout, one replica answers and the others are not ready.
    rolling = (item["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    needed = min(wanted, 1) if rolling.get("maxUnavailable") == "100%" else wanted
    updated = status.get("updatedReplicas", 0)
    if updated < wanted or status.get("replicas", 0) > updated:
        return f"{updated} of {wanted} pods are of the new revision"
    available = status.get("availableReplicas", 0)
    return "" if available >= needed else f"{available} of {needed} pods are available"
