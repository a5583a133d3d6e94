"""From an API server's Status to our errors, with what it says about coming back."""

from __future__ import annotations

import email.utils

import msgspec

from fairlead.client.clock import WALL_CLOCK
from fairlead.errors import ApiError

__all__ = ["status_error"]


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
