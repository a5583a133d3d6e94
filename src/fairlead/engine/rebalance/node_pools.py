"""Karpenter's NodePools, as far as it matters whether one could bring nodes to a tier."""

from __future__ import annotations

from fairlead.kube.meta import Object, ObjectMeta
from fairlead.kube.selectors import Requirement
from fairlead.policy.rule.model import Tier

_CAPACITY_TYPE = "karpenter.sh/capacity-type"
_POOL = "karpenter.sh/nodepool"


class _NodeSpec(Object, frozen=True, gc=False):
    requirements: tuple[Requirement, ...] = ()


class _Template(Object, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: _NodeSpec = _NodeSpec()


class _Spec(Object, frozen=True, gc=False):
    template: _Template = _Template()


class NodePool(Object, frozen=True, gc=False):
    """What the nodes of a pool will be labelled with."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


def brings(pool: NodePool, tier: Tier) -> bool:
    """Whether nodes of the pool would carry the tier's labels; unknown for a tier given by node names.

    >>> from fairlead.kube.decode import convert
    >>> pool = convert({"spec": {"template": {"metadata": {"labels": {"capacity": "spot"}}}}}, NodePool)
    >>> brings(pool, Tier("spot", nodes={"capacity": "spot"})), brings(pool, Tier("other", nodes={"a": "b"}))
    (True, False)
    """
    if not tier.nodes:
        return tier.rest
    template = pool.spec.template
    # Karpenter's defaults: what a pool is called, and that it buys on demand unless told otherwise.
    labels = {_POOL: pool.metadata.name, _CAPACITY_TYPE: "on-demand", **template.metadata.labels}
    for key, value in tier.nodes.items():
        said = [one for one in template.spec.requirements if one.key == key]
        if said:
            if not all(one.admits({key: value}) for one in said):
                return False
        elif labels.get(key) != value:
            return False
    return True
