"""Which strategy each resource has."""

from __future__ import annotations

from fairlead.world.schema import others, pod_validation, pods, rarely, validation, workloads
from fairlead.world.schema.resources import Resource
from fairlead.world.schema.strategy import PLAIN, Strategy

__all__ = ["strategy_of"]

_COUNTED = Strategy(generation=True)
_WEBHOOKS = Strategy(
    default=others.default_webhooks,
    validate=validation.validate_webhooks,
    generation=True,
    unconditional_update=False,
)
# Kept and given back, not enforced: there is no CEL here.
_ADMISSION_POLICIES = Strategy(
    default=rarely.default_admission_policy, generation=True, unconditional_update=False
)
_RBAC = Strategy(create_on_update=True)
_BINDINGS = Strategy(default=rarely.default_role_binding, create_on_update=True)
_CLAIMS = Strategy(default=rarely.default_resource_claim)

_STRATEGIES: dict[str, Strategy] = {
    "pods": Strategy(
        default=pods.default_pod,
        on_create=pods.on_create,
        on_update=pods.on_update,
        validate=pod_validation.validate_pod,
        generation=True,
    ),
    "nodes": Strategy(
        default=others.default_node, on_create=others.node_on_create, validate=validation.validate_node
    ),
    "namespaces": Strategy(default=others.default_namespace, on_create=others.namespace_on_create),
    "configmaps": Strategy(validate=validation.validate_config_map),
    "secrets": Strategy(default=others.default_secret, validate=validation.validate_config_map),
    "services": Strategy(
        default=others.default_service, validate=validation.validate_service, create_on_update=True
    ),
    "endpoints": Strategy(create_on_update=True),
    "events": Strategy(validate=validation.validate_event, create_on_update=True),
    "limitranges": Strategy(default=rarely.default_limit_range, create_on_update=True),
    "persistentvolumes": Strategy(
        default=others.default_persistent_volume, on_create=others.volume_on_create
    ),
    "persistentvolumeclaims": Strategy(
        default=others.default_persistent_volume_claim,
        on_create=others.volume_on_create,
        validate=validation.validate_claim,
    ),
    "podtemplates": Strategy(
        default=workloads.default_pod_template, validate=validation.validate_pod_template, generation=True
    ),
    "replicationcontrollers": Strategy(default=workloads.default_replication_controller, generation=True),
    "deployments.apps": Strategy(
        default=workloads.default_deployment,
        validate=validation.validate_deployment,
        generation=True,
        counts_annotations=True,
    ),
    "replicasets.apps": Strategy(
        default=workloads.default_replica_set, validate=validation.validate_replica_set, generation=True
    ),
    "statefulsets.apps": Strategy(
        default=workloads.default_stateful_set, validate=validation.validate_stateful_set, generation=True
    ),
    "daemonsets.apps": Strategy(
        default=workloads.default_daemon_set, validate=validation.validate_daemon_set, generation=True
    ),
    "jobs.batch": Strategy(
        default=workloads.default_job,
        on_create=workloads.job_on_create,
        validate=validation.validate_job,
        generation=True,
    ),
    "cronjobs.batch": Strategy(default=workloads.default_cron_job, generation=True),
    "poddisruptionbudgets.policy": Strategy(
        validate=validation.validate_pdb, generation=True, unconditional_update=False
    ),
    "priorityclasses.scheduling.k8s.io": Strategy(
        default=others.default_priority_class, validate=validation.validate_priority_class, generation=True
    ),
    "storageclasses.storage.k8s.io": Strategy(default=others.default_storage_class),
    "csidrivers.storage.k8s.io": Strategy(default=others.default_csi_driver, unconditional_update=False),
    "csinodes.storage.k8s.io": Strategy(unconditional_update=False),
    "csistoragecapacities.storage.k8s.io": Strategy(unconditional_update=False),
    "volumeattachments.storage.k8s.io": Strategy(unconditional_update=False),
    "leases.coordination.k8s.io": Strategy(
        validate=validation.validate_lease, unconditional_update=False, create_on_update=True
    ),
    "endpointslices.discovery.k8s.io": Strategy(default=rarely.default_endpoint_slice, generation=True),
    "ingresses.networking.k8s.io": _COUNTED,
    "ingressclasses.networking.k8s.io": _COUNTED,
    "networkpolicies.networking.k8s.io": Strategy(default=rarely.default_network_policy, generation=True),
    "runtimeclasses.node.k8s.io": Strategy(unconditional_update=False, create_on_update=True),
    "clusterroles.rbac.authorization.k8s.io": _RBAC,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "roles.rbac.authorization.k8s.io": _RBAC,
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "horizontalpodautoscalers.autoscaling": Strategy(default=rarely.default_autoscaler),
    "resourceclaims.resource.k8s.io": _CLAIMS,
    "resourceclaimtemplates.resource.k8s.io": _CLAIMS,
    "resourceslices.resource.k8s.io": _COUNTED,
    "deviceclasses.resource.k8s.io": _COUNTED,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _ADMISSION_POLICIES,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": _ADMISSION_POLICIES,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "customresourcedefinitions.apiextensions.k8s.io": Strategy(
        default=others.default_crd,
        on_create=others.crd_on_create,
        validate=validation.validate_crd,
        generation=True,
        unconditional_update=False,
    ),
}


def strategy_of(resource: Resource) -> Strategy:
    """The rules of a built-in resource."""
    return _STRATEGIES.get(resource.qualified, PLAIN)
