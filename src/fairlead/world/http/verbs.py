"""The resource endpoints: each method on a target becomes one verb of the `Api`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.world import answers
from fairlead.world.admission import Staged
from fairlead.world.api import Admitted, Api, Options
from fairlead.world.events import from_events_api
from fairlead.world.http import params
from fairlead.world.http.reviews import answer_review, is_review
from fairlead.world.http.targets import Target
from fairlead.world.patches import PatchKind, apply_patch
from fairlead.world.schema.resources import PODS
from fairlead.world.schema.shape import unknown_fields
from fairlead.world.schema.structural import unknown_to
from fairlead.world.schema.types import struct_of
from fairlead.world.store import Object
from fairlead.world.subresources import stage_bind, stage_evict, stage_scale

__all__ = ["Answer", "Verbs"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send: an object (or a Status) and its HTTP code."""

    body: Object
    code: int = 200
    warnings: tuple[str, ...] = ()


# Kinds whose deletion answers with the object itself instead of a Status.
_RETURNS_DELETED = frozenset(
    {
        "pods",
        "namespaces",
        "persistentvolumes",
        "persistentvolumeclaims",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "services",
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "storageclasses.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        "deviceclasses.resource.k8s.io",
        "resourceclaims.resource.k8s.io",
        "resourceclaimtemplates.resource.k8s.io",
        "resourceslices.resource.k8s.io",
    }
)


