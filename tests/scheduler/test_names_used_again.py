"""Writes about a pod whose name another has by now: they reach nobody, and nobody is alarmed."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from fairlead.engine.core.actions import BindPod, HoldPod
from fairlead.engine.core.events import BindFailed, Gone
from fairlead.kube.tolerations import Toleration
from support.scheduler import Shop, aside
from support.units import pod, typed
from support.writers import Writing, writing

FORMER = "00000000-0000-4000-8000-000000000000"
"""The UID of the pod that had the name before."""


async def bound(ours: Shop, uid: str, *tolerations: Toleration) -> Writing:
    """What became of a bind of pod a, as whom `uid` names."""
    (node,) = await aside(ours.cluster.add_nodes, 1)
    made = await aside(ours.add, "a")
    async with writing(ours) as found:
        bind = BindPod(
            f"{ours.cluster.namespace}/a", uid or made["metadata"]["uid"], node, "a", {}, tolerations
        )
        found.binder.put(bind, 0.0)
        await found.binder.idle()
    return found


async def test_a_pod_that_needs_tolerations_and_is_another_by_now_is_gone(ours: Shop):
    found = await bound(ours, FORMER, Toleration("spot", "Exists"))
    assert found.told == [Gone("Pod", ours.cluster.namespace, "a", FORMER)]
    assert not found.bound
    assert not (await aside(ours.cluster.get, "Pod", "a"))["spec"].get("nodeName")


async def test_tolerations_that_the_api_server_refuses_end_the_bind_and_say_why(ours: Shop):
    found = await bound(ours, "", Toleration("spot", "Sometimes"))
    (failed,) = found.told
    assert isinstance(failed, BindFailed)
    assert "operator" in failed.message


@pytest.mark.parametrize("replaced", [True, False], ids=["another has its name", "nobody has its name"])
async def test_why_a_pod_waits_is_not_said_of_another_nor_complained_about(ours: Shop, replaced: bool):
    if replaced:
        await aside(ours.add, "a")
    former: dict[str, Any] = pod("a", namespace=ours.cluster.namespace)
    former["metadata"]["uid"] = FORMER
    with capture_logs() as said:
        async with writing(ours) as found:
            key = f"{ours.cluster.namespace}/a"
            found.statuses.hold(HoldPod(key, FORMER, "0/1 nodes are available", True, key, typed(former)))
            await found.statuses.idle()
    assert found.statuses.written == 0
    assert not [line for line in said if line["log_level"] == "warning"]
    if replaced:
        assert not (await aside(ours.cluster.get, "Pod", "a"))["status"].get("conditions")
