"""What differs between the supported versions of Kubernetes, as far as a test has to know, with the reason.

All tests run on the default version. Those of conformance and the scenarios run on the oldest and the newest,
too (`make verify`), and what they then expect in another way is named here and nowhere else.
"""

from __future__ import annotations

from fairlead.rig import build

MINOR = build.version()
"""The version that the real control plane is of."""

_POD_GROUPS = {"1.36": "scheduling.k8s.io/v1alpha2", "1.37": "scheduling.k8s.io/v1beta1"}
POD_GROUPS = _POD_GROUPS.get(MINOR)
"""Where Kubernetes' own PodGroups are served: 1.35 has none, its pods would name a Workload instead."""

POD_GROUP_WARNING = {
    "1.37": "Warning: scheduling.k8s.io/v1beta1 PodGroup is deprecated in v1.40+, unavailable in v1.43+\n"
}.get(MINOR, "")
"""What kubectl prints for each PodGroup: a beta API says when it ends, an alpha API does not."""


def stateful_set_rolling_update(kubernetes: str) -> dict[str, int]:
    """The default of a StatefulSet: `maxUnavailable` is behind a gate that 1.37 turns on."""
    return {"partition": 0} | ({"maxUnavailable": 1} if kubernetes == "1.37" else {})


def before_preemption(kubernetes: str) -> str:
    """What the plugin for dynamic resources says of a pod without claims: since 1.37 it only logs it."""
    return "" if kubernetes == "1.37" else "no new claims to deallocate, "


def as_served(manifest: str) -> str:
    """A manifest written for the default version, with PodGroups of the version that is served."""
    return manifest.replace(_POD_GROUPS[build.DEFAULT], POD_GROUPS or "")


def pod_groups_on() -> dict[str, dict[str, bool]]:
    """The arguments of a control plane that serves Kubernetes' own PodGroups, where the version has them."""
    if POD_GROUPS is None:
        return {"feature_gates": {}, "runtime_config": {}}
    return {"feature_gates": {"GenericWorkload": True}, "runtime_config": {POD_GROUPS: True}}
