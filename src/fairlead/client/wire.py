"""How requests and answers are spelt: paths, bodies, pages of a list."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from fairlead.errors import BadObject
from fairlead.kube.decode import decoder
from fairlead.kube.resources import Resource

__all__ = [
    "METADATA_ONLY",
    "Page",
    "Plain",
    "delete_options",
    "meta",
    "object_path",
    "page_of",
    "plain",
    "read_as",
    "typed",
    "version_number",
]

Plain = dict[str, Any]

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list; the objects are still bytes, so that one bad object spoils no other."""

    items: tuple[msgspec.Raw, ...]
    resource_version: str
    more: str = ""


def object_path(
    resource: Resource,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
    *,
    query: Mapping[str, str] | None = None,
) -> str:
    """The path of a request; empty values of `query` are left out.

    >>> from fairlead.kube.resources import known
    >>> object_path(known("Pod"), "shop", query={"labelSelector": "a=b", "limit": ""})
    '/api/v1/namespaces/shop/pods?labelSelector=a%3Db'
    """
    path = resource.path(
        quote(namespace, safe="") if namespace else None, quote(name, safe=":") if name else None, subresource
    )
    asked = urlencode({key: value for key, value in query.items() if value}) if query else ""
    return f"{path}?{asked}" if asked else path


def delete_options(
    uid: str | None, resource_version: str | None, propagation: str | None, grace_s: int | None
) -> Plain:
    """DeleteOptions with only what was given."""
    options: Plain = {}
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if held := {key: value for key, value in preconditions.items() if value}:
        options["preconditions"] = held
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    return options


def meta(body: Mapping[str, Any], field: str) -> str | None:
    """A text field of an object's metadata."""
    metadata = body.get("metadata")
    value = metadata.get(field) if isinstance(metadata, Mapping) else None
    return value if isinstance(value, str) else None


def typed(resource: Resource, body: Mapping[str, Any]) -> bytes:
    """The object's JSON, with kind and apiVersion filled in."""
    return msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind, **body})


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    more: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: tuple[msgspec.Raw, ...] | None = None


_read_list = msgspec.json.Decoder(_List).decode


def page_of(data: bytes, resource: Resource) -> Page:
    """One page of a list from its JSON."""
    try:
        read = _read_list(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadObject(f"{resource.kind}List", "", f"not a list: {error}") from error
    return Page(read.items or (), read.metadata.resource_version, read.metadata.more)


@functools.cache
def _decoder(kind: type[Any]) -> Callable[[bytes], Any]:
    return decoder(kind)


def read_as(data: bytes, kind: type[Any] | None) -> Any:
    """An answer as the struct `kind`, or as plain data."""
    if kind is None:
        return plain(data)
    try:
        return _decoder(kind)(data)  # type: ignore[arg-type]  # types hash
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadObject(kind.__name__, "", f"cannot be read: {error}") from error


def plain(data: bytes) -> Plain:
    """An answer as plain data."""
    try:
        return msgspec.json.decode(data, type=Plain)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadObject("answer", "", f"not a JSON object: {error}") from error


def version_number(resource_version: str) -> int:
    """A resourceVersion as the number that it is in Kubernetes, to tell newer from older; 0 if it is none.

    >>> version_number("1042"), version_number("")
    (1042, 0)
    """
    return int(resource_version) if resource_version.isdecimal() and resource_version.isascii() else 0
