"""What a DaemonSet puts on a node: whether it runs there, and its pod, also on a node that is not there yet.

The DaemonSet comes as plain data, because its controller posts what it makes as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.engine.snapshot.specs import required_nodes
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod, PodSpec
from fairlead.kube.template import pod_from_template
from fairlead.kube.tolerations import tolerated
from fairlead.kube.workloads import REVISION_LABEL

# What daemons put up with, whatever their template says.
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


def daemon_pod(owner: Mapping[str, Any], node: Node) -> Pod | None:
    """The pod that the DaemonSet would put on a node, as if it were there; None when it would not."""
    if not may_run(owner, node):
        return None
    made = pod_on(owner, "", node.metadata.name)
    name = f"{owner['metadata']['name']}-on-{node.metadata.name}"
    return convert({**made, "metadata": {**made["metadata"], "name": name}}, Pod)


def may_run(owner: Mapping[str, Any], node: Node, *, only: str = "") -> bool:
    """Whether a DaemonSet runs a pod on a node; `only`: the one effect of taints that counts.

    A new pod needs all taints tolerated; one that is there may stay if only NoExecute ones are.
    """
    spec = owner["spec"]["template"]["spec"]
    wishes = {
        "nodeSelector": spec.get("nodeSelector") or {},
        "affinity": spec.get("affinity"),
        "tolerations": [*(spec.get("tolerations") or ()), *_tolerations(spec)],
    }
    typed = convert(wishes, PodSpec)
    required = required_nodes(typed)
    if required is not None and not required.admits(node):
        return False
    hard = [t for t in node.spec.taints if t.effect == only or (not only and t.effect != "PreferNoSchedule")]
    return all(tolerated(taint, typed.tolerations) for taint in hard)


def pod_on(owner: Mapping[str, Any], revision: str, node: str) -> dict[str, Any]:
    """The pod that a DaemonSet posts for a node: pinned by node affinity, for the scheduler to place."""
    pod = pod_from_template(owner["spec"]["template"], owner)
    pod["metadata"]["labels"][REVISION_LABEL] = revision
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pin]}}
    pod["spec"] = {
        **spec,
        "affinity": {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), **required}},
        "tolerations": [*(spec.get("tolerations") or ()), *_tolerations(spec)],
    }
    return pod


def _tolerations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    wanted = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    if spec.get("hostNetwork"):
        key = "node.kubernetes.io/network-unavailable"
        wanted.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    return wanted
