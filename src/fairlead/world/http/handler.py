"""One handler for every path: documents, then resources; every failure is a Status."""

from __future__ import annotations

import asyncio
import hmac
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from aiohttp import web

from fairlead.errors import ApiError, BadObject
from fairlead.world import api_errors, discovery
from fairlead.world.admission import Admitter, Staged
from fairlead.world.api import Admitted, Api, Options
from fairlead.world.events import from_events_api
from fairlead.world.http.representation import shown, shown_list, shown_table
from fairlead.world.http.request import (
    Target,
    delete_options,
    flag,
    negotiate,
    number,
    page,
    patch_kind,
    read_body,
    target_of,
    watch_start,
    write_options,
)
from fairlead.world.http.watch import Bell, WatchRequest, stream
from fairlead.world.listing import Listing, select
from fairlead.world.patches import PatchKind, apply_patch
from fairlead.world.schema.resources import PODS
from fairlead.world.schema.shape import unknown_fields
from fairlead.world.schema.structural import unknown_to
from fairlead.world.schema.types import struct_of
from fairlead.world.store import Object
from fairlead.world.subresources import stage_bind, stage_evict, stage_scale
from fairlead.world.tables import metadata_only

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.4",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "",
    "goVersion": "",
    "compiler": "",
    "platform": "fairlead/embedded",
}
_HEALTH = frozenset({"healthz", "livez", "readyz"})

MAX_BODY = 3 * 1024 * 1024
"""The largest body that is read: the API server's own limit."""

log = structlog.get_logger(__name__)


