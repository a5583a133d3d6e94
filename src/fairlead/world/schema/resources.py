"""Which resources exist: the built-in ones, and the registry that custom ones join at run time.

A `Resource` names what is stored and is the same whatever version it is served in; `Served` says
how it is offered (versions, short names, subresources). Events of the core group and of
events.k8s.io are one stored resource seen through two `Served` entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["BUILTIN", "Registry", "Resource", "Served"]


class Resource(NamedTuple):
    """What is stored together: one group and plural, whatever the version."""

    group: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def qualified(self) -> str:
        """As messages name it: ``pods``, ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)


@dataclass(frozen=True, slots=True)
class Served:
    """How a resource is offered: the versions that answer (the first is stored), names and subresources."""

    resource: Resource
    versions: tuple[str, ...] = ("v1",)
    storage: str = ""
    singular: str = ""
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    group: str | None = None
    list_kind: str = ""
    custom: bool = False
    """Stored without a schema of ours: a CustomResourceDefinition's."""
    scale_paths: dict[str, str] = field(default_factory=dict)
    """A custom resource's specReplicasPath, statusReplicasPath and labelSelectorPath."""
    columns: dict[str, tuple[dict[str, object], ...]] = field(default_factory=dict)
    """A custom resource's additionalPrinterColumns by version."""
    schema: dict[str, Any] = field(default_factory=dict)
    """A custom resource's openAPIV3Schema, of the stored version; empty: anything goes."""

    @property
    def api_group(self) -> str:
        """The group it is served under (events.k8s.io serves a resource of the core group)."""
        return self.resource.group if self.group is None else self.group

    @property
    def kind_of_list(self) -> str:
        """The kind of lists of it."""
        return self.list_kind or f"{self.resource.kind}List"

    @property
    def storage_version(self) -> str:
        """The version that stored objects carry."""
        return self.storage or self.versions[0]

    @property
    def api_version(self) -> str:
        """The apiVersion of stored objects."""
        group = self.resource.group
        return f"{group}/{self.storage_version}" if group else self.storage_version

    def api_version_of(self, version: str) -> str:
        """The apiVersion of answers given in `version`."""
        return f"{self.api_group}/{version}" if self.api_group else version


def _core(plural: str, kind: str, *short: str, namespaced: bool = True, **more: object) -> Served:
    return Served(Resource("", plural, kind, namespaced), short=short, **more)  # type: ignore[arg-type]  # forwarded


def _of(group: str, plural: str, kind: str, *short: str, namespaced: bool = True, **more: object) -> Served:
    return Served(Resource(group, plural, kind, namespaced), short=short, **more)  # type: ignore[arg-type]  # forwarded


_STATUS = ("status",)
_SCALED = ("status", "scale")
_ALL = ("all",)

