"""What has to be done so that a cluster holds a tenant as its type says: found out without writing.

Each object is applied as a trial (``dryRun``), so the API server itself says what would come out, and says
no before anything is written. An object that would come out as it is needs no write. The difference is told
as text (`diff_of`), and no value of a Secret is ever in it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import yaml

from fairlead.errors import ApiError, BadObject, Conflict, FairleadError, Missing, NotFound, Overdue, Taken
from fairlead.kube.decode import call_it
from fairlead.tenants.live_objects import Kinds, is_going, objects_of, release_of, together
from fairlead.tenants.manifests import further_kinds, render
from fairlead.tenants.names import FIELD_MANAGER, TENANT_LABEL, TYPE_LABEL, belongs
from fairlead.tenants.order import in_order, ref_of
from fairlead.tenants.tenant import Tenant
from fairlead.tenants.types import TenantType

Object = dict[str, Any]


class Change(Enum):
    """What happens to an object; the value is how it is said afterwards."""

    CREATE = "created"
    UPDATE = "changed"
    KEEP = "unchanged"
    DELETE = "deleted"


@dataclass(frozen=True, slots=True)
class Step:
    """One object: what is applied (`item`), what is there (`live`) and what would come out (`outcome`).

    `outcome` is None where it is unknown without writing: in a namespace that is yet to be made, and where
    an admission webhook does not take part in trials.
    """

    change: Change
    item: Object
    live: Object | None = None
    outcome: Object | None = None

    @property
    def ref(self) -> str:
        """``Kind/name``."""
        return ref_of(self.item)


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps for one tenant, in the order to take them; deletions come last."""

    tenant: Tenant
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    leftover_kinds: tuple[str, ...] = field(default=())
    """Further kinds that the ServiceAccount names until what is left of them is deleted."""

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that write."""
        return tuple(step for step in self.steps if step.change is not Change.KEEP)


async def plan(
    kinds: Kinds, tenant: Tenant, kind: TenantType, *, force: bool = False, retype: bool = False
) -> Plan:
    """The plan for a tenant. Nothing is written; Taken, Missing and the API server's own no are raised here.

    `force` takes fields over from other managers; `retype` lets a tenant change its type.
    """
    items = render(tenant, kind)
    for item in items:
        resource = await kinds.of(item)
        if not resource.namespaced and item["kind"] != "Namespace":
            problem = f"{item['kind']} belongs to no namespace, so to no tenant either"
            raise BadObject(f"{kind.called}, tenant {tenant.name}", "objects", problem)
    there = await _namespace_is_there(kinds, tenant)
    further = {(item["apiVersion"], item["kind"]) for item in items}
    held = await objects_of(kinds, tenant.name, tenant.namespace, further) if there else []
    live = {_same(item): item for item in held}
    _check_holder(tenant, kind, held, retype=retype)
    steps = await together(
        _step(kinds, tenant, item, live.get(_same(item)), there=there, force=force) for item in items
    )
    wanted = {_same(item) for item in items}
    left = [item for key, item in live.items() if key not in wanted and item["kind"] != "Namespace"]
    doomed = [Step(Change.DELETE, item, item) for item in reversed(in_order(left, tenant.key))]
    leftovers = sorted(set(further_kinds(left)) - set(further_kinds(items)))
    return Plan(tenant, (*steps, *doomed), _notes(tenant, kind), tuple(leftovers))


def _same(item: Object) -> tuple[str, str]:
    """What makes two descriptions one object: its group, kind and name, in whichever version of the API."""
    return item["apiVersion"].rpartition("/")[0], ref_of(item)


def _notes(tenant: Tenant, kind: TenantType) -> tuple[str, ...]:
    if kind.template.get("quota") and not tenant.own_namespace:
        return ("no ResourceQuota: it would count all of the namespace; see --namespace-per-tenant",)
    return ()


async def _namespace_is_there(kinds: Kinds, tenant: Tenant) -> bool:
    try:
        await kinds.client.get(await kinds.find("v1", "Namespace"), tenant.namespace)
    except NotFound:
        if tenant.own_namespace:
            return False
        raise Missing(
            f"tenant {tenant.name}: there is no namespace {tenant.namespace!r}: create it, name another with "
            "-n, or give each tenant its own with --namespace-per-tenant"
        ) from None
    except ApiError as error:
        if error.code != 403:
            raise
    return True


def _check_holder(tenant: Tenant, kind: TenantType, held: list[Object], *, retype: bool) -> None:
    for item in held:
        if is_going(item):
            raise Overdue(
                f"tenant {tenant.name}: {call_it(item)} is still being removed: try again when it is gone"
            )
        if release := release_of(item):
            raise Taken(
                f"tenant {tenant.name} in namespace {tenant.namespace} is held by the Helm release "
                f"{release!r}: change it with helm upgrade"
            )
        if item["kind"] == "Namespace" and not tenant.own_namespace:
            continue  # its own of an earlier type, which it has kept
        was = item["metadata"]["labels"].get(TYPE_LABEL)
        if was != kind.name and not retype:
            raise Taken(
                f"tenant {tenant.name} in namespace {tenant.namespace} is of type {was}, not {kind.name}: "
                "change its type with fairlead tenant apply, or choose another name"
            )


async def _step(
    kinds: Kinds, tenant: Tenant, item: Object, live: Object | None, *, there: bool, force: bool
) -> Step:
    resource = await kinds.of(item)
    if live is None and (there or item["kind"] == "Namespace"):
        live = await look_for_stranger(kinds, tenant, item)
    if not there and item["kind"] != "Namespace":
        return Step(Change.CREATE, item)
    try:
        outcome = await kinds.client.apply(resource, item, manager=FIELD_MANAGER, force=force, dry_run=True)
    except ApiError as error:
        if error.code == 400 and "does not support dry run" in error.message:
            return Step(Change.CREATE if live is None else Change.UPDATE, item, live)
        if live is None and _refers_to_what_is_to_come(error):
            return Step(Change.CREATE, item)
        raise _refused(tenant, item, error) from error
    if live is None:
        return Step(Change.CREATE, item, None, outcome)
    same = _content(live) == _content(outcome)
    return Step(Change.KEEP if same else Change.UPDATE, item, live, outcome)


def _refers_to_what_is_to_come(error: ApiError) -> bool:
    """Whether a trial failed for want of an object that, in its turn, will have been made before.

    Admission says so of a pod's ServiceAccount, and RBAC of a RoleBinding's Role.
    """
    # A kind that is not served is said in other words.
    return error.code in (403, 404) and "not found" in error.message


async def look_for_stranger(kinds: Kinds, tenant: Tenant, item: Object) -> Object | None:
    """An object of the same name that is not the tenant's is taken, whatever made it."""
    namespace = item["metadata"].get("namespace")
    try:
        found = await kinds.client.get(await kinds.of(item), item["metadata"]["name"], namespace)
    except NotFound:
        return None
    if belongs(found, tenant.name):
        return {**found, "apiVersion": item["apiVersion"], "kind": item["kind"]}
    other = (found["metadata"].get("labels") or {}).get(TENANT_LABEL)
    whose = f"part of tenant {other}" if other else "not part of any tenant"
    raise Taken(
        f"tenant {tenant.name}: {call_it(item)} is taken: it exists and is {whose}; choose another name or "
        "namespace, or remove it"
    )


