"""Which resources exist: the built-in ones, and the registry that custom ones join at run time.

A `Resource` names what is stored and is the same whatever version it is served in; `Served` says
how it is offered (versions, short names, subresources). Events of the core group and of
events.k8s.io are one stored resource seen through two `Served` entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple


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
EVENTS_API = "events.k8s.io"


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


# By group: plural, kind, short names; then "@cluster" where it is not namespaced, "*" before a category, "/"
# before a subresource, ":" before a version other than v1, and "+create" where it can only be created.
_BUILTIN = {
    "": (
        "bindings Binding +create",
        "configmaps ConfigMap cm",
        "endpoints Endpoints ep",
        "events Event ev",
        "limitranges LimitRange limits",
        "namespaces Namespace ns @cluster /status /finalize",
        "nodes Node no @cluster /status",
        "persistentvolumeclaims PersistentVolumeClaim pvc /status",
        "persistentvolumes PersistentVolume pv @cluster /status",
        "pods Pod po *all /status /binding /eviction /log /resize",
        "podtemplates PodTemplate",
        "replicationcontrollers ReplicationController rc *all /status /scale",
        "resourcequotas ResourceQuota quota /status",
        "secrets Secret",
        "serviceaccounts ServiceAccount sa /token",
        "services Service svc *all /status",
    ),
    "apps": (
        "controllerrevisions ControllerRevision",
        "daemonsets DaemonSet ds *all /status",
        "deployments Deployment deploy *all /status /scale",
        "replicasets ReplicaSet rs *all /status /scale",
        "statefulsets StatefulSet sts *all /status /scale",
    ),
    "batch": (
        "cronjobs CronJob cj *all /status",
        "jobs Job *all /status",
    ),
    "autoscaling": ("horizontalpodautoscalers HorizontalPodAutoscaler hpa *all /status :v2",),
    "policy": ("poddisruptionbudgets PodDisruptionBudget pdb /status",),
    "scheduling.k8s.io": ("priorityclasses PriorityClass pc @cluster",),
    "storage.k8s.io": (
        "storageclasses StorageClass sc @cluster",
        "csidrivers CSIDriver @cluster",
        "csinodes CSINode @cluster",
        "csistoragecapacities CSIStorageCapacity",
        "volumeattachments VolumeAttachment @cluster /status",
    ),
    "coordination.k8s.io": ("leases Lease",),
    "events.k8s.io": ("events Event ev",),
    "discovery.k8s.io": ("endpointslices EndpointSlice",),
    "networking.k8s.io": (
        "ingresses Ingress ing /status",
        "ingressclasses IngressClass @cluster",
        "networkpolicies NetworkPolicy netpol",
    ),
    "node.k8s.io": ("runtimeclasses RuntimeClass @cluster",),
    "rbac.authorization.k8s.io": (
        "clusterrolebindings ClusterRoleBinding @cluster",
        "clusterroles ClusterRole @cluster",
        "rolebindings RoleBinding",
        "roles Role",
    ),
    "resource.k8s.io": (
        "deviceclasses DeviceClass @cluster",
        "resourceclaims ResourceClaim /status",
        "resourceclaimtemplates ResourceClaimTemplate",
        "resourceslices ResourceSlice @cluster",
    ),
    "admissionregistration.k8s.io": (
        "mutatingwebhookconfigurations MutatingWebhookConfiguration @cluster *api-extensions",
        "validatingadmissionpolicies ValidatingAdmissionPolicy @cluster *api-extensions /status",
        "validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding @cluster *api-extensions",
        "validatingwebhookconfigurations ValidatingWebhookConfiguration @cluster *api-extensions",
    ),
    "apiextensions.k8s.io": (
        "customresourcedefinitions CustomResourceDefinition crd crds @cluster *api-extensions /status",
    ),
    "authentication.k8s.io": (
        "tokenreviews TokenReview @cluster +create",
        "selfsubjectreviews SelfSubjectReview @cluster +create",
    ),
    "authorization.k8s.io": (
        "localsubjectaccessreviews LocalSubjectAccessReview +create",
        "selfsubjectaccessreviews SelfSubjectAccessReview @cluster +create",
        "selfsubjectrulesreviews SelfSubjectRulesReview @cluster +create",
        "subjectaccessreviews SubjectAccessReview @cluster +create",
    ),
}


def _builtin(group: str, row: str) -> Served:
    plural, kind, *words = row.split()
    marked: dict[str, list[str]] = {}
    for word in words:
        mark = word[0] if word[0] in "@*/:+" else ""
        marked.setdefault(mark, []).append(word.removeprefix(mark))

    def of(mark: str) -> tuple[str, ...]:
        return tuple(marked.get(mark, ()))

    # Events of events.k8s.io are those of the core group.
    stored = "" if group == EVENTS_API else group
    return Served(
        Resource(stored, plural, kind, namespaced="@" not in marked),
        versions=of(":") or ("v1",),
        short=of(""),
        categories=of("*"),
        verbs=of("+") or ALL_VERBS,
        subresources=of("/"),
        group=None if stored == group else group,
    )


BUILTIN = tuple(_builtin(group, row) for group, rows in _BUILTIN.items() for row in rows)

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