class Handler:
    """Answers requests from an `Api`. `bookmark_every_s` is how often idle watches are marked."""

    def __init__(
        self, api: Api, admitter: Admitter, *, token: str = "", bookmark_every_s: float = 60.0
    ) -> None:
        self.api = api
        self.verbs = Verbs(api, Admitted(api, admitter))
        self.bell = Bell(api.store)
        self._token = token
        self._bookmark_every_s = bookmark_every_s
        self._documents: dict[Any, bytes] = {}
        self._documents_of = -1

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """The answer to any request; errors are answered as Status objects."""
        try:
            self._authenticate(request)
            response = await self._answer(request)
            if flag(request.query, "pretty") and isinstance(response, web.Response):
                _indent(response)
            return response
        except api_errors.PlainNotFound as error:
            return web.Response(text=f"{error.message}\n", status=error.code)
        except ApiError as error:
            return _refusal(error)
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {MAX_BODY}"
            return _refusal(ApiError.of(413, "RequestEntityTooLarge", message))
        except BadObject as error:
            return _refusal(api_errors.bad_request(str(error)))
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # a bug of ours must still answer as the API server does
            log.exception("request failed", method=request.method, path=request.path)
            return _refusal(api_errors.internal(f"{type(error).__name__}: {error}"))

    def _authenticate(self, request: web.Request) -> None:
        if not self._token:
            return
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            raise ApiError.of(401, "Unauthorized", "Unauthorized")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        segments = [segment for segment in request.path.split("/") if segment]
        root = segments[0] if segments else ""
        if len(segments) > {"api": 2, "apis": 3}.get(root, len(segments)):
            return await self._resource(request, target_of(self.api.registry, segments))
        if request.method not in ("GET", "HEAD"):
            raise api_errors.method_not_allowed()
        return self._document(request, segments)

    # Documents

    def _document(self, request: web.Request, segments: list[str]) -> web.Response:
        match segments:
            case []:
                return _json({"paths": ["/api", "/api/v1", "/apis", "/healthz", "/openapi/v3", "/version"]})
            case ["version"]:
                return _json(VERSION)
            case [probe, *_] if probe in _HEALTH:
                return web.Response(text="ok", headers={"X-Content-Type-Options": "nosniff"})
            case ["api"] | ["apis"] if "apidiscovery.k8s.io" in request.headers.get("Accept", ""):
                core = segments == ["api"]
                body = self._kept(
                    ("aggregated", core), lambda: discovery.aggregated(self.api.registry, core=core)
                )
                kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
                return _raw(body, kind)
            case ["api"]:
                return _json(discovery.api_versions(request.host))
            case ["apis"]:
                return _raw(self._kept("groups", lambda: discovery.api_group_list(self.api.registry)))
            case ["api", version]:
                return self._resource_list("", version)
            case ["apis", group]:
                versions = discovery.groups_of(self.api.registry).get(group)
                if versions:
                    return _json(discovery.api_group(group, list(versions)))
            case ["apis", group, version]:
                return self._resource_list(group, version)
            case ["openapi", "v3"]:
                return _raw(self._kept("openapi", lambda: discovery.openapi_index(self.api.registry)))
            case ["openapi", "v3", "api", version]:
                return self._schema("", version)
            case ["openapi", "v3", "apis", group, version]:
                return self._schema(group, version)
        raise api_errors.PlainNotFound

    def _resource_list(self, group: str, version: str) -> web.Response:
        served = discovery.groups_of(self.api.registry).get(group, {}).get(version)
        if served is None:
            raise api_errors.PlainNotFound
        return _json(discovery.resource_list(group, version, served))

    def _schema(self, group: str, version: str) -> web.Response:
        if version not in discovery.groups_of(self.api.registry).get(group, {}):
            raise api_errors.no_such_path()
        key = ("schema", group, version)
        return _raw(self._kept(key, lambda: discovery.openapi_document(self.api.registry, group, version)))

    def _kept(self, key: Any, make: Any) -> bytes:
        if self._documents_of != self.api.registry.generation:
            self._documents.clear()
            self._documents_of = self.api.registry.generation
        if key not in self._documents:
            self._documents[key] = msgspec.json.encode(make())
        return self._documents[key]

    # Resources

    async def _resource(self, request: web.Request, target: Target) -> web.StreamResponse:
        query, method = request.query, request.method
        if method not in ("GET", "HEAD") and target.served.resource.namespaced and not target.namespace:
            raise api_errors.method_not_allowed()  # across namespaces one can only look
        if method in ("GET", "HEAD"):
            if not target.name:
                if "list" not in target.served.verbs:
                    raise api_errors.method_not_allowed()
                return await self._collection(request, target)
            if target.subresource == "log":
                self.api.get(target.served.resource, target.name, target.namespace)
                return web.Response(text="")
            return self._shown(request, target, Answer(self.verbs.get(target)))
        if method not in ("POST", "PUT", "PATCH", "DELETE"):
            raise api_errors.method_not_allowed()
        if method != "POST" and target.served.verbs == ("create",):
            raise api_errors.method_not_allowed()
        kind: Any = patch_kind(request) if method == "PATCH" else None
        body = await read_body(request)
        match method:
            case "POST":
                answer = await self.verbs.post(target, query, body)
            case "PUT":
                answer = await self.verbs.put(target, query, body)
            case "PATCH":
                answer = await self.verbs.patch(target, query, body, kind)
            case _:
                answer = await self.verbs.delete(target, query, body)
        return self._shown(request, target, answer)

    async def _collection(self, request: web.Request, target: Target) -> web.StreamResponse:
        query = request.query
        representation = negotiate(request.headers.get("Accept", ""))
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        selection = select(target.served.resource, labels, fields)
        if flag(query, "watch"):
            since, initial_end = watch_start(query)
            # Clients that name no timeout are spread, so that they do not all come back at once.
            timeout_s = number(query, "timeoutSeconds") or random.uniform(1800, 3600)
            asked = WatchRequest(
                target,
                selection,
                representation,
                query.get("includeObject", "Metadata"),
                self.api.store.rv if since == -1 else since,
                flag(query, "allowWatchBookmarks"),
                initial_end,
                timeout_s,
                self._bookmark_every_s,
            )
            return await stream(request, asked, self.api.store, self.bell, self.api.clock.now)
        listing = self.api.list_selected(target.served.resource, target.namespace, selection, page(query))
        if representation.table:
            include = query.get("includeObject", "Metadata")
            table = shown_table(target, listing, include, self.api.clock.now())
            return _json(table, content_type=representation.content_type)
        if representation.kind == "PartialObjectMetadata":
            found = shown_list(target, Listing([], listing.rv, listing.token, listing.remaining))
            items = [metadata_only(item) for item in listing.items]
            found |= {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": items}
            return _json(found, content_type=representation.content_type)
        return _json(shown_list(target, listing))

    def _shown(self, request: web.Request, target: Target, answer: Answer) -> web.Response:
        representation = negotiate(request.headers.get("Accept", ""))
        item = answer.body
        ours = item.get("kind") == target.served.resource.kind
        headers = [("Warning", f"299 - {json.dumps(text)}") for text in answer.warnings]
        if ours and representation.table:
            rv = int(item["metadata"].get("resourceVersion") or 0)
            include = request.query.get("includeObject", "Metadata")
            item = shown_table(target, Listing([item], rv), include, self.api.clock.now())
            return _json(item, answer.code, representation.content_type)
        if ours and representation.kind == "PartialObjectMetadata":
            return _json(metadata_only(item), answer.code, representation.content_type)
        response = _json(shown(target, item) if ours else item, answer.code)
        for name, value in headers:
            response.headers.add(name, value)
        return response


def _json(body: Any, code: int = 200, content_type: str = "application/json") -> web.Response:
    return _raw(msgspec.json.encode(body) + b"\n", content_type, code)


def _raw(body: bytes, content_type: str = "application/json", code: int = 200) -> web.Response:
    headers = {"Content-Type": content_type, "Cache-Control": "no-cache, private"}
    return web.Response(body=body, status=code, headers=headers)


def _indent(response: web.Response) -> None:
    if response.content_type == "application/json" and isinstance(response.body, bytes):
        response.body = msgspec.json.format(response.body, indent=2) + b"\n"


def _refusal(error: ApiError) -> web.Response:
    response = _json(api_errors.status_of(error), error.code)
    if error.retry_after_s:
        response.headers["Retry-After"] = str(int(error.retry_after_s))
    return response


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
        raise api_errors.method_not_allowed()

    async def post(self, target: Target, query: Mapping[str, str], body: Any) -> Answer:
        """POST: create an object, or act through a subresource."""
        resource = target.served.resource
        options = write_options(query)
        body = _an_object(body)
        if target.subresource or resource.kind == "Binding":
            return await self._act(target, body, options)
        if target.name:
            raise api_errors.method_not_allowed()
        warnings = self._checked(target, query, body)
        if is_review(resource.kind):
            return Answer(
                answer_review(resource.kind, target.served.api_version_of(target.version), body), 201
            )
        item = _inbound(target, body)
        staged = self.api.stage_create(resource, item, target.namespace, options)
        return Answer(await self.admitted.commit(staged), 201, warnings)

    async def put(self, target: Target, query: Mapping[str, str], body: Any) -> Answer:
        """PUT: replace an object or its subresource."""
        resource, namespace = target.served.resource, target.namespace
        options = write_options(query)
        body = _an_object(body)
        if not target.name:
            raise api_errors.method_not_allowed()
        if target.subresource == "scale":
            scale = stage_scale(self.api, resource, target.name, body, namespace, options=options)
            return Answer(await self.admitted.commit(scale))
        warnings = self._checked(target, query, body)
        name = (body.get("metadata") or {}).get("name", "")
        if name != target.name:
            why = f"({name}) does not match the name on the URL ({target.name})"
            if not name:
                why = f"({target.name} based on URL) was undeterminable: name must be provided"
            raise api_errors.bad_request(f"the name of the object {why}")
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

    async def patch(self, target: Target, query: Mapping[str, str], body: Any, kind: PatchKind) -> Answer:
        """PATCH of an object or its subresource."""
        resource, namespace, name = target.served.resource, target.namespace, target.name
        options = write_options(query)
        if not name:
            raise api_errors.method_not_allowed()
        if options.force and kind != "apply":
            problem = api_errors.field_forbidden("force", "may not be specified for non-apply patch")
            raise api_errors.invalid_options("PatchOptions", problem)
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

    async def delete(self, target: Target, query: Mapping[str, str], body: Any) -> Answer:
        """DELETE of an object, or of everything selected."""
        resource = target.served.resource
        options = delete_options(query, body)
        if target.subresource:
            raise api_errors.method_not_allowed()
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
            raise api_errors.method_not_allowed()
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
        struct = struct_of(served, target.version)
        if mode == "Ignore":
            return ()
        if struct is not None:
            paths = unknown_fields(struct, body)
        else:
            paths = unknown_to(served.schema, body) if served.schema else []
        unknown = [f'unknown field "{path}"' for path in paths]
        if unknown and mode == "Strict":
            raise api_errors.bad_request(
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
    raise api_errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {wanted}: {why}')


def _an_object(body: Any) -> Object:
    if not isinstance(body, dict):
        what = (
            "unexpected end of JSON input (<empty>)"
            if body is None
            else "json: cannot unmarshal into an object"
        )
        raise api_errors.bad_request(f"couldn't get version/kind; json parse error: {what}")
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


_REVIEWED_USER = {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}


def is_review(kind: str) -> bool:
    """Whether creating this kind asks a question instead of storing something."""
    return kind.endswith(("Review",))


def answer_review(kind: str, api_version: str, body: Object) -> Object:
    """The review with its answer."""
    status: Object
    match kind:
        case "TokenReview":
            status = {"authenticated": bool((body.get("spec") or {}).get("token")), "user": _REVIEWED_USER}
        case "SelfSubjectReview":
            status = {"userInfo": _REVIEWED_USER}
        case "SelfSubjectRulesReview":
            rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            status = {
                "resourceRules": [rule],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": False,
            }
        case _:
            status = {"allowed": True}
    metadata = body.get("metadata") or {}
    return {**body, "kind": kind, "apiVersion": api_version, "metadata": metadata, "status": status}
