"""The REST verbs of the API server as plain method calls, with its semantics and its error answers.

Each write is *staged* (read, patched, defaulted), admitted, then *committed* (validated, stored),
without ever waiting: in virtual time a verb is one call. On the wall clock webhooks are asked
between staging and commit (`Admitted`), and a commit that meets a newer object says 409.

Objects handed out are the stored ones: read-only. Objects handed in are copied, never kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from fairlead.world import api_errors, bootstrap, subresources, writes
from fairlead.world.admission import AdmissionRequest, Admitter, Hook, Staged, commit_admitted, run_hooks
from fairlead.world.crds import empty_definition, finalize_definition, follow_crds, held_by_its_objects
from fairlead.world.deletion import DeleteOptions, Removal, is_finished, plan_deletion
from fairlead.world.ids import IdSource, RandomIds
from fairlead.world.listing import EVERYTHING, Listing, Page, Selection, list_page, select
from fairlead.world.patches import PatchKind, apply_patch
from fairlead.world.schema.resources import CRDS, NAMESPACES, Registry, Resource, Served
from fairlead.world.schema.shape import copy_json
from fairlead.world.store import Object, Store

__all__ = ["Admitted", "Api", "Clock", "DeleteOptions", "Listing", "Options", "Page", "Removal"]

T = TypeVar("T")
P = ParamSpec("P")


class Clock(Protocol):
    """Tells the time of the cluster."""

    def now(self) -> datetime:
        """An aware datetime in UTC."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a write is meant. `field_manager` and `force` matter to server-side apply only."""

    dry_run: bool = False
    field_manager: str = ""
    force: bool = False


_PLAINLY = Options()
_DELETE_PLAINLY = DeleteOptions()


