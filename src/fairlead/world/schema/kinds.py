"""How each kind is treated on its way in: defaults, what a create or update may set, what is wrong.

Every function gets objects that belong to the request alone, so it may change them in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.world.api_errors import FieldError
from fairlead.world.schema import defaults, pod_validation, pods, validation
from fairlead.world.schema.defaults import filled
from fairlead.world.schema.resources import Served

Object = dict[str, Any]
Validate = Callable[[Object, Object | None], list[FieldError]]


def _nothing(item: Object) -> None:
    pass


def _leave(new: Object, old: Object) -> None:
    pass


def _fine(new: Object, old: Object | None) -> list[FieldError]:
    return []


@dataclass(frozen=True, slots=True)
class Strategy:
    """One kind's rules. The defaults of this class fit a kind that has none of its own."""

    default: Callable[[Object], None] = _nothing
    """Fills what the API server's defaulting fills; runs after every change, so it is idempotent."""
    on_create: Callable[[Object], None] = _nothing
    """Resets what a creator may not choose."""
    on_update: Callable[[Object, Object], None] = _leave
    """Resets what an update through the main endpoint may not change: (new, old)."""
    on_status: Callable[[Object, Object], None] = _leave
    """Resets what an update through ``status`` may not change, beyond spec: (new, old)."""
    validate: Validate = _fine
    """What is wrong with the new object, given the old one on updates."""
    spec_defaults: bool = False
    """Whether `default` touches the spec alone, and `validate` looks at spec and metadata alone."""
    generation: bool = False
    """Whether metadata.generation counts changes of the spec."""
    counts_annotations: bool = False
    """Whether a change of annotations counts as well."""
    unconditional_update: bool = True
    """Whether a PUT may leave the resourceVersion out."""
    create_on_update: bool = False
    """Whether a PUT may create."""


def _new_namespace(item: Object) -> None:
    """A new namespace is active and held by Kubernetes' own finalizer."""
    defaults.namespace(item)
    finalizers = item["spec"].setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    item["status"] = {"phase": "Active"}


def _new_node(item: Object) -> None:
    """A new node is not ready: the admission plugin TaintNodesByCondition says so with a taint."""
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    taints = item["spec"].setdefault("taints", [])
    if not any(held.get("key") == taint["key"] and held.get("effect") == taint["effect"] for held in taints):
        taints.append(taint)


def _new_volume(item: Object) -> None:
    """A new volume or claim is not bound yet."""
    item["status"] = {"phase": "Pending"}
    if item["kind"] == "PersistentVolume":
        item["status"]["lastPhaseTransitionTime"] = item["metadata"]["creationTimestamp"]


def _new_definition(item: Object) -> None:
    """A new definition is established at once: nothing here takes time to set up."""
    spec, since = item["spec"], item["metadata"]["creationTimestamp"]

    def condition(kind: str, reason: str, message: str) -> Object:
        return {
            "type": kind,
            "status": "True",
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }

    item["status"] = {
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": spec["names"],
        "storedVersions": [each["name"] for each in spec.get("versions") or () if each.get("storage")],
    }


def _new_job(item: Object) -> None:
    """Give a Job its selector and its pods their labels, unless its creator chose them.

    Named after the Job's uid, which is known only now.
    """
    spec = item["spec"]
    if spec.get("manualSelector"):
        return
    uid, name = item["metadata"]["uid"], item["metadata"]["name"]
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels |= {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid
    item["metadata"].setdefault("labels", dict(labels))


_ADMISSION = "admissionregistration.k8s.io"
_COUNTED = Strategy(generation=True)
_MATCHED = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_WEBHOOK = {
    "failurePolicy": "Fail",
    **_MATCHED,
    "timeoutSeconds": 10,
    "rules[]": {"scope": "*"},
    "clientConfig?": {"service?": {"port": 443}},
}
_RULES = {**_MATCHED, "resourceRules[]": {"scope": "*"}, "excludeResourceRules[]": {"scope": "*"}}


def _admission(tree: Object, validate: Validate = _fine) -> Strategy:
    # Policies are kept and given back, not enforced: there is no CEL here.
    return Strategy(filled(tree), validate=validate, generation=True, unconditional_update=False)


_VOLUME = {
    "spec": {
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
        "hostPath?": {"type": ""},
    }
}
_CSI_DRIVER = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
    "volumeLifecycleModes": ["Persistent"],
}
_RBAC = Strategy(create_on_update=True)
_BINDINGS = Strategy(defaults.role_binding, create_on_update=True)
_CLAIMS = Strategy(defaults.resource_claim)

