"""Where pods end up when nothing but the webhook knows of tiers: kube-scheduler is as it always was."""

from __future__ import annotations

import pytest

from support.admission import TIER, Tiered, exact
from support.manifests import stateful_set


def test_a_single_replica_goes_on_demand(corner: Tiered) -> None:
    corner.nodes()
    corner.run()
    corner.deploy("one", 1)

    assert corner.settled("one", 1) == {"on-demand": 1}


def test_thirty_percent_of_ten_is_exactly_three(corner: Tiered) -> None:
    corner.nodes()
    corner.run()
    corner.deploy("ten", 10)

    assert corner.settled("ten", 10) == {"on-demand": 3, "spot": 7}
