"""Carry out an installation, an upgrade, a removal: apply in order, wait, prune.

Every write says the whole outcome and can be repeated, so a run that broke off anywhere is finished by
running it again. The record of an installation is written before its objects and removed after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fairlead.errors import Conflict, NotFound, Taken
from fairlead.install.installed import (
    MANAGED,
    RECORD,
    Installed,
    Record,
    is_kept,
    is_managed,
    is_ours,
    record_object,
)
from fairlead.install.manifests import Obj, namespace_object
from fairlead.install.order import in_order, key_of, ref_of
from fairlead.install.rollout import OnWait, pending, until
from fairlead.kube.resources import known

FIELD_MANAGER = "fairlead-install"
_SCHEMA_VERSION = "fairlead.dev/schema-version"
# Kubernetes' own namespaces are not ours to label.
_KUBERNETES = ("default", "kube-")
_PODS = known("Pod")


class Outcome(StrEnum):
    """What became of an object."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    KEPT = "kept"


Said = Callable[[Obj, Outcome, str], None]
"""Receives each object, what became of it, and why where that is not plain."""


@dataclass(frozen=True, slots=True)
class Apply:
    """How to write: whether at all, over other writers' fields, and what to report to."""

    said: Said
    on_wait: OnWait
    dry_run: bool = False
    force: bool = False
    wait: bool = True
    timeout_s: float = 300.0


def with_namespace(objects: Iterable[Obj], namespace: str) -> list[Obj]:
    """The rendered objects with their namespace, in the order in which they are applied."""
    own = [] if namespace.startswith(_KUBERNETES) else [namespace_object(namespace)]
    return in_order([*own, *objects])


def marked(objects: Iterable[Obj]) -> list[Obj]:
    """The objects with the label by which a later run knows what this one applied."""
    return [
        {
            **item,
            "metadata": {**item["metadata"], "labels": {**item["metadata"].get("labels", {}), **MANAGED}},
        }
        for item in objects
    ]


async def apply(installed: Installed, objects: Sequence[Obj], record: Record, how: Apply) -> None:
    """Apply the objects, `marked`, in order; wait until definitions and Deployments are ready."""
    found = {key_of(item): await installed.live(item) for item in objects}
    for item in objects:
        _refuse_foreign(installed, item, found[key_of(item)])
    is_new = found.get(("v1", "Namespace", record.namespace), object()) is None
    for item in _after_namespace(objects, record_object(record)):
        live = found[key_of(item)] if key_of(item) in found else await installed.live(item)
        if live is None and how.dry_run and is_new:
            how.said(item, Outcome.CREATED, "")  # there is no namespace yet to ask about
            continue
        await _apply_one(installed, item, live, how)
    if how.wait and not how.dry_run:
        await until(lambda: pending(installed, objects), how.on_wait, timeout_s=how.timeout_s)


async def prune(installed: Installed, objects: Iterable[Obj], namespace: str, how: Apply) -> None:
    """Remove what an earlier run applied and is not among the objects any more."""
    wanted = {key_of(item) for item in objects} | {("v1", "ConfigMap", RECORD)}
    old = [
        item
        for item in await installed.objects(namespace)
        if is_managed(item) and key_of(item) not in wanted and not is_kept(item)
    ]
    await _remove(installed, old, how)


async def remove(
    installed: Installed, objects: Sequence[Obj], namespace: str, how: Apply, *, crds: bool
) -> None:
    """Remove the objects of `Installed.objects`, what calls others first; definitions only with `crds`."""
    leases = _leases(objects)
    kept = [] if crds else [item for item in objects if is_kept(item)]
    going = [item for item in objects if item not in kept]
    callers = [item for item in going if item["kind"] == "MutatingWebhookConfiguration"]
    workloads = [item for item in going if item["kind"] in ("Deployment", "ServiceMonitor")]
    record = [item for item in going if item["metadata"]["name"] == RECORD]
    rest = [item for item in going if item not in (*callers, *workloads, *record)]
    await _remove(installed, callers, how)
    await _remove(installed, workloads, how)
    if not how.dry_run and how.wait:
        await until(lambda: _pods_of(installed, workloads, namespace), how.on_wait, timeout_s=how.timeout_s)
    await _remove(installed, rest, how)
    for name in leases:
        await _delete_lease(installed, name, namespace, how)
    await _remove(installed, record, how)
    for item in kept:
        how.said(item, Outcome.KEPT, "--crds removes it, with all that it defines")


