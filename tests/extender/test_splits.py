"""Where pods end up when kube-scheduler asks the extender."""

from __future__ import annotations

import pytest

from support.admission import exact
from support.extender import Extended
from support.manifests import stateful_set

pytestmark = pytest.mark.real


def test_a_single_replica_goes_on_demand_and_ten_are_split_three_to_seven(corner: Extended) -> None:
    corner.nodes()
    corner.run()
    corner.deploy("one", 1)
    corner.deploy("ten", 10)

    assert corner.settled("one", 1) == {"on-demand": 1}
    assert corner.settled("ten", 10) == {"on-demand": 3, "spot": 7}
