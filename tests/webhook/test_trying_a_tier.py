"""Who tries a tier that was left alone: pods that wait for it, and nobody else."""

from __future__ import annotations

import json
from typing import Any

from fairlead.feed.marks_map import MARKS_MAP
from support.admission import Tiered
from support.manifests import config_map, job, owned_by, pod, replica_set

COOLED = {"spot": {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:01:00Z"}}


def marks_of(corner: Tiered) -> dict[str, Any]:
    """The marks of the test's policy as the API has them."""
    path = corner.cluster.path("ConfigMap", MARKS_MAP, namespace=corner.system)
    found: dict[str, Any] = json.loads(corner.cluster.wire.request("GET", path).ok()["data"]["web"])
    return found


def test_a_pod_of_a_job_does_not_try_a_tier_and_a_pod_of_a_replica_set_does(corner: Tiered) -> None:
    data = {"web": json.dumps(COOLED)}
    corner.cluster.create(config_map(MARKS_MAP, data=data, namespace=corner.system))
    corner.run(corner.policy("web", corner.tier("spot"), corner.tier("on-demand")))

    batch = corner.cluster.create(job("batch", spec={"suspend": True}))
    corner.cluster.create(pod("of-job", ownerReferences=[owned_by(batch, controller=True)]))
    assert marks_of(corner) == COOLED
    web = corner.cluster.create(replica_set("web", 0))
    corner.cluster.create(pod("of-set", ownerReferences=[owned_by(web, controller=True)]))
    assert marks_of(corner)["spot"]["probe"]
