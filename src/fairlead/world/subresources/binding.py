"""``pods/binding``: the one way a pending pod gets its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.world.admission import AdmissionRequest, Staged
from fairlead.world.answers import bad_request, bare, conflict, wrong_uid
from fairlead.world.conditions import with_condition
from fairlead.world.schema.resources import PODS
from fairlead.world.store import Object

if TYPE_CHECKING:
    from fairlead.world.api import Api, Options

__all__ = ["stage_bind"]


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

    request = AdmissionRequest(
        "CREATE", PODS, "v1", namespace, name, binding, None, "binding", options.dry_run, options.user
    )
    return Staged(request, commit)


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
    status = with_condition(
        pod.get("status", {}), {"type": "PodScheduled", "status": "True"}, api.clock.now()
    )
    status.pop("nominatedNodeName", None)
    return {**pod, "metadata": merged, "spec": {**spec, "nodeName": node}, "status": status}
