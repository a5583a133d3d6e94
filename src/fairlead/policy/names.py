"""What pods, workloads and objects are marked with. One list, because doors read each other's marks."""

from __future__ import annotations

from fairlead.kube.resources import Resource

GROUP = "fairlead.dev"
API_VERSION = "fairlead.dev/v1alpha1"

POLICIES = Resource(GROUP, "v1alpha1", "placementpolicies", "PlacementPolicy", namespaced=False)
LEDGERS = Resource(GROUP, "v1alpha1", "placementledgers", "PlacementLedger")

# On pods, written at admission or as Binding annotations.
POLICY_ANNOTATION = "fairlead.dev/policy"
SLOT_ANNOTATION = "fairlead.dev/slot"
TIER_ANNOTATION = "fairlead.dev/tier"
# Ties a pod, which has no UID and often no name at admission, to its place in the ledger.
TOKEN_ANNOTATION = "fairlead.dev/slot-token"
# Which tier passed a waiting pod on, and when; written by the extender so that kube-scheduler tries again.
PASSED_ON_ANNOTATION = "fairlead.dev/passed-on"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

# On pods: exclusive, for a node to itself.
CAPACITY_ANNOTATION = "fairlead.dev/capacity"

# On workloads: single or multiple, where the number of replicas would say otherwise.
REPLICAS_LABEL = "fairlead.dev/replicas"
# On pods that have a node to themselves, with anti-affinity against it.
EXCLUSIVE_LABEL = "fairlead.dev/exclusive"

# Namespaces that no policy governs; where doors run, theirs too.
EXEMPT = ("kube-system",)
