"""``pods/eviction``: a deletion that asks the pod's disruption budget first.

The budget is decremented here, not by its controller: between two passes of the controller each
allowed disruption is given out once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead.kube.decode import convert
from fairlead.kube.selectors import LabelSelector, matches
from fairlead.world.admission import AdmissionRequest, Staged
from fairlead.world.answers import bad_request, bare, forbidden, too_many
from fairlead.world.conditions import condition_of, is_ready, with_condition
from fairlead.world.deletion import DeleteOptions, Removal
from fairlead.world.schema.resources import POD_DISRUPTION_BUDGETS, PODS
from fairlead.world.store import Object
from fairlead.world.timestamps import stamp

if TYPE_CHECKING:
    from fairlead.world.api import Api, Options

__all__ = ["stage_evict"]

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
            disrupted = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }
            status = with_condition(pod["status"], disrupted, api.clock.now())
            api.store.put(PODS, {**pod, "metadata": dict(pod["metadata"]), "status": status})
        # The preconditions were checked on the pod as it was before our own condition.
        return api.delete(
            PODS, name, namespace, DeleteOptions(how.grace_s, how.propagation, dry_run=how.dry_run)
        )

    request = AdmissionRequest(
        "CREATE", PODS, "v1", namespace, name, eviction, None, "eviction", options.dry_run, options.user
    )
    return Staged(request, commit)


def _delete_options(body: Object, options: Options) -> DeleteOptions:
    preconditions: dict[str, Any] = body.get("preconditions") or {}
    return DeleteOptions(
        body.get("gracePeriodSeconds"),
        body.get("propagationPolicy"),
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        options.dry_run or "All" in (body.get("dryRun") or ()),
        options.user,
    )


def _beyond_budgets(pod: Object) -> bool:
    # What has not started, has ended or is leaving disrupts nobody.
    phase = pod.get("status", {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _ask_budget(api: Api, pod: Object, dry_run: bool) -> None:
    labels = pod["metadata"].get("labels") or {}
    budgets = [
        budget
        for budget in api.store.list(POD_DISRUPTION_BUDGETS, pod["metadata"]["namespace"])
        if matches(_selector(budget), labels)
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
    if not is_ready(pod):
        # A pod that is not ready counts for nothing: it may go if the budget says so or is met without it.
        if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return
        if 0 < status.get("desiredHealthy", 0) <= status.get("currentHealthy", 0):
            return
    _decrement(api, budget, pod["metadata"]["name"], dry_run)


def _selector(budget: Object) -> LabelSelector | None:
    selector = budget.get("spec", {}).get("selector")
    return None if selector is None else convert(selector, LabelSelector)


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
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status.get("observedGeneration", 0),
        }
        left = with_condition(left, condition, api.clock.now())
        for held in left["conditions"]:
            held.pop("lastProbeTime", None)
    api.store.put(POD_DISRUPTION_BUDGETS, {**budget, "metadata": dict(metadata), "status": left})


def _why_not(budget: Object) -> str:
    name, status = budget["metadata"]["name"], budget.get("status", {})
    condition = condition_of(budget, "DisruptionAllowed") or {}
    refused = condition.get("status") == "False" and bool(condition.get("message"))
    has, needs = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if refused and condition.get("reason") == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it failed sync: "
            f"{condition['message']}"
        )
    if has <= needs:
        return f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
    if refused:
        return (
            f"The disruption budget {name} does not allow evicting pods currently "
            f"({condition.get('reason', '')}): {condition['message']}"
        )
    return f"The disruption budget {name} does not allow evicting pods currently"