_STRATEGIES: dict[str, Strategy] = {
    "pods": Strategy(
        defaults.pod,
        on_create=pods.on_create,
        on_update=pods.on_update,
        validate=pod_validation.validate_pod,
        spec_defaults=True,
        generation=True,
    ),
    "nodes": Strategy(defaults.node, on_create=_new_node, validate=validation.node),
    "namespaces": Strategy(defaults.namespace, on_create=_new_namespace),
    "configmaps": Strategy(validate=validation.config_map),
    "secrets": Strategy(defaults.secret, validate=validation.config_map),
    "services": Strategy(defaults.service, validate=validation.service, create_on_update=True),
    "endpoints": Strategy(create_on_update=True),
    "events": Strategy(validate=validation.event, create_on_update=True),
    "limitranges": Strategy(defaults.limit_range, create_on_update=True),
    "persistentvolumes": Strategy(filled(_VOLUME), on_create=_new_volume),
    "persistentvolumeclaims": Strategy(
        filled(defaults.CLAIM), on_create=_new_volume, validate=validation.claim
    ),
    "podtemplates": Strategy(defaults.template, validate=validation.pod_template, generation=True),
    "replicationcontrollers": Strategy(defaults.replication_controller, generation=True),
    "deployments.apps": Strategy(
        defaults.deployment,
        validate=validation.deployment,
        spec_defaults=True,
        generation=True,
        counts_annotations=True,
    ),
    "replicasets.apps": Strategy(
        defaults.replica_set, validate=validation.replica_set, spec_defaults=True, generation=True
    ),
    "statefulsets.apps": Strategy(
        defaults.stateful_set, validate=validation.stateful_set, spec_defaults=True, generation=True
    ),
    "daemonsets.apps": Strategy(
        defaults.daemon_set, validate=validation.daemon_set, spec_defaults=True, generation=True
    ),
    "jobs.batch": Strategy(defaults.job, on_create=_new_job, validate=validation.job, generation=True),
    "cronjobs.batch": Strategy(defaults.cron_job, generation=True),
    "poddisruptionbudgets.policy": Strategy(
        validate=validation.pdb, generation=True, unconditional_update=False
    ),
    "priorityclasses.scheduling.k8s.io": Strategy(
        filled({"preemptionPolicy": "PreemptLowerPriority"}),
        validate=validation.priority_class,
        generation=True,
    ),
    "storageclasses.storage.k8s.io": Strategy(
        filled({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
    ),
    "csidrivers.storage.k8s.io": Strategy(filled({"spec": _CSI_DRIVER}), unconditional_update=False),
    "csinodes.storage.k8s.io": Strategy(unconditional_update=False),
    "csistoragecapacities.storage.k8s.io": Strategy(unconditional_update=False),
    "volumeattachments.storage.k8s.io": Strategy(unconditional_update=False),
    "leases.coordination.k8s.io": Strategy(
        validate=validation.lease, unconditional_update=False, create_on_update=True
    ),
    "endpointslices.discovery.k8s.io": Strategy(
        filled({"ports[]": {"name": "", "protocol": "TCP"}}), generation=True
    ),
    "ingresses.networking.k8s.io": _COUNTED,
    "ingressclasses.networking.k8s.io": _COUNTED,
    "networkpolicies.networking.k8s.io": Strategy(defaults.network_policy, generation=True),
    "runtimeclasses.node.k8s.io": Strategy(unconditional_update=False, create_on_update=True),
    "clusterroles.rbac.authorization.k8s.io": _RBAC,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "roles.rbac.authorization.k8s.io": _RBAC,
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "horizontalpodautoscalers.autoscaling": Strategy(filled({"spec": {"minReplicas": 1}})),
    "resourceclaims.resource.k8s.io": _CLAIMS,
    "resourceclaimtemplates.resource.k8s.io": _CLAIMS,
    "resourceslices.resource.k8s.io": _COUNTED,
    "deviceclasses.resource.k8s.io": _COUNTED,
    f"mutatingwebhookconfigurations.{_ADMISSION}": _admission(
        {"webhooks[]": {**_WEBHOOK, "reinvocationPolicy": "Never"}}, validation.webhooks
    ),
    f"validatingwebhookconfigurations.{_ADMISSION}": _admission(
        {"webhooks[]": _WEBHOOK}, validation.webhooks
    ),
    f"validatingadmissionpolicies.{_ADMISSION}": _admission(
        {"spec": {"failurePolicy": "Fail", "matchConstraints?": _RULES}}
    ),
    f"validatingadmissionpolicybindings.{_ADMISSION}": _admission({"spec": {"matchResources?": _RULES}}),
    "customresourcedefinitions.apiextensions.k8s.io": Strategy(
        defaults.definition,
        on_create=_new_definition,
        validate=validation.crd,
        generation=True,
        unconditional_update=False,
    ),
}


_PLAIN = Strategy()
_CUSTOM = Strategy(generation=True, unconditional_update=False)


def strategy_of(served: Served) -> Strategy:
    """The rules of a resource."""
    return _CUSTOM if served.custom else _STRATEGIES.get(served.resource.qualified, _PLAIN)
