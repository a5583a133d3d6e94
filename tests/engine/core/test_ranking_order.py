"""The configured ranking: pods spread over nodes, or nodes are filled up."""

from __future__ import annotations

from typing import Literal

import pytest

from fairlead.engine.planning.settings import Settings
from support.cluster_of import running
from support.units import node, pod


@pytest.mark.parametrize(("ranking", "used"), [("spread", 4), ("pack", 1)])
def test_small_pods_go_to_as_many_nodes_as_the_ranking_likes(
    ranking: Literal["spread", "pack"], used: int
) -> None:
    nodes = [node(f"n{number}", 4) for number in range(4)]
    four = [pod(f"p{number}", cpu="500m") for number in range(4)]
    world = running(Settings(ranking=ranking), *nodes, *four)
    homes = {one.spec.node_name for one in world.pods.values()}
    assert "" not in homes
    assert len(homes) == used


def test_a_gang_is_still_placed_whole_where_nodes_are_filled_up() -> None:
    """A gang that does not fit packed is tried spread: ranking never costs a placement."""
    nodes = [node(f"n{number}", 2) for number in range(3)]
    members = [pod(f"g{number}", cpu="1500m", gang="train", minimum=3) for number in range(3)]
    world = running(Settings(ranking="pack"), *nodes, *members)
    assert {one.spec.node_name for one in world.pods.values()} == {"n0", "n1", "n2"}
