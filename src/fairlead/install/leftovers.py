"""What remains to be done after a removal: pods that wait for a component, callers that still call it."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from fairlead.install.installed import Installed
from fairlead.install.manifests import DEPLOYMENTS, Obj
from fairlead.kube.resources import known
from fairlead.policy.names import TIER_ANNOTATION

_PODS = known("Pod")
_NAMED = 10
_SCHEDULING = ("scheduler", "serve", "burst")
_CALLED = ("webhook", "serve")


def components_of(objects: Sequence[Obj]) -> list[str]:
    """The components whose Deployments are among the objects."""
    names = {item["metadata"]["name"] for item in objects if item["kind"] == "Deployment"}
    return [component for component, deployment in DEPLOYMENTS.items() if deployment in names]


def scheduler_names(objects: Sequence[Obj]) -> tuple[str, ...]:
    """The names of schedulers that the objects' components answer to."""
    if not set(_SCHEDULING) & set(components_of(objects)):
        return ()
    for item in objects:
        if item["kind"] == "ConfigMap" and item["metadata"]["name"] == "fairlead":
            (text,) = item["data"].values()
            return tuple(yaml.safe_load(text).get("schedulerNames") or ("fairlead",))
    return ("fairlead",)


async def leftovers(installed: Installed, objects: Sequence[Obj]) -> list[str]:
    """What remains to be done once the objects are gone, a line each."""
    lines = []
    for name in scheduler_names(objects):
        if name == "default-scheduler":
            lines.append("no scheduler places pods of default-scheduler now: start kube-scheduler")
            continue
        listing = await installed.client.list(_PODS, fields=f"spec.schedulerName={name}")
        waiting = [item for item in listing.items if not item["spec"].get("nodeName")]
        if listing.items:
            lines.append(
                f"{len(listing.items)} pods ask for schedulerName {name}, {len(waiting)} of them wait for "
                f"a node{_names(waiting)}: take schedulerName out of their workloads, and kube-scheduler "
                "places the pods that replace them"
            )
    components = components_of(objects)
    if set(_CALLED) & set(components):
        listing = await installed.client.list(_PODS, fields="spec.schedulerName=default-scheduler")
        waiting = [
            item
            for item in listing.items
            if not item["spec"].get("nodeName")
            and TIER_ANNOTATION in (item["metadata"].get("annotations") or {})
        ]
        if waiting:
            lines.append(
                f"{len(waiting)} pods wait for nodes of the tier that they were given{_names(waiting)}: "
                "delete those that a controller recreates, and the new ones may go anywhere"
            )
    if "extender" in components:
        lines.append(
            "kube-scheduler still calls the extender: take it out of the KubeSchedulerConfiguration; until "
            "then no pod is scheduled, unless the extender is ignorable there"
        )
    return lines


def _names(pods: Sequence[Obj]) -> str:
    if not pods:
        return ""
    names = sorted(f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in pods)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f" ({', '.join(names[:_NAMED])}{more})"