BUILTIN: tuple[Served, ...] = (
    _core("bindings", "Binding", verbs=CREATE_ONLY),
    _core("configmaps", "ConfigMap", "cm"),
    _core("endpoints", "Endpoints", "ep"),
    _core("events", "Event", "ev"),
    _core("limitranges", "LimitRange", "limits"),
    _core("namespaces", "Namespace", "ns", namespaced=False, subresources=("status", "finalize")),
    _core("nodes", "Node", "no", namespaced=False, subresources=_STATUS),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources=_STATUS),
    _core("persistentvolumes", "PersistentVolume", "pv", namespaced=False, subresources=_STATUS),
    _core(
        "pods",
        "Pod",
        "po",
        categories=_ALL,
        subresources=("status", "binding", "eviction", "log", "resize"),
    ),
    _core("podtemplates", "PodTemplate"),
    _core(
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        categories=_ALL,
        subresources=_SCALED,
    ),
    _core("resourcequotas", "ResourceQuota", "quota", subresources=_STATUS),
    _core("secrets", "Secret"),
    _core("serviceaccounts", "ServiceAccount", "sa", subresources=("token",)),
    _core("services", "Service", "svc", categories=_ALL, subresources=_STATUS),
    _of("apps", "controllerrevisions", "ControllerRevision"),
    _of("apps", "daemonsets", "DaemonSet", "ds", categories=_ALL, subresources=_STATUS),
    _of("apps", "deployments", "Deployment", "deploy", categories=_ALL, subresources=_SCALED),
    _of("apps", "replicasets", "ReplicaSet", "rs", categories=_ALL, subresources=_SCALED),
    _of("apps", "statefulsets", "StatefulSet", "sts", categories=_ALL, subresources=_SCALED),
    _of("batch", "cronjobs", "CronJob", "cj", categories=_ALL, subresources=_STATUS),
    _of("batch", "jobs", "Job", categories=_ALL, subresources=_STATUS),
    _of(
        "autoscaling",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "hpa",
        versions=("v2",),
        categories=_ALL,
        subresources=_STATUS,
    ),
    _of("policy", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", subresources=_STATUS),
    _of("scheduling.k8s.io", "priorityclasses", "PriorityClass", "pc", namespaced=False),
    _of("storage.k8s.io", "storageclasses", "StorageClass", "sc", namespaced=False),
    _of("storage.k8s.io", "csidrivers", "CSIDriver", namespaced=False),
    _of("storage.k8s.io", "csinodes", "CSINode", namespaced=False),
    _of("storage.k8s.io", "csistoragecapacities", "CSIStorageCapacity"),
    _of(
        "storage.k8s.io",
        "volumeattachments",
        "VolumeAttachment",
        namespaced=False,
        subresources=_STATUS,
    ),
    _of("coordination.k8s.io", "leases", "Lease"),
    Served(Resource("", "events", "Event", True), short=("ev",), group="events.k8s.io"),
    _of("discovery.k8s.io", "endpointslices", "EndpointSlice"),
    _of("networking.k8s.io", "ingresses", "Ingress", "ing", subresources=_STATUS),
    _of("networking.k8s.io", "ingressclasses", "IngressClass", namespaced=False),
    _of("networking.k8s.io", "networkpolicies", "NetworkPolicy", "netpol"),
    _of("node.k8s.io", "runtimeclasses", "RuntimeClass", namespaced=False),
    _of("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _of("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", namespaced=False),
    _of("rbac.authorization.k8s.io", "rolebindings", "RoleBinding"),
    _of("rbac.authorization.k8s.io", "roles", "Role"),
    _of("resource.k8s.io", "deviceclasses", "DeviceClass", namespaced=False),
    _of("resource.k8s.io", "resourceclaims", "ResourceClaim", subresources=_STATUS),
    _of("resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate"),
    _of("resource.k8s.io", "resourceslices", "ResourceSlice", namespaced=False),
    _of(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        namespaced=False,
        categories=("api-extensions",),
    ),
    _of(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        namespaced=False,
        subresources=_STATUS,
        categories=("api-extensions",),
    ),
    _of(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        namespaced=False,
        categories=("api-extensions",),
    ),
    _of(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        namespaced=False,
        categories=("api-extensions",),
    ),
    _of(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd",
        "crds",
        namespaced=False,
        categories=("api-extensions",),
        subresources=_STATUS,
    ),
    _of("authentication.k8s.io", "tokenreviews", "TokenReview", namespaced=False, verbs=CREATE_ONLY),
    _of(
        "authentication.k8s.io",
        "selfsubjectreviews",
        "SelfSubjectReview",
        namespaced=False,
        verbs=CREATE_ONLY,
    ),
    _of("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=CREATE_ONLY),
    _of(
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        namespaced=False,
        verbs=CREATE_ONLY,
    ),
    _of(
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        namespaced=False,
        verbs=CREATE_ONLY,
    ),
    _of(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "SubjectAccessReview",
        namespaced=False,
        verbs=CREATE_ONLY,
    ),
)

# The ones that code of ours names.
_BY_PLURAL = {served.resource.qualified: served.resource for served in BUILTIN if served.group is None}
CONFIGMAPS = _BY_PLURAL["configmaps"]
EVENTS = _BY_PLURAL["events"]
NAMESPACES = _BY_PLURAL["namespaces"]
NODES = _BY_PLURAL["nodes"]
PERSISTENT_VOLUME_CLAIMS = _BY_PLURAL["persistentvolumeclaims"]
PODS = _BY_PLURAL["pods"]
SECRETS = _BY_PLURAL["secrets"]
SERVICE_ACCOUNTS = _BY_PLURAL["serviceaccounts"]
SERVICES = _BY_PLURAL["services"]
DEPLOYMENTS = _BY_PLURAL["deployments.apps"]
JOBS = _BY_PLURAL["jobs.batch"]
POD_DISRUPTION_BUDGETS = _BY_PLURAL["poddisruptionbudgets.policy"]
PRIORITY_CLASSES = _BY_PLURAL["priorityclasses.scheduling.k8s.io"]
RUNTIME_CLASSES = _BY_PLURAL["runtimeclasses.node.k8s.io"]
STORAGE_CLASSES = _BY_PLURAL["storageclasses.storage.k8s.io"]
LEASES = _BY_PLURAL["leases.coordination.k8s.io"]
CRDS = _BY_PLURAL["customresourcedefinitions.apiextensions.k8s.io"]
MUTATING_WEBHOOKS = _BY_PLURAL["mutatingwebhookconfigurations.admissionregistration.k8s.io"]


class Registry:
    """The resources served now. Custom ones come and go with their CustomResourceDefinitions."""

    def __init__(self, served: Iterable[Served] = BUILTIN) -> None:
        self._paths: dict[tuple[str, str, str], Served] = {}
        self._main: dict[Resource, Served] = {}
        self._kinds: dict[tuple[str, str], Resource] = {}
        self.generation = 0
        """Counts changes, so that discovery documents can be kept until the next one."""
        for each in served:
            self.add(each)

    def add(self, served: Served) -> None:
        """Serve a resource (again: with new versions or subresources)."""
        self.remove(served)
        for version in served.versions:
            self._paths[(served.api_group, version, served.resource.plural)] = served
        if served.group is None:
            self._main[served.resource] = served
        self._kinds[(served.api_group, served.resource.kind)] = served.resource
        self.generation += 1

    def remove(self, served: Served) -> None:
        """Stop serving a resource; what is stored stays until its owner deletes it."""
        gone = [
            path
            for path, held in self._paths.items()
            if held.resource == served.resource and held.api_group == served.api_group
        ]
        for path in gone:
            del self._paths[path]
        if served.group is None:
            self._main.pop(served.resource, None)
            self._kinds.pop((served.api_group, served.resource.kind), None)
        self.generation += 1

    def at(self, group: str, version: str, plural: str) -> Served | None:
        """What is served under a path, if anything."""
        return self._paths.get((group, version, plural))

    def has_version(self, group: str, version: str) -> bool:
        """Whether anything is served in a group version."""
        return any(path[:2] == (group, version) for path in self._paths)

    def served(self, resource: Resource) -> Served:
        """How a resource is offered (KeyError when it no longer is)."""
        return self._main[resource]

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of an object's apiVersion and kind (any version of the group)."""
        group = api_version.rpartition("/")[0]
        return self._kinds.get((group, kind))

    def __contains__(self, resource: Resource) -> bool:
        """Whether the resource is served now."""
        return resource in self._main

    def __iter__(self) -> Iterator[Served]:
        """Every entry, the built-in ones first."""
        seen: set[int] = set()
        for served in list(self._paths.values()):
            if id(served) not in seen:
                seen.add(id(served))
                yield served
