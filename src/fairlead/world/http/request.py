"""What a request says: the target its path names, its parameters, the representation it asks for, its body.

Answers are always JSON: protobuf and CBOR in an Accept header are passed over for the JSON that
clients offer beside them. Bodies may be JSON, YAML or protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml
from aiohttp import web

from fairlead.errors import ApiError
from fairlead.kube.decode import unfolded_size
from fairlead.world.api import DeleteOptions, Options, Page
from fairlead.world.api_errors import (
    PlainNotFound,
    bad_request,
    bare,
    field_forbidden,
    invalid_options,
    invalid_value,
    no_such_path,
    not_supported,
    unsupported_media,
)
from fairlead.world.http.protobuf import decode_protobuf
from fairlead.world.listing import bad_version
from fairlead.world.schema.resources import Registry, Served


@dataclass(frozen=True, slots=True)
class Target:
    """A collection, an object or a subresource, in one version."""

    served: Served
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(registry: Registry, segments: list[str]) -> Target:
    """What ``/api/v1/…`` or ``/apis/GROUP/VERSION/…`` names; 404 when nothing is served there."""
    if segments[0] == "api":
        group, version, rest = "", segments[1], segments[2:]
    else:
        group, version, rest = segments[1], segments[2], segments[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_of_namespace(group, rest):
        namespace, rest = rest[1], rest[2:]
    served = registry.at(group, version, rest[0])
    if served is None and not registry.has_version(group, version):
        raise PlainNotFound
    if served is None or len(rest) > 3:
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if served.resource.namespaced:
        # Across namespaces one can only list, and create what is not stored.
        if not namespace and name:
            raise no_such_path()
    elif namespace:
        raise no_such_path()
    if subresource and subresource not in served.subresources:
        raise no_such_path()
    return Target(served, version, namespace, name, subresource)


def _is_of_namespace(group: str, rest: list[str]) -> bool:
    # /api/v1/namespaces/NAME/status is the namespace's own; /api/v1/namespaces/NAME/pods is not.
    return not group and len(rest) == 3 and rest[2] in ("status", "finalize")


_TRUE = frozenset({"true", "1", "t", "T", "True", "TRUE"})


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean parameter; present without a value means true."""
    value = query.get(name)
    return value is not None and (value == "" or value in _TRUE)


def number(query: Mapping[str, str], name: str) -> int | None:
    """An integer parameter; 400 when it is none."""
    value = query.get(name)
    if value is None or value == "":
        return None
    try:
        return int(value)
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax') from error


def page(query: Mapping[str, str]) -> Page:
    """Which part of a list is asked for, at which version."""
    return Page(
        max(number(query, "limit") or 0, 0),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
    )


def watch_start(query: Mapping[str, str]) -> tuple[int | None, bool]:
    """From which version a watch starts (None: with what there is), and whether that is marked off."""
    rv, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    initial = query.get("sendInitialEvents")
    if initial is None:
        if match:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise invalid_options("ListOptions", field_forbidden("resourceVersionMatch", why))
        # Without a version the answer starts with what there is, and says where that ends.
        if rv in ("", "0"):
            return None, not rv and flag(query, "allowWatchBookmarks")
        return _watch_version(rv), False
    if match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid_options("ListOptions", field_forbidden("resourceVersionMatch", why))
    if flag(query, "sendInitialEvents"):
        if rv not in ("", "0"):
            _watch_version(rv)
        return None, flag(query, "allowWatchBookmarks")
    return (-1 if rv in ("", "0") else _watch_version(rv)), False


def write_options(query: Mapping[str, str]) -> Options:
    """How a write is meant."""
    return Options(_dry_run(query.get("dryRun")), query.get("fieldManager", ""), flag(query, "force"))


