"""The pod that a controller will make in place of one that is moved, as far as a search for room asks.

What admission adds to reach a tier is left out or added apart: the tier's nodes are given to the search.
"""

from __future__ import annotations

import msgspec

from fairlead.kube.pod import Affinity, Pod, PodSpec, PodStatus
from fairlead.policy.model import PlacementPolicy

__all__ = ["made_anew"]


def made_anew(pod: Pod, template: PodSpec | None, policy: PlacementPolicy, tier: int) -> Pod:
    """The pod as its controller will make it and admission send it; the tier's nodes are seen to apart.

    Volumes and the rest are the pod's own: a StatefulSet's claims are in no template.
    """
    spec = pod.spec
    tolerations = (template or spec).tolerations
    added = tuple(one for one in policy.spec.tiers[tier].tolerations if one not in tolerations)
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name} anew", uid=""),
        spec=msgspec.structs.replace(
            spec,
            node_name="",
            affinity=template.affinity if template is not None else _without_nodes(spec),
            node_selector=(template or spec).node_selector,
            tolerations=(*tolerations, *added),
        ),
        status=PodStatus(),
    )


def _without_nodes(spec: PodSpec) -> Affinity | None:
    """Without a template nobody can tell what of the node affinity is the tier's: it is left out."""
    if spec.affinity is None:
        return None
    return msgspec.structs.replace(spec.affinity, node_affinity=None)
