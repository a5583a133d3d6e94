"""The two clusters that stories are told to, with nodes of the same names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.rig.nodes import is_ready, node_object
from kubectl.teller import Teller
from support.cluster import Cluster, Host
from support.rig import programs

NODES = ("story-0", "story-1")


@pytest.fixture(scope="module")
def tellers(
    embedded_host: Host, real_host: Host, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Teller]]:
    """One for each cluster, the embedded one first."""
    (kubectl,) = programs("kubectl")
    clusters = [Cluster(embedded_host), Cluster(real_host)]
    for cluster in clusters:
        for name in NODES:
            cluster.create(node_object(name))
        cluster.wait(lambda on=cluster: _all_ready(on), "the story's nodes to be Ready")
    cache: Path = tmp_path_factory.mktemp("kubectl-cache")
    tellers = [Teller(one.name, kubectl, one.kubeconfig, cache / one.name, NODES) for one in clusters]
    yield tellers
    for cluster, teller in zip(clusters, tellers, strict=True):
        teller.run("delete namespace --wait=false -l fairlead.dev/story")
        cluster.close()


def _all_ready(cluster: Cluster) -> bool:
    return all(is_ready(cluster.get("Node", name), untainted=True) for name in NODES)
