"""Times as Kubernetes writes them: RFC 3339 in UTC, whole seconds; six digits for MicroTime."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["micro_stamp", "parse", "stamp"]


def stamp(moment: datetime) -> str:
    """A ``metav1.Time``.

    >>> stamp(datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC))
    '2026-01-02T03:04:05Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(moment: datetime) -> str:
    """A ``metav1.MicroTime``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse(text: str) -> datetime:
    """Either of the two, or any RFC 3339 time."""
    return datetime.fromisoformat(text)
