"""What tags on an Auto Scaling group mean to Cluster Autoscaler, and which ones a group needs.

It reads only tags on the Auto Scaling group itself: EKS does not copy a node group's tags there. What it
cannot make sense of it passes over in silence; here each such tag is named, with what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.kube.quantity import QuantityError, nano
from fairlead.kube.tolerations import Taint
from fairlead.nodegroups.catalog import GPU, instance_type
from fairlead.nodegroups.group import EFFECTS, NodeGroup

_AUTOSCALER = "k8s.io/cluster-autoscaler/"
ENABLED = _AUTOSCALER + "enabled"
PREFIX = _AUTOSCALER + "node-template/"
LABEL = PREFIX + "label/"
TAINT = PREFIX + "taint/"
RESOURCES = PREFIX + "resources/"

# EKS puts these on the Auto Scaling groups of managed node groups; they are how the autoscaler knows one.
MANAGED_NAME = "eks:nodegroup-name"
MANAGED_CLUSTER = "eks:cluster-name"
# Followed by a cluster's name: instances that are to join it must carry it, so their groups do.
OWNED = "kubernetes.io/cluster/"

_NODE_EFFECTS = {eks: node for node, eks in EFFECTS.items()}

# It looks for this anywhere in the value, then takes all after the first colon for the effect.
_HAS_EFFECT = re.compile(r":(?:NoSchedule|NoExecute|PreferNoSchedule)")
# What it knows of any instance type by itself (or, with pods, believes to).
_OF_THE_TYPE = ("cpu", "memory", "pods", GPU)
_STRENGTH = ("PreferNoSchedule", "NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Said:
    """What tags say of the node to come; `wrong` has the tags that say nothing, with the reason."""

    labels: dict[str, str]
    taints: tuple[Taint, ...]
    resources: dict[str, str]
    wrong: dict[str, str]


def demanded_tags(group: NodeGroup, cluster: str) -> dict[str, str]:
    """The tags that the group's Auto Scaling group must carry to be found and brought up from zero.

    >>> from fairlead.nodegroups.group import read_groups
    >>> [group] = read_groups([{"name": "large", "labels": {"size": "large"},
    ...     "instanceTypes": [{"name": "m5.large"}],
    ...     "taints": [{"key": "size", "value": "large", "effect": "NoSchedule"}]}])
    >>> for key, value in demanded_tags(group, "prod").items():
    ...     print(key, value)
    k8s.io/cluster-autoscaler/enabled true
    k8s.io/cluster-autoscaler/prod owned
    k8s.io/cluster-autoscaler/node-template/label/size large
    k8s.io/cluster-autoscaler/node-template/taint/size large:NoSchedule
    """
    # A key has one tag: of two taints on it the one that keeps more pods away must be the one that is said.
    taints = sorted(group.taints, key=lambda taint: _STRENGTH.index(taint.effect))
    return {
        **discovery_tags(cluster),
        **{LABEL + key: value for key, value in group.labels.items()},
        **{TAINT + each.key: f"{each.value}:{each.effect}" for each in taints},
        **{RESOURCES + name: amount for name, amount in _beyond_the_type(group).items()},
    }


def discovery_tags(cluster: str) -> dict[str, str]:
    """The tags by which ``--node-group-auto-discovery`` finds a cluster's groups; only their keys count.

    Where the cluster's name is unknown, only the one that has none in it.
    """
    return {ENABLED: "true", **({_AUTOSCALER + cluster: "owned"} if cluster else {})}


def cluster_tags(cluster: str) -> tuple[str, ...]:
    """The tags any of which says that an Auto Scaling group is a cluster's; only their keys count."""
    return (OWNED + cluster, _AUTOSCALER + cluster) if cluster else ()


def node_effect(spelt: str) -> str:
    """An effect as nodes, pods and tags spell it; what EKS does not know either is left as it is."""
    return _NODE_EFFECTS.get(spelt, spelt)


def eks_effect(spelt: str) -> str:
    """An effect as the EKS API spells it."""
    return EFFECTS.get(spelt, spelt)


def said_by(tags: Mapping[str, str]) -> Said:
    """What Cluster Autoscaler takes from an Auto Scaling group's tags.

    >>> list(said_by({TAINT + "size": "large:NO_SCHEDULE"}).wrong.values())
    ["the effect is spelt 'NO_SCHEDULE' where tags need NoSchedule"]
    """
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    resources: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for tag, value in sorted(tags.items()):
        if tag.startswith(LABEL):
            if tag != LABEL:
                labels[tag.removeprefix(LABEL)] = value
            else:
                wrong[tag] = "names no label"
        elif tag.startswith("eks:"):
            labels[tag.removeprefix("eks:")] = value
        elif tag.startswith(TAINT):
            taint, problem = _taint(tag.removeprefix(TAINT), value)
            if taint is not None:
                taints.append(taint)
            if problem:
                wrong[tag] = problem
        elif tag.startswith(RESOURCES):
            try:
                nano(value)
            except QuantityError:
                wrong[tag] = f"{value!r} is not a quantity"
            else:
                resources[tag.removeprefix(RESOURCES)] = value
        elif _nearly(tag):
            wrong[tag] = f"is none of {LABEL}KEY, {TAINT}KEY and {RESOURCES}NAME"
    return Said(labels, tuple(taints), resources, wrong)


def _beyond_the_type(group: NodeGroup) -> dict[str, str]:
    # The autoscaler knows the size of every EC2 type; what is declared for a nameless one, only we do.
    kind = group.instance_type
    known = instance_type(kind.name)
    return {
        name: str(amount)
        for name, amount in {**kind.capacity, **kind.allocatable}.items()
        if not kind.name
        or name not in _OF_THE_TYPE
        or (known is not None and str(known.capacity.get(name)) != str(amount))
    }


def _taint(key: str, said: str) -> tuple[Taint | None, str]:
    if not key:
        return None, "names no taint"
    value, colon, effect = said.partition(":")
    if _HAS_EFFECT.search(said):
        taint = Taint(key, effect=effect, value=value)
        # Such an effect is on the template, yet keeps no pod away.
        return taint, "" if effect in EFFECTS else f"the effect is spelt {effect!r}"
    if not colon:
        return None, f"{said!r} has no effect: write value:Effect"
    meant = _meant(effect)
    return None, f"the effect is spelt {effect!r}" + (f" where tags need {meant}" if meant else "")


def _meant(effect: str) -> str:
    plain = re.sub(r"[^a-z]", "", effect.lower())
    return next((right for right in EFFECTS if right.lower() == plain), "")


def _nearly(tag: str) -> bool:
    # Other tags under this prefix have other meanings (autoscaling-options/…, csi-driver).
    rest = tag.removeprefix(PREFIX) if tag.startswith(PREFIX) else ""
    return rest.partition("/")[0].lower() in ("labels", "taints", "resource", "label", "taint")
