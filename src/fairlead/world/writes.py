"""What happens to an object between a request and the store.

`prepare_*` runs before admission (identity, copying, defaults), `finish_*` after it (what a writer
may not set, validation, system fields). Both get private copies and never touch a stored object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fairlead.errors import ApiError
from fairlead.world import api_errors, plugins
from fairlead.world.crds import check_definition
from fairlead.world.objects import stamp
from fairlead.world.patches import release_changed
from fairlead.world.schema import names, structural
from fairlead.world.schema.kinds import Strategy, strategy_of
from fairlead.world.schema.pods import resized
from fairlead.world.schema.resources import NAMESPACES, NODES, Resource, Served
from fairlead.world.schema.shape import Misfit, copy_json, shaped
from fairlead.world.schema.types import struct_of, table
from fairlead.world.store import Object

if TYPE_CHECKING:
    from fairlead.world.api import Api


Writing = Literal["put", "patch", "apply"]
"""How an update came: some answers depend on it."""

_NAME_ATTEMPTS = 8
_SYSTEM_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def may_create_on_update(served: Served) -> bool:
    """Whether a PUT of an object that does not exist creates it."""
    return strategy_of(served).create_on_update


def prepare_create(api: Api, served: Served, item: Object, namespace: str) -> Object:
    """A private, defaulted copy of the object to be created."""
    resource = served.resource
    try:
        new = _copy(served, item)
    except Misfit as misfit:
        raise _unreadable(served, misfit) from misfit
    metadata = new["metadata"]
    if metadata.get("resourceVersion"):
        raise api_errors.bare(500, "resourceVersion should not be set on objects to be created")
    for field in (*_SYSTEM_FIELDS, "selfLink", "resourceVersion"):
        metadata.pop(field, None)
    if resource.namespaced:
        held = metadata.get("namespace")
        if held and namespace and held != namespace:
            raise api_errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata["namespace"] = namespace or held or "default"
        _check_namespace(api, resource, metadata)
    else:
        metadata.pop("namespace", None)
    if served.custom:
        check_definition(api.store, resource, metadata.get("name", ""))
    strategy_of(served).default(new)
    plugins.admit_create(api.store, resource, new)
    return new


def finish_create(api: Api, served: Served, new: Object, *, changed: bool) -> Object:
    """The object as it is stored; `changed` says that admission replaced it."""
    resource, strategy = served.resource, strategy_of(served)
    if changed:
        try:
            new = _copy(served, new)
        except Misfit as misfit:
            raise api_errors.internal(f"admission left an object that cannot be read: {misfit}") from misfit
        strategy.default(new)
        plugins.admit_create(api.store, resource, new)
    if "status" in served.subresources:
        _clear_status(served, new)
    metadata = new["metadata"]
    generated = _name(api, resource, metadata)
    if strategy.generation:
        metadata["generation"] = 1
    metadata["uid"] = api.ids.uid()
    metadata["creationTimestamp"] = stamp(api.clock.now())
    strategy.on_create(new)
    _validate(served, strategy, new, None)
    if api.store.get(resource, metadata.get("namespace", ""), metadata["name"]) is not None:
        error = api_errors.already_exists(resource, metadata["name"])
        if generated:
            error.message = (
                f"{error.message}, the server was not able to generate a unique name for the object"
            )
        raise error
    return new


def prepare_update(
    api: Api, served: Served, item: Object, old: Object, subresource: str, *, how: Writing
) -> Object:
    """A private, defaulted copy of the object that is to replace `old`."""
    resource = served.resource
    keeps_spec = subresource == "status" and _keeps_spec(served, item, old)
    try:
        new = _without_spec(served, item) if keeps_spec else _copy(served, item)
    except Misfit as misfit:
        if how == "put":
            raise _unreadable(served, misfit) from misfit
        raise api_errors.patch_misfit(str(misfit)) from misfit
    metadata, held = new["metadata"], old["metadata"]
    _check_identity(resource, metadata, held, how)
    if how == "put" and not metadata.get("resourceVersion") and not strategy_of(served).unconditional_update:
        problem = api_errors.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise api_errors.invalid(resource, held["name"], [problem])
    for field in _SYSTEM_FIELDS:
        if field in held:
            metadata[field] = held[field]
        else:
            metadata.pop(field, None)
    metadata["name"] = held["name"]
    metadata["resourceVersion"] = held["resourceVersion"]
    if "namespace" in held:
        metadata["namespace"] = held["namespace"]
    if not keeps_spec:
        strategy_of(served).default(new)
        plugins.admit_update(resource, new, old)
    new = _keep(served, new, old, subresource)
    if how != "apply":
        _release(served, new, old)
    return new


def finish_update(
    api: Api, served: Served, new: Object, old: Object, subresource: str, *, changed: bool
) -> Object:
    """The object as it is stored, or `old` itself when nothing differs."""
    strategy = strategy_of(served)
    if changed:
        new = prepare_update(api, served, new, old, subresource, how="apply")
    if strategy.generation and subresource != "status" and _counts(strategy, new, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    # What a resize changes is just what other updates may not: it is looked at as if it were new.
    _validate(served, strategy, new, None if subresource == "resize" else old, subresource)
    return old if new == old else new


def _release(served: Served, new: Object, old: Object) -> None:
    struct = struct_of(served)
    new["metadata"].pop("managedFields", None)
    release_changed(new, old, struct or "")


def _clear_status(served: Served, new: Object) -> None:
    # Status is not the creator's to set; nodes are the exception that kubelets rely on.
    if served.resource == NODES:
        return
    new.pop("status", None)
    struct = struct_of(served)
    if struct is not None and "status" in table().types[struct]:
        new["status"] = shaped(table().types[struct]["status"].type, {})


def _copy(served: Served, item: Any) -> Object:
    struct = struct_of(served)
    if struct is not None:
        new = shaped(struct, item)
    else:
        new = copy_json(item)
        if served.schema:
            structural.prune(served.schema, new)
            structural.fill(served.schema, new)
        new["metadata"] = shaped("meta/v1.ObjectMeta", item.get("metadata") or {})
    new["apiVersion"] = served.api_version
    new["kind"] = served.resource.kind
    return new


def _keeps_spec(served: Served, item: Any, old: Object) -> bool:
    """Whether an object has the very spec that is stored, in a kind whose defaults are all in the spec.

    Controllers write status that way, most of all that is written: the spec was looked at when it was stored.
    """
    return strategy_of(served).spec_defaults and item.get("spec") is old["spec"]


def _without_spec(served: Served, item: Object) -> Object:
    return _copy(served, {key: value for key, value in item.items() if key != "spec"})


def _unreadable(served: Served, misfit: Misfit) -> ApiError:
    kind, version = served.resource.kind, served.storage_version
    return api_errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {misfit}')


def _keep(served: Served, new: Object, old: Object, subresource: str) -> Object:
    strategy = strategy_of(served)
    if subresource == "status":
        kept = {**old, "metadata": new["metadata"], "status": new.get("status", {})}
        if served.custom:
            kept["metadata"] = {**old["metadata"], "managedFields": new["metadata"].get("managedFields")}
            if kept["metadata"]["managedFields"] is None:
                del kept["metadata"]["managedFields"]
        strategy.on_status(kept, old)
        return kept
    if subresource == "resize":
        return {**old, "metadata": new["metadata"], "spec": resized(new["spec"], old["spec"])}
    if "status" in served.subresources:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)
    strategy.on_update(new, old)
    return new


def _check_namespace(api: Api, resource: Resource, metadata: Object) -> None:
    name = metadata["namespace"]
    namespace = api.store.get(NAMESPACES, "", name)
    if namespace is None:
        raise api_errors.not_found(NAMESPACES, name)
    if namespace.get("status", {}).get("phase") == "Terminating":
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause: Object = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        raise api_errors.forbidden(resource, metadata.get("name", ""), why, [cause])


def _check_identity(resource: Resource, metadata: Object, held: Object, how: Writing) -> None:
    name = held["name"]
    if metadata.get("name", name) != name:
        raise api_errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if metadata.get("namespace", held.get("namespace")) != held.get("namespace"):
        raise api_errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if metadata.get("uid", held["uid"]) != held["uid"]:
        if how == "put":
            raise api_errors.wrong_uid(resource, held, metadata["uid"])
        problem = api_errors.invalid_value("metadata.uid", metadata["uid"], "field is immutable")
        raise api_errors.invalid(resource, name, [problem])
    if metadata.get("resourceVersion") not in (None, "", held["resourceVersion"]):
        raise api_errors.conflict(resource, name)


def _name(api: Api, resource: Resource, metadata: Object) -> bool:
    prefix = metadata.get("generateName")
    if metadata.get("name") or not prefix:
        return False
    for _ in range(_NAME_ATTEMPTS):
        # Names have 63 characters at most here, so that they can be label values too.
        metadata["name"] = prefix[:58] + api.ids.suffix()
        if api.store.get(resource, metadata.get("namespace", ""), metadata["name"]) is None:
            break
    return True


def _validate(
    served: Served, strategy: Strategy, new: Object, old: Object | None, subresource: str = ""
) -> None:
    if (
        old is not None
        and strategy.spec_defaults
        and new["spec"] is old["spec"]
        and new["metadata"] == old["metadata"]
    ):
        return  # all that has rules is as it was stored
    errors = names.check_metadata(new)
    if old is not None:
        errors += _check_finalizers(new["metadata"], old["metadata"])
    errors += strategy.validate(new, old)
    if served.schema and subresource == "status":
        status = (served.schema.get("properties") or {}).get("status") or {}
        errors += structural.check(status, new.get("status", {}), "status")
    elif served.schema:
        errors += structural.check(served.schema, new)
    if errors:
        raise api_errors.invalid(served.resource, new["metadata"].get("name", ""), errors)


def _check_finalizers(metadata: Object, held: Object) -> list[api_errors.FieldError]:
    if not held.get("deletionTimestamp"):
        return []
    added = [name for name in metadata.get("finalizers") or () if name not in (held.get("finalizers") or ())]
    if not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    why = (
        "no new finalizers can be added if the object is being deleted, found new finalizers "
        f"[]string{{{shown}}}"
    )
    return [api_errors.field_forbidden("metadata.finalizers", why)]


def _counts(strategy: Strategy, new: Object, old: Object) -> bool:
    if strategy.counts_annotations:
        annotations = [item["metadata"].get("annotations") or {} for item in (new, old)]
        if annotations[0] != annotations[1]:
            return True
    return _spec(new) != _spec(old)


def _spec(item: Object) -> Object:
    return {key: value for key, value in item.items() if key not in ("metadata", "status")}
