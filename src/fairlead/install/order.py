"""In which order objects are applied: what another needs comes first. Removal is the reverse."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.install.manifests import Obj

KINDS = (
    ("v1", "Namespace"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    # Before any account can act.
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("v1", "Service"),
    ("cert-manager.io/v1", "Issuer"),
    ("cert-manager.io/v1", "Certificate"),
    ("policy/v1", "PodDisruptionBudget"),
    ("apps/v1", "Deployment"),
    ("monitoring.coreos.com/v1", "ServiceMonitor"),
    # Removed before what answers its calls: an API server that calls into the void delays or refuses pods.
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
)
"""Every kind that an installation may have, in the order in which they are applied."""

_RANK = {kind: rank for rank, kind in enumerate(KINDS)}


def in_order(objects: Iterable[Obj]) -> list[Obj]:
    """The objects, what others need first; else by name, so that every run has one order."""
    return sorted(
        objects, key=lambda item: (_RANK[item["apiVersion"], item["kind"]], item["metadata"]["name"])
    )


def ref_of(item: Obj) -> str:
    """How an object is called in messages: ``Kind/name``."""
    return f"{item['kind']}/{item['metadata']['name']}"


def key_of(item: Obj) -> tuple[str, str, str]:
    """What tells an object of one installation from all others of it."""
    return item["apiVersion"], item["kind"], item["metadata"]["name"]