def delete_options(query: Mapping[str, str], body: Any) -> DeleteOptions:
    """How an object is to go; a body wins over the query."""
    body = body if isinstance(body, dict) else {}
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        where = 'for version "meta.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"'
        raise bad_request(f'no kind "{body["kind"]}" is registered {where}')
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds", number(query, "gracePeriodSeconds"))
    policy = body.get("propagationPolicy") or query.get("propagationPolicy")
    if policy is not None and ("orphanDependents" in body or "orphanDependents" in query):
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_options("DeleteOptions", invalid_value("propagationPolicy", policy, why))
    if policy is None and (orphan := body.get("orphanDependents", query.get("orphanDependents"))) is not None:
        policy = "Orphan" if orphan in (True, "true", "1") else "Background"
    if policy not in (None, "Background", "Foreground", "Orphan"):
        supported = ("Foreground", "Background", "Orphan", "nil")
        raise invalid_options("DeleteOptions", not_supported("propagationPolicy", policy, supported))
    dry = _dry_run(query.get("dryRun")) or bool(body.get("dryRun"))
    return DeleteOptions(grace, policy, preconditions.get("uid"), preconditions.get("resourceVersion"), dry)


def _watch_version(rv: str) -> int:
    if not rv.isdecimal():
        raise bare(500, str(bad_version(rv)))
    return int(rv)


def _dry_run(value: str | None) -> bool:
    if value in (None, ""):
        return False
    if value != "All":
        raise invalid_options("CreateOptions", not_supported("dryRun", [value], ("All",)))
    return True


_PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


@dataclass(frozen=True, slots=True)
class Representation:
    """How objects are shown: as they are, as rows of a Table, or as their metadata alone."""

    kind: str = "object"
    content_type: str = "application/json"

    @property
    def table(self) -> bool:
        """Whether rows are asked for."""
        return self.kind == "Table"


_AS_IS = Representation()
_UNFOLDED = 1_000_000  # members and items; beyond, a few lines of nested anchors would take all memory

_ACCEPTABLE = frozenset({"application/json", "application/*", "*/*", "application/yaml", ""})


def negotiate(accept: str) -> Representation:
    """The first representation of an Accept header that we can give; 406 when there is none."""
    if not accept:
        return _AS_IS
    for offer in accept.split(","):
        media, *parameters = [part.strip() for part in offer.split(";")]
        if media not in _ACCEPTABLE:
            continue
        given = dict(part.partition("=")[::2] for part in parameters)
        kind = given.get("as", "")
        if not kind:
            return _AS_IS
        if given.get("g") == "meta.k8s.io" and given.get("v") == "v1":
            if kind == "Table":
                return Representation(kind, "application/json;as=Table;v=v1;g=meta.k8s.io")
            if kind.startswith("PartialObjectMetadata"):
                return Representation(
                    "PartialObjectMetadata", f"application/json;as={kind};v=v1;g=meta.k8s.io"
                )
    offered = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    message = f"406: Not Acceptable\n\nAvailable representations: {offered}"
    raise ApiError.of(406, "NotAcceptable", message)


async def read_body(request: web.Request) -> Any:
    """The decoded body; None when there is none."""
    data = await request.read()
    if not data.strip():
        return None
    media = request.content_type
    if media in ("application/yaml", "application/apply-patch+yaml", "text/yaml"):
        try:
            document = yaml.load(data, Loader=_Loader)
        except yaml.YAMLError as error:
            raise bad_request(f"error decoding YAML: {error}") from error
        if unfolded_size(document) > _UNFOLDED:
            raise bad_request("error decoding YAML: document contains excessive aliasing")
        return document
    if media == "application/vnd.kubernetes.protobuf":
        return decode_protobuf(data)
    if media in ("application/json", "application/octet-stream", "*/*") or media in _PATCHES:
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    raise unsupported_media("application/json, application/yaml, application/vnd.kubernetes.protobuf")


def patch_kind(request: web.Request) -> Any:
    """Which patch a PATCH request carries; 415 when it says none that we know."""
    kind = _PATCHES.get(request.content_type)
    if kind is None:
        raise ApiError.of(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    return kind


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: timestamps stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
