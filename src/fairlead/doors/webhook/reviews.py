"""AdmissionReview v1 on the wire.

Read once, with the pod as plain data, because it is patched as it came. What is no review is the caller's
mistake (`BadReview`, answered with 400); a review of something that we do not understand is allowed as it
is, because it is not ours to refuse what the API server accepts.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead.errors import FairleadError
from fairlead.feed.references import LONGEST

LIMIT = 8 * 1024 * 1024
"""Bytes of a review. API servers take objects of up to 3 MiB; a review may hold the old one too."""

_VERSION, _KIND = "admission.k8s.io/v1", "AdmissionReview"
_WARNING_LENGTH = 240  # of all warnings clients see 4 KiB; each is better short


class BadReview(FairleadError):  # noqa: N818 (reads as what happened)
    """A body that is not an AdmissionReview which could be answered."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    """What kind of object it is about."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """The question; `object` is plain data as it came."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    operation: str = ""
    namespace: str = ""
    name: str = ""
    sub_resource: str | None = None
    dry_run: bool | None = None
    object: Any = None

    @property
    def is_new_pod(self) -> bool:
        """Whether it asks about a pod that is about to be made."""
        return (
            self.operation == "CREATE"
            and not self.sub_resource
            and (self.kind.group, self.kind.version, self.kind.kind) == ("", "v1", "Pod")
            and isinstance(self.object, dict)
        )


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Request | None = None


_decode = msgspec.json.Decoder(_Review).decode


def read_review(body: bytes | bytearray) -> Request:
    """The question in a body."""
    try:
        review = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadReview(f"not an AdmissionReview: {error}") from error
    except RecursionError as error:
        raise BadReview("not an AdmissionReview: nested too deeply") from error
    if (review.api_version, review.kind) != (_VERSION, _KIND):
        raise BadReview(f"{review.kind or '(no kind)'} {review.api_version} is not {_KIND} {_VERSION}")
    if review.request is None:
        raise BadReview("the review has no request")
    request = review.request
    if not request.uid:
        raise BadReview("the request has no uid")
    if max(map(len, (request.uid, request.namespace, request.name))) > LONGEST:
        raise BadReview("the request has a longer uid, namespace or name than any object")
    return request


def allowed(uid: str, patch: Sequence[dict[str, Any]] = (), warnings: Sequence[str] = ()) -> bytes:
    """The answer that allows, with a patch and with what the user should know.

    >>> allowed("u1")
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u1","allowed":true}}'
    """
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    if warnings:
        response["warnings"] = [f"fairlead: {warning}"[:_WARNING_LENGTH] for warning in warnings]
    return msgspec.json.encode({"apiVersion": _VERSION, "kind": _KIND, "response": response})
