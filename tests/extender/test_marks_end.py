"""When the extender takes the mark of a tier away: both clusters, no scheduler needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from fairlead.feed.marks_map import MARKS_MAP
from fairlead.rig.processes import free_ports
from support.cluster import Cluster
from support.extender import Extended, extended
from support.manifests import pod as manifest


@pytest.fixture
def asked(cluster: Cluster) -> Iterator[Extended]:
    """An extender that nobody but the test calls."""
    (port,) = free_ports(1)
    with extended(cluster, port) as own:
        yield own


def pod(corner: Extended, name: str) -> dict[str, Any]:
    """A pod that the cluster has, and that no scheduler takes."""
    return corner.cluster.create(manifest(name, spec={"schedulerName": "nobody"}))


def mark_spot(corner: Extended, probe: str) -> None:
    """Write that spot's cool-down is over, and that one pod tries it. No node is newer than the mark."""
    times = dict.fromkeys(("since", "until", "probeSince"), datetime.now(UTC).isoformat())
    data = {"web": json.dumps({"spot": times | {"probe": probe}})}
    metadata = {"name": MARKS_MAP, "namespace": corner.system}
    corner.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def test_a_mark_ends_when_another_pod_than_the_one_that_tries_is_bound_after_the_cool_down(
    asked: Extended,
) -> None:
    asked.nodes()
    tries = pod(asked, "tries")["metadata"]["uid"]
    mark_spot(asked, tries)
    asked.run(asked.policy(groupBy="policy", fallback={"after": "1h"}))
    pod(asked, "lands")
    target = {"kind": "Node", "name": asked.of_tier("spot")[0]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "lands"}, "target": target}
    asked.cluster.wire.request("POST", asked.cluster.path("Pod", "lands", "binding"), binding).ok()

    (said,) = asked.replicas[0].wait_for("marks_written")
    assert said["marks"] == {}
