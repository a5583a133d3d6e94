"""One handler for every path: documents, then resources; every failure is a Status."""

from __future__ import annotations

import asyncio
import hmac
import json
import random
from typing import Any

import msgspec
import structlog
from aiohttp import web

from fairlead.errors import ApiError, BadObject
from fairlead.world import answers, discovery, openapi
from fairlead.world.admission import Admitter
from fairlead.world.api import Admitted, Api
from fairlead.world.http import params
from fairlead.world.http.negotiation import negotiate, patch_kind, read_body
from fairlead.world.http.present import metadata_only, shown, shown_list, shown_table
from fairlead.world.http.targets import Target, target_of
from fairlead.world.http.verbs import Answer, Verbs
from fairlead.world.http.watch import Bell, WatchRequest, stream
from fairlead.world.listing import Listing
from fairlead.world.selection import select

__all__ = ["MAX_BODY", "Handler"]

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
_USER = "system:admin"

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
            if params.flag(request.query, "pretty") and isinstance(response, web.Response):
                _indent(response)
            return response
        except answers.PlainNotFound as error:
            return web.Response(text=f"{error.message}\n", status=error.code)
        except ApiError as error:
            return _refusal(error)
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {MAX_BODY}"
            return _refusal(ApiError.of(413, "RequestEntityTooLarge", message))
        except BadObject as error:
            return _refusal(answers.bad_request(str(error)))
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # a bug of ours must still answer as the API server does
            log.exception("request failed", method=request.method, path=request.path)
            return _refusal(answers.internal(f"{type(error).__name__}: {error}"))

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
            raise answers.method_not_allowed()
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
                return _raw(self._kept("openapi", lambda: openapi.index(self.api.registry)))
            case ["openapi", "v3", "api", version]:
                return self._schema("", version)
            case ["openapi", "v3", "apis", group, version]:
                return self._schema(group, version)
        raise answers.PlainNotFound

    def _resource_list(self, group: str, version: str) -> web.Response:
        served = discovery.groups_of(self.api.registry).get(group, {}).get(version)
        if served is None:
            raise answers.PlainNotFound
        return _json(discovery.resource_list(group, version, served))

    def _schema(self, group: str, version: str) -> web.Response:
        if version not in discovery.groups_of(self.api.registry).get(group, {}):
            raise answers.no_such_path()
        key = ("schema", group, version)
        return _raw(self._kept(key, lambda: openapi.document(self.api.registry, group, version)))

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
            raise answers.method_not_allowed()  # across namespaces one can only look
        if method in ("GET", "HEAD"):
            if not target.name:
                if "list" not in target.served.verbs:
                    raise answers.method_not_allowed()
                return await self._collection(request, target)
            if target.subresource == "log":
                self.api.get(target.served.resource, target.name, target.namespace)
                return web.Response(text="")
            return self._shown(request, target, Answer(self.verbs.get(target)))
        if method == "POST":
            body = await read_body(request)
            return self._shown(request, target, await self.verbs.post(target, query, body, _USER))
        if target.served.verbs == ("create",):
            raise answers.method_not_allowed()
        match method:
            case "PUT":
                body = await read_body(request)
                answer = await self.verbs.put(target, query, body, _USER)
            case "PATCH":
                kind = patch_kind(request)
                body = await read_body(request)
                answer = await self.verbs.patch(target, query, body, kind, _USER)
            case "DELETE":
                body = await read_body(request)
                answer = await self.verbs.delete(target, query, body, _USER)
            case _:
                raise answers.method_not_allowed()
        return self._shown(request, target, answer)

    async def _collection(self, request: web.Request, target: Target) -> web.StreamResponse:
        query = request.query
        representation = negotiate(request.headers.get("Accept", ""))
        selection = select(
            target.served.resource,
            query.get("labelSelector", ""),
            query.get("fieldSelector", ""),
        )
        if params.flag(query, "watch"):
            since, initial_end = params.watch_start(query)
            # Clients that name no timeout are spread, so that they do not all come back at once.
            timeout_s = params.number(query, "timeoutSeconds") or random.uniform(1800, 3600)
            asked = WatchRequest(
                target,
                selection,
                representation,
                query.get("includeObject", "Metadata"),
                self.api.store.rv if since == -1 else since,
                params.flag(query, "allowWatchBookmarks"),
                initial_end,
                timeout_s,
                self._bookmark_every_s,
            )
            return await stream(request, asked, self.api.store, self.bell, self.api.clock.now)
        listing = self.api.list_selected(
            target.served.resource, target.namespace, selection, params.page(query)
        )
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
    response = _json(answers.status_of(error), error.code)
    if error.retry_after_s:
        response.headers["Retry-After"] = str(int(error.retry_after_s))
    return response
