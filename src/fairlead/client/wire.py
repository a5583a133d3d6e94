"""How requests and answers are spelt: paths, bodies, pages of a list, a Status as the error it stands for."""

from __future__ import annotations

import email.utils
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode

import msgspec

from fairlead.client.clock import WALL_CLOCK
from fairlead.errors import ApiError, BadObject
from fairlead.kube.decode import decoder
from fairlead.kube.resources import Resource

Plain = dict[str, Any]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Plain)  # what is read: plain data unless a struct is named
else:
    from typing import TypeVar

    T = TypeVar("T")

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


def read_as(data: bytes, kind: type[T] | None) -> T:
    """An answer as the struct `kind`, or as plain data."""
    if kind is None:
        return cast(T, plain(data))
    try:
        return cast(T, _decoder(kind)(data))  # type: ignore[arg-type]  # types hash
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


def status_error(answer: bytes, code: int, reason: str = "", retry_after: str | None = None) -> ApiError:
    """The error that a Status stands for, from a response or from an ERROR frame of a watch."""
    try:
        status = _read_status(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        status = _Status()  # a proxy's error page: its text is the message
    if status.kind != "Status":
        status = _Status(message=answer[:500].decode(errors="replace").strip() or reason or "no message")
    details = status.details or {}
    seconds = _seconds(retry_after)
    if seconds is None and isinstance(asked := details.get("retryAfterSeconds"), int | float) and asked:
        seconds = float(asked)
    return ApiError.of(
        status.code or code,
        status.reason or reason.replace(" ", "") or "Unknown",
        status.message or reason or "no message",
        retry_after_s=seconds,
        details=details,
    )


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After is seconds or a date."""
    if not retry_after:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        date = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (date - WALL_CLOCK.wall()).total_seconds())


class _Status(msgspec.Struct, rename="camel"):
    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, object] | None = None


_read_status = msgspec.json.Decoder(_Status).decode
