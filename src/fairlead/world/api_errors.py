"""The API server's error answers, in its words and with its Status details.

Clients match on reason and causes and people read the message, so both are made in one place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.errors import ApiError, Gone, NotFound
from fairlead.world.schema.resources import Resource


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field; `reason` is the cause's reason, `text` what follows the path."""

    field: str
    reason: str
    text: str

    def __str__(self) -> str:
        """As it stands in the message: ``path: text``."""
        return f"{self.field}: {self.text}"

    @property
    def cause(self) -> dict[str, object]:
        """As it stands among a Status' causes."""
        return {"reason": self.reason, "message": self.text, "field": self.field}


def required(field: str, detail: str = "") -> FieldError:
    """A field that must be given."""
    return FieldError(
        field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value"
    )


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    """A value that breaks the field's rule."""
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    """A value outside an enumeration."""
    choices = ", ".join(f'"{choice}"' for choice in supported)
    text = f"Unsupported value: {_shown(value)}: supported values: {choices}"
    return FieldError(field, "FieldValueNotSupported", text)


def duplicate(field: str, value: Any) -> FieldError:
    """A value that must be unique and is not."""
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


def field_forbidden(field: str, detail: str) -> FieldError:
    """A field that may not be set or changed here."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def too_long(field: str, limit: int) -> FieldError:
    """A value longer than its limit."""
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def not_found(resource: Resource, name: str) -> ApiError:
    """404 for an object."""
    return ApiError.of(
        404, "NotFound", f'{resource.qualified} "{name}" not found', details=_details(resource, name)
    )


def already_exists(resource: Resource, name: str) -> ApiError:
    """409 for a creation."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError.of(409, "AlreadyExists", message, details=_details(resource, name))


_NO_METHOD = "the server does not allow this method on the requested resource"
_NO_PATH = "the server could not find the requested resource"
_REJECTED = "the server rejected our request due to an error in our request"
# Answers made by the server's generic part carry details, though empty ones.
_EMPTY_DETAILS = frozenset({_NO_METHOD, _NO_PATH, _REJECTED, "415: Unsupported Media Type"})

STALE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, why: str = STALE) -> ApiError:
    """409 for a write that met another state than it expected."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError.of(409, "Conflict", message, details=_details(resource, name))


def wrong_uid(resource: Resource, held: dict[str, Any], given: str) -> ApiError:
    """409 for a write that means an object of the same name with another uid."""
    where = "/".join(part for part in (held.get("namespace", ""), held["name"]) if part)
    group = f"{resource.group}/" if resource.group and "." in resource.group else ""
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{group}{resource.plural}/{where}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, "
        f"UID in object meta: {held['uid']}"
    )
    return conflict(resource, held["name"], why)


def forbidden(resource: Resource, name: str, why: str, causes: Sequence[dict[str, object]] = ()) -> ApiError:
    """403 from admission."""
    details = _details(resource, name)
    if causes:
        details["causes"] = list(causes)
    named = f'{resource.qualified} "{name}"' if name else resource.qualified
    return ApiError.of(403, "Forbidden", f"{named} is forbidden: {why}", details=details)


def invalid(resource: Resource, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422 naming every field that is wrong."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = {**_details(resource, name), "kind": resource.kind, "causes": [each.cause for each in errors]}
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return ApiError.of(422, "Invalid", f'{kind} "{name}" is invalid: {said}', details=details)


def invalid_options(kind: str, error: FieldError) -> ApiError:
    """422 for a request's options rather than its object."""
    details: dict[str, object] = {"group": "meta.k8s.io", "kind": kind, "causes": [error.cause]}
    return ApiError.of(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {error}', details=details)


class Expired(Gone):
    """410 for a continue token; `token` goes on from there with what there is now."""

    def __init__(self, message: str, token: str) -> None:
        super().__init__(410, "Expired", message)
        self.token = token


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError.of(400, "BadRequest", message)


def internal(message: str) -> ApiError:
    """500."""
    details: dict[str, object] = {"causes": [{"message": message}]}
    return ApiError.of(500, "InternalError", f"Internal error occurred: {message}", details=details)


def too_many(message: str, cause: dict[str, object], retry_after_s: int = 0) -> ApiError:
    """429 from a disruption budget."""
    details: dict[str, object] = {"causes": [cause]}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return ApiError.of(429, "TooManyRequests", message, retry_after_s=retry_after_s or None, details=details)


def method_not_allowed() -> ApiError:
    """405."""
    return ApiError.of(405, "MethodNotAllowed", _NO_METHOD)


def unsupported_media(accepted: str) -> ApiError:
    """415 for a body in a format that is not spoken."""
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return ApiError.of(415, "UnsupportedMediaType", message)


def patch_refused() -> ApiError:
    """422 for a patch that cannot be applied; the API server does not say why."""
    return ApiError.of(422, "Invalid", _REJECTED)


def patch_misfit(problem: str) -> ApiError:
    """422 for a patch whose outcome is not an object of the kind."""
    error = FieldError("patch", "FieldValueInvalid", f"Invalid value: {problem}")
    return ApiError.of(422, "Invalid", f' "" is invalid: {error}', details={"causes": [error.cause]})


def no_such_path() -> ApiError:
    """404 for something that is not served at all."""
    return ApiError.of(404, "NotFound", _NO_PATH)


class PlainNotFound(NotFound):
    """A path outside the API, answered in plain text as any web server would."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


def bare(code: int, message: str) -> ApiError:
    """An error that the API server passes on without a reason."""
    return ApiError.of(code, "", message)


def status_of(error: ApiError) -> dict[str, object]:
    """The error as a ``v1`` Status, the body of every answer that is not success."""
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
    }
    if error.reason:
        status["reason"] = error.reason
    if error.details or error.message in _EMPTY_DETAILS or error.code == 406:
        status["details"] = error.details
    if isinstance(error, Expired):
        status["metadata"] = {"continue": error.token}
    status["code"] = error.code
    return status


def _details(resource: Resource, name: str) -> dict[str, object]:
    details: dict[str, object] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def _shown(value: Any) -> str:
    # As Go prints it: strings quoted, structures as compact JSON.
    if value is None:
        return "null"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