def _at_once(stage: Callable[Concatenate[Any, P], Staged[T]]) -> Callable[Concatenate[Any, P], T]:
    """The verb that stages a write and finishes it."""

    def verb(api: Api, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return api.finish(stage(api, *args, **kwargs))

    return verb


class Api:
    """The API server without its transport. Sync; one call is one transaction on the store.

    `hooks` are in-process mutating admission, called in order for every create, update and delete.
    A new cluster has the namespaces and priority classes that every cluster has.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: IdSource | None = None,
        *,
        registry: Registry | None = None,
        hooks: Iterable[Hook] = (),
    ) -> None:
        self.store = store
        self.clock = clock
        self.ids: IdSource = ids or RandomIds()
        self.registry = registry or Registry()
        self.hooks: list[Hook] = list(hooks)
        follow_crds(store, self.registry)
        bootstrap.populate(self)

    # Reading

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """The object; 404 when there is none."""
        item = self.store.get(resource, namespace if resource.namespaced else "", name)
        if item is None:
            raise api_errors.not_found(resource, name)
        return item

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        page: Page | None = None,
    ) -> Listing:
        """The objects of a namespace or, with none given, of all; `page` asks for a part or a version."""
        selection = select(resource, labels, fields) if labels or fields else EVERYTHING
        return self.list_selected(resource, namespace, selection, page)

    def list_selected(
        self, resource: Resource, namespace: str, selection: Selection, page: Page | None = None
    ) -> Listing:
        """`list` with selectors that were compiled before."""
        return list_page(self.store, resource, namespace, selection, page or Page())

    def get_scale(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """The ``autoscaling/v1`` Scale of an object."""
        return subresources.scale_of(self.serving(resource), self.get(resource, name, namespace))

    # Staging a write: everything up to admission

    def stage_create(
        self, resource: Resource, item: Object, namespace: str = "", options: Options = _PLAINLY
    ) -> Staged[Object]:
        """Store a new object; answers with it as stored."""
        served = self.serving(resource)
        new = writes.prepare_create(self, served, item, namespace)

        def commit(admitted: Object | None) -> Object:
            changed = admitted is not new
            # A hook may have kept what it was shown, so that is not touched any more.
            own = copy_json(new) if self.hooks and not changed else admitted or new
            final = writes.finish_create(self, served, own, changed=changed)
            return final if options.dry_run else self.store.put(resource, final)

        return Staged(_request("CREATE", served, new, None, options), commit)

    def stage_update(
        self,
        resource: Resource,
        item: Object,
        namespace: str = "",
        options: Options = _PLAINLY,
        *,
        name: str = "",
        subresource: str = "",
    ) -> Staged[Object]:
        """Replace an object, or with `subresource` its ``status``.

        409 when `item` carries another resourceVersion than the stored object.
        """
        served = self.serving(resource)
        metadata = item.get("metadata") or {}
        name = name or metadata.get("name", "")
        namespace = namespace or metadata.get("namespace", "")
        old = self.store.get(resource, namespace if resource.namespaced else "", name)
        if old is None:
            if writes.may_create_on_update(served) and not subresource:
                return self.stage_create(resource, item, namespace, options)
            raise api_errors.not_found(resource, name)
        again = None
        if not metadata.get("resourceVersion"):
            again = partial(
                self.stage_update, resource, item, namespace, options, name=name, subresource=subresource
            )
        new = writes.prepare_update(self, served, item, old, subresource, how="put")
        return self._stage_replacing(served, new, old, subresource, options=options, again=again)

    def stage_patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        namespace: str = "",
        options: Options = _PLAINLY,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
    ) -> Staged[Object]:
        """Change an object by a ``json``, ``merge``, ``strategic`` or ``apply`` patch."""
        served = self.serving(resource)
        old = self.store.get(resource, namespace if resource.namespaced else "", name)
        if old is None and kind == "apply" and not subresource:
            created = self._patched(kind, served, {"metadata": {}}, patch, options)
            created["metadata"].setdefault("name", name)
            return self.stage_create(resource, created, namespace, options)
        if old is None:
            raise api_errors.not_found(resource, name)
        patched = self._patched(kind, served, old, patch, options)
        new = writes.prepare_update(
            self, served, patched, old, subresource, how="apply" if kind == "apply" else "patch"
        )
        again = partial(
            self.stage_patch, resource, name, patch, namespace, options, kind=kind, subresource=subresource
        )
        return self._stage_replacing(served, new, old, subresource, options=options, again=again)

    def stage_delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = _DELETE_PLAINLY
    ) -> Staged[Removal]:
        """Delete an object, or mark it when something (a finalizer, a kubelet) must finish first."""
        old = self.get(resource, name, namespace)
        if resource == NAMESPACES and name in bootstrap.IMMORTAL:
            raise api_errors.forbidden(resource, name, "this namespace may not be deleted")
        options.check(resource, old)

        def commit(_: Object | None) -> Removal:
            item = self.get(resource, name, namespace)
            options.check(resource, item)
            return self._remove(resource, item, options)

        return Staged(_request("DELETE", self.serving(resource), None, old, options), commit)

    def serving(self, resource: Resource) -> Served:
        """How a resource is served; 404 when it is not (any more)."""
        if resource not in self.registry:
            raise api_errors.no_such_path()
        return self.registry.served(resource)

    # Writing: staged, admitted in process and committed, in one call

    create = _at_once(stage_create)
    update = _at_once(stage_update)
    patch = _at_once(stage_patch)
    delete = _at_once(stage_delete)

    def finish(self, staged: Staged[T]) -> T:
        """Admit a staged write in process and commit it."""
        request = run_hooks(self.hooks, staged.request) if self.hooks else staged.request
        return staged.commit(request.object)

    def bind(self, name: str, binding: Object, namespace: str, options: Options = _PLAINLY) -> None:
        """``pods/binding``: assign a pod to a node, once."""
        self.finish(subresources.stage_bind(self, name, binding, namespace, options))

    def evict(
        self, name: str, namespace: str, eviction: Object | None = None, options: Options = _PLAINLY
    ) -> Removal:
        """``pods/eviction``: delete a pod if its disruption budget allows; 429 when it does not."""
        return self.finish(subresources.stage_evict(self, name, eviction or {}, namespace, options))

    def update_scale(
        self,
        resource: Resource,
        name: str,
        scale: Object,
        namespace: str = "",
        options: Options = _PLAINLY,
    ) -> Object:
        """Set the desired number of replicas through the Scale; returns the new Scale."""
        return self.finish(subresources.stage_scale(self, resource, name, scale, namespace, options=options))

    def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        options: DeleteOptions = _DELETE_PLAINLY,
        *,
        labels: str = "",
        fields: str = "",
    ) -> Listing:
        """Delete all that is selected; returns what was."""
        doomed = self.list(resource, namespace, labels=labels, fields=fields)
        for item in doomed.items:
            metadata = item["metadata"]
            home = metadata.get("namespace", "")
            # An object may go with another one's deletion.
            if self.store.get(resource, home, metadata["name"]) is not None:
                self.delete(resource, metadata["name"], home, options)
        return doomed

    def _patched(self, kind: PatchKind, served: Served, old: Object, patch: Any, options: Options) -> Object:
        manager, force = options.field_manager, options.force
        return apply_patch(kind, served, old, patch, manager=manager, force=force, now=self.clock.now())

    # Committing

    def _stage_replacing(
        self, served: Served, new: Object, old: Object, subresource: str, *, options: Options, again: Any
    ) -> Staged[Object]:
        resource = served.resource
        metadata = old["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]

        def commit(admitted: Object | None) -> Object:
            if self.store.get(resource, namespace, name) is not old:
                raise api_errors.conflict(resource, name)
            changed = admitted is not new
            # A hook may have kept what it was shown: of that, metadata alone is changed from here on.
            own = admitted or new
            if self.hooks and not changed:
                own = {**new, "metadata": dict(new["metadata"])}
            final = writes.finish_update(self, served, own, old, subresource, changed=changed)
            if final is old or options.dry_run:
                return final
            if is_finished(final):
                return self._discard(resource, final)
            put = self.store.put(resource, final)
            if resource == NAMESPACES:
                bootstrap.finalize_namespace(self, name)  # what held it may have been taken away
            return put

        return Staged(_request("UPDATE", served, new, old, options, subresource=subresource), commit, again)

    def _remove(self, resource: Resource, item: Object, options: DeleteOptions) -> Removal:
        if resource == CRDS:
            item = held_by_its_objects(item)
        plan = plan_deletion(resource, item, options, self.clock.now())
        left = plan.marked or item
        if options.dry_run:
            return Removal(left, plan.remove)
        if plan.marked is not None:
            left = self.store.put(resource, plan.marked)
        if plan.remove:
            left = self._discard(resource, left)
        elif resource == NAMESPACES:
            return bootstrap.empty_namespace(self, left)
        elif resource == CRDS:
            return empty_definition(self, left)
        return Removal(left, plan.remove)

    def _discard(self, resource: Resource, item: Object) -> Object:
        metadata = item["metadata"]
        namespace = metadata.get("namespace", "")
        last = self.store.remove(resource, namespace, metadata["name"])
        if namespace:
            bootstrap.finalize_namespace(self, namespace)
        finalize_definition(self, resource)
        return last


def _request(
    operation: Literal["CREATE", "UPDATE", "DELETE"],
    served: Served,
    new: Object | None,
    old: Object | None,
    options: Options | DeleteOptions,
    *,
    subresource: str = "",
) -> AdmissionRequest:
    metadata = (old or new or {})["metadata"]
    return AdmissionRequest(
        operation,
        served.resource,
        served.storage_version,
        metadata.get("namespace", ""),
        metadata.get("name", ""),
        new,
        old,
        subresource,
        options.dry_run,
    )


class Admitted:
    """The verbs of an `Api` with webhooks in between: for the wall clock.

    Any verb: ``await Admitted(api, webhooks).commit(api.stage_create(PODS, pod, "shop"))``.
    """

    def __init__(self, api: Api, admitter: Admitter) -> None:
        self.api = api
        self.admitter = admitter

    async def commit(self, staged: Staged[T]) -> T:
        """Admit a staged write through hooks and webhooks, then commit it."""
        return await commit_admitted(staged, self.api.hooks, self.admitter)
