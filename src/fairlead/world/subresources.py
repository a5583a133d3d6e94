"""What is written through a subresource other than ``status``: binding, eviction, scale.

A binding is the one way a pending pod gets its node. An eviction is a deletion that asks the pod's disruption
budget first; the budget is decremented here, not by its controller: between two passes of the controller
each allowed disruption is given out once. A scale is one shape for everything that has a number of replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.world.admission import AdmissionRequest, Staged
from fairlead.world.api_errors import bad_request, bare, conflict, wrong_uid
from fairlead.world.objects import new_condition, with_condition
from fairlead.world.schema.resources import PODS
from fairlead.world.store import Object

if TYPE_CHECKING:
    from fairlead.world.api import Api, Options
from typing import TYPE_CHECKING, Any

from fairlead.kube.decode import convert
from fairlead.kube.selectors import LabelSelector, matches
from fairlead.world.api_errors import forbidden, invalid, invalid_value, not_found, too_many
from fairlead.world.deletion import DeleteOptions, Removal
from fairlead.world.objects import condition, condition_holds, stamp
from fairlead.world.schema.resources import POD_DISRUPTION_BUDGETS, Resource, Served
from fairlead.world.tables.columns import read_field, selector_text


def stage_bind(api: Api, name: str, binding: Object, namespace: str, options: Options) -> Staged[None]:
    """Assign pod `name` to the node that `binding` targets.

    ``metadata.uid`` and ``resourceVersion`` of the binding are preconditions; its labels and
    annotations are merged into the pod. 409 when the pod is leaving, assigned, or gated.
    """
    metadata = binding.get("metadata") or {}
    if metadata.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    _validate(target)

    def commit(_: Object | None) -> None:
        pod = _assigned(api, api.get(PODS, name, namespace), target["name"], metadata)
        if not options.dry_run:
            api.store.put(PODS, pod)

    return Staged(
        AdmissionRequest("CREATE", PODS, "v1", namespace, name, binding, None, "binding", options.dry_run),
        commit,
    )


def _validate(target: Object) -> None:
    # Upstream does not turn these into a 422: they surface as an internal error.
    if target.get("kind") not in (None, "", "Node"):
        kind = target["kind"]
        raise bare(500, f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        raise bare(500, "target.name: Required value")


def _assigned(api: Api, pod: Object, node: str, wanted: Object) -> Object:
    metadata, spec = pod["metadata"], pod["spec"]
    name = metadata["name"]
    if wanted.get("uid") and wanted["uid"] != metadata["uid"]:
        raise wrong_uid(PODS, metadata, wanted["uid"])
    if wanted.get("resourceVersion") and wanted["resourceVersion"] != metadata["resourceVersion"]:
        raise conflict(PODS, name)
    why = None
    if metadata.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(PODS._replace(plural="pods/binding"), name, why)
    merged = dict(metadata)
    for field in ("annotations", "labels"):
        if wanted.get(field):
            merged[field] = {**metadata.get(field, {}), **wanted[field]}
    since = stamp(api.clock.now())
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
    status = {**pod["status"], "conditions": with_condition(pod["status"].get("conditions") or [], scheduled)}
    status.pop("nominatedNodeName", None)
    return {**pod, "metadata": merged, "spec": {**spec, "nodeName": node}, "status": status}


_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_MAX_UNCONFIRMED = 2000


def stage_evict(api: Api, name: str, eviction: Object, namespace: str, options: Options) -> Staged[Removal]:
    """Delete pod `name` if its budget allows; 429 when it does not, 500 when it has two budgets."""
    if (eviction.get("metadata") or {}).get("name", name) != name:
        raise bad_request("name in URL does not match name in Eviction object")
    how = _delete_options(eviction.get("deleteOptions") or {}, options)

    def commit(_: Object | None) -> Removal:
        pod = api.get(PODS, name, namespace)
        how.check(PODS, pod)
        if not _beyond_budgets(pod):
            _ask_budget(api, pod, how.dry_run)
        if not how.dry_run:
            reason, message = "EvictionByEvictionAPI", "Eviction API: evicting"
            now = api.clock.now()
            said = new_condition("DisruptionTarget", "True", reason, message, now, lastProbeTime=None)
            conditions = with_condition(pod["status"].get("conditions") or [], said)
            status = {**pod["status"], "conditions": conditions}
            api.store.put(PODS, {**pod, "metadata": dict(pod["metadata"]), "status": status})
        # The preconditions were checked on the pod as it was before our own condition.
        return api.delete(
            PODS, name, namespace, DeleteOptions(how.grace_s, how.propagation, dry_run=how.dry_run)
        )

    return Staged(
        AdmissionRequest("CREATE", PODS, "v1", namespace, name, eviction, None, "eviction", options.dry_run),
        commit,
    )


def _delete_options(body: Object, options: Options) -> DeleteOptions:
    preconditions: dict[str, Any] = body.get("preconditions") or {}
    return DeleteOptions(
        body.get("gracePeriodSeconds"),
        body.get("propagationPolicy"),
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        options.dry_run or "All" in (body.get("dryRun") or ()),
    )


def _beyond_budgets(pod: Object) -> bool:
    # What has not started, has ended or is leaving is no disruption.
    phase = pod.get("status", {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _ask_budget(api: Api, pod: Object, dry_run: bool) -> None:
    labels = pod["metadata"].get("labels") or {}
    budgets = [
        budget
        for budget in api.store.list(POD_DISRUPTION_BUDGETS, pod["metadata"]["namespace"])
        if (selector := budget["spec"].get("selector")) is not None
        and matches(convert(selector, LabelSelector), labels)
    ]
    if len(budgets) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
        raise bare(500, message)
    if not budgets:
        return
    budget = budgets[0]
    status = budget.get("status", {})
    if not condition_holds(pod, "Ready"):
        # A pod that is not ready counts for nothing: it may go if the budget says so or is met without it.
        if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return
        if 0 < status.get("desiredHealthy", 0) <= status.get("currentHealthy", 0):
            return
    _decrement(api, budget, pod["metadata"]["name"], dry_run)


def _decrement(api: Api, budget: Object, pod: str, dry_run: bool) -> None:
    metadata, status = budget["metadata"], budget.get("status", {})
    name = metadata["name"]
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        cause = f"The disruption budget {name} is still being processed by the server."
        raise too_many(_REFUSED, {"reason": "DisruptionBudget", "message": cause}, retry_after_s=10)
    disrupted = status.get("disruptedPods") or {}
    if len(disrupted) > _MAX_UNCONFIRMED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(POD_DISRUPTION_BUDGETS._replace(plural="poddisruptionbudget"), name, why)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        raise too_many(_REFUSED, {"reason": "DisruptionBudget", "message": _why_not(budget)})
    if dry_run:
        return
    left = {
        **status,
        "disruptionsAllowed": allowed - 1,
        "disruptedPods": {**disrupted, pod: stamp(api.clock.now())},
    }
    if allowed == 1:
        generation, now = status.get("observedGeneration", 0), api.clock.now()
        said = new_condition(
            "DisruptionAllowed", "False", "InsufficientPods", "", now, observedGeneration=generation
        )
        left["conditions"] = with_condition(left.get("conditions") or [], said)
    api.store.put(POD_DISRUPTION_BUDGETS, {**budget, "metadata": dict(metadata), "status": left})


def _why_not(budget: Object) -> str:
    name, status = budget["metadata"]["name"], budget.get("status", {})
    said = condition(budget, "DisruptionAllowed") or {}
    refused = said.get("status") == "False" and bool(said.get("message"))
    has, needs = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if refused and said.get("reason") == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it failed sync: "
            f"{said['message']}"
        )
    if has <= needs:
        return f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
    if refused:
        return (
            f"The disruption budget {name} does not allow evicting pods currently "
            f"({said.get('reason', '')}): {said['message']}"
        )
    return f"The disruption budget {name} does not allow evicting pods currently"


_SCALE = Resource("autoscaling", "scales", "Scale", True)


def scale_of(served: Served, item: Object) -> Object:
    """The ``autoscaling/v1`` Scale that an object shows; 404 when its kind has none."""
    metadata = item["metadata"]
    if "scale" not in served.subresources:
        raise not_found(served.resource, metadata["name"])
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {},
        "status": {"replicas": _number(item, _paths(served)["statusReplicasPath"])},
    }
    if replicas := _number(item, _paths(served)["specReplicasPath"]):
        scale["spec"]["replicas"] = replicas
    if selector := _selector(served, item):
        scale["status"]["selector"] = selector
    return scale


def stage_scale(
    api: Api, resource: Resource, name: str, scale: Object, namespace: str, *, options: Options
) -> Staged[Object]:
    """Write the desired replicas of `scale` into the object; its resourceVersion is a precondition."""
    served = api.serving(resource)
    old = api.get(resource, name, namespace)
    if "scale" not in served.subresources:
        raise not_found(resource, name)
    metadata = scale.get("metadata") or {}
    if metadata.get("resourceVersion") not in (None, "", old["metadata"]["resourceVersion"]):
        raise conflict(resource, name)
    wanted = (scale.get("spec") or {}).get("replicas") or 0
    if not isinstance(wanted, int) or wanted < 0:
        why = "must be greater than or equal to 0"
        raise invalid(_SCALE, name, [invalid_value("spec.replicas", wanted, why)])
    path = _paths(served)["specReplicasPath"].lstrip(".").split(".")
    patch: Any = wanted
    for step in reversed(path):
        patch = {step: patch}
    staged = api.stage_patch(resource, name, patch, namespace, options)

    def commit(admitted: Object | None) -> Object:
        return scale_of(served, staged.commit(admitted))

    def again() -> Staged[Object]:
        return stage_scale(api, resource, name, scale, namespace, options=options)

    return Staged(staged.request, commit, None if metadata.get("resourceVersion") else again)


def _paths(served: Served) -> dict[str, str]:
    if served.custom:
        return served.scale_paths
    return {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def _number(item: Object, path: str) -> int:
    value = read_field(item, path.lstrip("."))
    return value if isinstance(value, int) else 0


def _selector(served: Served, item: Object) -> str:
    if served.custom:
        path = served.scale_paths.get("labelSelectorPath")
        return str(read_field(item, path.lstrip(".")) or "") if path else ""
    selector = item["spec"].get("selector") or {}
    if served.resource.plural == "replicationcontrollers":
        selector = {"matchLabels": selector}
    return selector_text(selector)
