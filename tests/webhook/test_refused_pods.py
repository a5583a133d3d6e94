"""Pods that are refused after they were given a slot, by a quota or by another webhook."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission import SLOT, Tiered
from support.webhook import allow, webhook

REFUSED = {"allowed": False, "status": {"code": 403, "message": "not yet"}}


@pytest.mark.slow
def test_slots_of_refused_pods_are_given_to_those_made_in_their_stead(corner: Tiered) -> None:
    refused: list[str] = []

    def refuse_three(request: dict[str, Any]) -> dict[str, Any]:
        if request["kind"]["kind"] != "Pod" or request["operation"] != "CREATE" or len(refused) == 3:
            return allow()
        refused.append(request["object"]["metadata"]["annotations"][SLOT])
        return REFUSED

    corner.nodes()
    corner.run(corner.policy("web", corner.tier("spot"), corner.tier("on-demand", min=3)))
    with webhook(corner.cluster, refuse_three) as hook:
        hook.register(corner.cluster, resources=["pods"])  # by name it comes after ours
        hook.wait_called(corner.cluster)
        corner.deploy("web", 6)
        split = corner.settled("web", 6)
        slots = sorted(int(one["metadata"]["annotations"][SLOT]) for one in corner.pods("web"))

    assert refused == ["1", "2", "3"], "those of the min"
    assert split == {"on-demand": 3, "spot": 3}
    assert slots == [1, 2, 3, 4, 5, 6]
