"""The components' writes, as the API server's audit log has them: user, object, time and answer.

Subtle: a line is logged when a request is answered. A write was *sent* before `received_at`, which is what
counts for whether its sender led at that moment; a lease has changed hands by `answered_at`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

WRITES = ("create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a component."""

    user: str
    verb: str
    resource: str
    """With its subresource: ``pods/binding``."""
    namespace: str
    name: str
    code: int
    received_at: float
    answered_at: float
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def applied(self) -> bool:
        """Whether the API server did it."""
        return 200 <= self.code < 300

    def __str__(self) -> str:
        return f"{self.user}: {self.verb} {self.resource} {self.namespace}/{self.name} ({self.code})"


def policy(users: list[str]) -> dict[str, Any]:
    """The audit policy that logs the writes of `users`, and the bodies that are judged."""
    bodies = [
        {"group": "coordination.k8s.io", "resources": ["leases"]},
        {"group": "", "resources": ["pods/binding", "pods/eviction"]},
    ]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Request", "users": users, "verbs": list(WRITES), "resources": bodies},
            {"level": "Metadata", "users": users, "verbs": list(WRITES)},
            {"level": "None"},
        ],
    }


def read(line: str) -> Write | None:
    """The write that a line of the log tells of; None for a request that was not answered."""
    said = json.loads(line)
    if said.get("stage") != "ResponseComplete" or said.get("verb") not in WRITES:
        return None
    about = said.get("objectRef") or {}
    resource = "/".join(part for part in (about.get("resource", ""), about.get("subresource", "")) if part)
    body = said.get("requestObject")
    return Write(
        user=said["user"]["username"],
        verb=said["verb"],
        resource=resource,
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=(said.get("responseStatus") or {}).get("code", 0),
        received_at=_seconds(said["requestReceivedTimestamp"]),
        answered_at=_seconds(said["stageTimestamp"]),
        body=body if isinstance(body, dict) else {},
    )


class AuditLog:
    """Reads the log as it grows; each line once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> list[Write]:
        """The writes that were logged since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as log:
            log.seek(self._read)
            whole, _, _ = log.read().rpartition(b"\n")  # the last line may still be being written
        if not whole:
            return []
        self._read += len(whole) + 1
        found = (read(line) for line in whole.decode().splitlines())
        return [write for write in found if write is not None]


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
