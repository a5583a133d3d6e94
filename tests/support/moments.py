"""What becomes of pods, moment by moment: a watch sees what looking now and then misses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from support.cluster import Cluster
from support.manifests import pod

__all__ = ["recording"]

Manifest = dict[str, Any]


@contextmanager
def recording(cluster: Cluster, *apps: str) -> Iterator[Callable[[], Iterator[list[Manifest]]]]:
    """Record from here on what becomes of these workloads' pods; call it to be told, moment by moment.

    It is asked once: a pod of its own marks the end of what is told.
    """
    before = cluster.list("Pod", labelSelector=f"app in ({','.join(apps)})")
    start = before["metadata"]["resourceVersion"]
    with cluster.wire.watch(cluster.path("Pod"), resourceVersion=start) as watch:

        def moments() -> Iterator[list[Manifest]]:
            now = {item["metadata"]["name"]: item for item in before["items"]}
            end = cluster.create(pod(cluster.unique(f"end-{apps[0]}")))["metadata"]["uid"]
            while (event := watch.next())["object"]["metadata"]["uid"] != end:
                item = event["object"]
                if item["metadata"].get("labels", {}).get("app") in apps:
                    now[item["metadata"]["name"]] = item
                    if event["type"] == "DELETED":
                        del now[item["metadata"]["name"]]
                    yield list(now.values())

        yield moments