def _refused(tenant: Tenant, item: Object, error: ApiError) -> FairleadError:
    """The API server's no, with the tenant in it and what to do."""
    said = f"tenant {tenant.name}: {call_it(item)}: {error.message}"
    if isinstance(error, Conflict):
        said += "; --force-conflicts takes the fields over"
    return ApiError.of(error.code, error.reason, said, details=error.details)


def _content(item: Object) -> Object:
    """What has to be equal for a write to be unnecessary: all but the server's bookkeeping.

    Which fields are ours counts, too: only those can later be taken back.
    """
    metadata = {
        key: value
        for key, value in item["metadata"].items()
        if key not in ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")
    }
    ours = [
        entry.get("fieldsV1")
        for entry in item["metadata"].get("managedFields") or ()
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"
    ]
    rest = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": metadata, "ours": ours}


HIDDEN = "***"

_SECRET_FIELDS = ("data", "stringData")
_BOOKKEEPING = ("managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink")


def diff_of(step: Step) -> str:
    """A unified diff of one object's YAML; empty when nothing changes."""
    if step.change is Change.KEEP:
        return ""
    before = None if step.live is None else _shown(step.live)
    after = None if step.change is Change.DELETE else _shown(step.outcome or step.item)
    if step.item["kind"] == "Secret":
        before, after = (
            _hide(before, after, HIDDEN, f"{HIDDEN} (before)"),
            _hide(after, before, HIDDEN, f"{HIDDEN} (after)"),
        )
    called = call_it(step.item)
    lines = difflib.unified_diff(
        _lines(before),
        _lines(after),
        "(nothing)" if before is None else f"live {called}",
        "(nothing)" if after is None else f"wanted {called}",
        lineterm="",
    )
    return "\n".join(lines)


def masked(item: Mapping[str, Any]) -> Object:
    """The object as it may be shown: values of a Secret are hidden."""
    return _hide(dict(item), None, HIDDEN, HIDDEN) or {} if item["kind"] == "Secret" else dict(item)


def _hide(item: Object | None, other: Object | None, same: str, changed: str) -> Object | None:
    """A Secret whose values are hidden; that one differs from the other's shows, what it is does not."""
    if item is None:
        return None
    found = dict(item)
    for name in _SECRET_FIELDS:
        if isinstance(values := item.get(name), dict):
            others = (other or {}).get(name) or {}
            found[name] = {
                key: changed if key in others and others[key] != value else same
                for key, value in values.items()
            }
    return found


def _shown(item: Mapping[str, Any]) -> Object:
    metadata = {key: value for key, value in item["metadata"].items() if key not in _BOOKKEEPING}
    rest = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": metadata}


def _lines(item: Object | None) -> list[str]:
    # In the order of the keys: the API server's own is no order.
    return [] if item is None else yaml.safe_dump(item, sort_keys=True, allow_unicode=True).splitlines()