async def _apply_one(installed: Installed, item: Obj, live: Obj | None, how: Apply) -> None:
    resource = installed.resource(item["apiVersion"], item["kind"])
    definition = item["kind"] == "CustomResourceDefinition"
    if definition and live is not None and _schema_version(live) > _schema_version(item):
        how.said(item, Outcome.KEPT, "it is that of a newer Fairlead")
        return
    if item["kind"] == "Namespace" and live is not None and not is_managed(live):
        how.said(item, Outcome.KEPT, "it was there before")
        return
    try:
        # Components bring a definition up to date as well, and what kubectl applied is taken over whole.
        force = how.force or definition or (live is not None and not is_managed(live))
        now = await installed.client.apply(
            resource, item, manager=FIELD_MANAGER, force=force, dry_run=how.dry_run
        )
    except Conflict as error:
        raise Taken(f"{ref_of(item)}: {error.message}; --force-conflicts takes these fields over") from error
    if live is None:
        outcome = Outcome.CREATED
    else:
        outcome = Outcome.UNCHANGED if _same(live, now) else Outcome.CHANGED
    how.said(item, outcome, "")


def _same(one: Obj, other: Obj) -> bool:
    """Whether two states of an object differ in nothing but what the server notes of each write."""

    def plain(item: Obj) -> dict[str, Any]:
        metadata = {
            key: value
            for key, value in item["metadata"].items()
            if key not in ("managedFields", "resourceVersion")
        }
        own = {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}
        return {**own, "metadata": metadata}

    return plain(one) == plain(other)


def _after_namespace(objects: Sequence[Obj], record: Obj) -> list[Obj]:
    spaces = [item for item in objects if item["kind"] == "Namespace"]
    return [*spaces, record, *(item for item in objects if item["kind"] != "Namespace")]


def _refuse_foreign(installed: Installed, item: Obj, live: Obj | None) -> None:
    if live is None or item["kind"] == "Namespace":
        return
    live = {**live, "apiVersion": item["apiVersion"], "kind": item["kind"]}
    installed.refuse_held([live])
    elsewhere = {one.get("namespace") for one in live.get("subjects") or ()} - {
        one["namespace"] for one in item.get("subjects") or ()
    }
    if elsewhere and item["kind"] == "ClusterRoleBinding":
        raise Taken(
            f"{ref_of(item)} is of an installation in {', '.join(sorted(map(str, elsewhere)))}: there is "
            "one per cluster, so remove that one first"
        )
    if not is_ours(live):
        raise Taken(f"{ref_of(item)} exists and is not Fairlead's: rename or remove it")


def _schema_version(definition: Obj) -> int:
    said = (definition["metadata"].get("annotations") or {}).get(_SCHEMA_VERSION, "0")
    return int(said) if said.isdecimal() else 0


async def _remove(installed: Installed, objects: Iterable[Obj], how: Apply) -> None:
    """In the reverse of the order in which they were applied."""
    for item in reversed(in_order(objects)):
        metadata = item["metadata"]
        if not how.dry_run:
            resource = installed.resource(item["apiVersion"], item["kind"])
            try:
                await installed.client.delete(
                    resource,
                    metadata["name"],
                    metadata.get("namespace"),
                    uid=metadata["uid"],
                    propagation="Background",
                )
            except NotFound:
                continue
        how.said(item, Outcome.DELETED, "")


async def _pods_of(installed: Installed, workloads: Sequence[Obj], namespace: str) -> str:
    """Which pods of the Deployments are still there: what they write on their way out needs their rights."""
    for item in workloads:
        if item["kind"] == "Deployment":
            labels = item["spec"]["selector"]["matchLabels"]
            chosen = ",".join(f"{key}={value}" for key, value in labels.items())
            listing = await installed.client.list(_PODS, namespace, labels=chosen)
            if listing.items:
                return f"{ref_of(item)}: {len(listing.items)} of its pods are ending"
    return ""


def _leases(objects: Iterable[Obj]) -> list[str]:
    """The Leases that the removed roles let components write."""
    return sorted(
        {
            name
            for item in objects
            if item["kind"] == "Role"
            for rule in item.get("rules") or ()
            if "leases" in rule["resources"]
            for name in rule.get("resourceNames") or ()
        }
    )


async def _delete_lease(installed: Installed, name: str, namespace: str, how: Apply) -> None:
    item = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
    }
    if how.dry_run:
        return
    try:
        await installed.client.delete(known("Lease"), name, namespace)
    except NotFound:
        return
    how.said(item, Outcome.DELETED, "")