class Verbs:
    """Writes over the wire; all of them pass admission with webhooks."""

    def __init__(self, api: Api, admitted: Admitted) -> None:
        self.api = api
        self.admitted = admitted

    def get(self, target: Target) -> Object:
        """GET of an object or subresource."""
        resource, name = target.served.resource, target.name
        if target.subresource == "scale":
            return self.api.get_scale(resource, name, target.namespace)
        if target.subresource in ("", "status", "resize"):
            return self.api.get(resource, name, target.namespace)
        raise answers.method_not_allowed()

    async def post(self, target: Target, query: Mapping[str, str], body: Any, user: str) -> Answer:
        """POST: create an object, or act through a subresource."""
        resource = target.served.resource
        options = params.write_options(query, user)
        body = _an_object(body)
        if target.subresource or resource.kind == "Binding":
            return await self._act(target, body, options)
        if target.name:
            raise answers.method_not_allowed()
        warnings = self._checked(target, query, body)
        if is_review(resource.kind):
            return Answer(
                answer_review(resource.kind, target.served.api_version_of(target.version), body), 201
            )
        item = _inbound(target, body)
        staged = self.api.stage_create(resource, item, target.namespace, options)
        return Answer(await self.admitted.commit(staged), 201, warnings)

    async def put(self, target: Target, query: Mapping[str, str], body: Any, user: str) -> Answer:
        """PUT: replace an object or its subresource."""
        resource, namespace = target.served.resource, target.namespace
        options = params.write_options(query, user)
        body = _an_object(body)
        if not target.name:
            raise answers.method_not_allowed()
        if target.subresource == "scale":
            scale = stage_scale(self.api, resource, target.name, body, namespace, options=options)
            return Answer(await self.admitted.commit(scale))
        warnings = self._checked(target, query, body)
        name = (body.get("metadata") or {}).get("name", "")
        if name != target.name:
            why = f"({name}) does not match the name on the URL ({target.name})"
            if not name:
                why = f"({target.name} based on URL) was undeterminable: name must be provided"
            raise answers.bad_request(f"the name of the object {why}")
        existed = self.api.store.get(resource, namespace, target.name) is not None
        staged = self.api.stage_update(
            resource,
            _inbound(target, body),
            namespace,
            options,
            name=target.name,
            subresource=target.subresource,
        )
        return Answer(await self.admitted.commit(staged), 200 if existed else 201, warnings)

    async def patch(
        self, target: Target, query: Mapping[str, str], body: Any, kind: PatchKind, user: str
    ) -> Answer:
        """PATCH of an object or its subresource."""
        resource, namespace, name = target.served.resource, target.namespace, target.name
        options = params.write_options(query, user)
        if not name:
            raise answers.method_not_allowed()
        if options.force and kind != "apply":
            problem = answers.field_forbidden("force", "may not be specified for non-apply patch")
            raise answers.invalid_options("PatchOptions", problem)
        if target.subresource == "scale":
            return Answer(await self._patch_scale(target, body, kind, options))
        if target.served.api_group == "events.k8s.io" and isinstance(body, dict):
            body = from_events_api(body)
            body.pop("apiVersion")
        warnings = self._checked(target, query, body) if kind == "apply" else ()
        existed = self.api.store.get(resource, namespace, name) is not None
        staged = self.api.stage_patch(
            resource, name, body, namespace, options, kind=kind, subresource=target.subresource
        )
        return Answer(await self.admitted.commit(staged), 200 if existed else 201, warnings)

    async def delete(self, target: Target, query: Mapping[str, str], body: Any, user: str) -> Answer:
        """DELETE of an object, or of everything selected."""
        resource = target.served.resource
        options = params.delete_options(query, body, user)
        if target.subresource:
            raise answers.method_not_allowed()
        if target.name:
            staged = self.api.stage_delete(resource, target.name, target.namespace, options)
            removal = await self.admitted.commit(staged)
            if removal.removed and resource.qualified not in _RETURNS_DELETED:
                return Answer(_deleted(target, removal.object))
            return Answer(removal.object)
        listing = self.api.delete_collection(
            resource,
            target.namespace,
            options,
            labels=query.get("labelSelector", ""),
            fields=query.get("fieldSelector", ""),
        )
        return Answer(
            {
                "kind": target.served.kind_of_list,
                "apiVersion": target.served.api_version_of(target.version),
                "metadata": {"resourceVersion": str(self.api.store.rv)},
                "items": listing.items,
            }
        )

    async def _act(self, target: Target, body: Object, options: Options) -> Answer:
        name = target.name or (body.get("metadata") or {}).get("name", "")
        if target.served.resource.kind == "Binding" or target.subresource == "binding":
            await self.admitted.commit(stage_bind(self.api, name, body, target.namespace, options))
        elif target.subresource == "eviction":
            self.api.get(PODS, name, target.namespace)
            await self.admitted.commit(stage_evict(self.api, name, body, target.namespace, options))
        elif target.subresource == "token":
            return Answer(_token(target, body, self.api), 201)
        else:
            raise answers.method_not_allowed()
        return Answer(
            {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
        )

    async def _patch_scale(self, target: Target, body: Any, kind: PatchKind, options: Options) -> Object:
        resource, name, namespace = target.served.resource, target.name, target.namespace
        old = self.api.get_scale(resource, name, namespace)
        if kind == "strategic":
            kind = "merge"  # a Scale has no lists
        new = apply_patch(
            kind, target.served, old, body, manager=options.field_manager, now=self.api.clock.now()
        )
        if (
            (body or {})
            and isinstance(body, dict)
            and not (body.get("metadata") or {}).get("resourceVersion")
        ):
            new = {**new, "metadata": {**new["metadata"], "resourceVersion": ""}}
        staged: Staged[Object] = stage_scale(self.api, resource, name, new, namespace, options=options)
        return await self.admitted.commit(staged)

    def _checked(self, target: Target, query: Mapping[str, str], body: Any) -> tuple[str, ...]:
        """Refuse what is of another kind; name unknown fields as ``fieldValidation`` asks."""
        served = target.served
        wanted = served.resource.kind
        _check_kind(target, body)
        mode = query.get("fieldValidation", "Warn")
        struct = None if served.custom else struct_of(served.resource, target.version)
        if served.api_group == "events.k8s.io":
            struct = "events/v1.Event"
        if mode == "Ignore":
            return ()
        if struct is not None:
            paths = unknown_fields(struct, body)
        else:
            paths = unknown_to(served.schema, body) if served.schema else []
        unknown = [f'unknown field "{path}"' for path in paths]
        if unknown and mode == "Strict":
            raise answers.bad_request(
                f'{wanted} in version "{target.version}" cannot be handled as a {wanted}: strict decoding '
                f"error: {', '.join(unknown)}"
            )
        return tuple(unknown)


def _check_kind(target: Target, body: Object) -> None:
    wanted, expected = target.served.resource.kind, target.served.api_version_of(target.version)
    kind, given = body.get("kind") or wanted, body.get("apiVersion") or expected
    version = str(given).rpartition("/")[2]
    if given != expected:
        why = f'no kind "{kind}" is registered for version "{given}" in scheme "pkg/runtime/scheme.go:111"'
    elif kind != wanted:
        why = f"converting (v1.{kind}) to (core.{wanted}): unknown conversion"
    else:
        return
    raise answers.bad_request(f'{kind} in version "{version}" cannot be handled as a {wanted}: {why}')


def _an_object(body: Any) -> Object:
    if not isinstance(body, dict):
        what = (
            "unexpected end of JSON input (<empty>)"
            if body is None
            else "json: cannot unmarshal into an object"
        )
        raise answers.bad_request(f"couldn't get version/kind; json parse error: {what}")
    return body


def _inbound(target: Target, body: Object) -> Object:
    return from_events_api(body) if target.served.api_group == "events.k8s.io" else body


def _deleted(target: Target, item: Object) -> Object:
    details: Object = {"name": item["metadata"]["name"]}
    if target.served.api_group:
        details["group"] = target.served.api_group
    details |= {"kind": target.served.resource.plural, "uid": item["metadata"]["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _token(target: Target, body: Object, api: Api) -> Object:
    api.get(target.served.resource, target.name, target.namespace)
    return {
        **body,
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "status": {"token": f"embedded-{api.ids.uid()}", "expirationTimestamp": None},
    }
