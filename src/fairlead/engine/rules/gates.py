"""SchedulingGates and what Fairlead does not support: refusals of the pod as a whole."""

from __future__ import annotations

from fairlead.engine.rules.reasons import Rejection
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot


def reject_gated(snapshot: Snapshot, cls: PodClass) -> Rejection | None:
    """A gated pod is not to be looked at yet."""
    if not cls.facts.gates:
        return None
    words = f"waiting for scheduling gates: [{' '.join(cls.facts.gates)}]"
    # The sentence is the API server's, which is what people see on a gated pod.
    sentence = "Scheduling is blocked due to non-empty scheduling gates"
    return Rejection("SchedulingGates", words, sentence=sentence)


def reject_unsupported(snapshot: Snapshot, cls: PodClass) -> Rejection | None:
    """Dynamic resources and the gangs of Kubernetes 1.35 are refused loudly rather than placed wrongly."""
    workload = cls.facts.spec.workload_ref
    if workload is not None:
        words = f"Fairlead does not support workloadRef ({workload.name}); declare the gang in another way"
        return Rejection("GangScheduling", words, own=True)
    claims = cls.facts.spec.resource_claims
    if claims:
        names = ", ".join(claim.name for claim in claims)
        words = f"Fairlead does not support dynamic resource claims ({names})"
        return Rejection("DynamicResources", words, own=True)
    for resource, _ in cls.requests.amounts:
        device_class = snapshot.device_classes.get(resource)
        if device_class is not None:
            return Rejection(
                "DynamicResources",
                f"Fairlead does not support extended resources backed by a DeviceClass "
                f"({resource} by {device_class})",
                own=True,
            )
    return None
