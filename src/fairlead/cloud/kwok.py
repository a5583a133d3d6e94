"""What Cluster Autoscaler's KWOK provider takes: its configuration and a template node for each group.

The label that tells the groups apart is named twice, in the configuration and on the templates; where the
two differ it never scales up, and does not say so. A template has no ``kubernetes.io/hostname``: every node
made from it would have the same, and anti-affinity on it would let one node carry a pod and no other. Until
KWOK has given a node that label, a taint keeps pods off: else two that must not meet are put on it. Its key
has the prefix that the autoscaler leaves out of its simulation, or no group would ever grow from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from fairlead.nodegroups import GROUP_LABEL, NodeGroup, node_of

# Both names are the provider's own: it looks for them in the namespace where it runs.
_CONFIG = "kwok-provider-config"
_TEMPLATES = "kwok-provider-templates"

_BOUNDS = "cluster-autoscaler.kwok.nodegroup"
_KWOK = "kwok.x-k8s.io/node"
_UNREGISTERED = "startup-taint.cluster-autoscaler.kubernetes.io/fairlead-unregistered"


def config_maps(groups: Sequence[NodeGroup], namespace: str) -> tuple[dict[str, Any], ...]:
    """The provider's two ConfigMaps, for the namespace of the autoscaler.

    >>> from fairlead.nodegroups import read_groups
    >>> [config, templates] = config_maps(read_groups([{"name": "large", "max": 3}]), "kube-system")
    >>> yaml.safe_load(config["data"]["config"])["nodegroups"]
    {'fromNodeLabelKey': 'fairlead.dev/node-group'}
    >>> [node] = yaml.safe_load(templates["data"]["templates"])["items"]
    >>> node["metadata"]["labels"]["fairlead.dev/node-group"]
    'large'
    >>> [taint["key"] for taint in node["spec"]["taints"]]
    ['startup-taint.cluster-autoscaler.kubernetes.io/fairlead-unregistered']
    """
    config = {
        "apiVersion": "v1alpha1",
        "readNodesFrom": "configmap",
        "nodegroups": {"fromNodeLabelKey": GROUP_LABEL},
        # A taint of its own on every node would keep off all pods that do not know it.
        "nodes": {"skipTaint": True},
        "configmap": {"name": _TEMPLATES},
    }
    templates = {"apiVersion": "v1", "kind": "List", "items": [_template(group) for group in groups]}
    return (
        _config_map(_CONFIG, namespace, "config", config),
        _config_map(_TEMPLATES, namespace, "templates", templates),
    )


def _template(group: NodeGroup) -> dict[str, Any]:
    node = node_of(group, group.name)
    del node["spec"]["providerID"], node["metadata"]["labels"]["kubernetes.io/hostname"]
    taint = {"key": _UNREGISTERED, "effect": "NoSchedule"}
    node["spec"]["taints"] = [*node["spec"].get("taints", ()), taint]
    node["metadata"]["annotations"] = {
        _KWOK: "fake",
        f"{_BOUNDS}/min-count": str(group.min),
        f"{_BOUNDS}/max-count": str(group.max),
        f"{_BOUNDS}/desired-count": str(max(group.min, group.desired)),
    }
    return node


def _config_map(name: str, namespace: str, key: str, value: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {key: yaml.safe_dump(value, sort_keys=False)},
    }
